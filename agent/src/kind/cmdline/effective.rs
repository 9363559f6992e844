//! The fourth state: what the kernel makes of its parameters, for the functions that carry GPUDirect traffic.
//! Passthrough is only a default: each IOMMU group has its own type (handbook §1.3, §4).

use std::collections::BTreeMap;

use super::NAME;
use crate::host::Reading;
use crate::kind::Context;
use crate::plan::{Note, Section, Unknown};

/// One remark on the IOMMU group types of GPUs and NICs.
pub fn report(context: &Context, section: &mut Section) {
    let wanted = &context.desired.cmdline.set;
    let passthrough =
        wanted.iter().any(|arg| matches!(arg.token.as_str(), "iommu=pt" | "iommu.passthrough=1"));
    let Some(tree) = context.facts.pci.known() else { return };
    if !passthrough {
        return;
    }
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    let mut unread = 0;
    for function in tree.functions.values().filter(|function| function.is_gpu() || function.is_nic()) {
        match &function.iommu_group {
            Reading::Known(group) => {
                let path = format!("/sys/kernel/iommu_groups/{group}/type");
                match context.reader.attribute(&path) {
                    Ok(kind) => *types.entry(kind).or_default() += 1,
                    Err(_) => unread += 1,
                }
            }
            Reading::Absent => *types.entry("no IOMMU group".into()).or_default() += 1,
            Reading::Unknown(_) => unread += 1,
        }
    }
    if !types.is_empty() {
        let said: Vec<String> =
            types.iter().map(|(kind, count)| format!("{count} × {}", meaning(kind))).collect();
        section.notes.push(Note {
            kind: NAME,
            subject: "in effect on GPUs and NICs".into(),
            text: said.join(", "),
        });
    }
    if unread > 0 {
        section.unknowns.push(Unknown {
            kind: NAME,
            subject: "IOMMU group type".into(),
            reason: format!(
                "not readable for {unread} GPU or NIC functions (kernels before 5.11 do not show it)"
            ),
        });
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
