//! Containers of the manifests as OCI bundles, run by crun with the user, capabilities, system-call filter, namespaces
//! and mounts that their manifest gives. Three things differ from a node: no cgroups (thus all devices are allowed),
//! the host's own libraries are mounted for the program under test, which is not static, and host directories that the
//! container may write are temporary ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bedplate_tests::{fixtures, program};
use serde_json::{Value, json};

use super::{manifests, shipped};

/// Directories of the dynamic loader and of libraries.
const LIBRARIES: [&str; 2] = ["/lib", "/lib64"];

/// Default profile of containers/common, which crun's users share: the nearest to a node's RuntimeDefault.
const SECCOMP: &str = "/usr/share/containers/seccomp.json";

/// A container of a manifest, with a directory for its bundle.
pub(super) struct Container {
    pod: Value,
    own: Value,
    directory: tempfile::TempDir,
    /// Directory of the volumes that containers of the pod share.
    shared: PathBuf,
}

impl Container {
    /// Prepares a container with the program under test. `shared` has the volumes that the containers of the pod share.
    pub(super) fn new(pod: &Value, name: &str, shared: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let own = manifests::container(pod, name).clone();
        let one = Self { pod: pod.clone(), own, directory, shared: shared.to_owned() };
        for path in ["rootfs/usr/bin", "rootfs/probe"] {
            std::fs::create_dir_all(one.at(path)).expect("ours");
        }
        std::os::unix::fs::symlink("probe", one.at("rootfs/bin")).expect("ours");
        std::fs::copy(program::path(), one.at("rootfs/usr/bin/bedplate")).expect("ours");
        one
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Source of a volume: the host's `/`, the files of a ConfigMap, or a shared directory.
    pub(super) fn source(&self, volume: &str) -> PathBuf {
        let volumes = self.pod["volumes"].as_array().expect("volumes");
        let found = volumes.iter().find(|one| one["name"] == volume);
        let found = found.unwrap_or_else(|| panic!("no volume {volume}"));
        if found["hostPath"]["path"] == "/" {
            return "/".into();
        }
        if found["configMap"].is_object() {
            return shipped("kubernetes");
        }
        let path = self.shared.join(volume);
        std::fs::create_dir_all(&path).expect("ours");
        if found["emptyDir"].is_object() {
            // As kubelet makes it.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(&path, open).expect("ours");
        }
        path
    }

    /// Variables of the manifest, and those of the tests.
    fn variables(&self) -> Vec<String> {
        let all = self.own["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let value = |one: &Value| match one["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some("spec.nodeName") => "gpu-node-1".to_owned(),
            Some("metadata.namespace") => "bedplate".to_owned(),
            Some(other) => panic!("{other}"),
            None => one["value"].as_str().expect("text").to_owned(),
        };
        let own = all
            .iter()
            .map(|one| format!("{}={}", one["name"].as_str().expect("a name"), value(one)));
        own.chain(["PATH=/probe", "COLUMNS=1000"].map(str::to_owned)).collect()
    }

    fn mounts(&self) -> Vec<Value> {
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
            json!({"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}),
            json!({"destination": "/probe", "type": "bind", "source": "/usr/bin", "options": ["rbind", "ro"]}),
        ];
        for path in LIBRARIES.iter().filter(|path| Path::new(path).is_dir()) {
            let source = std::fs::canonicalize(path).expect("it exists");
            mounts.push(json!({"destination": path, "type": "bind", "source": source, "options": ["rbind", "ro"]}));
        }
        for mount in self.own["volumeMounts"].as_array().expect("mounts") {
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
            let source = self.source(mount["name"].as_str().expect("a name"));
            mounts.push(json!({"destination": mount["mountPath"], "type": "bind", "source": source, "options": options}));
        }
        mounts
    }

    /// Capabilities with their prefix, as in an OCI configuration.
    fn capabilities(&self) -> Vec<String> {
        let added = self.own["securityContext"]["capabilities"]["add"].as_array();
        let added = added.map(Vec::as_slice).unwrap_or_default();
        added.iter().map(|one| format!("CAP_{}", one.as_str().expect("a name"))).collect()
    }

    fn config(&self, args: &[String]) -> Value {
        let security = &self.own["securityContext"];
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        let capabilities = self.capabilities();
        // A pod in the host's network has its UTS namespace, too.
        let own = [
            ("network", "hostNetwork"),
            ("uts", "hostNetwork"),
            ("pid", "hostPID"),
            ("ipc", "hostIPC"),
        ];
        let own = own.iter().filter(|(_, shared)| self.pod[shared] != true);
        let own = own.map(|(kind, _)| *kind).chain(["mount"]);
        let namespaces: Vec<Value> = own.map(|kind| json!({"type": kind})).collect();
        json!({
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
            "process": {
                "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
                "args": args,
                "env": self.variables(),
                "cwd": "/",
                "noNewPrivileges": security["allowPrivilegeEscalation"] == false,
                "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            },
            "mounts": self.mounts(),
            "linux": {"namespaces": namespaces, "seccomp": seccomp(&capabilities)},
        })
    }

    /// Returns a command that runs the container. crun refuses hosts with both versions of cgroups: in a mount
    /// namespace of its own it finds only the second, and does not use it.
    fn command(&self, args: &[String]) -> Command {
        let config = serde_json::to_string(&self.config(args)).expect("plain data");
        std::fs::write(self.at("config.json"), config).expect("ours");
        let script = "mount -t cgroup2 none /sys/fs/cgroup && exec \"$0\" --root \"$1\" --cgroup-manager=disabled \
                      run --bundle \"$2\" \"$3\"";
        let mut command = Command::new(fixtures::tool("unshare"));
        command.args(["--mount", "--propagation", "slave", "sh", "-c", script]);
        command.arg(fixtures::tool("crun")).arg(self.at("crun")).arg(self.directory.path());
        command.arg(self.id());
        command
    }

    fn id(&self) -> String {
        format!("bedplate{}", self.directory.path().file_name().expect("a name").display())
    }

    /// Runs the container to its end.
    pub(super) fn run(&self, args: &[String]) -> Output {
        self.command(args).output().expect("it starts")
    }

    /// Runs the container's own command line until the files exist, then terminates it as kubelet does. Returns whether
    /// it ended within the grace period.
    pub(super) fn run_until(&self, files: &[PathBuf]) -> bool {
        let mut child = self.command(&self.args()).spawn().expect("it starts");
        let mut until = |limit: u64, is_met: &dyn Fn(&mut std::process::Child) -> bool| {
            (0..limit * 10).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                is_met(&mut child)
            })
        };
        let has_files = until(60, &|_| files.iter().all(|file| file.exists()));
        let signal = |name: &str| {
            let mut kill = Command::new(fixtures::tool("crun"));
            kill.arg("--root").arg(self.at("crun")).args(["kill", &self.id(), name]);
            _ = kill.output().expect("it starts");
        };
        signal("TERM");
        let grace = self.pod["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        let has_ended = until(grace, &|child| child.try_wait().expect("ours").is_some());
        signal("KILL");
        _ = child.wait();
        assert!(has_files, "{files:?} did not appear");
        has_ended
    }

    /// Runs a shell script instead of the program. The host's own tools are in /probe.
    pub(super) fn probe(&self, script: &str) -> String {
        let done = self.run(&["/probe/sh", "-c", script].map(str::to_owned));
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// The container's own command line, with its variable expanded as Kubernetes does it.
    pub(super) fn args(&self) -> Vec<String> {
        let args = self.own["args"].as_array().expect("arguments").iter();
        let args =
            args.map(|one| one.as_str().expect("text").replace("$(NODE_NAME)", "gpu-node-1"));
        ["/usr/bin/bedplate".to_owned()].into_iter().chain(args).collect()
    }
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
