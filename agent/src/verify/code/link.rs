//! PCIe links.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Device, Words};
use crate::recovery::Recovery;
use crate::topology::link;

/// A finding about a PCIe link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LinkCode {
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

impl Words for LinkCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            LinkCode::LinkNarrow { .. } => "fewer lanes than both ends of the link have",
            LinkCode::LinkSlow { .. } => "the link runs slower than both ends can",
            LinkCode::AerErrors { .. } => "PCIe errors since boot",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            LinkCode::LinkNarrow { device, lanes, best } => {
                of_best(device, *lanes, *best, |lanes| format!("x{lanes}"))
            }
            LinkCode::LinkSlow { device, speed, best } => {
                of_best(device, *speed, *best, link::in_words)
            }
            LinkCode::AerErrors { device, .. } => device.to_string(),
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery::Drain
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
