//! The container image of `packaging/image`: two architectures, reproducible, and read by skopeo. Programs are ELF
//! headers without code: no test here builds the static programs of a release.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bedplate_tests::fixtures;
use serde_json::{Value, json};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Number of a program header that names a dynamic loader (elf(5)).
const PT_INTERP: u32 = 3;

/// Writes an ELF program that has only its headers.
fn program(path: PathBuf, machine: u16, headers: &[u32]) -> PathBuf {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    bytes.extend(machine.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend([0; 14]);
    bytes.extend(56_u16.to_le_bytes());
    bytes.extend(u16::try_from(headers.len()).expect("few").to_le_bytes());
    bytes.resize(64, 0);
    for kind in headers {
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 52]);
    }
    std::fs::write(&path, bytes).expect("ours");
    path
}

/// Writes programs for x86_64 and aarch64.
fn programs(directory: &Path) -> [PathBuf; 2] {
    [("x86_64", 62), ("aarch64", 183)]
        .map(|(name, machine)| program(directory.join(name), machine, &[1, 4]))
}

/// Runs `packaging/image` with a umask and a time zone.
fn image(programs: &[PathBuf], out: &Path, umask: &str, zone: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "umask $0; exec packaging/image --version 9.8.7 \"$@\"", umask]);
    command.arg("--out").arg(out);
    for program in programs {
        command.arg("--program").arg(program);
    }
    command.env("TZ", zone).env("SOURCE_DATE_EPOCH", "1772506800").current_dir(REPOSITORY);
    command.output().expect("it starts")
}

fn stdout(command: &mut Command) -> String {
    let done = command.output().expect("it starts");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn json_of(command: &mut Command) -> Value {
    serde_json::from_str(&stdout(command)).expect("JSON")
}

#[test]
fn same_programs_give_the_same_image() {
    let directory = tempfile::tempdir().expect("a directory");
    let programs = programs(directory.path());
    let [first, second] = [("022", "UTC"), ("077", "Asia/Kathmandu")].map(|(umask, zone)| {
        let out = directory.path().join(umask);
        let done = image(&programs, &out, umask, zone);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read(out.join("bedplate-9.8.7.oci.tar")).expect("an archive")
    });
    assert!(first == second);
}

#[test]
fn unsuitable_programs_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("script"), "#!/bin/sh\n").expect("ours");
    let [amd64, _] = programs(directory.path());
    for (programs, error) in [
        (vec![program(at("dynamic"), 62, &[6, PT_INTERP, 1])], "is not static"),
        (vec![bedplate_tests::program::path()], "is not static"),
        (vec![program(at("riscv"), 243, &[])], "is neither for x86_64 nor for aarch64"),
        (vec![at("script")], "is not a 64-bit ELF program"),
        (vec![amd64.clone(), amd64], "two programs for amd64"),
    ] {
        let done = image(&programs, &at("out"), "022", "UTC");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && errors.contains(error), "{errors}");
        assert!(!at("out").exists());
    }
}

/// skopeo parses index, manifests and configurations, and checks every digest when it copies.
#[test]
#[cfg_attr(not(has = "skopeo"), ignore = "needs skopeo")]
fn image_is_valid_for_both_architectures() {
    let skopeo = fixtures::tool("skopeo");
    let directory = tempfile::tempdir().expect("a directory");
    let done = image(&programs(directory.path()), directory.path(), "022", "UTC");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let archive = directory.path().join("bedplate-9.8.7.oci.tar");
    let archive = format!("oci-archive:{}:9.8.7", archive.display());
    for (architecture, machine) in [("amd64", "x86_64"), ("arm64", "aarch64")] {
        let skopeo = || {
            let mut command = Command::new(&skopeo);
            command.args(["--insecure-policy", "--override-arch", architecture]);
            command
        };
        let config = json_of(skopeo().args(["inspect", "--config", &archive]));
        assert_eq!(config["architecture"], architecture);
        assert_eq!(config["created"], "2026-03-03T03:00:00Z");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/bedplate"]));
        let label = "org.opencontainers.image.version";
        assert_eq!(config["config"]["Labels"][label], "9.8.7");
        let copy = directory.path().join(architecture);
        stdout(skopeo().args(["copy", &archive, &format!("dir:{}", copy.display())]));
        let text = std::fs::read_to_string(copy.join("manifest.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let layer = manifest["layers"][0]["digest"].as_str().expect("a digest");
        let layer = copy.join(layer.trim_start_matches("sha256:"));
        let root = directory.path().join(format!("root-{architecture}"));
        std::fs::create_dir(&root).expect("ours");
        stdout(
            Command::new("tar")
                .args(["--extract", "--gzip", "--directory"])
                .arg(&root)
                .arg("--file")
                .arg(layer),
        );
        let listed = stdout(
            Command::new("find").current_dir(&root).args([".", "-type", "f", "-printf", "%m %p\n"]),
        );
        let mut files: Vec<&str> = listed.lines().collect();
        files.sort_unstable();
        assert_eq!(
            files,
            [
                "644 ./usr/share/doc/bedplate/LICENSE-APACHE",
                "644 ./usr/share/doc/bedplate/LICENSE-MIT",
                "755 ./usr/bin/bedplate",
            ]
        );
        let own = std::fs::read(root.join("usr/bin/bedplate")).expect("a program");
        assert!(own == std::fs::read(directory.path().join(machine)).expect("ours"));
    }
}
