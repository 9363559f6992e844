//! The container image with the static program for arm64, unpacked and run by crun from its own configuration: no
//! shell, no library, no root.

use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures;
use serde_json::{Value, json};

use super::{REPOSITORY, output_of};

/// Builds the image, and unpacks its only layer below `directory`. Returns the image's configuration.
fn unpacked(directory: &Path) -> Value {
    let mut build = Command::new("packaging/image");
    build.args(["--version", "9.8.7", "--program"]).arg(fixtures::arm64_program());
    output_of(build.arg("--out").arg(directory).current_dir(REPOSITORY));
    let archive = format!("oci-archive:{}/bedplate-9.8.7.oci.tar:9.8.7", directory.display());
    let copy = directory.join("copy");
    let skopeo = || {
        let mut skopeo = Command::new(fixtures::tool("skopeo"));
        skopeo.args(["--insecure-policy", "--override-arch", "arm64"]);
        skopeo
    };
    output_of(skopeo().args(["copy", &archive, &format!("dir:{}", copy.display())]));
    let document = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let manifest = std::fs::read_to_string(copy.join("manifest.json")).expect("a manifest");
    let layer = document(&manifest)["layers"][0]["digest"].as_str().map(str::to_owned);
    let layer = copy.join(layer.expect("a digest").trim_start_matches("sha256:"));
    let root = directory.join("rootfs");
    std::fs::create_dir(&root).expect("ours");
    output_of(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(root));
    document(&output_of(skopeo().args(["inspect", "--config", &archive])))["config"].clone()
}

#[test]
#[cfg_attr(
    not(all(has = "BEDPLATE_ARM64_PROGRAM", has = "arm64", has = "containers")),
    ignore = "needs BEDPLATE_ARM64_PROGRAM, `tests/vm/setup arm64`, crun, root, skopeo and unshare"
)]
fn image_runs_without_root_and_libraries() {
    fixtures::arm64();
    fixtures::root();
    let directory = tempfile::tempdir().expect("a directory");
    let config = unpacked(directory.path());
    let user: Vec<u32> = config["User"]
        .as_str()
        .expect("a user")
        .split(':')
        .map(|id| id.parse().expect("a number"))
        .collect();
    let mut args = config["Entrypoint"].as_array().expect("a program").clone();
    args.extend(["plan", "--demo", "gb300"].map(Value::from));
    let namespaces =
        ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind})).to_vec();
    let bundle = json!({
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": true},
        "process": {"user": {"uid": user[0], "gid": user[1]}, "args": args, "cwd": config["WorkingDir"], "noNewPrivileges": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
        ],
        "linux": {"namespaces": namespaces},
    });
    std::fs::write(directory.path().join("config.json"), bundle.to_string()).expect("ours");
    // As the tests of the pods: crun does not use control groups.
    let script = "mount -t cgroup2 none /sys/fs/cgroup && exec crun --root \"$0/crun\" --cgroup-manager=disabled run \
                  --bundle \"$0\" bedplate-image";
    let mut run = Command::new(fixtures::tool("unshare"));
    run.args(["--mount", "--propagation", "slave", "sh", "-c", script]).arg(directory.path());
    let plan = output_of(&mut run);
    assert!(plan.contains("old reboot required"), "{plan}");
}
