//! The Kubernetes objects. Values are inserted as JSON values; the YAML writer quotes them.

use serde_json::{Value, json};

use bedplate_base::Arch;
use bedplate_core::desired::VfDriver;
use bedplate_core::image_config::ImageConfig;

use super::super::common::heading;
use super::super::vf_rules::{Group, names, pinned, resource_name, vf_driver};
use super::super::{Options, OutFile, RenderError, RenderResult, yaml};
use super::pod::Pod;
use super::{
    Job, JobForm, Place, compute_domain, cufile_text, missing, of_one_host, openshift, torchrun,
};

pub(super) const PATH: &str = "nccl-job.yaml";

/// Script of pods on several nodes without an operator for ssh keys: all start sshd, the first waits for the rest and
/// calls mpirun.
const PODS: &str = include_str!("pods.sh");

/// Script of a LeaderWorkerSet. Its pods are restarted when they end, so they keep running: the job runs once.
const LAST: &str = "\"$@\" || echo \"nccl-job: exit status $?\" >&2\nexec sleep infinity\n";

fn refused(why: &str) -> RenderError {
    RenderError::Refused(why.to_owned())
}

/// Rejects combinations of options.
fn check(job: &Job, form: JobForm, own_ports: bool) -> Result<(), RenderError> {
    let host_network =
        |why: &str| Err(refused(&format!("--host-network cannot be used for this job: {why}")));
    if job.is_training() && form == JobForm::MpiJob {
        return Err(refused("torchrun needs no MPI; use --as job or --as leaderworkerset"));
    }
    if job.openshift && !job.is_training() && (form != JobForm::Job || job.nodes > 1) {
        return Err(refused(
            "--openshift allows IPC_LOCK only, but sshd of nccl-tests on several nodes needs more capabilities; use \
            --test torchrun, or --as job with one node",
        ));
    }
    if job.host_network && form == JobForm::MpiJob {
        return host_network(
            "the sshd of an MPIJob's workers needs port 22, which the hosts' sshd uses; use --as job",
        );
    }
    // A VF has another name and GID table than its PF, and it is the pod's only RDMA device: there is nothing to
    // choose.
    if own_ports && job.host_network {
        return host_network(
            "the profile's VFs are for pods with their own network; name the resource of the hosts' ports with \
            --rdma-resource",
        );
    }
    Ok(())
}

pub(super) fn render(
    build: &ImageConfig,
    options: &Options,
    form: JobForm,
) -> Result<RenderResult, RenderError> {
    let job = &options.job;
    let image = job.image.as_deref();
    let image = image.ok_or_else(|| refused("pods need an image with the program; set --image"))?;
    let mut rendered = RenderResult::default();
    let rdma = rdma(build, job, &mut rendered);
    let own_ports = job.rdma.is_empty() && !rdma.is_empty();
    check(job, form, own_ports)?;
    let place = Place { own_ports, own_network: !job.host_network };
    let pod = Pod {
        job,
        image,
        rdma,
        environment: job.environment(build, place),
        cufile: cufile_text(build),
        is_arm: options.arch == Arch::Aarch64,
    };
    let channel = job.claims_channel().then(|| compute_domain::object(job));
    let objects = match form {
        JobForm::MpiJob => vec![pod.mpi_job()],
        JobForm::LeaderWorkerSet => vec![pod.leader_worker_set()],
        JobForm::Job | JobForm::Slurm => pod.job(),
    };
    let objects: Vec<Value> = channel.into_iter().chain(pod.config_map()).chain(objects).collect();
    let missing_nvlink = job.without_mnnvl(options.arch);
    let hints = pod.roce_hints(own_ports).into_iter().chain(missing_nvlink);
    let hints: String = hints.map(|hint| format!("# {hint}\n")).collect();
    let hints = if own_ports { hints } else { job.warnings() + &hints };
    rendered.files.push(OutFile::new(PATH, documents(build, &hints, &objects)?));
    if job.openshift {
        let objects = openshift::objects(job);
        rendered.files.push(OutFile::new(openshift::PATH, documents(build, "", &objects)?));
    }
    rendered.notes.extend(missing_nvlink.map(str::to_owned));
    match own_ports {
        true => rendered.notes.push(
            "the job does not set NCCL's RDMA devices: a pod sees only its VFs, whose names differ from those of the \
            host's ports"
                .to_owned(),
        ),
        false => of_one_host(job, &mut rendered),
    }
    place.leave_out(build, &mut rendered);
    rendered.notes.extend(notes(&pod, form, own_ports));
    Ok(rendered)
}

