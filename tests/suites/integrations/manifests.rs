//! The Kubernetes manifests: valid for the API's own schemas (kubernetes-validate) as files and as Kustomize builds
//! them, consistent in themselves, and without more rights than listed here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use bedplate_tests::{fixtures, oci};
use serde_json::{Value, json};

use super::kubernetes::{STAGES, detector};
use super::{documents, shipped, text, yaml};

/// Oldest and newest Kubernetes whose schemas the manifests are checked against.
const VERSIONS: [&str; 2] = ["1.33", "1.37"];

/// Files of plain manifests.
const FILES: [&str; 5] =
    ["namespace.yaml", "rbac.yaml", "daemonset.yaml", "node-readiness-rules.yaml", "snapshot.yaml"];

/// Kinds with a definition outside of Kubernetes.
const CUSTOM: &str = "NodeReadinessRule";

fn stdout(command: &mut Command) -> String {
    let done = command.output().expect("it starts");
    let texts = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(done.status.success(), "{command:?}: {}", texts.concat());
    texts[0].clone().into_owned()
}

/// Checks manifests against the schemas of each version. Unknown fields are errors.
fn validate(manifests: &str) {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    let kinds: Vec<Value> =
        documents(manifests).into_iter().map(|one| one["kind"].clone()).collect();
    let known = kinds.iter().filter(|kind| **kind != CUSTOM).count();
    std::fs::write(file.path(), manifests).expect("ours");
    for version in VERSIONS {
        let mut command = Command::new(fixtures::python());
        command.args(["-m", "kubernetes_validate", "--strict", "-k", version]).arg(file.path());
        let report = stdout(&mut command);
        assert_eq!(report.matches(" passed for resource ").count(), known, "{report}");
    }
}

/// Builds the base with Kustomize, or an overlay in the directory above a copy of it.
fn build(overlay: Option<&str>) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a directory");
    stdout(Command::new("cp").arg("-r").arg(shipped("kubernetes")).arg(directory.path()));
    let built = match overlay {
        Some(overlay) => {
            std::fs::write(directory.path().join("kustomization.yaml"), overlay).expect("ours");
            directory.path().to_owned()
        }
        None => directory.path().join("kubernetes"),
    };
    let text = stdout(Command::new(fixtures::tool("kubectl")).arg("kustomize").arg(built));
    validate(&text);
    documents(&text)
}

fn of_kind<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|one| one["kind"] == kind).collect()
}

fn daemon_set() -> Value {
    yaml("kubernetes/daemonset.yaml")["spec"]["template"]["spec"].clone()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
#[cfg_attr(not(has = "target/python"), ignore = "needs target/python: tests/run")]
fn manifests_match_the_schemas_of_kubernetes() {
    for file in FILES {
        validate(&text(&format!("kubernetes/{file}")));
    }
}

/// The validation above finds a misspelt field.
#[test]
#[cfg_attr(not(has = "target/python"), ignore = "needs target/python: tests/run")]
fn misspelt_field_is_an_error() {
    let wrong = text("kubernetes/daemonset.yaml").replace("hostNetwork:", "hostNetworks:");
    assert!(std::panic::catch_unwind(|| validate(&wrong)).is_err());
}

#[test]
#[cfg_attr(
    not(all(has = "kubectl", has = "target/python")),
    ignore = "needs kubectl with Kustomize 5, and target/python: tests/run"
)]
fn base_builds_and_is_valid() {
    let all = build(None);
    let names: BTreeSet<String> = of_kind(&all, "ConfigMap")
        .iter()
        .map(|map| map["metadata"]["name"].as_str().expect("a name").to_owned())
        .collect();
    let [set] = of_kind(&all, "DaemonSet")[..] else { panic!("one DaemonSet: {all:?}") };
    // Kustomize appends a hash of the content, so that a change restarts the pods.
    for volume in list(&set["spec"]["template"]["spec"], "volumes") {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            assert!(names.contains(name), "{name}: {names:?}");
        }
    }
    // Kustomize knows only some kinds as cluster-wide, so each manifest has its namespace.
    for one in &all {
        let cluster = ["Namespace", "ClusterRole", "ClusterRoleBinding", CUSTOM];
        let kind = one["kind"].as_str().expect("a kind");
        let is_cluster = cluster.contains(&kind) || kind.starts_with("ValidatingAdmissionPolicy");
        assert_eq!(one["metadata"]["namespace"] == "bedplate", !is_cluster, "{one}");
    }
}

