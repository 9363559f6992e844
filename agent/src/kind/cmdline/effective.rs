//! The fourth state: what the kernel makes of its parameters, for the functions that carry GPUDirect traffic.
//! Passthrough is only a default: each IOMMU group has its own type (handbook §1.3, §4). A kernel that was booted with it
//! and translates all the same is a blocker: nothing that can be written here, and no further boot, would change that.

use std::collections::{BTreeMap, BTreeSet};

use super::{NAME, arch, states};
use crate::cmdline::{CommandLine, iommu_passthrough};
use crate::facts::Facts;
use crate::host::{Reader, Reading};
use crate::kind::Context;
use crate::plan::{Blocker, Note, Section, Unknown};
use crate::topology::Topology;
use crate::value::PciAddress;

/// What the blocker of a refusing kernel is about.
pub const SUBJECT: &str = "IOMMU passthrough";
/// Instead of a type, where there is no IOMMU or it does not see the function.
pub const NO_GROUP: &str = "no IOMMU group";
/// Functions that a blocker names before it counts.
const NAMED: usize = 3;

/// One remark on the IOMMU group types of GPUs and NICs, and a blocker where the running kernel was told otherwise.
pub fn report(context: &Context, section: &mut Section) {
    let wanted = &context.desired.cmdline.set;
    let passthrough =
        wanted.iter().any(|arg| matches!(arg.token.as_str(), "iommu=pt" | "iommu.passthrough=1"));
    if !passthrough {
        return;
    }
    let Groups { types, translated, unread, .. } = groups(context.reader, context.facts);
    if !types.is_empty() {
        let said: Vec<String> =
            types.iter().map(|(kind, count)| format!("{count} × {}", meaning(kind))).collect();
        section.notes.push(Note {
            kind: NAME,
            subject: "in effect on GPUs and NICs".into(),
            text: said.join(", "),
        });
    }
    if !translated.is_empty() && told(context) {
        section.blockers.push(refused(&translated, types.values().sum()));
    }
    if unread > 0 {
        section.unknowns.push(Unknown {
            kind: NAME,
            subject: "IOMMU group type".into(),
            reason: format!(
                "not readable for {unread} GPU or NIC functions (old kernels do not show it)"
            ),
        });
    }
}

/// The IOMMU group types of GPUs and NICs.
#[derive(Debug, Default)]
pub struct Groups {
    /// Functions by type, or [`NO_GROUP`].
    pub types: BTreeMap<String, usize>,
    /// Those whose DMA addresses are translated, and that carry GPUDirect traffic: GPUs, NICs that meet one inside a
    /// switch, NICs with an RDMA device. A management port may be translated for all that it matters here.
    pub translated: Vec<PciAddress>,
    /// Whether any function is passed through.
    identity: bool,
    /// Functions whose type cannot be read.
    pub unread: usize,
}

impl Groups {
    /// Whether the kernel translates throughout: what a single group shows may be a single device's affair.
    pub fn all_translated(&self) -> bool {
        !self.translated.is_empty() && !self.identity
    }
}

/// Reads them.
pub fn groups(reader: &dyn Reader, facts: &Facts) -> Groups {
    let mut groups = Groups::default();
    let Some(tree) = facts.pci.known() else { return groups };
    let topology = Topology::new(tree);
    let near: BTreeSet<PciAddress> =
        topology.pairs().iter().flat_map(|pair| topology.nics_in(pair)).collect();
    for function in
        tree.functions.values().filter(|function| function.is_gpu() || function.is_nic())
    {
        let kind = match &function.iommu_group {
            Reading::Known(group) => {
                reader.attribute(&format!("/sys/kernel/iommu_groups/{group}/type")).ok()
            }
            Reading::Absent => Some(NO_GROUP.into()),
            Reading::Unknown(_) => None,
        };
        let Some(kind) = kind else {
            groups.unread += 1;
            continue;
        };
        groups.identity |= kind == "identity";
        let carries = function.is_gpu()
            || !function.infiniband.is_empty()
            || near.contains(&function.address);
        if carries && matches!(kind.as_str(), "DMA" | "DMA-FQ") {
            groups.translated.push(function.address);
        }
        *groups.types.entry(kind).or_default() += 1;
    }
    groups
}

