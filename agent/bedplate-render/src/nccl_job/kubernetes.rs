//! The Kubernetes objects. Values are inserted as JSON values; the YAML writer quotes them.

use serde_json::{Map, Value, json};

use bedplate_core::desired::VfDriver;
use bedplate_core::image_config::ImageConfig;

use super::super::common::heading;
use super::super::vf_rules::{Group, names, pinned, resource_name, vf_driver};
use super::super::{OutFile, RenderError, RenderResult, yaml};
use super::{Job, JobForm, Place, missing, of_one_host};

const PATH: &str = "nccl-job.yaml";

/// Script of pods on several nodes without an operator for ssh keys: all start sshd, the first waits for the rest and
/// calls mpirun.
const PODS: &str = include_str!("pods.sh");

fn no_image() -> RenderError {
    RenderError::Refused("pods need an image with nccl-tests; set --image".to_owned())
}

fn no_host_network(why: &str) -> RenderError {
    RenderError::Refused(format!("--host-network cannot be used for this job: {why}"))
}

pub(super) fn render(
    build: &ImageConfig,
    job: &Job,
    form: JobForm,
) -> Result<RenderResult, RenderError> {
    let image = job.image.as_deref().ok_or_else(no_image)?;
    if job.host_network && form == JobForm::MpiJob {
        let why = "the sshd of an MPIJob's workers needs port 22, which the hosts' sshd uses; use --as job";
        return Err(no_host_network(why));
    }
    let mut rendered = RenderResult::default();
    let rdma = rdma(build, job, &mut rendered);
    // A VF has another name and GID table than its PF, and it is the pod's only RDMA device: there is nothing to
    // choose.
    let own_ports = job.rdma.is_empty() && !rdma.is_empty();
    if own_ports && job.host_network {
        let why = "the profile's VFs are for pods with their own network; name the resource of the hosts' ports with \
        --rdma-resource";
        return Err(no_host_network(why));
    }
    let place = Place { own_ports, own_network: !job.host_network };
    let pod = Pod { job, image, rdma, environment: job.environment(build, place) };
    let objects = match form {
        JobForm::MpiJob => vec![pod.mpi_job()],
        JobForm::LeaderWorkerSet => vec![pod.leader_worker_set()],
        JobForm::Job | JobForm::Slurm => pod.job(),
    };
    let documents =
        objects.iter().map(|object| yaml::value(PATH, object)).collect::<Result<Vec<_>, _>>()?;
    let text = format!("{}{}", heading(build, "# "), documents.join("---\n"));
    rendered.files.push(OutFile::new(PATH, text));
    match own_ports {
        true => rendered.notes.push(
            "the job does not set NCCL's RDMA devices: a pod sees only its VFs, whose names differ from those of the \
            host's ports"
                .to_owned(),
        ),
        false => of_one_host(job, &mut rendered),
    }
    place.leave_out(build, &mut rendered);
    if own_ports && job.networks.is_empty() {
        rendered.notes.push(
            "name the NetworkAttachmentDefinition of the VFs with --network, once per VF; without it RoCE has no \
            address in the pod"
                .to_owned(),
        );
    }
    rendered.notes.push(
        "pods have no setting for locked memory; IPC_LOCK lifts the limit for root in pods without their own user namespace"
            .to_owned(),
    );
    rendered.notes.extend(needs_of_form(&pod, form));
    Ok(rendered)
}

/// Returns notes on what the form of the job needs.
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
    let asked: Vec<(String, usize)> =
        job.rdma.iter().map(|(name, count)| (name.clone(), usize::from(*count))).collect();
    if !asked.is_empty() {
        return asked;
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

/// The pods of a job.
struct Pod<'a> {
    job: &'a Job,
    image: &'a str,
    rdma: Vec<(String, usize)>,
    environment: Vec<(&'a str, &'a str)>,
}

