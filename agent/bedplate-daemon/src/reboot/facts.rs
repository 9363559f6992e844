//! Everything that counts for a reboot at one moment, as [`step`](super::step) gets it: the host is read elsewhere.

use jiff::{SignedDuration, Timestamp};

use super::state::Veto;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::model::{Reboot, RebootMethod};

/// Facts that logind, PID 1 and small files tell at once.
#[derive(Debug, Clone)]
pub(crate) struct FastFacts {
    /// The moment.
    pub now: Timestamp,
    /// This boot.
    pub boot_id: String,
    /// Kind and time of what logind has scheduled; `Err`: logind cannot be asked.
    pub schedule: Result<Option<(String, u64)>, Veto>,
    /// Whether logind or PID 1 is on its way down. Read after `schedule`: logind forgets a schedule when another shutdown begins.
    pub goes_down: bool,
    /// When this userspace started, by PID 1; `None`: not known. A soft-reboot starts another one in the same boot.
    pub userspace: Option<u64>,
    /// Vetoes that a small file tells: an operator's hold, a kernel loaded for kexec.
    pub vetoes: Vec<Veto>,
    /// When the reboot was last seen at logind.
    pub last_ours: Option<Timestamp>,
    /// Why the last effect failed; nothing more is tried until facts without it come.
    pub failed: Option<Veto>,
}

/// The profile's settings, the observation, and facts that take their time.
#[derive(Debug, Clone)]
pub(crate) struct SlowFacts<'a> {
    /// The reboot that the host waits for.
    pub need: RebootNeed,
    /// Hash of what waits: the same before a boot and after one that did not help.
    pub plan: &'a str,
    /// Whether anything is still to be written before a boot would help.
    pub unfinished: bool,
    /// Whether any of that takes effect only after a boot.
    pub planned: bool,
    /// Whether the kernel was booted with all that was asked for and does not do it: no further boot would help.
    pub refused: bool,
    /// Whether IOMMU passthrough is among what waits.
    pub passthrough: bool,
    /// Subject of the reboot, for the wall message.
    pub subject: String,
    /// `[reboot]`.
    pub settings: &'a Reboot,
    /// An operator's hold on enforcement, where nobody asks for a reboot.
    pub held: Option<Veto>,
    /// Vetoes beside those of [`FastFacts`]: busy devices, a busy command, a record that a boot forgets.
    pub vetoes: Vec<Veto>,
    /// Block inhibitors, by who and why.
    pub inhibitors: Vec<String>,
    /// For how long inhibitors have been there.
    pub inhibited_for: SignedDuration,
    /// The first method of the profile that works.
    pub method: Option<RebootMethod>,
    /// Soundness of the entry that boots next.
    pub entry: NextBoot,
    /// Whether `entry` was read for this decision. Nothing is scheduled on an older reading.
    pub fresh: bool,
    /// Whether another build takes over: nothing could be observed.
    pub replaced: bool,
}