/// Writes objects as one YAML stream; `hints` are comment lines.
fn documents(build: &ImageConfig, hints: &str, objects: &[Value]) -> Result<String, RenderError> {
    let documents =
        objects.iter().map(|object| yaml::value(PATH, object)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{}{hints}{}", heading(build, "# "), documents.join("---\n")))
}

/// Returns notes on the needs of the job.
fn notes(pod: &Pod<'_>, form: JobForm, own_ports: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if own_ports && pod.job.networks.is_empty() {
        notes.push(
            "name the NetworkAttachmentDefinition of the VFs with --network, once per VF; without it RoCE has no \
            address in the pod"
                .to_owned(),
        );
    }
    notes.push(
        "pods have no setting for locked memory; IPC_LOCK lifts the limit for root in pods without their own user namespace"
            .to_owned(),
    );
    if pod.job.claims_channel() {
        notes.push(
            "the ComputeDomain needs NVIDIA's DRA driver (nvidia-dra-driver-gpu) in the cluster"
                .to_owned(),
        );
    }
    if pod.job.openshift {
        notes.push(format!(
            "an administrator of the cluster applies {} first, in the namespace of the job",
            openshift::PATH
        ));
    }
    notes.extend(needs_of_form(pod, form));
    notes
}

/// Returns notes on the needs of its form.
fn needs_of_form(pod: &Pod<'_>, form: JobForm) -> Vec<String> {
    let mut notes = Vec::new();
    if pod.uses_ssh(form) {
        notes.push(format!(
            "the image needs bash, ssh, sshd and Open MPI; create the key: `ssh-keygen -t ed25519 -N '' -f key && \
            kubectl create secret generic {}-ssh --from-file=ssh-privatekey=key`",
            pod.job.name()
        ));
    }
    if form == JobForm::MpiJob {
        notes.push(
            "the image needs ssh, sshd and Open MPI; the operator creates the keys".to_owned(),
        );
    }
    if pod.job.is_training() {
        notes.push("the image needs PyTorch with torchrun and python3".to_owned());
    }
    if form == JobForm::LeaderWorkerSet {
        notes.push(
            "a LeaderWorkerSet does not end: delete it once the leader's log has the result"
                .to_owned(),
        );
    }
    notes
}

/// Returns the RDMA devices of each pod: those requested, or one VF of every PF that the profile gives RDMA VFs.
fn rdma(build: &ImageConfig, job: &Job, rendered: &mut RenderResult) -> Vec<(String, usize)> {
    let requested: Vec<(String, usize)> =
        job.rdma.iter().map(|(name, count)| (name.clone(), usize::from(*count))).collect();
    if !requested.is_empty() {
        return requested;
    }
    let mut found = Vec::new();
    let groups: Vec<Group<'_>> = build.vfs.iter().flat_map(|rule| pinned(build, rule)).collect();
    for (group, name) in groups.iter().zip(names(&groups)) {
        match &group.rule.vf_driver {
            VfDriver::Auto => {
                found.push((format!("{}/{}", job.prefix, resource_name(&name)), group.pfs.len()));
            }
            driver => rendered.inexpressible.push(missing(
                &format!("VFs of rule {}{}", group.rule.name, vf_driver(driver)),
                "NCCL needs RDMA devices, and these VFs have none",
                "remove `vf_driver` from the rule",
            )),
        }
    }
    if found.is_empty() {
        rendered.inexpressible.push(missing(
            "RDMA devices in the pods",
            "the profile creates no VFs with RDMA devices, so it determines no resource name",
            "name a resource of the cluster's device plugin, e.g. --rdma-resource rdma/hca_shared_devices_a=1",
        ));
    }
    found
}

