//! Containers of the manifests, run once: their rights as seen from inside, and the way of a verdict from `verify` to
//! the detector.

use std::path::PathBuf;

use bedplate_tests::{fixtures, oci, program};
use serde_json::Value;

use super::bundle::Container;
use super::kubernetes::{STAGES, detector};
use super::{documents, text, yaml};

fn daemon_set() -> Value {
    yaml("kubernetes/daemonset.yaml")["spec"]["template"]["spec"].clone()
}

fn snapshot_job() -> Value {
    let all = documents(&text("kubernetes/snapshot.yaml"));
    all[1]["spec"]["template"]["spec"].clone()
}

/// `verify` as the component `unprivileged` changes it.
fn unprivileged() -> Value {
    let mut pod = daemon_set();
    let patch = yaml("kubernetes/unprivileged/daemonset.yaml")["spec"]["template"]["spec"].clone();
    let patch = oci::container(&patch, "verify").clone();
    let verify = &mut pod["containers"][0];
    verify["args"] = patch["args"].clone();
    for (key, value) in patch["securityContext"].as_object().expect("rights") {
        verify["securityContext"][key] = value.clone();
    }
    verify["securityContext"]["capabilities"]["add"] = Value::Null;
    let mounts = verify["volumeMounts"].as_array_mut().expect("mounts");
    mounts.retain(|mount| mount["name"] != "labels");
    pod
}

const RIGHTS: &str = r#"
while read -r key value; do
  case $key in CapEff: | NoNewPrivs: | Seccomp:) echo "$key $value" ;; esac
done </proc/self/status
echo "user $(id -u)"
for directory in / /host /host/etc /host/dev/shm /profile /conditions /labels /snapshots; do
  [ -d $directory ] || continue
  if (: >$directory/bedplate-probe) 2>/dev/null; then echo "writes $directory"; rm $directory/bedplate-probe; fi
