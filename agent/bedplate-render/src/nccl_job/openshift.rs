//! Objects for OpenShift: a SecurityContextConstraints that allows the capability IPC_LOCK only, and a service account
//! that may use it. Fields: openshift/api security/v1/types.go, SecurityContextConstraints.

use serde_json::{Value, json};

use super::Job;

/// File for the administrator of the cluster: users cannot create these objects.
pub(super) const PATH: &str = "nccl-job-scc.yaml";

/// Name of the SecurityContextConstraints, which all jobs share.
const NAME: &str = "bedplate-ipc-lock";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the objects, in the order in which they refer to each other.
pub(super) fn objects(job: &Job) -> [Value; 4] {
    let name = job.name();
    let of = |version: &str, kind: &str| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
    let api = format!("{RBAC}/v1");
    let mut role = of(&api, "Role");
    role["rules"] = json!([{
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [NAME],
        "verbs": ["use"],
    }]);
    let mut binding = of(&api, "RoleBinding");
    binding["roleRef"] = json!({ "apiGroup": RBAC, "kind": "Role", "name": name });
    // Without a namespace, the account is in the namespace of the binding.
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": name }]);
    [constraints(), of("v1", "ServiceAccount"), role, binding]
}

fn constraints() -> Value {
    json!({
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": { "name": NAME },
        "allowHostDirVolumePlugin": false,
        "allowHostIPC": false,
        "allowHostNetwork": false,
        "allowHostPID": false,
        "allowHostPorts": false,
        "allowPrivilegeEscalation": false,
        "allowPrivilegedContainer": false,
        "allowedCapabilities": ["IPC_LOCK"],
        "defaultAddCapabilities": null,
        "fsGroup": { "type": "MustRunAs" },
        "priority": null,
        "readOnlyRootFilesystem": false,
        "requiredDropCapabilities": ["ALL"],
        // IPC_LOCK takes effect only for root.
        "runAsUser": { "type": "RunAsAny" },
        "seLinuxContext": { "type": "MustRunAs" },
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": { "type": "RunAsAny" },
        "volumes": ["configMap", "emptyDir", "projected"],
    })
}

/// Restricts a pod to what the constraints allow.
pub(super) fn restrict(job: &Job, pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = json!(job.name());
    let security = &mut spec["containers"][0]["securityContext"];
    security["allowPrivilegeEscalation"] = json!(false);
    security["capabilities"]["drop"] = json!(["ALL"]);
}
