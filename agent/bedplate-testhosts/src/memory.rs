//! Huge pages of each NUMA node, none of them reserved, and one frequency policy for all CPUs.

use super::spec::HostSpec;
use bedplate_base::CpuVendor;
use bedplate_facts::limits::HUGE_PAGES;
use bedplate_host::snapshot::{Node, Snapshot};

/// Adds the files of this many nodes, which share `memory_kib`. `list` names the nodes: `0-1`.
pub(crate) fn nodes(
    spec: &HostSpec,
    (list, count): (&str, u32),
    memory_kib: u64,
    snapshot: &mut Snapshot,
) {
    const NODES: &str = "/sys/devices/system/node";
    let mut put = |path: String, text: &str| snapshot.insert(&path, Node::File(text.into()));
    for name in ["has_cpu", "has_memory"] {
        put(format!("{NODES}/{name}"), list);
    }
    // Sizes by the kernel's own page size (Documentation/arch/arm64/hugetlbpage.rst).
    let sizes = match spec.cpu_vendor() == CpuVendor::Arm && spec.kernel.contains("64k") {
        true => ["2048kB", "524288kB", "16777216kB"].as_slice(),
        false => &["2048kB", "1048576kB"],
    };
    let mut zeros = |directory: String, names: &[&str]| {
        for name in names {
            put(format!("{directory}/{name}"), "0\n");
        }
    };
    for size in sizes {
        let names = ["nr_hugepages", "resv_hugepages", "surplus_hugepages"];
        zeros(format!("{HUGE_PAGES}/hugepages-{size}"), &names);
        for node in 0..count {
            let names = ["nr_hugepages", "free_hugepages", "surplus_hugepages"];
            zeros(format!("{NODES}/node{node}/hugepages/hugepages-{size}"), &names);
        }
    }
    for node in 0..count {
        let total = memory_kib / u64::from(count);
        let text = format!("\nNode {node} MemTotal:       {total} kB\n");
        put(format!("{NODES}/node{node}/meminfo"), &text);
    }
    let policy = "/sys/devices/system/cpu/cpufreq/policy0";
    put(format!("{policy}/scaling_governor"), "performance\n");
    put(format!("{policy}/scaling_available_governors"), "performance powersave \n");
}
