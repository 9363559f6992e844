//! Recovery actions after a fault.

use serde::Serialize;

/// Recovery actions, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing beyond the remedies: no job has to leave the host for them.
    None,
    /// Take the host out of the scheduler; what follows needs a person.
    Drain,
    /// Drain and reset the GPU (`nvidia-smi --gpu-reset`); on a board with NVSwitches all of them.
    ResetGpu,
    /// Drain and reboot.
    Reboot,
    /// Drain, power off and on.
    PowerCycle,
    /// Drain and replace what is named.
    ReplacePart,
}

impl Recovery {
    /// As JSON spells it.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::None => "none",
            Recovery::Drain => "drain",
            Recovery::ResetGpu => "reset-gpu",
            Recovery::Reboot => "reboot",
            Recovery::PowerCycle => "power-cycle",
            Recovery::ReplacePart => "replace-part",
        }
    }
}
