//! Result of a comparison with the host, and what both sorts of files say of CPUs. Pure.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::library::Library;
use bedplate_base::Reading;
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::{Topology, cpulist};

/// The host.
#[derive(Debug, Clone, Copy)]
pub struct HostValue<'h, 'a> {
    /// Its tree.
    pub topology: &'h Topology<'a>,
    /// Its devices.
    pub devices: &'h Devices<'a>,
    /// CPUs of its nodes.
    pub placement: &'h Placement,
    /// Library of its GPUs.
    pub library: Library,
}

/// One disagreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Subject.
    pub about: String,
    /// Content of the file.
    pub file: String,
    /// What sysfs says, or what follows.
    pub here: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComparisonResult {
    /// Where they disagree.
    pub findings: Vec<Finding>,
    /// Statements of the file that agree.
    pub agreeing: usize,
    /// Statements about which sysfs knows nothing.
    pub unknown: usize,
    /// GPUs and nets that a topology of NCCL lacks, which NCCL adds as sysfs has them.
    pub added: Vec<String>,
    /// NICs of a matrix that its legend does not name, so that nobody can say which they are.
    pub unnamed: usize,
}

impl ComparisonResult {
    /// One statement of the file: whether it agrees, its subject, what it says, and what sysfs says.
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
        let [about, file, here] = [about.to_string(), file.to_string(), here.to_string()];
        let finding = Finding { about, file, here };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// CPUs that are said to be a node's.
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
    let whose = whose.map(|other| format!(", which are those of node {other}")).unwrap_or_default();
    let cpus = |cpus| format!("CPUs {}", cpulist::list(cpus));
    compared.check(said == own, about, cpus(&said) + &whose, cpus(&own));
}
