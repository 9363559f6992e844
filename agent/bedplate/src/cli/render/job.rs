//! Options of `bedplate render nccl-job`.

use clap::Args;

use crate::cli::CliError;
use crate::cli::nccl::env;
use crate::cli::words::{Word, one_of};
use bedplate_base::Reading;
use bedplate_core::engine::observe;
use bedplate_core::profile::model::Profile;
use bedplate_facts::Depth;
use bedplate_facts::superchip::is_rack_gpu;
use bedplate_host::Reader;
use bedplate_nccl::{Library, Version, host_advice};
use bedplate_render::{Job, JobForm, Workload};

const HEADING: &str = "Target: nccl-job";

/// Options of the job.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct JobArgs {
    /// Format of the job.
    #[arg(long = "as", value_name = "FORM", default_value = "job", value_parser = one_of(&FORMS))]
    form: JobForm,
    /// Benchmark of nccl-tests; or torchrun: a training loop of PyTorch on synthetic data.
    #[arg(long = "test", value_name = "NAME", default_value = "all-reduce", value_parser = one_of(&WORKLOADS))]
    workload: Workload,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    nodes: u16,
    /// GPUs per node. Default: those of the selected host, otherwise 8.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    gpus: Option<u16>,
    /// Image with nccl-tests, or with PyTorch; Slurm runs it with pyxis.
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    image: Option<String>,
    /// Directory of the programs, if they are not on the PATH.
    #[arg(long, value_name = "DIR", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    tests_dir: Option<String>,
    /// RDMA device resource of each pod. Default: one VF of each PF that gets VFs from the profile.
    #[arg(long, value_name = "NAME[=COUNT]", value_parser = resource)]
    rdma_resource: Vec<(String, u16)>,
    /// Prefix of VF resources: nvidia.com for the NVIDIA Network Operator, openshift.io for the SR-IOV operator.
    #[arg(long, value_name = "PREFIX", default_value = "nvidia.com", value_parser = prefix)]
    resource_prefix: String,
    /// NetworkAttachmentDefinition of each pod (NAME or NAMESPACE/NAME); once per VF.
    #[arg(long, value_name = "NAME", value_parser = network)]
    network: Vec<String>,
    /// Run pods in the host's network.
    #[arg(long, conflicts_with = "network")]
    host_network: bool,
    /// Key of a taint that pods tolerate, in addition to those of the GPU resource and of Arm nodes. Repeatable.
    #[arg(long, value_name = "KEY", value_parser = taint)]
    toleration: Vec<String>,
    /// Whether pods on several nodes claim an IMEX channel of a ComputeDomain (NVIDIA's DRA driver). Without one, NVLink
    /// between nodes (MNNVL) is not measured.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of(&COMPUTE_DOMAIN))]
    compute_domain: DomainChoice,
    /// Also write a SecurityContextConstraints for OpenShift that allows the capability IPC_LOCK only, and a service
    /// account for the pods.
    #[arg(long, conflicts_with = "host_network")]
    openshift: bool,
    /// Version of NCCL in the image, or of RCCL for hosts with AMD GPUs; names and defaults differ. Default: the newest
    /// supported.
    #[arg(long, value_name = "VERSION")]
    nccl_version: Option<Version>,
}

const FORMS: [Word<JobForm>; 4] = [
    ("job", "Kubernetes Job (1.31 or later for several nodes)", JobForm::Job),
    ("mpijob", "MPIJob of the Kubeflow MPI Operator", JobForm::MpiJob),
    ("leaderworkerset", "LeaderWorkerSet", JobForm::LeaderWorkerSet),
    ("slurm", "Batch script of Slurm", JobForm::Slurm),
];

const WORKLOADS: [Word<Workload>; 8] = [
    ("all-reduce", "", Workload::AllReduce),
    ("all-gather", "", Workload::AllGather),
    ("reduce-scatter", "", Workload::ReduceScatter),
    ("alltoall", "", Workload::AllToAll),
    ("broadcast", "", Workload::Broadcast),
    ("reduce", "", Workload::Reduce),
    ("sendrecv", "", Workload::SendRecv),
    ("torchrun", "", Workload::Torchrun),
];

/// Condition of `--compute-domain`.
#[derive(Debug, Clone, Copy)]
enum DomainChoice {
    Auto,
    Always,
    Never,
}

