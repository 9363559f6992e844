//! PCIe links.

use std::borrow::Cow;

use serde::Serialize;

use super::{Device, FindingText, named};
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::pcie_link;

/// A finding about a PCIe link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "LinkCode"))]
pub enum PcieLinkFinding {
    /// A link with fewer lanes than both of its ends have.
    LinkNarrow {
        /// The device below it.
        device: Device,
        /// Lanes; `None`: not known.
        lanes: Option<u32>,
        /// Lanes that both ends have; `None`: not known.
        best: Option<u32>,
    },
    /// A link that runs slower than both of its ends can.
    LinkSlow {
        /// The device below it.
        device: Device,
        /// Tenths of GT/s; `None`: not known.
        speed: Option<u32>,
        /// Tenths of GT/s that both ends can; `None`: not known.
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
    /// Transactions that were lost since boot, or many that were sent again.
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

impl FindingText for PcieLinkFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            PcieLinkFinding::LinkNarrow { .. } => "fewer lanes than both ends of the link have",
            PcieLinkFinding::LinkSlow { .. } => "the link runs slower than both ends can",
            PcieLinkFinding::SlotNarrow { .. } => "the slot has fewer lanes than the card",
            PcieLinkFinding::SlotSlow { .. } => "the slot is slower than the card",
            PcieLinkFinding::AerErrors { .. } => "PCIe errors since boot",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            PcieLinkFinding::LinkNarrow { device, lanes, best } => {
                of_best(device, *lanes, *best, |lanes| format!("x{lanes}"))
            }
            PcieLinkFinding::LinkSlow { device, speed, best } => {
                of_best(device, *speed, *best, pcie_link::in_words)
            }
            PcieLinkFinding::SlotNarrow { functions } | PcieLinkFinding::SlotSlow { functions } => {
                named(functions, "links")
            }
            PcieLinkFinding::AerErrors { device, .. } => device.to_string(),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            PcieLinkFinding::LinkNarrow { .. } => {
                "power the host off, reseat the card and its riser or cable; if it stays, the slot or the card is bad"
            }
            PcieLinkFinding::LinkSlow { .. } => {
                "`dmesg | grep -i 'limited by'`; reseat the card and its riser or cable; look for a speed limit of the slot in the \
                 firmware's setup"
            }
            PcieLinkFinding::SlotNarrow { .. } => {
                "put the card into a wider slot, or look for the slot's bifurcation in the firmware's setup"
            }
            PcieLinkFinding::SlotSlow { .. } => {
                "put the card into a faster slot, or look for a speed limit of the slot in the firmware's setup"
            }
            PcieLinkFinding::AerErrors { .. } => {
                "`dmesg | grep -i AER` names the kind; reseat the card or its riser, check cables and retimers"
            }
        };
        remedy.into()
    }

    fn recovery(&self) -> Recovery {
        match self {
            PcieLinkFinding::LinkNarrow { .. }
            | PcieLinkFinding::LinkSlow { .. }
            | PcieLinkFinding::AerErrors { .. } => Recovery::Drain,
            PcieLinkFinding::SlotNarrow { .. } | PcieLinkFinding::SlotSlow { .. } => Recovery::None,
        }
    }
}

/// `mlx5_6 0000:5d:00.0 (x8 of x16)`.
fn of_best(
    device: &Device,
    now: Option<u32>,
    best: Option<u32>,
    words: impl Fn(u32) -> String,
) -> String {
    let shown = |number: Option<u32>| number.map_or("?".to_owned(), &words);
    format!("{device} ({} of {})", shown(now), shown(best))
}
