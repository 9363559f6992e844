//! Recovery actions after a fault.

use serde::Serialize;

crate::named! {
    /// Recovery actions, from the least to the most.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Recovery {
        /// Nothing beyond the remedies: no job has to leave the host for them.
        None = "none",
        /// Take the host out of the scheduler; what follows needs a person.
        Drain = "drain",
        /// Drain and reset the GPU (`nvidia-smi --gpu-reset`); on a board with NVSwitches all of them.
        ResetGpu = "reset-gpu",
        /// Drain and reboot.
        Reboot = "reboot",
        /// Drain, power off and on.
        PowerCycle = "power-cycle",
        /// Drain and replace what is named.
        ReplacePart = "replace-part",
    }
}
