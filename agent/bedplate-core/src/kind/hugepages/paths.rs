//! Paths of huge pages: recorded in snapshots, watched by the daemon.

use super::pool::Pool;
use super::wanted;
use crate::kind::{RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use bedplate_facts::topology::cpulist;

/// Recorded in snapshots.
pub(super) const RECORDED: &[(&str, RecordMode)] = &[
    ("/sys/devices/system/node/has_cpu", RecordMode::Whole),
    ("/sys/devices/system/node/has_memory", RecordMode::Whole),
    ("/sys/devices/system/node/node*/meminfo", RecordMode::Whole),
    ("/sys/devices/system/node/node*/hugepages", RecordMode::Names),
    ("/sys/devices/system/node/node*/hugepages/*/nr_hugepages", RecordMode::Whole),
    ("/sys/devices/system/node/node*/hugepages/*/free_hugepages", RecordMode::Whole),
    ("/sys/devices/system/node/node*/hugepages/*/surplus_hugepages", RecordMode::Whole),
    ("/sys/kernel/mm/hugepages/*/resv_hugepages", RecordMode::Whole),
    ("/sys/kernel/mm/hugepages/*/surplus_hugepages", RecordMode::Whole),
];

/// Paths that this resource type writes.
pub(super) const OWNS: WriteScope = WriteScope {
    attributes: &["/sys/devices/system/node/node*/hugepages/*/nr_hugepages"],
    ..WriteScope::NONE
};

/// Watches the numbers on all nodes that may have one: programs write to them.
pub(super) fn watch(profile: &Profile, facts: &Facts) -> Watch {
    let online = facts.cpu.nodes.known().and_then(|list| cpulist::of_list(list));
    let online: Vec<u16> =
        online.iter().flatten().filter_map(|node| u16::try_from(*node).ok()).collect();
    let attributes = wanted(&profile.hugepages).flat_map(|(node, size, _)| {
        let nodes = node.map_or_else(|| online.clone(), |node| vec![node]);
        nodes.into_iter().map(move |node| Pool { node, size }.path())
    });
    Watch { attributes: attributes.collect(), ..Watch::default() }
}
