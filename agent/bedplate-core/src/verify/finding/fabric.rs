//! Programs that set up NVLink.

use bedplate_base::{counted, counted_as};
use serde::Serialize;

use super::{DeviceKind, FindingText, text};
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
    /// The fabric manager is installed, but has ended or was never started.
    Stopped,
}

/// A finding about programs that set up NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "FabricCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum FabricFinding {
    /// No fabric manager has set up the NVSwitches.
    FabricManagerDown {
        /// NVSwitches, or the GPUs of a board if PCI shows no NVSwitch.
        kind: DeviceKind,
        /// Number of devices.
        count: usize,
        /// Cause.
        cause: FabricCause,
    },
    /// The NVLink subnet manager (NVLSM) of a B200 or B300 board does not run.
    NvlsmDown {
        /// Number of GPUs on the board.
        gpus: usize,
        /// Cause.
        cause: FabricCause,
    },
    /// IMEX is set up, but does not run.
    ImexDown,
    /// The list of an IMEX domain names this host never, or more than once.
    ImexNodes {
        /// Path of the list.
        path: String,
        /// Number of entries for this host.
        times: usize,
    },
    /// IMEX is set up, but has no channel for jobs.
    NoImexChannel,
}

impl FabricFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::FabricManagerDown { kind, count, cause } => text(
                "no fabric manager runs: CUDA starts no program (error 802)",
                match kind {
                    DeviceKind::NvSwitch => counted_as(*count, "NVSwitch", "NVSwitches"),
                    _ => counted(*count, "GPU"),
                },
                start_manager(*cause, *kind == DeviceKind::Gpu),
            ),
            Self::NvlsmDown { gpus, cause } => text(
                "NVLSM, which the fabric manager needs for these GPUs, does not run: CUDA starts no program (error 802)",
                counted(*gpus, "GPU"),
                start_manager(*cause, true),
            ),
            Self::ImexDown => text(
                "set up, but not running",
                "IMEX",
                "run `systemctl enable --now nvidia-imex`; `journalctl -u nvidia-imex` shows why it ended",
            ),
            Self::ImexNodes { path, times } => text(
                match times {
                    0 => "does not name this host",
                    _ => "names this host more than once",
                },
                path,
                "put one address of each tray into it, the same list on all trays, then restart nvidia-imex",
            ),
            Self::NoImexChannel => text(
                "no such device node",
                format!("{}/channel0", imex::CHANNELS),
                "set NVreg_CreateImexChannel0=1 for the nvidia module in /etc/modprobe.d, or create the node at boot",
            ),
        }
    }
}

/// Returns the fix that starts the fabric manager. `needs_nvlsm`: the NVSwitches are behind a ConnectX-7.
fn start_manager(cause: FabricCause, needs_nvlsm: bool) -> String {
    let start = "run `systemctl enable --now nvidia-fabricmanager`";
    match cause {
        FabricCause::NotInstalled => {
            let also = if needs_nvlsm { " and nvlsm" } else { "" };
            format!("install nvidia-fabricmanager in the driver's version{also}, then {start}")
        }
        FabricCause::NoUmad => format!(
            "run `modprobe ib_umad`, which NVLSM needs ({UMAD} is not there), add a line `ib_umad` in /etc/modules-load.d, \
             then run `systemctl restart nvidia-fabricmanager`"
        ),
        FabricCause::Masked => {
            format!("run `systemctl unmask nvidia-fabricmanager` (unit is masked), then {start}")
        }
        FabricCause::Stopped => format!(
            "{start}; `journalctl -u nvidia-fabricmanager` shows why it ended, most often a version other than the driver's"
        ),
    }
}