impl Pod<'_> {
    /// Returns hints about RoCE that neither the profile nor the options decide.
    fn roce_hints(&self, own_ports: bool) -> Vec<&'static str> {
        let lacks = |name: &str| !self.environment.iter().any(|(own, _)| *own == name);
        let hints = [
            (
                lacks("NCCL_IB_TC"),
                "RoCE: NCCL_IB_TC is not set, so packets have traffic class 0; if the fabric needs another, set it in \
                [nccl] of the profile",
            ),
            (
                own_ports && lacks("NCCL_IB_GID_INDEX"),
                "RoCE: NCCL_IB_GID_INDEX is not set: NCCL 2.21 or later chooses the RoCE v2 GID of the pod's address",
            ),
            (
                own_ports && self.job.networks.is_empty(),
                "RoCE: the annotation k8s.v1.cni.cncf.io/networks is missing (--network): without an address in the \
                pod, its VFs have no RoCE v2 GID",
            ),
        ];
        let is_rdma = !self.rdma.is_empty();
        hints.into_iter().filter(|(missing, _)| is_rdma && *missing).map(|(_, hint)| hint).collect()
    }

    /// Returns the command of pods on several nodes, with its arguments. The script contains no text of the profile.
    fn with_ssh(&self, hosts: &[String], last: &str) -> Vec<String> {
        let script = format!("{PODS}{last}");
        let host = |host: &String| format!("{host}:{}", self.job.gpus);
        let hosts: Vec<String> = hosts.iter().map(host).collect();
        let ranks = self.job.ranks().to_string();
        let variables = self.variables();
        let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        let (hosts, names) = (hosts.join(","), names.join(" "));
        let head = ["bash", "-c", &script, "nccl-job", &hosts, &ranks, &names];
        head.map(str::to_owned).into_iter().chain(self.job.command(1)).collect()
    }

    fn job(&self) -> Vec<Value> {
        let name = self.job.name();
        let mut spec = json!({ "backoffLimit": 0 });
        let training = self.job.is_training();
        if self.job.nodes == 1 {
            let command = match training {
                true => torchrun::command(self.job, None),
                false => self.job.command(self.job.gpus),
            };
            spec["template"] = self.worker(Some(command), false, Some("Never"));
            return vec![manifest("batch/v1", "Job", &name, &spec)];
        }
        let hosts: Vec<String> =
            (0..self.job.nodes).map(|index| format!("{name}-{index}.{name}")).collect();
        let place = torchrun::Place { rank: "$(JOB_COMPLETION_INDEX)", first: &hosts[0] };
        let command = match training {
            true => torchrun::command(self.job, Some(place)),
            false => self.with_ssh(&hosts, "exec \"$@\"\n"),
        };
        let mut template = self.worker(Some(command), !training, Some("Never"));
        template["spec"]["subdomain"] = json!(name);
        spec["completionMode"] = json!("Indexed");
        spec["completions"] = json!(self.job.nodes);
        spec["parallelism"] = json!(self.job.nodes);
        if !training {
            // The other pods only serve the first.
            spec["successPolicy"] = json!({ "rules": [{ "succeededIndexes": "0" }] });
        }
        spec["template"] = template;
        // The first pod resolves the names of the rest before they are ready.
        let service = json!({
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": self.labels("worker"),
        });
        vec![manifest("v1", "Service", &name, &service), manifest("batch/v1", "Job", &name, &spec)]
    }

    fn mpi_job(&self) -> Value {
        let ranks = self.job.ranks().to_string();
        let mut command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", &ranks]
            .map(str::to_owned)
            .to_vec();
        // sshd does not pass the pod's environment to its children.
        let given = self.variables().into_iter();
        let given = given.map(|(name, value)| format!("{name}={value}"));
        for variable in given.chain(["PATH", "LD_LIBRARY_PATH"].map(str::to_owned)) {
            command.extend(["-x".to_owned(), variable]);
        }
        command.extend(self.job.command(1));
        let launcher = json!({
            "metadata": { "labels": self.labels("launcher") },
            "spec": {
                "containers": [{ "name": "nccl", "image": self.image, "command": command }],
                "tolerations": self.tolerations(),
            },
        });
        let spec = json!({
            "slotsPerWorker": self.job.gpus,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": { "cleanPodPolicy": "Running", "backoffLimit": 0 },
            "mpiReplicaSpecs": {
                "Launcher": { "replicas": 1, "restartPolicy": "Never", "template": launcher },
                "Worker": {
                    "replicas": self.job.nodes,
                    "restartPolicy": "Never",
                    "template": self.worker(None, false, None),
                },
            },
        });
        manifest("kubeflow.org/v2beta1", "MPIJob", &self.job.name(), &spec)
    }

    fn leader_worker_set(&self) -> Value {
        let name = self.job.name();
        let first = format!("{name}-0.{name}");
        let rest = (1..self.job.nodes).map(|index| format!("{name}-0-{index}.{name}"));
        let hosts: Vec<String> = std::iter::once(first).chain(rest).collect();
        let training = self.job.is_training();
        let command = match training {
            true => {
                let place =
                    torchrun::Place { rank: "$(LWS_WORKER_INDEX)", first: "$(LWS_LEADER_ADDRESS)" };
                let head = ["bash", "-c", LAST, "nccl-job"].map(str::to_owned);
                head.into_iter().chain(torchrun::command(self.job, Some(place))).collect()
            }
            false => self.with_ssh(&hosts, LAST),
        };
        let pod = self.worker(Some(command), !training, None);
        let spec = json!({
            "replicas": 1,
            "leaderWorkerTemplate": { "size": self.job.nodes, "restartPolicy": "None", "workerTemplate": pod },
        });
        manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &name, &spec)
    }
}

fn manifest(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}
