//! Target `nccl-job`: a benchmark of nccl-tests as a job for Kubernetes or Slurm. It runs on hosts that are what the profile says
//! already: of the profile it takes the names of the VFs' resources, and of a host what NCCL should be told there.

mod kubernetes;
mod slurm;

use serde::Serialize;

use bedplate_core::kind::image_config::ImageConfig;
use bedplate_nccl::env::Setting;

use super::{Inexpressible, Options, RenderError, Rendered};

/// What the job is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobForm {
    /// A Job of Kubernetes; of several nodes an Indexed Job with a headless Service, and ssh between its pods.
    #[default]
    Job,
    /// An MPIJob of the Kubeflow MPI Operator (v2beta1), which makes the ssh keys itself.
    MpiJob,
    /// A LeaderWorkerSet, with ssh between its pods.
    LeaderWorkerSet,
    /// A batch script of Slurm.
    Slurm,
}

/// A program of nccl-tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collective {
    /// `all_reduce_perf`.
    #[default]
    AllReduce,
    /// `all_gather_perf`.
    AllGather,
    /// `reduce_scatter_perf`.
    ReduceScatter,
    /// `alltoall_perf`.
    AllToAll,
    /// `broadcast_perf`.
    Broadcast,
    /// `reduce_perf`.
    Reduce,
    /// `sendrecv_perf`.
    SendRecv,
}

impl Collective {
    /// What the program is called, without `_perf`.
    fn stem(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllToAll => "alltoall",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::SendRecv => "sendrecv",
        }
    }
}

/// What the job is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What it is written for.
    pub form: JobForm,
    /// Which benchmark.
    pub test: Collective,
    /// Nodes.
    pub nodes: u16,
    /// GPUs of each node, one rank each.
    pub gpus: u16,
    /// What pods ask for their GPUs by: `nvidia.com/gpu`.
    pub gpu_resource: String,
    /// Image with nccl-tests. Kubernetes needs one; Slurm takes one with pyxis.
    pub image: Option<String>,
    /// Directory of the programs in it, where they are not on its PATH.
    pub directory: Option<String>,
    /// Resources of RDMA devices and how many of each a pod gets; empty: those of the profile's VFs.
    pub rdma: Vec<(String, u16)>,
    /// Prefix of the VFs' resources.
    pub prefix: String,
    /// Networks (NetworkAttachmentDefinitions) of each pod.
    pub networks: Vec<String>,
    /// Whether pods are in the network of their host.
    pub host_network: bool,
    /// What NCCL should be told on the host that the job is rendered for; `None`: no host was given.
    pub env: Option<Vec<Setting>>,
    /// What to know beside it.
    pub notes: Vec<String>,
}

impl Default for Job {
    /// All-reduce on one node of eight GPUs of NVIDIA's, without an image.
    fn default() -> Job {
        Job {
            form: JobForm::default(),
            test: Collective::default(),
            nodes: 1,
            gpus: 8,
            gpu_resource: "nvidia.com/gpu".to_owned(),
            image: None,
            directory: None,
            rdma: Vec::new(),
            prefix: "nvidia.com".to_owned(),
            networks: Vec::new(),
            host_network: false,
            env: None,
            notes: Vec::new(),
        }
    }
}

impl Job {
    /// Name of the objects, and of the job in Slurm.
    fn name(&self) -> String {
        format!("nccl-{}", self.test.stem().replace('_', "-"))
    }

    fn ranks(&self) -> u32 {
        u32::from(self.nodes) * u32::from(self.gpus)
    }

    /// The program with its arguments: message sizes from 8 bytes to 8 GiB, doubling; `gpus` of each process.
    fn command(&self, gpus: u16) -> Vec<String> {
        let program = format!("{}_perf", self.test.stem());
        let program = match &self.directory {
            Some(directory) => format!("{}/{program}", directory.trim_end_matches('/')),
            None => program,
        };
        let gpus = gpus.to_string();
        std::iter::once(program)
            .chain(["-b", "8", "-e", "8G", "-f", "2", "-g", &gpus].map(str::to_owned))
            .collect()
    }

