//! `packaging/integrations`: the files shipped for schedulers and monitoring work and are valid for their consumers.

mod bundle;
mod image;
mod kubernetes;
mod manifests;
mod monitoring;
mod pod;
mod provisioning;
mod slurm;
mod slurm_real;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Path of a shipped file.
fn shipped(file: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/integrations")).join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(shipped(file)).expect("it is shipped")
}

/// Reads a YAML file of one document as JSON.
fn yaml(file: &str) -> serde_json::Value {
    serde_saphyr::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Reads the documents of a YAML text as JSON.
fn documents(text: &str) -> Vec<serde_json::Value> {
    text.split("\n---\n").map(bedplate_tests::fixtures::document).collect()
}

/// Writes a program from a shell script.
fn fake(directory: &Path, name: &str, script: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("ours");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// The overview lists every file, by its path or its directory.
#[test]
fn overview_lists_every_file() {
    let overview = text("README.md");
    for file in [
        "kubernetes/kubelet.conf",
        "kubernetes/node-problem-detector-host.json",
        "kubernetes/node-problem-detector-gpudirect.json",
        "kubernetes/node-readiness-rules.yaml",
        "kubernetes/gpu-operator-values.yaml",
        "kubernetes/kured-values.yaml",
        "kubernetes/kustomization.yaml",
        "kubernetes/unprivileged",
        "kubernetes/snapshot.yaml",
        "kubernetes/profile.toml",
        "bedplate-condition",
        "slurm/slurm.conf",
        "bedplate-health",
        "bedplate-prolog",
        "bedplate-reboot",
        "prometheus/bedplate.rules.yml",
        "bedplate.test.yml",
        "dashboard.json",
        "cloud-init/bedplate.yaml",
        "role: bedplate",
    ] {
        assert!(overview.contains(file), "{file}");
    }
}
