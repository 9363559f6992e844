//! Programs that set up NVLink.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DeviceKind, Words};
use crate::facts::imex;

/// A finding about programs that set up NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum FabricCode {
    /// NVSwitches that no fabric manager has set up.
    FabricManagerDown {
        /// NVSwitches, or the GPUs of a board where PCI shows none.
        kind: DeviceKind,
        /// How many there are.
        count: usize,
    },
    /// A board of B200 or B300 whose subnet manager of NVLink does not run.
    NvlsmDown {
        /// How many GPUs it has.
        gpus: usize,
    },
    /// IMEX is set up, and does not run.
    ImexDown,
    /// The list of an IMEX domain names this host never, or more than once.
    ImexNodes {
        /// The list.
        path: String,
        /// How often.
        times: usize,
    },
    /// IMEX is set up, and there is no channel by which a job could use it.
    NoImexChannel,
}

impl Words for FabricCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            FabricCode::FabricManagerDown { .. } => {
                "no fabric manager runs, so that CUDA starts no program (error 802)"
            }
            FabricCode::NvlsmDown { .. } => {
                "NVLSM does not run, which the fabric manager needs for these GPUs, so that CUDA starts no program (error 802)"
            }
            FabricCode::ImexDown => "set up, and does not run",
            FabricCode::ImexNodes { times: 0, .. } => "does not name this host",
            FabricCode::ImexNodes { .. } => "names this host more than once",
            FabricCode::NoImexChannel => "no such device node",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            FabricCode::FabricManagerDown { kind: DeviceKind::NvSwitch, count } => {
                plural(*count, "NVSwitch", "NVSwitches")
            }
            FabricCode::FabricManagerDown { count, .. } | FabricCode::NvlsmDown { gpus: count } => {
                plural(*count, "GPU", "GPUs")
            }
            FabricCode::ImexDown => "IMEX".to_owned(),
            FabricCode::ImexNodes { path, .. } => path.clone(),
            FabricCode::NoImexChannel => format!("{}/channel0", imex::CHANNELS),
        }
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