/// The overlay of the README: own image and profile, and the component without rights.
#[test]
#[cfg_attr(
    not(all(has = "kubectl", has = "target/python")),
    ignore = "needs kubectl with Kustomize 5, and target/python: tests/run"
)]
fn overlay_of_the_readme_builds_without_rights() {
    let readme = text("README.md");
    let overlay = readme.split("```yaml\n").find(|block| block.starts_with("# kustomization.yaml"));
    let overlay = overlay.and_then(|block| block.split("```").next()).expect("an overlay");
    let overlay = overlay
        .replace("# components", "components")
        .replace("gpu.toml", "kubernetes/profile.toml");
    let all = build(Some(&overlay));
    let [set] = of_kind(&all, "DaemonSet")[..] else { panic!("one DaemonSet: {all:?}") };
    let pod = &set["spec"]["template"]["spec"];
    let verify = oci::container(pod, "verify");
    assert_eq!(verify["image"], "registry.internal.example/bedplate:0.1.0");
    let security = &verify["securityContext"];
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!((&security["runAsNonRoot"], &security["runAsUser"]), (&json!(true), &json!(65531)));
    let args = list(verify, "args");
    assert!(args.contains(&json!("--conditions=/conditions")), "{args:?}");
    assert!(!format!("{pod}").contains("labels"), "{pod}");
}

#[test]
fn kustomization_lists_existing_files() {
    let base = yaml("kubernetes/kustomization.yaml");
    let mut named: Vec<&str> =
        list(&base, "resources").iter().map(|file| file.as_str().expect("a path")).collect();
    for generator in list(&base, "configMapGenerator") {
        named.extend(list(generator, "files").iter().map(|file| file.as_str().expect("a path")));
    }
    for file in &named {
        assert!(shipped("kubernetes").join(file).is_file(), "{file}");
    }
    // Applied later, by hand.
    let separate = ["snapshot.yaml", "node-readiness-rules.yaml"];
    for file in FILES.iter().filter(|file| !separate.contains(file)) {
        assert!(named.contains(file), "{file} is in no kustomization");
    }
    let profile = shipped("kubernetes/profile.toml").display().to_string();
    bedplate_tests::program::stdout(&["profile", "check", &profile]);
}

/// Volumes, mounts, generated ConfigMaps, service account and the paths in arguments refer to each other.
#[test]
fn references_within_the_pod_are_complete() {
    let base = yaml("kubernetes/kustomization.yaml");
    let set = yaml("kubernetes/daemonset.yaml");
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        set["spec"]["template"]["metadata"]["labels"]
    );
    let pod = daemon_set();
    let account = documents(&text("kubernetes/rbac.yaml"));
    let account = of_kind(&account, "ServiceAccount")[0]["metadata"]["name"].clone();
    assert_eq!(pod["serviceAccountName"], account);
    let names = |values: &[Value]| -> BTreeSet<String> {
        values.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let mounts = list(&pod, "containers").iter().flat_map(|one| list(one, "volumeMounts").to_vec());
    let mounts: Vec<Value> = mounts.collect();
    assert_eq!(names(&mounts), names(list(&pod, "volumes")));
    let generated = names(list(&base, "configMapGenerator"));
    for volume in list(&pod, "volumes") {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            assert!(generated.contains(name), "{name}");
        }
    }
    let at = |container: &Value, volume: &str| {
        let mount = list(container, "volumeMounts").iter().find(|one| one["name"] == volume);
        mount.expect("a mount")["mountPath"].as_str().expect("a path").to_owned()
    };
    let verify = oci::container(&pod, "verify");
    let says =
        |argument: String| assert!(list(verify, "args").contains(&json!(argument)), "{argument}");
    says(format!("--host-root={}", at(verify, "host")));
    says(format!("--profile={}/profile.toml", at(verify, "profile")));
    says(format!("--conditions={}", at(verify, "conditions")));
    says(format!("--labels={}/bedplate", at(verify, "labels")));
    // The detector finds its configuration, and the plugin the files of `verify`.
    let npd = oci::container(&pod, "node-problem-detector");
    let files = STAGES
        .map(|(stage, ..)| format!("{}/node-problem-detector-{stage}.json", at(npd, "detector")));
    let argument = format!("--config.custom-plugin-monitor={}", files.join(","));
    assert!(list(npd, "command").contains(&json!(argument)), "{argument}");
    for (stage, ..) in STAGES {
        let plugin = detector(stage)["rules"][0]["path"].clone();
        assert_eq!(plugin, format!("{}/bedplate-condition", at(npd, "plugin")));
    }
    let variable = list(npd, "env").iter().find(|one| one["name"] == "BEDPLATE_CONDITIONS");
    assert_eq!(variable.expect("a variable")["value"], at(npd, "conditions"));
    // Verdicts on a disk would survive a reboot.
    let conditions = list(&pod, "volumes").iter().find(|one| one["name"] == "conditions");
    assert_eq!(conditions.expect("a volume")["emptyDir"]["medium"], "Memory");
}

