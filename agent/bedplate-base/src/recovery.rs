//! Recovery actions after a fault.

use serde::{Deserialize, Serialize};

crate::named! {
    /// Recovery actions, in increasing severity.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Recovery {
        /// No more than the fixes, which may include a reboot; also if no action is known.
        #[default]
        None = "none",
        /// Take the host out of the scheduler; the next step requires operator action.
        Drain = "drain",
        /// Drain and reset the GPU (`nvidia-smi --gpu-reset`); on a board with NVSwitches, all GPUs.
        ResetGpu = "reset-gpu",
        /// Drain and reboot.
        Reboot = "reboot",
        /// Drain, power off and on.
        PowerCycle = "power-cycle",
        /// Drain and replace the named part.
        ReplacePart = "replace-part",
    }
}
