//! Coverage of the hardware inventory: a plan may report no changes only for items that were read. Absent, unreadable
//! and unrecorded are three different states. Pure.

use std::collections::BTreeMap;

use crate::kind::some_of;
use crate::plan::{KindId, KindPlan};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_host::HostKind;

const KIND: KindId = KindId::Host;
/// Maximum number of functions listed by address.
const NAMED: usize = 4;

/// Notes a host without GPUs, because most profile settings then have no effect. Reports unreadable devices as unknown,
/// once each.
pub(crate) fn report(facts: &Facts, body: &mut KindPlan) {
    let note = |text: String| KIND.note("GPUs", text);
    match &facts.pci {
        Reading::Known(tree) => {
            let unread = unread(tree, body);
            let gpu = tree.functions.values().any(Function::is_gpu);
            if !gpu && !unread {
                body.notes.push(note(format!(
                    "no GPU among the {} PCI functions of this host: ACS and per-GPU VF settings have no effect",
                    tree.functions.len()
                )));
            }
            partly(tree, body);
        }
        Reading::Absent | Reading::Unknown(_) if facts.host == HostKind::Image => {
            body.notes.push(note(
                "an image has no PCI devices; ports and VFs are detected on the machine that runs it".into(),
            ));
        }
        Reading::Absent => body.notes.push(note(
            "no PCI devices on this host (/sys/bus/pci/devices is missing): ACS and VF settings have no effect"
                .into(),
        )),
        // Resource types that need the PCI tree report this reason themselves.
        Reading::Unknown(reason) if body.unknowns.iter().all(|one| one.reason != **reason) => {
            let subject = "PCI functions".to_owned();
            body.unknowns.push(KIND.unknown(subject, reason.to_string()));
        }
        Reading::Unknown(_) => {}
    }
}

/// Reports functions with an unreadable class: any of them may be a GPU.
fn unread(tree: &PciTree, body: &mut KindPlan) -> bool {
    let gaps = tree.unread();
    let Some(first) = gaps.first() else { return false };
    let named = some_of(gaps.iter().map(|gap| gap.address.to_string()), NAMED, "functions");
    body.unknowns.push(KIND.unknown(
        format!("PCI function {named}"),
        format!(
            "{} of {} PCI functions are unreadable, and may be GPUs or NICs: {}",
            gaps.len(),
            tree.functions.len() + gaps.len(),
            of_any(&first.reason, first.address)
        ),
    ));
    true
}

/// Reports partly unreadable GPUs and NICs, grouped by reason.
fn partly(tree: &PciTree, body: &mut KindPlan) {
    let mut reasons: BTreeMap<String, Vec<PciAddress>> = BTreeMap::new();
    for gap in &tree.gaps {
        let matters = tree.get(gap.address).is_some_and(|one| one.is_gpu() || one.is_nic());
        if matters {
            reasons.entry(of_any(&gap.reason, gap.address)).or_default().push(gap.address);
        }
    }
    for (reason, functions) in reasons {
        let named = some_of(functions.iter().map(PciAddress::to_string), NAMED, "functions");
        body.unknowns.push(KIND.unknown(format!("PCI function {named}"), reason));
    }
}

/// Returns `reason` with `*` in place of the address, so that equal reasons of several functions match.
fn of_any(reason: &str, address: PciAddress) -> String {
    reason.replace(&address.to_string(), "*")
}