const COMPUTE_DOMAIN: [Word<DomainChoice>; 3] = [
    ("auto", "If the host or the profile is for GB200 or GB300", DomainChoice::Auto),
    ("always", "", DomainChoice::Always),
    ("never", "", DomainChoice::Never),
];

/// Whether a text is valid in a Kubernetes name: an API server would reject it only when the job is submitted.
fn is_name(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(fits) && ends(text.chars().next()) && ends(text.chars().last())
}

fn prefix(text: &str) -> Result<String, String> {
    match is_name(text, ".-") {
        true => Ok(text.to_owned()),
        false => Err("expected a domain such as nvidia.com".to_owned()),
    }
}

fn taint(text: &str) -> Result<String, String> {
    match text.split('/').count() <= 2 && text.split('/').all(|part| is_name(part, ".-_")) {
        true => Ok(text.to_owned()),
        false => Err("expected NAME or DOMAIN/NAME".to_owned()),
    }
}

fn network(text: &str) -> Result<String, String> {
    match text.split('/').count() <= 2 && text.split('/').all(|part| is_name(part, ".-")) {
        true => Ok(text.to_owned()),
        false => Err("expected NAME or NAMESPACE/NAME".to_owned()),
    }
}

fn resource(text: &str) -> Result<(String, u16), String> {
    let (name, count) = text.split_once('=').unwrap_or((text, "1"));
    let parts = name.split_once('/');
    let count = count.parse().ok().filter(|count| *count > 0);
    match (parts, count) {
        (Some((domain, own)), Some(count)) if is_name(domain, ".-") && is_name(own, ".-_") => {
            Ok((name.to_owned(), count))
        }
        _ => Err("expected DOMAIN/NAME or DOMAIN/NAME=COUNT such as rdma/hca_shared_devices_a=1"
            .to_owned()),
    }
}

impl JobArgs {
    /// Returns the job. `host` is the selected host, if it has ports; the machine that renders is unrelated to the
    /// nodes.
    ///
    /// # Errors
    /// If the requested version is not supported.
    pub(super) fn job(
        &self,
        profile: &Profile,
        host: Option<&dyn Reader>,
    ) -> Result<Job, CliError> {
        let mut job = Job {
            form: self.form,
            workload: self.workload,
            nodes: self.nodes,
            image: self.image.clone(),
            directory: self.tests_dir.clone(),
            rdma: self.rdma_resource.clone(),
            prefix: self.resource_prefix.clone(),
            networks: self.network.clone(),
            host_network: self.host_network,
            tolerations: self.toleration.clone(),
            is_rack: profile.is_for_rack_trays().then_some(true),
            compute_domain: match self.compute_domain {
                DomainChoice::Auto => None,
                DomainChoice::Always => Some(true),
                DomainChoice::Never => Some(false),
            },
            openshift: self.openshift,
            ..Job::default()
        };
        if let Some(reader) = host {
            self.of_host(&mut job, reader)?;
        }
        job.gpus = self.gpus.unwrap_or(job.gpus);
        Ok(job)
    }

    fn of_host(&self, job: &mut Job, reader: &dyn Reader) -> Result<(), CliError> {
        let facts = observe(reader, Depth::Thorough);
        let library = Library::of_host(&facts);
        let functions = facts.pci.known().map(|tree| tree.functions.values()).into_iter().flatten();
        let gpus: Vec<_> =
            functions.filter(|function| function.is_gpu() && !function.is_vf()).collect();
        if !gpus.is_empty() {
            job.is_rack = Some(gpus.iter().any(|gpu| is_rack_gpu(gpu)));
        }
        if let Some(count) = u16::try_from(gpus.len()).ok().filter(|count| *count > 0) {
            job.gpus = count;
        }
        match library {
            Library::Nccl => {}
            Library::Rccl => job.gpu_resource = "amd.com/gpu".to_owned(),
            Library::OneCcl => {
                return Err(CliError::new("nccl-tests require NVIDIA or AMD GPUs"));
            }
        }
        let version = env::version(library, self.nccl_version)?;
        if let Reading::Known(advice) = host_advice::advise_host(reader, &facts, library, version) {
            job.env = Some(advice.set);
            job.notes = advice.notes;
        }
        Ok(())
    }
}
