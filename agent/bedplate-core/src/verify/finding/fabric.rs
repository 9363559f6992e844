//! Programs that set up NVLink.

use std::borrow::Cow;

use bedplate_base::{counted, counted_as};
use serde::Serialize;

use super::{DeviceKind, FindingText};
use bedplate_facts::fabric::UMAD;
use bedplate_facts::imex;

/// Why the programs that set up NVSwitches do not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FabricCause {
    /// The fabric manager is not installed.
    NotInstalled,
    /// ib_umad is not loaded, which NVLSM needs.
    NoUmad,
    /// The fabric manager's unit is masked.
    Masked,
    /// The fabric manager is installed, and has ended or was never started.
    Stopped,
}

/// A finding about programs that set up NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "FabricCode"))]
pub enum FabricFinding {
    /// NVSwitches that no fabric manager has set up.
    FabricManagerDown {
        /// NVSwitches, or the GPUs of a board where PCI shows none.
        kind: DeviceKind,
        /// How many there are.
        count: usize,
        /// Why.
        cause: FabricCause,
    },
    /// A board of B200 or B300 whose subnet manager of NVLink does not run.
    NvlsmDown {
        /// How many GPUs it has.
        gpus: usize,
        /// Why.
        cause: FabricCause,
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

impl FindingText for FabricFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            FabricFinding::FabricManagerDown { .. } => {
                "no fabric manager runs, so that CUDA starts no program (error 802)"
            }
            FabricFinding::NvlsmDown { .. } => {
                "NVLSM does not run, which the fabric manager needs for these GPUs, so that CUDA starts no program (error 802)"
            }
            FabricFinding::ImexDown => "set up, and does not run",
            FabricFinding::ImexNodes { times: 0, .. } => "does not name this host",
            FabricFinding::ImexNodes { .. } => "names this host more than once",
            FabricFinding::NoImexChannel => "no such device node",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            FabricFinding::FabricManagerDown { kind: DeviceKind::NvSwitch, count, .. } => {
                counted_as(*count, "NVSwitch", "NVSwitches")
            }
            FabricFinding::FabricManagerDown { count, .. }
            | FabricFinding::NvlsmDown { gpus: count, .. } => counted(*count, "GPU"),
            FabricFinding::ImexDown => "IMEX".to_owned(),
            FabricFinding::ImexNodes { path, .. } => path.clone(),
            FabricFinding::NoImexChannel => format!("{}/channel0", imex::CHANNELS),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            FabricFinding::FabricManagerDown { kind, cause, .. } => {
                return start_manager(*cause, *kind == DeviceKind::Gpu).into();
            }
            FabricFinding::NvlsmDown { cause, .. } => return start_manager(*cause, true).into(),
            FabricFinding::ImexDown => {
                "`systemctl enable --now nvidia-imex`; `journalctl -u nvidia-imex` says why it ended"
            }
            FabricFinding::ImexNodes { .. } => {
                "put one address of each tray into it, the same list on all of them, and restart nvidia-imex"
            }
            FabricFinding::NoImexChannel => {
                "set NVreg_CreateImexChannel0=1 for the nvidia module in /etc/modprobe.d, or create the node at boot"
            }
        };
        remedy.into()
    }
}

/// `needs_nvlsm`: the NVSwitches are behind a ConnectX-7.
fn start_manager(cause: FabricCause, needs_nvlsm: bool) -> String {
    let start = "`systemctl enable --now nvidia-fabricmanager`";
    match cause {
        FabricCause::NotInstalled => {
            let also = if needs_nvlsm { " and nvlsm" } else { "" };
            format!("install nvidia-fabricmanager in the driver's version{also}, then {start}")
        }
        FabricCause::NoUmad => format!(
            "load ib_umad, which NVLSM needs ({UMAD} is not there): `modprobe ib_umad`, and a line `ib_umad` in \
             /etc/modules-load.d; then `systemctl restart nvidia-fabricmanager`"
        ),
        FabricCause::Masked => {
            format!("its unit is masked: `systemctl unmask nvidia-fabricmanager`, then {start}")
        }
        FabricCause::Stopped => format!(
            "{start}; `journalctl -u nvidia-fabricmanager` says why it ended: most often its version is not the driver's"
        ),
    }
}