/// Whether the running kernel was booted with passthrough; one that was not is waited for.
fn told(context: &Context) -> bool {
    let Ok(running) = context.reader.text("/proc/cmdline") else { return false };
    let line = CommandLine::parse(running.trim_end());
    // By its line, or by a default that every kernel here has.
    let defaults = states::kernel_defaults(context.reader, context.facts);
    let passes = |defaults| iommu_passthrough(&line, defaults, arch(context.facts)) == Some(true);
    !defaults.is_empty() && defaults.iter().all(passes)
}

fn refused(translated: &[PciAddress], all: usize) -> Blocker {
    let named: Vec<String> = translated.iter().take(NAMED).map(PciAddress::to_string).collect();
    let more = match translated.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Blocker {
        kind: NAME,
        subject: SUBJECT.into(),
        reason: format!(
            "the kernel was booted with it, and {}{more} of {all} GPU and NIC functions are translated all the same",
            named.join(", ")
        ),
        remedy: "look for the cause: something wrote to /sys/kernel/iommu_groups/*/type since the boot (a boot undoes \
                 that), or `journalctl -k -b` tells why the IOMMU cannot pass these devices through"
            .into(),
    }
}

fn meaning(kind: &str) -> String {
    match kind {
        "identity" => "passthrough (identity)".into(),
        "DMA" => "translated, strict (DMA)".into(),
        "DMA-FQ" => "translated, lazy (DMA-FQ)".into(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture::{Files, Machine, at};

    /// A GPU and a NIC below one switch, an RDMA NIC and a management port elsewhere; these groups have these types.
    fn seen(types: [&str; 4]) -> Groups {
        let mut machine = Machine::default();
        machine.root_port("0000:20:00.0", 0);
        let down = machine.switch("0000:20:00.0", "0000:21:00.0", 2);
        machine.gpu("0000:23:00.0", Some(&down[0]));
        machine.nic("0000:24:00.0", Some(&down[1]));
        for (rdma, address) in [(true, "0000:41:00.0"), (false, "0000:01:00.0")] {
            machine.root_port(&address.replace(":00.0", ":1f.0"), 0);
            let nic = machine.nic(address, None);
            nic.infiniband = if rdma { vec!["mlx5_0".into()] } else { Vec::new() };
        }
        let addresses = ["0000:23:00.0", "0000:24:00.0", "0000:41:00.0", "0000:01:00.0"];
        let mut files = Files::default();
        for (number, (address, kind)) in addresses.iter().zip(types).enumerate() {
            machine.get(address).iommu_group = Reading::Known(u32::try_from(number).unwrap());
            files
                .files
                .insert(format!("/sys/kernel/iommu_groups/{number}/type"), format!("{kind}\n"));
        }
        groups(&files, &machine.facts())
    }

    #[test]
    fn a_management_port_may_be_translated() {
        let groups = seen(["identity", "identity", "identity", "DMA-FQ"]);
        assert_eq!((groups.translated.len(), groups.all_translated()), (0, false));
        assert_eq!(groups.types["DMA-FQ"], 1, "it is shown all the same");
    }

    #[test]
    fn what_carries_gpudirect_may_not() {
        let groups = seen(["identity", "DMA", "DMA-FQ", "identity"]);
        assert_eq!(groups.translated, [at("0000:24:00.0"), at("0000:41:00.0")]);
        assert!(!groups.all_translated(), "a device's affair, not the kernel's default");
        assert!(seen(["DMA"; 4]).all_translated());
        let unknown = seen(["unknown"; 4]);
        assert_eq!((unknown.translated.len(), unknown.all_translated()), (0, false));
    }
}