impl Pod<'_> {
    /// Whether pods need a key that is not in the objects.
    fn uses_ssh(&self, form: JobForm) -> bool {
        form == JobForm::LeaderWorkerSet || form == JobForm::Job && self.job.nodes > 1
    }

    fn labels(&self, component: &str) -> Value {
        json!({ "app.kubernetes.io/name": self.job.name(), "app.kubernetes.io/component": component })
    }

    fn env(&self) -> Value {
        let entry = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
        self.environment.iter().map(entry).collect()
    }

    fn resources(&self) -> Value {
        let mut counts = Map::new();
        counts.insert(self.job.gpu_resource.clone(), json!(self.job.gpus));
        counts.extend(self.rdma.iter().map(|(name, count)| (name.clone(), json!(count))));
        // Extended resources require equal requests and limits.
        json!({ "limits": counts, "requests": counts })
    }

    /// Returns a pod with the GPUs and RDMA devices of one node.
    fn worker(&self, command: Option<Vec<String>>, ssh: bool, restart: Option<&str>) -> Value {
        let shm = format!("{}Gi", self.job.gpus);
        let mut mounts = vec![json!({ "name": "shm", "mountPath": "/dev/shm" })];
        // The runtime's own is 64 MiB; its content counts as memory of the pod.
        let mut volumes =
            vec![json!({ "name": "shm", "emptyDir": { "medium": "Memory", "sizeLimit": shm } })];
        if ssh {
            mounts.push(json!({ "name": "ssh", "mountPath": "/etc/nccl-ssh", "readOnly": true }));
            let secret = format!("{}-ssh", self.job.name());
            volumes.push(
                json!({ "name": "ssh", "secret": { "secretName": secret, "defaultMode": 256 } }),
            );
        }
        let mut container = json!({
            "name": "nccl",
            "image": self.image,
            "env": self.env(),
            "resources": self.resources(),
            // ib_uverbs requires it to lock memory above the limit; it takes effect only for root.
            "securityContext": { "capabilities": { "add": ["IPC_LOCK"] }, "runAsUser": 0 },
            "volumeMounts": mounts,
        });
        if let Some(command) = command {
            container["command"] = json!(command);
        }
        let mut pod = json!({
            "metadata": { "labels": self.labels("worker") },
            "spec": {
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": { "matchLabels": self.labels("worker") },
                    "topologyKey": "kubernetes.io/hostname",
                }] } },
                "containers": [container],
                "volumes": volumes,
            },
        });
        if let Some(restart) = restart {
            pod["spec"]["restartPolicy"] = json!(restart);
        }
        if self.job.host_network {
            pod["spec"]["hostNetwork"] = json!(true);
            pod["spec"]["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        }
        if !self.job.networks.is_empty() {
            let networks = self.job.networks.join(",");
            pod["metadata"]["annotations"] = json!({ "k8s.v1.cni.cncf.io/networks": networks });
        }
        pod
    }

    /// Returns the command of pods on several nodes, with its arguments. The script contains no text of the profile.
    fn with_ssh(&self, hosts: &[String], last: &str) -> Vec<String> {
        let script = format!("{PODS}{last}");
        let host = |host: &String| format!("{host}:{}", self.job.gpus);
        let hosts: Vec<String> = hosts.iter().map(host).collect();
        let ranks = self.job.ranks().to_string();
        let head = ["bash", "-c", &script, "nccl-job", &hosts.join(","), &ranks];
        head.map(str::to_owned).into_iter().chain(self.job.command(1)).collect()
    }

    fn job(&self) -> Vec<Value> {
        let name = self.job.name();
        let mut spec = json!({ "backoffLimit": 0 });
        if self.job.nodes == 1 {
            let command = self.job.command(self.job.gpus);
            spec["template"] = self.worker(Some(command), false, Some("Never"));
            return vec![manifest("batch/v1", "Job", &name, &spec)];
        }
        let hosts: Vec<String> =
            (0..self.job.nodes).map(|index| format!("{name}-{index}.{name}")).collect();
        let command = self.with_ssh(&hosts, "exec \"$@\"\n");
        let mut template = self.worker(Some(command), true, Some("Never"));
        template["spec"]["subdomain"] = json!(name);
        spec["completionMode"] = json!("Indexed");
        spec["completions"] = json!(self.job.nodes);
        spec["parallelism"] = json!(self.job.nodes);
        // The other pods only serve the first.
        spec["successPolicy"] = json!({ "rules": [{ "succeededIndexes": "0" }] });
        spec["template"] = template;
        // The first pod resolves the names of the others before they are ready.
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
        let given = self.environment.iter();
        let given = given.map(|(name, value)| format!("{name}={value}"));
        for variable in given.chain(["PATH", "LD_LIBRARY_PATH"].map(str::to_owned)) {
            command.extend(["-x".to_owned(), variable]);
        }
        command.extend(self.job.command(1));
        let launcher = json!({
            "metadata": { "labels": self.labels("launcher") },
            "spec": { "containers": [{ "name": "nccl", "image": self.image, "command": command }] },
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
        // Its pods are restarted whenever they end: the leader keeps running, so that it measures once.
        let last = "\"$@\" || echo \"nccl-job: exit status $?\" >&2\nexec sleep infinity\n";
        let pod = self.worker(Some(self.with_ssh(&hosts, last)), true, None);
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
