//! Unknown values of the facts with their reasons; equal reasons share one entry.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{clean, wrapped};
use crate::report::style::{FAINT, HEAD, WARN, paint};
use bedplate_base::value::PciAddress;
use bedplate_base::{Cause, Reading, Reason, counted};
use bedplate_facts::pci::Function;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::HostKind;

/// Maximum number of addresses per entry before they are only counted.
const NAMED: usize = 3;

/// Entry under construction: places with the same reason.
#[derive(Default)]
struct Group {
    /// Names of the unknown values: `ACS`, `kernel lockdown` …
    what: BTreeSet<&'static str>,
    /// Affected functions; empty for values of the machine.
    functions: BTreeSet<PciAddress>,
}

/// Unknown values by reason. The function's own address is removed from the reason.
#[derive(Default)]
struct Groups(BTreeMap<(String, Cause), Group>);

impl Groups {
    fn add(&mut self, what: &'static str, function: Option<PciAddress>, why: &Reason) {
        let words = match function {
            Some(address) => why.replace(&address.to_string(), "*"),
            None => why.to_string(),
        };
        let group = self.0.entry((words, why.cause)).or_default();
        group.what.insert(what);
        group.functions.extend(function);
    }

    fn reading<T>(
        &mut self,
        what: &'static str,
        function: Option<PciAddress>,
        reading: &Reading<T>,
    ) {
        // A value that nothing requested is not a gap.
        if let Reading::Unknown(why) = reading
            && why.cause != Cause::NotAsked
        {
            self.add(what, function, why);
        }
    }

    fn machine(&mut self, facts: &Facts) {
        self.reading("architecture", None, &facts.arch);
        self.reading("CPU vendor", None, &facts.cpu.vendor);
        self.reading("CPU model", None, &facts.cpu.model);
        self.reading("CPU family", None, &facts.cpu.family);
        self.reading("online CPUs", None, &facts.cpu.online);
        self.reading("NUMA nodes", None, &facts.cpu.nodes);
        self.reading("memory", None, &facts.memory_bytes);
        self.reading("machine vendor", None, &facts.dmi.sys_vendor);
        self.reading("machine model", None, &facts.dmi.product_name);
        self.reading("board", None, &facts.dmi.board_name);
        self.reading("firmware version", None, &facts.dmi.bios_version);
        self.reading("OS", None, &facts.os.id);
        self.reading("OS version", None, &facts.os.version);
        self.reading("OS name", None, &facts.os.pretty);
        self.reading("kernel", None, &facts.os.kernel);
        self.reading("kernel lockdown", None, &facts.os.lockdown);
        self.reading("active IOMMUs", None, &facts.iommu.active);
        self.reading("IOMMU in firmware", None, &facts.iommu.firmware);
        for (number, kind) in &facts.iommu.groups {
            if let Reading::Unknown(why) = kind {
                let words = why.replace(&format!("/{number}/"), "/*/");
                self.add("IOMMU group type", None, &Reason::new(why.cause, words));
            }
        }
        self.reading("NVIDIA driver", None, &facts.gpu.nvidia);
        self.reading("peer-memory symbols", None, &facts.gpu.peer_memory_symbols);
        self.reading("PCI functions", None, &facts.pci);
        if let BootLoader::Unknown { reason, .. } = &facts.boot {
            self.add("boot loader", None, &reason.as_str().into());
        }
    }

    fn function(&mut self, function: &Function) {
        let at = Some(function.address);
        self.reading("NUMA node", at, &function.numa_node);
        self.reading("IOMMU group", at, &function.iommu_group);
        self.reading("port type", at, &function.port);
        self.reading("ACS", at, &function.acs);
        self.reading("SR-IOV", at, &function.sriov);
        if let Reading::Known(pf) = &function.sriov {
            self.reading("VFs possible", at, &pf.total);
            self.reading("VFs enabled", at, &pf.enabled);
            self.reading("VF device id", at, &pf.vf_device);
            self.reading("VF autoprobe", at, &pf.autoprobe);
        }
        if let Some(detail) = &function.detail {
            self.reading("device control", at, &detail.control);
            self.reading("ATS", at, &detail.ats);
            self.reading("SR-IOV capability", at, &detail.sriov);
        }
    }
}

/// Formats the section; empty if everything could be read.
pub(super) fn section(facts: &Facts) -> String {
    let mut groups = Groups::default();
    groups.machine(facts);
    if let Reading::Known(tree) = &facts.pci {
        tree.functions.values().for_each(|function| groups.function(function));
        tree.gaps.iter().for_each(|gap| groups.add("", Some(gap.address), &gap.reason));
    }
    if groups.0.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", paint(HEAD, "Unknown"));
    for ((words, cause), group) in &groups.0 {
        out.push_str(&line(words, *cause, group, facts.host));
    }
    out
}

/// Formats an entry in two lines: `12 functions: ACS, port type`, and the reason: `/sys/…/*/config cannot be read …:
/// run as root`.
fn line(words: &str, cause: Cause, group: &Group, host: HostKind) -> String {
    let what: Vec<&str> = group.what.iter().copied().filter(|what| !what.is_empty()).collect();
    let mut subject = vec![of_functions(&group.functions), what.join(", ")];
    subject.retain(|part| !part.is_empty());
    let why = format!("{}{}", clean(words), advice(cause, host));
    let subject = wrapped(&subject.join(": ")).replace('\n', "\n  ");
    format!("  {}\n      {}\n", paint(WARN, &subject), paint(FAINT, &why))
}

fn of_functions(functions: &BTreeSet<PciAddress>) -> String {
    let names: Vec<String> = functions.iter().take(NAMED).map(PciAddress::to_string).collect();
    match functions.len() {
        0..=NAMED => names.join(", "),
        more => format!("{} ({} …)", counted(more, "function"), names.join(", ")),
    }
}

/// Returns the fix, if privilege was missing.
fn advice(cause: Cause, host: HostKind) -> &'static str {
    match (cause, host == HostKind::Snapshot) {
        (Cause::Denied, true) => ": record as root",
        (Cause::Denied, false) => ": run as root",
        // The reason ends in `run as root`.
        (Cause::ShortConfig, true) => " when recording",
        _ => "",
    }
}
