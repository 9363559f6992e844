//! OCI configuration of a container of a Kubernetes manifest: the user, capabilities, system-call filter, namespaces and
//! mounts that kubelet and the runtime give it. Pure, except that it reads the default filter. Panics on a manifest that
//! uses anything else.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Directories of the dynamic loader and of libraries, for a program under test that is not static: path in the
/// container, and on the node.
pub const LIBRARIES: [(&str, &str); 2] = [("/lib", "/usr/lib"), ("/lib64", "/usr/lib64")];

/// Default profile of containers/common, which crun's users share: the nearest to a node's RuntimeDefault.
const SECCOMP: &str = "/usr/share/containers/seccomp.json";

/// Devices that containers may use (kubelet's runtimes, OCI runtime specification): null, zero, full, random, urandom,
/// tty.
const DEVICES: [(u32, u32); 6] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];

/// Returns the container `name` of a pod.
pub fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let all = pod["containers"].as_array().expect("containers");
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no container {name}"))
}

/// The container's own command line, with its variable expanded as Kubernetes does it.
pub fn args(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().expect("arguments").iter();
    let args = args.map(|one| one.as_str().expect("text").replace("$(NODE_NAME)", "gpu-node-1"));
    ["/usr/bin/bedplate".to_owned()].into_iter().chain(args).collect()
}

/// Returns config.json for a container of a pod that runs `args`. `binds`: further directories, as paths in the container
/// and on the node. `source`: directory of a volume on the node.
pub fn config(
    pod: &Value,
    container: &Value,
    args: &[String],
    binds: &[(&str, &str)],
    source: &dyn Fn(&str) -> PathBuf,
) -> Value {
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    let capabilities = capabilities(container);
    // A pod in the host's network has its UTS namespace, too.
    let own = [
        ("network", "hostNetwork"),
        ("uts", "hostNetwork"),
        ("pid", "hostPID"),
        ("ipc", "hostIPC"),
    ];
    let own = own.iter().filter(|(_, shared)| pod[shared] != true);
    let own = own.map(|(kind, _)| *kind).chain(["mount"]);
    let namespaces: Vec<Value> = own.map(|kind| json!({"type": kind})).collect();
    let allowed = DEVICES.map(|(major, minor)| {
        json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"})
    });
    let devices: Vec<Value> =
        [json!({"allow": false, "access": "rwm"})].into_iter().chain(allowed).collect();
    json!({
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
        "process": {
            "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
            "args": args,
            "env": variables(container),
            "cwd": "/",
            "noNewPrivileges": security["allowPrivilegeEscalation"] == false,
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
        },
        "mounts": mounts(container, binds, source),
        "linux": {
            "namespaces": namespaces,
            "resources": {"devices": devices},
            "seccomp": seccomp(&capabilities),
        },
    })
}

/// Variables of the manifest, and those of the tests.
fn variables(container: &Value) -> Vec<String> {
    let all = container["env"].as_array().map(Vec::as_slice).unwrap_or_default();
    let value = |one: &Value| match one["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some("spec.nodeName") => "gpu-node-1".to_owned(),
        Some("metadata.namespace") => "bedplate".to_owned(),
        Some(other) => panic!("{other}"),
        None => one["value"].as_str().expect("text").to_owned(),
    };
    let own =
        all.iter().map(|one| format!("{}={}", one["name"].as_str().expect("a name"), value(one)));
    own.chain(["PATH=/probe", "COLUMNS=1000"].map(str::to_owned)).collect()
}

fn mounts(
    container: &Value,
    binds: &[(&str, &str)],
    source: &dyn Fn(&str) -> PathBuf,
) -> Vec<Value> {
    let bind = |destination: &str, source: &Path, options: &[&str]| json!({"destination": destination, "type": "bind", "source": source, "options": options});
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}),
    ];
    mounts.extend(binds.iter().map(|(to, from)| bind(to, Path::new(from), &["rbind", "ro"])));
    for mount in container["volumeMounts"].as_array().expect("mounts") {
        let mut options = vec!["rbind"];
        options.push(match mount["mountPropagation"].as_str() {
            Some("HostToContainer") => "rslave",
            None => "rprivate",
            Some(other) => panic!("{other}"),
        });
        match (mount["readOnly"] == true, mount["recursiveReadOnly"] == "IfPossible") {
            (true, true) => options.push("rro"),
            (true, false) => options.push("ro"),
            (false, _) => {}
        }
        let source = source(mount["name"].as_str().expect("a name"));
        mounts.push(bind(mount["mountPath"].as_str().expect("a path"), &source, &options));
    }
    mounts
}

/// Capabilities with their prefix, as in an OCI configuration.
fn capabilities(container: &Value) -> Vec<String> {
    let added = container["securityContext"]["capabilities"]["add"].as_array();
    let added = added.map(Vec::as_slice).unwrap_or_default();
    added.iter().map(|one| format!("CAP_{}", one.as_str().expect("a name"))).collect()
}

/// The part of the default filter that applies to this machine and these capabilities.
fn seccomp(capabilities: &[String]) -> Value {
    let text = std::fs::read_to_string(SECCOMP).expect("a dependency of skopeo has it");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let names = |rule: &Value, part: &str, key: &str| -> Vec<String> {
        let names = rule[part][key].as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let applies = |rule: &&Value| {
        let machines = names(rule, "includes", "arches");
        (machines.is_empty() || machines.iter().any(|one| one == architecture))
            && names(rule, "includes", "caps").iter().all(|one| capabilities.contains(one))
            && !names(rule, "excludes", "caps").iter().any(|one| capabilities.contains(one))
    };
    let rules = all["syscalls"].as_array().expect("rules").iter().filter(applies);
    let rules = rules.map(|rule| {
        let mut own =
            json!({"names": rule["names"], "action": rule["action"], "args": rule["args"]});
        if let Some(number) = rule["errnoRet"].as_u64() {
            own["errnoRet"] = number.into();
        }
        if own["args"].is_null() {
            own["args"] = json!([]);
        }
        own
    });
    json!({
        "defaultAction": all["defaultAction"],
        "defaultErrnoRet": all["defaultErrnoRet"],
        "syscalls": rules.collect::<Vec<_>>(),
    })
}