done
[ "$(readlink /proc/self/ns/net)" != "$NETWORK" ] || echo "network of the host"
[ "$(readlink /proc/self/ns/pid)" != "$PROCESSES" ] || echo "processes of the host"
for config in /host/sys/bus/pci/devices/*/config; do
  echo "config $(cat $config | wc -c)"
done | sort -u
"#;

/// Returns the rights of a container as seen from inside.
fn rights(pod: &Value, name: &str) -> Vec<String> {
    let [network, processes] = ["net", "pid"]
        .map(|kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace"));
    let script =
        format!("NETWORK='{}'\nPROCESSES='{}'\n{RIGHTS}", network.display(), processes.display());
    let shared = tempfile::tempdir().expect("a directory");
    let found = Container::new(pod, name, shared.path()).probe(&script);
    found.lines().map(str::to_owned).collect()
}

/// Number of bytes of the largest config space that the container can read.
fn config_bytes(rights: &[String]) -> u32 {
    let sizes = rights.iter().filter_map(|line| line.strip_prefix("config ")?.parse().ok());
    sizes.max().expect("this machine has PCI devices")
}

fn assert_rights(rights: &[String], expected: &[&str]) {
    let others: Vec<&str> =
        rights.iter().map(String::as_str).filter(|line| !line.starts_with("config ")).collect();
    assert_eq!(others, [expected, &["network of the host", "processes of the host"]].concat());
}

/// CAP_SYS_ADMIN is bit 21 (linux/capability.h), filter mode of seccomp is 2.
const SYS_ADMIN: &str = "CapEff: 0000000000200000";

#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn verify_reads_config_space_and_writes_its_volumes() {
    fixtures::root();
    let rights = rights(&daemon_set(), "verify");
    // `readOnly` is not recursive: mounts below the host's `/` stay writable for its root.
    let writes = ["writes /host/dev/shm", "writes /conditions", "writes /labels"];
    let start = [SYS_ADMIN, "NoNewPrivs: 1", "Seccomp: 2", "user 0"];
    assert_rights(&rights, &[&start[..], &writes].concat());
    assert!(config_bytes(&rights) >= 256, "{rights:?}");
}

#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn snapshot_writes_only_its_volume() {
    fixtures::root();
    let rights = rights(&snapshot_job(), "snapshot");
    let start = [SYS_ADMIN, "NoNewPrivs: 1", "Seccomp: 2", "user 0"];
    assert_rights(&rights, &[&start[..], &["writes /snapshots"]].concat());
    assert!(config_bytes(&rights) >= 256, "{rights:?}");
}

/// The kernel shows 64 bytes of config space to processes without CAP_SYS_ADMIN.
#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn unprivileged_verify_reads_64_bytes_of_config_space() {
    fixtures::root();
    let rights = rights(&unprivileged(), "verify");
    let start = ["CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "user 65531"];
    // The host's /dev/shm is open to every user.
    let writes = ["writes /host/dev/shm", "writes /conditions"];
    assert_rights(&rights, &[&start[..], &writes].concat());
    assert_eq!(config_bytes(&rights), 64, "{rights:?}");
}

/// The program under test runs in the container, with the mounted profile.
#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn program_plans_with_the_mounted_profile() {
    fixtures::root();
    let words = ["/usr/bin/bedplate", "plan", "--root=/host", "--profile=/profile/profile.toml"];
    for pod in [daemon_set(), unprivileged()] {
        let shared = tempfile::tempdir().expect("a directory");
        let done = Container::new(&pod, "verify", shared.path()).run(&words.map(str::to_owned));
        let [out, errors] =
            [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(done.status.success() && out.contains("site"), "{out}{errors}");
    }
}

/// Options of `verify` in the manifest, with their effects on files; ends on SIGTERM.
const FAKE: &str = r#"#!/probe/sh
for option in "$@"; do
  case $option in
    --host-root=*) root=${option#*=} ;;
    --profile=*) profile=${option#*=} ;;
    --conditions=*) conditions=${option#*=} ;;
    --labels=*) labels=${option#*=} ;;
  esac
done
[ -r "$profile" ] && [ -r "$root/proc/1/status" ] || exit 1
trap 'exit 0' TERM
valid=$(($(date +%s) + 180))
[ -z "$labels" ] || echo bedplate.ready=false >"$labels"
echo "$valid ready: fake" >"$conditions/host"
echo "$valid not ready: fake" >"$conditions/gpudirect"
while :; do sleep 1 & wait $!; done
"#;

/// Runs `verify` until its first round has ended, then the plugin in the detector's container, for both stages. Returns
/// the exit status and the line of each.
fn verdicts(pod: &Value, fake: bool) -> [(Option<i32>, String); 2] {
    let shared = tempfile::tempdir().expect("a directory");
    let verify = Container::new(pod, "verify", shared.path());
    if fake {
        std::fs::write(verify.at("rootfs/usr/bin/bedplate"), FAKE).expect("ours");
    }
    let mut files: Vec<PathBuf> =
        STAGES.iter().map(|(stage, ..)| verify.source("conditions").join(stage)).collect();
    if verify.args().iter().any(|one| one.starts_with("--labels=")) {
        files.push(verify.source("labels").join("bedplate"));
    }
    assert!(verify.run_until(&files), "verify ignores SIGTERM");
    let npd = Container::new(pod, "node-problem-detector", shared.path());
    STAGES.map(|(stage, ..)| {
        let plugin = detector(stage)["rules"][0]["path"].as_str().expect("a path").to_owned();
        let done = npd.run(&[plugin, stage.to_owned()]);
        assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    })
}

/// The detector's container reads what `verify` writes, whichever users both have.
#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn verdicts_of_verify_reach_the_detector() {
    fixtures::root();
    let expected = [(Some(0), "ready: fake\n".into()), (Some(1), "not ready: fake\n".into())];
    for pod in [daemon_set(), unprivileged()] {
        assert_eq!(verdicts(&pod, true), expected);
    }
}

/// As above, with the program under test in place of the fake.
#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn verdicts_of_the_program_reach_the_detector() {
    fixtures::root();
    for pod in [daemon_set(), unprivileged()] {
        for (status, line) in verdicts(&pod, false) {
            let words = ["ready: ", "not ready: ", "unknown: "];
            assert!(words.iter().any(|word| line.starts_with(word)), "{line}");
            assert!(!line.contains("expired") && !line.contains("not written"), "{line}");
            assert!(status.is_some_and(|status| status <= 2), "{status:?} {line}");
        }
    }
}

/// The Job's own command line writes a snapshot that the program reads.
#[test]
#[cfg_attr(not(has = "containers"), ignore = "needs crun, root, skopeo and unshare")]
fn snapshot_of_the_job_is_valid() {
    fixtures::root();
    let shared = tempfile::tempdir().expect("a directory");
    let job = Container::new(&snapshot_job(), "snapshot", shared.path());
    let done = job.run(&job.args());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let file = shared.path().join("snapshots/gpu-node-1.bp").display().to_string();
    program::stdout(&["inspect", "--snapshot", &file]);
}
