//! Input of [`step`](super::step) at one moment; the host is read elsewhere.

use jiff::{SignedDuration, Timestamp};

use super::state::Veto;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::model::{Reboot, RebootMethod};

/// Facts from logind, PID 1 and small files, read quickly.
#[derive(Debug, Clone)]
pub(crate) struct FastFacts {
    /// Time of reading.
    pub now: Timestamp,
    /// Id of this boot.
    pub boot_id: String,
    /// Type and time of the shutdown scheduled with logind; `Err` if logind cannot be asked.
    pub schedule: Result<Option<(String, u64)>, Veto>,
    /// Whether logind or PID 1 is shutting down. Read after `schedule`: logind drops a schedule when another shutdown starts.
    pub goes_down: bool,
    /// When this userspace started, by PID 1; `None` if unknown. A soft-reboot starts another one in the same boot.
    pub userspace: Option<u64>,
    /// Vetoes from small files: an operator's hold, a kernel loaded for kexec.
    pub vetoes: Vec<Veto>,
    /// When the reboot was last seen at logind.
    pub last_ours: Option<Timestamp>,
    /// Reason of the last failed effect; no further effect is tried until facts without it are read.
    pub failed: Option<Veto>,
}

/// The profile's settings, the observation, and facts that take time.
#[derive(Debug, Clone)]
pub(crate) struct SlowFacts<'a> {
    /// Reboot that the pending changes need.
    pub need: RebootNeed,
    /// Hash of the pending changes; the same before a boot and after a boot that did not apply them.
    pub plan: &'a str,
    /// Whether changes must still be written before a boot would help.
    pub unfinished: bool,
    /// Whether any of these changes takes effect only at a boot.
    pub planned: bool,
    /// Whether the kernel was booted with all requested arguments and does not honor them: another boot would not help.
    pub refused: bool,
    /// Whether IOMMU passthrough is among the pending changes.
    pub passthrough: bool,
    /// Subject of the reboot, for the wall message.
    pub subject: String,
    /// `[reboot]`.
    pub settings: &'a Reboot,
    /// An operator's pause of enforcement; `None` if an operator requested the reboot.
    pub pause: Option<Veto>,
    /// Vetoes in addition to those of [`FastFacts`]: busy devices, a busy command, a record that a boot erases.
    pub vetoes: Vec<Veto>,
    /// Block inhibitors, by owner and reason.
    pub inhibitors: Vec<String>,
    /// Duration for which inhibitors have existed.
    pub inhibited_for: SignedDuration,
    /// The first method of the profile that works.
    pub method: Option<RebootMethod>,
    /// Soundness of the next boot entry.
    pub entry: NextBoot,
    /// Whether `entry` was read for this decision. An older reading must not lead to a scheduled reboot.
    pub fresh: bool,
    /// Whether another build takes over: nothing could be observed.
    pub replaced: bool,
}
