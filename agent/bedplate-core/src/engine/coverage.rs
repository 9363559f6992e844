//! What of the hardware could be seen at all: "nothing to do" may only be said of what was read. Not there, not readable and
//! not recorded are three different things. Pure.

use std::collections::BTreeMap;

use crate::kind::some_of;
use crate::plan::{KindId, KindPlan};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_host::HostKind;

const KIND: KindId = KindId::Host;
/// Functions named before they are only counted.
const NAMED: usize = 4;

/// A machine without a GPU is worth a word: most of what a profile asks for has no subject there. What could not be read
/// is unknown, once.
pub(crate) fn report(facts: &Facts, body: &mut KindPlan) {
    let note = |text: String| KIND.note("GPUs", text);
    match &facts.pci {
        Reading::Known(tree) => {
            let unread = unread(tree, body);
            let gpu = tree.functions.values().any(Function::is_gpu);
            if !gpu && !unread {
                body.notes.push(note(format!(
                    "no GPU among the {} PCI functions of this host: ACS and per-GPU VF counts have nothing to act on",
                    tree.functions.len()
                )));
            }
            partly(tree, body);
        }
        Reading::Absent | Reading::Unknown(_) if facts.host == HostKind::Image => {
            body.notes.push(note(
                "an image has no PCI devices: ports and VFs are found on the machine that runs it".into(),
            ));
        }
        Reading::Absent => body.notes.push(note(
            "this host shows no PCI devices (/sys/bus/pci/devices is not there): ACS and VFs have nothing to act on"
                .into(),
        )),
        // The kinds that need the tree say so themselves.
        Reading::Unknown(reason) if body.unknowns.iter().all(|one| one.reason != **reason) => {
            let subject = "PCI functions".to_owned();
            body.unknowns.push(KIND.unknown(subject, reason.to_string()));
        }
        Reading::Unknown(_) => {}
    }
}

/// Functions of which not even the class is known: any of them may be a GPU.
fn unread(tree: &PciTree, body: &mut KindPlan) -> bool {
    let gaps = tree.unread();
    let Some(first) = gaps.first() else { return false };
    let named = some_of(gaps.iter().map(|gap| gap.address.to_string()), NAMED, "functions");
    body.unknowns.push(KIND.unknown(
        format!("PCI function {named}"),
        format!(
            "{} of {} PCI functions could not be read, and there may be GPUs and NICs among them: {}",
            gaps.len(),
            tree.functions.len() + gaps.len(),
            of_any(&first.reason, first.address)
        ),
    ));
    true
}

/// GPUs and NICs of which something could not be read, by what that is.
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

/// The reason as it is of all functions alike.
fn of_any(reason: &str, address: PciAddress) -> String {
    reason.replace(&address.to_string(), "*")
}