    /// What is to be in the environment, in order. The log says which devices and transports were used: without it nobody can
    /// tell why a result is what it is (handbook §8.8). What the profile sets besides goes before what the host asks for.
    fn environment<'a>(&'a self, build: &'a ImageConfig, place: Place) -> Vec<(&'a str, &'a str)> {
        let profile = build.nccl.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let profile: Vec<(&str, &str)> =
            profile.filter(|(name, _)| !is_of_log(name) && place.has(name)).collect();
        let is_set = |name: &str| profile.iter().any(|(own, _)| *own == name);
        let host = self.env.iter().flatten().filter(|one| place.has(one.name) && !is_set(one.name));
        let host = host.map(|setting| (setting.name, setting.value.as_str()));
        LOG.into_iter().chain(host).chain(profile.iter().copied()).collect()
    }
}

/// What NCCL says in its log.
const LOG: [(&str, &str); 2] =
    [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH")];

fn is_of_log(name: &str) -> bool {
    LOG.iter().any(|(own, _)| *own == name)
}

/// What of its host a rank sees.
#[derive(Clone, Copy)]
struct Place {
    /// RDMA devices of its own, none of the host's.
    own_ports: bool,
    /// A network of its own, without the host's interfaces.
    own_network: bool,
}

impl Place {
    /// A process of the host.
    const HOST: Place = Place { own_ports: false, own_network: false };

    /// Whether what a variable names is there.
    fn has(self, variable: &str) -> bool {
        match variable {
            "NCCL_IB_HCA" | "NCCL_IB_GID_INDEX" => !self.own_ports,
            "NCCL_SOCKET_IFNAME" => !self.own_network,
            _ => true,
        }
    }

    /// Says which variables of the profile do not count there.
    fn leave_out(self, build: &ImageConfig, rendered: &mut Rendered) {
        let names = build.nccl.iter().map(|(name, _)| name.as_str());
        let left: Vec<&str> = names.filter(|name| !self.has(name)).collect();
        if !left.is_empty() {
            rendered.notes.push(format!(
                "left out of what the profile sets: {}: a pod does not have what they name on the host",
                left.join(", ")
            ));
        }
    }
}

pub(super) fn render(build: &ImageConfig, options: &Options) -> Result<Rendered, RenderError> {
    let job = &options.job;
    let mut rendered = match job.form {
        JobForm::Slurm => slurm::render(build, job)?,
        form => kubernetes::render(build, job, form)?,
    };
    if build.nccl.iter().any(|(name, _)| is_of_log(name)) {
        let note = "NCCL_DEBUG and NCCL_DEBUG_SUBSYS are the job's own, not the profile's: `bedplate nccl log` reads what it says";
        rendered.notes.push(note.to_owned());
    }
    rendered.notes.push(
        "the job changes no host: its nodes must already match the profile (`bedplate verify` on each)"
            .to_owned(),
    );
    Ok(rendered)
}

/// What NCCL is told is that of one host.
fn of_one_host(job: &Job, rendered: &mut Rendered) {
    rendered.notes.extend(job.notes.iter().cloned());
    match &job.env {
        None => rendered.notes.push(
            "no host was given: NCCL chooses the RDMA devices itself; with --snapshot of a node the job names them as `bedplate nccl env` does"
                .to_owned(),
        ),
        Some(_) if job.nodes > 1 => rendered.notes.push(
            "NCCL_IB_HCA is that of the host that this was rendered for: the other nodes have to be the same model"
                .to_owned(),
        ),
        Some(_) => {}
    }
}

fn missing(what: &str, why: &str, instead: &str) -> Inexpressible {
    Inexpressible {
        id: "nccl-job".to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
        instead: instead.to_owned(),
    }
}

#[cfg(test)]
mod tests;