/// No container is privileged, and only `verify` and `snapshot` have a capability, the one for PCI config space.
#[test]
fn containers_have_the_listed_rights_only() {
    let set = daemon_set();
    let job = documents(&text("kubernetes/snapshot.yaml"));
    let job = of_kind(&job, "Job")[0]["spec"]["template"]["spec"].clone();
    for (pod, name, user, added) in [
        (&set, "verify", 0, Some(json!(["SYS_ADMIN"]))),
        (&set, "node-problem-detector", 65530, None),
        (&job, "snapshot", 0, Some(json!(["SYS_ADMIN"]))),
    ] {
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!((&pod["hostNetwork"], &pod["hostPID"]), (&json!(true), &json!(true)));
        assert!(pod["hostIPC"].is_null(), "{name}");
        let security = &oci::container(pod, name)["securityContext"];
        assert!(security["privileged"].is_null(), "{name}");
        assert_eq!(security["runAsUser"], user, "{name}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]), "{name}");
        assert_eq!(security["capabilities"].get("add"), added.as_ref(), "{name}");
    }
    for (pod, name) in [(&set, "verify"), (&job, "snapshot")] {
        let mounts = list(oci::container(pod, name), "volumeMounts");
        let host = mounts.iter().find(|one| one["name"] == "host").expect("the host's files");
        assert_eq!((&host["mountPath"], &host["readOnly"]), (&json!("/host"), &json!(true)));
        // The API refuses both in one mount.
        assert_eq!(host["mountPropagation"].is_null(), host["recursiveReadOnly"] == "IfPossible");
    }
    let writable = |name: &str| -> Vec<String> {
        let mounts = list(oci::container(&set, name), "volumeMounts").iter();
        let mounts = mounts.filter(|one| one["readOnly"] != true);
        mounts.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(writable("verify"), ["conditions", "labels"]);
    assert_eq!(writable("node-problem-detector"), [""; 0]);
    let with_token =
        list(&set, "containers").iter().filter(|one| format!("{one}").contains("token"));
    assert_eq!(with_token.map(|one| &one["name"]).collect::<Vec<_>>(), ["node-problem-detector"]);
}

/// Rights in the cluster: the node's own object and its conditions, and events in the own namespace.
#[test]
fn cluster_rights_are_those_of_the_detector() {
    let all = documents(&text("kubernetes/rbac.yaml"));
    let rules = |kind: &str| of_kind(&all, kind)[0]["rules"].clone();
    let right = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    assert_eq!(
        rules("ClusterRole"),
        json!([right("nodes", &["get"]), right("nodes/status", &["patch"])])
    );
    assert_eq!(rules("Role"), json!([right("events", &["create", "patch"])]));
    for (binding, role) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        let (binding, role) = (of_kind(&all, binding)[0], of_kind(&all, role)[0]);
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(binding["roleRef"]["kind"], role["kind"]);
        let account =
            json!([{"kind": "ServiceAccount", "name": "bedplate", "namespace": "bedplate"}]);
        assert_eq!(binding["subjects"], account);
    }
    let policy = of_kind(&all, "ValidatingAdmissionPolicy")[0];
    let binding = of_kind(&all, "ValidatingAdmissionPolicyBinding")[0];
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    let user = "request.userInfo.username == \"system:serviceaccount:bedplate:bedplate\"";
    assert_eq!(policy["spec"]["matchConditions"][0]["expression"], user);
    let matched = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(matched["resources"], json!(["nodes/status"]));
}

/// The documentation lists every check that stays unknown without root.
#[test]
fn documentation_lists_checks_that_need_root() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/integrations.md"));
    let page = std::fs::read_to_string(path).expect("ours");
    let section = page.split("### Rights").nth(1).expect("a section on rights");
    let section = section.split("\n## ").next().unwrap_or_default();
    for check in bedplate_core::verify::CHECKS.iter().filter(|check| check.needs_root) {
        assert!(section.contains(&format!("`{}`", check.id)), "{}", check.id);
    }
}
