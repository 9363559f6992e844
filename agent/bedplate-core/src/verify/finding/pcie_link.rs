//! PCIe links.

use serde::Serialize;

use super::{Device, FindingText, named, text};
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::pcie_link;

/// A finding about a PCIe link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LinkCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum PcieLinkFinding {
    /// A link uses fewer lanes than both of its ends have.
    LinkNarrow {
        /// Device below the link.
        device: Device,
        /// Lanes in use, if known.
        lanes: Option<u32>,
        /// Lanes that both ends have, if known.
        best: Option<u32>,
    },
    /// A link runs slower than both of its ends support.
    LinkSlow {
        /// Device below the link.
        device: Device,
        /// Speed in tenths of GT/s, if known.
        speed: Option<u32>,
        /// Speed that both ends support, in tenths of GT/s, if known.
        best: Option<u32>,
    },
    /// A slot has fewer lanes than its card.
    SlotNarrow {
        /// Cards.
        functions: Vec<PciAddress>,
    },
    /// A slot is slower than its card.
    SlotSlow {
        /// Cards.
        functions: Vec<PciAddress>,
    },
    /// Transactions were lost since boot, or many were sent again.
    AerErrors {
        /// The function that counted them.
        device: Device,
        /// Fatal errors.
        fatal: u64,
        /// Non-fatal uncorrected errors.
        nonfatal: u64,
        /// Corrected errors.
        corrected: u64,
    },
}

impl PcieLinkFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::LinkNarrow { device, lanes, best } => text(
                "fewer lanes than both ends of the link have",
                of_best(device, *lanes, *best, |lanes| format!("x{lanes}")),
                "power the host off, reseat the card and its riser or cable. If it persists, the slot or the card is bad",
            )
            .recovery(Recovery::Drain),
            Self::LinkSlow { device, speed, best } => text(
                "the link runs slower than both ends support",
                of_best(device, *speed, *best, pcie_link::in_words),
                "check `dmesg | grep -i 'limited by'`, reseat the card and its riser or cable, and check the firmware setup \
                 for a speed limit of the slot",
            )
            .recovery(Recovery::Drain),
            Self::SlotNarrow { functions } => text(
                "the slot has fewer lanes than the card",
                named(functions, "links"),
                "move the card to a wider slot, or check the slot's bifurcation in the firmware setup",
            ),
            Self::SlotSlow { functions } => text(
                "the slot is slower than the card",
                named(functions, "links"),
                "move the card to a faster slot, or check the firmware setup for a speed limit of the slot",
            ),
            Self::AerErrors { device, .. } => text(
                "PCIe errors since boot",
                device,
                "check `dmesg | grep -i AER` for the kind, reseat the card or its riser, check cables and retimers",
            )
            .recovery(Recovery::Drain),
        }
    }
}

/// Formats a device and its link: `mlx5_6 0000:5d:00.0 (x8 of x16)`.
fn of_best(
    device: &Device,
    now: Option<u32>,
    best: Option<u32>,
    words: impl Fn(u32) -> String,
) -> String {
    let shown = |number: Option<u32>| number.map_or("?".to_owned(), &words);
    format!("{device} ({} of {})", shown(now), shown(best))
}
