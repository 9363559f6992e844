//! Result of a comparison with the host, and the comparison of CPU affinity for both formats. Pure.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::library::Library;
use bedplate_base::Reading;
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::{Topology, cpulist};

/// Maximum number of differences reported.
const MOST_FINDINGS: usize = 512;

/// Host to compare with.
#[derive(Debug, Clone, Copy)]
pub struct HostValue<'h, 'a> {
    /// PCI topology.
    pub topology: &'h Topology<'a>,
    /// GPUs, NICs and disks.
    pub devices: &'h Devices<'a>,
    /// CPUs of its NUMA nodes.
    pub placement: &'h Placement,
    /// Library for its GPUs.
    pub library: Library,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Subject.
    pub about: String,
    /// Value in the file.
    pub file: String,
    /// Value in sysfs, or the consequence.
    pub here: String,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComparisonResult {
    /// Differences.
    pub findings: Vec<Finding>,
    /// Number of statements in the file that agree.
    pub agreeing: usize,
    /// Number of statements that sysfs cannot confirm.
    pub unknown: usize,
    /// GPUs and nets missing from an NCCL topology; NCCL adds them from sysfs.
    pub added: Vec<String>,
    /// Number of NICs in a matrix that its legend does not name, so that they cannot be identified.
    pub unnamed: usize,
}

impl ComparisonResult {
    /// Records one statement of the file: whether it agrees, its subject, and the values in file and sysfs.
    pub(super) fn check(
        &mut self,
        agrees: bool,
        about: impl Display,
        file: impl Display,
        here: impl Display,
    ) {
        if agrees {
            self.agreeing += 1;
            return;
        }
        // A file of another host differs in everything.
        if self.findings.len() >= MOST_FINDINGS {
            return;
        }
        let [about, file, here] = [about.to_string(), file.to_string(), here.to_string()];
        let finding = Finding { about, file, here };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// Compares the CPUs that a file gives for a node.
pub(super) fn affinity_of(
    here: HostValue,
    node: i32,
    cpus: Option<BTreeSet<u32>>,
    about: &str,
    compared: &mut ComparisonResult,
) {
    let of = |node| match here.placement.node_cpus.get(&node) {
        Some(Reading::Known(list)) => cpulist::of_list(list),
        _ => None,
    };
    let (Some(said), Some(own)) = (cpus, of(node)) else {
        compared.unknown += 1;
        return;
    };
    let whose = here.placement.node_cpus.keys().find(|other| of(**other).as_ref() == Some(&said));
    let whose = whose.map(|other| format!(" (those of node {other})")).unwrap_or_default();
    let cpus = |cpus| format!("CPUs {}", cpulist::list(cpus));
    compared.check(said == own, about, cpus(&said) + &whose, cpus(&own));
}
