//! `packaging/integrations`: what is shipped for schedulers and monitoring does what it says, and is what its readers read.

mod kubernetes;
mod monitoring;
mod provisioning;
mod slurm;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// One of the shipped files.
fn shipped(file: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/integrations")).join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(shipped(file)).expect("it is shipped")
}

/// A YAML file of one document, as JSON.
fn yaml(file: &str) -> serde_json::Value {
    serde_saphyr::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A program that does what a shell script says.
fn fake(directory: &Path, name: &str, script: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("ours");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// Every file is in the overview, by its path or by its directory.
#[test]
fn the_overview_names_every_file() {
    let overview = text("README.md");
    for file in [
        "kubernetes/kubelet.conf",
        "kubernetes/node-problem-detector.json",
        "kubernetes/node-readiness-rule.yaml",
        "kubernetes/kured-values.yaml",
        "kubernetes/daemonset.yaml",
        "container/Containerfile",
        "bedplate-condition",
        "slurm/slurm.conf",
        "bedplate-health",
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
