//! Containers of the manifests as OCI bundles, run by crun with the user, capabilities, system-call filter, namespaces
//! and mounts that their manifest gives. Three things differ from a node: no cgroups (thus all devices are allowed),
//! the host's own libraries are mounted for the program under test, which is not static, and host directories that the
//! container may write are temporary ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bedplate_tests::oci::{self, LIBRARIES};
use bedplate_tests::{fixtures, program};
use serde_json::Value;

use super::shipped;

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
        let own = oci::container(pod, name).clone();
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

    fn config(&self, args: &[String]) -> Value {
        let libraries = LIBRARIES.iter().filter(|(path, _)| Path::new(path).is_dir());
        let tools = [("/probe", "/usr/bin")];
        let binds: Vec<(&str, &str)> = libraries.copied().chain(tools).collect();
        oci::config(&self.pod, &self.own, args, &binds, &|volume| self.source(volume))
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

    /// The container's own command line.
    pub(super) fn args(&self) -> Vec<String> {
        oci::args(&self.own)
    }
}
