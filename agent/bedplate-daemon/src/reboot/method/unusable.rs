//! Why a reboot method cannot be promised.

use super::MethodError;
use super::ipmi::IpmiError;

/// Why not, and what would help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// What the method needs cannot be read.
    #[error(transparent)]
    Unreadable(#[from] MethodError),
    /// The BMC does not answer as it should.
    #[error(transparent)]
    Bmc(#[from] IpmiError),
    /// An attribute cannot be read.
    #[error("{path}")]
    NotThere {
        /// The attribute.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Nobody can write it.
    #[error("{path} is read-only")]
    ReadOnly {
        /// The attribute.
        path: String,
    },
    /// This process cannot write it.
    #[error(
        "{path} cannot be written ({error}); run as root, outside a container and without ProtectKernelTunables="
    )]
    NotWritable {
        /// The attribute.
        path: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A directory or attribute that the method works with is missing.
    #[error("{path} is missing: {why}")]
    Missing {
        /// Which.
        path: &'static str,
        /// What that means.
        why: &'static str,
    },
    /// An attribute has a value that it does not take.
    #[error("{path} reads `{found}`, which could not be put back if the reboot is cancelled")]
    NoUndo {
        /// The attribute.
        path: &'static str,
        /// Its value.
        found: String,
    },
    /// CAP_SYS_BOOT is missing.
    #[error(
        "writing {path} needs CAP_SYS_BOOT: run as root, and leave it in CapabilityBoundingSet="
    )]
    NoCapability {
        /// The attribute that needs it.
        path: &'static str,
    },
    /// Whether CAP_SYS_BOOT is there is not known.
    #[error("whether this process has CAP_SYS_BOOT is unknown: {path} does not say")]
    CapabilityUnknown {
        /// What should say it.
        path: &'static str,
    },
    /// A part of bedplate that works at the end of the shutdown.
    #[error("{path} is not installed or not executable; reinstall the package")]
    NotInstalled {
        /// The file.
        path: &'static str,
    },
    /// The BMC is another machine's, or has no say in the power.
    #[error(
        "the BMC says that the power is off while this machine runs: it does not control this machine's power"
    )]
    ForeignBmc,
    /// The power may not come back.
    #[error(
        "the BMC reports a power fault, so the machine might not come back; see `ipmitool chassis status`"
    )]
    PowerFault,
    /// Only an operator knows whether the clock wakes the machine.
    #[error(
        "the profile does not say that the firmware wakes the machine by its clock, and nothing else can; without it \
            the host would stay off"
    )]
    WakesUnknown,
    /// The alarm would come too early or too late.
    #[error(
        "the alarm would ring {after_s} s after the power-off is asked for; give it {least} to {most} s"
    )]
    AlarmTime {
        /// Seconds to it.
        after_s: u32,
        /// The fewest allowed.
        least: u32,
        /// The most allowed.
        most: u32,
    },
    /// The kernel does not let the clock wake the machine.
    #[error("the clock may not wake the machine: {path} reads `{found}`, not `enabled`")]
    WakeDisabled {
        /// The attribute.
        path: &'static str,
        /// Its value.
        found: String,
    },
    /// Whether the kernel lets the clock wake the machine cannot be read.
    #[error("the clock may not wake the machine")]
    WakeUnreadable(#[source] MethodError),
    /// Others have set the alarm.
    #[error(
        "an alarm is set already ({path} reads `{found}`); clear it with `echo 0 > {path}` if nothing needs it"
    )]
    AlarmSet {
        /// The attribute.
        path: &'static str,
        /// Its value.
        found: String,
    },
    /// No command was given.
    #[error("the profile names no command")]
    NoCommand,
    /// A command without a word.
    #[error("the command in the profile is empty")]
    EmptyCommand,
    /// The daemon's PATH is not the operator's: a name alone may be another program.
    #[error("the command `{program}` must be named by its absolute path")]
    NotAbsolute {
        /// The program.
        program: String,
    },
    /// A timeout of 0.
    #[error("the command `{program}` has no time to run; its timeout must be one second or more")]
    NoTime {
        /// The program.
        program: String,
    },
    /// Nothing to run.
    #[error("the command `{program}` is not there, or is not an executable file")]
    NotExecutable {
        /// The program.
        program: String,
    },
}
