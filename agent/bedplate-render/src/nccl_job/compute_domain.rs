//! IMEX channels for pods: with one, NCCL uses NVLink between the trays of a rack (MNNVL). NVIDIA's DRA driver creates a
//! channel from a ComputeDomain (NVIDIA/k8s-dra-driver-gpu v25.8.1, api/nvidia.com/resource/v1beta1/computedomain.go,
//! demo/specs/imex/nvbandwidth-test-job.yaml).

use bedplate_base::Arch;
use serde_json::{Value, json};

use super::Job;

/// Name of the claim in each pod.
const CLAIM: &str = "imex-channel";

/// Label of nodes that share NVLink, from GPU Feature Discovery (NVIDIA/k8s-dra-driver-gpu docs/prerequisites.md).
const CLIQUE: &str = "nvidia.com/gpu.clique";

/// Trays of a GB200 or GB300 NVL72 rack (NVIDIA GB200 NVL72: 18 compute trays of 4 GPUs).
const RACK: u16 = 18;

impl Job {
    /// Whether the pods claim an IMEX channel. NVLink within a node needs none.
    pub(super) fn claims_channel(&self) -> bool {
        self.nodes > 1 && self.compute_domain.unwrap_or(self.is_rack == Some(true))
    }

    fn template(&self) -> String {
        format!("{}-channel", self.name())
    }

    /// Returns why NVLink between nodes is not measured, if the nodes may have it and the pods claim no channel.
    pub(super) fn without_mnnvl(&self, arch: Arch) -> Option<&'static str> {
        if self.nodes == 1 || self.claims_channel() {
            return None;
        }
        match self.is_rack {
            Some(true) => Some(
                "MNNVL is not measured: without an IMEX channel (--compute-domain always), NCCL uses the network \
                between trays",
            ),
            None if arch == Arch::Aarch64 => Some(
                "MNNVL is not measured: if the nodes are trays of GB200 or GB300, add --compute-domain always",
            ),
            _ => None,
        }
    }
}

/// Returns the object. The driver creates the claim template that it names.
pub(super) fn object(job: &Job) -> Value {
    json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "name": job.name() },
        // Drivers before 25.8 start the pods only once this number of nodes has joined.
        "spec": { "numNodes": job.nodes, "channel": { "resourceClaimTemplate": { "name": job.template() } } },
    })
}

/// Adds the claim to a pod, and keeps the pods in one rack if they fit. `labels` are those of all pods with a claim.
pub(super) fn claim(job: &Job, labels: &Value, pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["resourceClaims"] =
        json!([{ "name": CLAIM, "resourceClaimTemplateName": job.template() }]);
    spec["containers"][0]["resources"]["claims"] = json!([{ "name": CLAIM }]);
    if job.nodes <= RACK {
        spec["affinity"]["podAffinity"] = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": labels },
            "topologyKey": CLIQUE,
        }] });
    }
}
