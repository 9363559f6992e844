//! The pods of a job.

use serde_json::{Map, Value, json};

use super::{CUFILE, Job, JobForm, compute_domain, openshift};

/// Directory of cufile.json in a pod. NVIDIA's container toolkit may mount the host's in /etc (handbook §6.4).
const CUFILE_DIRECTORY: &str = "/etc/nccl-job";

/// The pods of a job.
pub(super) struct Pod<'a> {
    pub job: &'a Job,
    pub image: &'a str,
    /// RDMA device resources, and their number.
    pub rdma: Vec<(String, usize)>,
    /// Variables without those of cuFile.
    pub environment: Vec<(&'a str, &'a str)>,
    /// cufile.json with the profile's keys.
    pub cufile: Option<&'a str>,
    /// Whether the nodes have Arm CPUs.
    pub is_arm: bool,
}

impl<'a> Pod<'a> {
    /// Whether pods need a key that is not in the objects.
    pub(super) fn uses_ssh(&self, form: JobForm) -> bool {
        let has_own_ssh =
            form == JobForm::LeaderWorkerSet || form == JobForm::Job && self.job.nodes > 1;
        has_own_ssh && !self.job.is_training()
    }

    pub(super) fn labels(&self, component: &str) -> Value {
        json!({ "app.kubernetes.io/name": self.job.name(), "app.kubernetes.io/component": component })
    }

    /// Returns all variables.
    pub(super) fn variables(&self) -> Vec<(&'a str, String)> {
        let own = self.environment.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let cufile = self.cufile.iter().flat_map(|_| {
            // The container toolkit adds nvidia-fs's devices and udev's database.
            [
                (CUFILE, format!("{CUFILE_DIRECTORY}/cufile.json")),
                ("NVIDIA_GDS", "enabled".to_owned()),
            ]
        });
        own.chain(cufile).collect()
    }

    /// Returns the object with the profile's cufile.json.
    pub(super) fn config_map(&self) -> Option<Value> {
        Some(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": self.config_name() },
            "data": { "cufile.json": self.cufile? },
        }))
    }

    fn config_name(&self) -> String {
        format!("{}-cufile", self.job.name())
    }

    /// Returns tolerations of the usual taints of GPU nodes, and of those requested.
    pub(super) fn tolerations(&self) -> Value {
        // GKE's taint of Arm nodes.
        let arm = self.is_arm.then_some("kubernetes.io/arch");
        let requested = self.job.tolerations.iter().map(String::as_str);
        let keys = std::iter::once(self.job.gpu_resource.as_str()).chain(arm).chain(requested);
        keys.map(|key| json!({ "key": key, "operator": "Exists" })).collect()
    }

    fn resources(&self) -> Value {
        let mut counts = Map::new();
        counts.insert(self.job.gpu_resource.clone(), json!(self.job.gpus));
        counts.extend(self.rdma.iter().map(|(name, count)| (name.clone(), json!(count))));
        // Extended resources require equal requests and limits.
        json!({ "limits": counts, "requests": counts })
    }

    /// Returns volumes and their mounts.
    fn volumes(&self, ssh: bool) -> (Vec<Value>, Vec<Value>) {
        // The runtime's own is 64 MiB; its content counts as memory of the pod. NCCL needs about 10 MiB for each
        // connection in it (handbook §8.10): 1 GiB is for 100 connections of a GPU.
        let shm = json!({ "medium": "Memory", "sizeLimit": format!("{}Gi", self.job.gpus) });
        let mut volumes = vec![json!({ "name": "shm", "emptyDir": shm })];
        let mut mounts = vec![json!({ "name": "shm", "mountPath": "/dev/shm" })];
        let mut mount = |name: &str, path: &str, source: &str, content: Value| {
            volumes.push(json!({ "name": name, source: content }));
            mounts.push(json!({ "name": name, "mountPath": path, "readOnly": true }));
        };
        if ssh {
            let secret = format!("{}-ssh", self.job.name());
            let content = json!({ "secretName": secret, "defaultMode": 256 });
            mount("ssh", "/etc/nccl-ssh", "secret", content);
        }
        if self.cufile.is_some() {
            mount("cufile", CUFILE_DIRECTORY, "configMap", json!({ "name": self.config_name() }));
        }
        (volumes, mounts)
    }

    /// Returns a pod with the GPUs and RDMA devices of one node.
    pub(super) fn worker(
        &self,
        command: Option<Vec<String>>,
        ssh: bool,
        restart: Option<&str>,
    ) -> Value {
        let entry = |(name, value): (&str, String)| json!({ "name": name, "value": value });
        let (volumes, mounts) = self.volumes(ssh);
        let mut container = json!({
            "name": "nccl",
            "image": self.image,
            "env": self.variables().into_iter().map(entry).collect::<Value>(),
            "resources": self.resources(),
            // ib_uverbs requires it to lock memory above the limit; it takes effect only for root.
            "securityContext": { "capabilities": { "add": ["IPC_LOCK"] }, "runAsUser": 0 },
            "volumeMounts": mounts,
        });
        if let Some(command) = command {
            container["command"] = json!(command);
        }
        let labels = self.labels("worker");
        let mut pod = json!({
            "metadata": { "labels": labels },
            "spec": {
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": { "matchLabels": labels },
                    "topologyKey": "kubernetes.io/hostname",
                }] } },
                "containers": [container],
                "tolerations": self.tolerations(),
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
        if self.job.claims_channel() {
            compute_domain::claim(self.job, &labels, &mut pod);
        }
        if self.job.openshift {
            openshift::restrict(self.job, &mut pod);
        }
        pod
    }
}
