//! Why a step of an apply or a revert has failed.

use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::EswitchMode;
use bedplate_host::{ToolEnd, WriteError, package_lock};

/// Why something was not done, or is not as it was to be.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// What is there cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A saved content cannot be used.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The ledger cannot be written as JSON.
    #[error("the ledger has no text form")]
    LedgerText(#[source] serde_json::Error),
    /// Which boot of the kernel this is does not show.
    #[error("cannot tell which boot this is")]
    BootId(#[source] ReadError),
    /// Others have changed it since, and their work is not overwritten.
    #[error("{subject} has changed since the plan was made (it holds {found}): plan again")]
    Changed {
        /// File, attribute or register.
        subject: String,
        /// What it holds.
        found: String,
    },
    /// Others made or removed it meanwhile.
    #[error("{path} came or went while it was looked at: plan again")]
    CameOrWent {
        /// The file.
        path: String,
    },
    /// A file or attribute does not read as it was written.
    #[error("{subject} reads back otherwise than it was written")]
    NotAsWritten {
        /// Its path.
        subject: String,
    },
    /// An attribute took a value and shows another.
    #[error("{path} reads {now:?} after {written:?} was written to it")]
    AttributeIgnored {
        /// The attribute.
        path: String,
        /// Input.
        now: String,
        /// Written content.
        written: String,
    },
    /// The part of config space that can be read ends too early: unprivileged readers see 64 bytes.
    #[error("config space of {address} ends before offset {offset:#x}: run as root")]
    ConfigTooShort {
        /// The function.
        address: PciAddress,
        /// The register's offset.
        offset: u16,
    },
    /// Bits of a register that the hardware does not change.
    #[error(
        "{subject} reads {now:#06x} after {written:#06x} was written: the hardware does not let bits {stuck:#06x} go"
    )]
    HardWired {
        /// The register.
        subject: String,
        /// Input.
        now: u16,
        /// Written content.
        written: u16,
        /// Those bits.
        stuck: u16,
    },
    /// What was to be so afterwards is not so.
    #[error("{0}")]
    CheckFailed(String),
    /// Whether it is so could not be found out.
    #[error("cannot tell: {0}")]
    CheckUnknown(String),
    /// A module that was to be unloaded is there.
    #[error("module {module} is still loaded")]
    StillLoaded {
        /// The module.
        module: String,
    },
    /// Loading and unloading are not undone.
    #[error("it was {was}, and is left as it is now")]
    ModuleStays {
        /// What it was before.
        was: &'static str,
    },
    /// No such driver for VFs.
    #[error("there is no PCI driver {driver}: modprobe {driver} first")]
    NoDriver {
        /// Its name.
        driver: String,
    },
    /// A PF has fewer VFs than it was given.
    #[error("VF {number} of {pf} is missing")]
    NoVf {
        /// Which VF, from 0.
        number: u16,
        /// The PF.
        pf: PciAddress,
        /// Why it is not found.
        source: ReadError,
    },
    /// A VF has got another driver meanwhile: what has bound it uses it.
    #[error("VF {vf} is bound to {driver}: plan again")]
    VfTaken {
        /// The VF.
        vf: String,
        /// Its driver.
        driver: String,
    },
    /// Taken from its driver, a VF would stay without one.
    #[error(
        "VF {vf} would not get its driver back: sriov_drivers_autoprobe of {pf} is 0; write 1 to it, then run again"
    )]
    NotProbed {
        /// The VF.
        vf: String,
        /// The PF.
        pf: PciAddress,
    },
    /// A VF did not get its driver.
    #[error(
        "VF {vf} has {} after it was given to {driver}",
        bound.as_ref().map_or("no driver".to_owned(), |bound| format!("driver {bound}"))
    )]
    NotBound {
        /// The VF.
        vf: String,
        /// The driver that it was to have.
        driver: String,
        /// The one that it has.
        bound: Option<String>,
    },
    /// The kernel has no such VF of an interface.
    #[error("the kernel does not list {vf}")]
    NotListed {
        /// PF and VF.
        vf: String,
    },
    /// Attributes of a VF do not read as they were set.
    #[error("{vf} does not read back as it was set: {left}")]
    NotAsSet {
        /// PF and VF.
        vf: String,
        /// What is still to be set.
        left: String,
    },
    /// VFs are set by way of their PF's interface.
    #[error("{pf} has no network interface here")]
    NoInterface {
        /// The PF.
        pf: PciAddress,
    },
    /// A PF gave no answer in time: what else is asked of it would wait as well.
    #[error("not tried: {pf} did not answer in time, and may still be at it")]
    Silent {
        /// The PF.
        pf: PciAddress,
    },
    /// Devlink knows no eswitch of this function.
    #[error("the driver of {pf} has no eswitch")]
    NoEswitch {
        /// The PF.
        pf: PciAddress,
    },
    /// An eswitch took a mode and has another.
    #[error("the eswitch of {pf} is in mode {now} after it was set to {to}")]
    EswitchIgnored {
        /// The PF.
        pf: PciAddress,
        /// Its mode.
        now: EswitchMode,
        /// The one that was set.
        to: EswitchMode,
    },
    /// A driver refuses, or does not do what it was asked.
    #[error("driver {driver}")]
    Driver {
        /// Its name.
        driver: String,
        /// What it says, or what was found.
        source: Box<StepError>,
    },
    /// An image has no such tool.
    #[error(
        "{program} is not installed in the image: install its package there, or apply without --chroot-tools and run \
         {program} in the image build"
    )]
    NotInImage {
        /// Its name.
        program: String,
    },
    /// Tools of the boot configuration wait for package managers.
    #[error("{}", package_lock::reason(lock))]
    PackageManager {
        /// The lock that one holds.
        lock: &'static str,
    },
    /// The saved content of a file is not restored.
    #[error("{path} stays as it is: {what}; if that is yours, copy it by hand from {blob}")]
    Commands {
        /// The file.
        path: String,
        /// Reason.
        what: &'static str,
        /// The saved content.
        blob: String,
    },
    /// A tool did not succeed.
    #[error("{}: {end}", argv.join(" "))]
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// How it ended.
        end: ToolEnd,
        /// The end of its output.
        output: String,
    },
    /// An image that a failed change has rewritten still has the new arguments.
    #[error("it may hold the new arguments: cannot make it again")]
    NotRemade {
        /// Why not.
        source: Box<StepError>,
    },
    /// The same, because the file that it is made from was absent before the change.
    #[error("it may hold the new arguments: {path} was absent before, so it cannot be made again")]
    NoSource {
        /// The file that the change had made.
        path: String,
    },
    /// A tool did not succeed, and a file that it makes could not be put back either.
    #[error("{tool}; and {path} could not be put back")]
    NotPutBack {
        /// Why the tool did not succeed.
        tool: Box<StepError>,
        /// The file.
        path: String,
        /// Why it could not be put back.
        source: Box<StepError>,
    },
}

impl StepError {
    /// The end of the tool's output, if it was a tool that failed.
    pub fn output(&self) -> Option<&str> {
        match self {
            StepError::Tool { output, .. } => Some(output),
            StepError::NotPutBack { tool, .. } => tool.output(),
            _ => None,
        }
    }
}

/// Why a saved content is not used.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Others could have written it.
    #[error("the saved content is not used")]
    Untrusted(#[source] ReadError),
    /// It cannot be read.
    #[error("the saved content is lost")]
    Lost(#[source] ReadError),
    /// It is not what its name says.
    #[error("the saved content {path} is damaged")]
    Damaged {
        /// The file that holds it.
        path: String,
    },
}

impl ContentError {
    /// Remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            ContentError::Untrusted(_) => {
                "look at what was saved; if it is right, run that command and revert again"
            }
            ContentError::Lost(_) | ContentError::Damaged { .. } => {
                "restore the file from a backup or its package, then revert again"
            }
        }
    }
}
