//! Messages of the kernel log.

use serde::Serialize;

use super::{Device, FindingText, text};
use bedplate_base::Recovery;
use bedplate_facts::kernel_log::{MessageKind, xid};

const ON_THE_WAY: &str = "reseat the card or its riser, check cables, power and temperature; `dmesg` and the BMC's event log have more";

/// A finding about the kernel log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LogCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LogFinding {
    /// The kernel log has a recognised message.
    Logged {
        /// Type of the message.
        sign: MessageKind,
        /// Device that the message is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<Device>,
        /// Module that the message is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        module: Option<String>,
        /// Number of the Xid or SXid.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// Number of such messages.
        lines: usize,
        /// Time of the first message, in milliseconds since the boot.
        first: u64,
        /// Whether a later line, or the present state, shows that the fault is over.
        over: bool,
        /// Recovery action.
        recovery: Recovery,
    },
}

impl LogFinding {
    pub(super) fn text(&self) -> FindingText {
        let Self::Logged { sign, device, module, number, lines, first, over, recovery } = self;
        let device = device.as_ref().map(Device::to_string);
        let subject = device.or_else(|| module.clone());
        let subject = subject.unwrap_or_else(|| "the NVIDIA driver".to_owned());
        let xid = number.and_then(xid::find).filter(|xid| xid.number != xid::OFF_THE_BUS);
        let number = match (number, xid) {
            (Some(number), Some(xid)) => format!("Xid {number}, {}; ", xid.means),
            (Some(number), None)
                if matches!(sign, MessageKind::Switch | MessageKind::SwitchFatal) =>
            {
                format!("SXid {number}; ")
            }
            (Some(number), None) => format!("Xid {number}; "),
            (None, _) => String::new(),
        };
        let since = if *lines > 1 { format!("{lines} lines since") } else { "at".to_owned() };
        let text = text(
            logged(*sign, *over),
            format!("{subject} ({number}{since} {}.{:03} s)", first / 1000, first % 1000),
            remedy(*sign, *over || !is_severe(*sign, *recovery)),
        );
        text.recovery(if *over { Recovery::None } else { *recovery })
    }
}

/// Describes a message of the kernel log, without its subject.
fn logged(sign: MessageKind, over: bool) -> &'static str {
    match (sign, over) {
        (MessageKind::OffTheBus, false) => "fell off the bus",
        (MessageKind::OffTheBus, true) => {
            "fell off the bus, and has been taken by its driver since"
        }
        (MessageKind::Xid, false) => "reported an error of its own",
        (MessageKind::Xid, true) => "reported an error of its own, and has been reset since",
        (MessageKind::Switch | MessageKind::SwitchFatal, _) => "reported an error of its own",
        (MessageKind::Fatal | MessageKind::Uncorrected | MessageKind::Contained, false) => {
            "uncorrected PCIe errors"
        }
        (MessageKind::Fatal | MessageKind::Uncorrected | MessageKind::Contained, true) => {
            "uncorrected PCIe errors, recovered from"
        }
        (MessageKind::LinkDown, false) => "the link below went down",
        (MessageKind::LinkDown, true) => "the link below went down, and is up again",
        (MessageKind::NotTaken, false) => "did not take a GPU",
        (MessageKind::NotTaken, true) => "did not take a GPU at first",
        (MessageKind::ApiMismatch, false) => "libraries and kernel modules of different versions",
        (MessageKind::ApiMismatch, true) => {
            "libraries of another version, before this one was loaded"
        }
        (MessageKind::WrongBuild, _) => {
            "refused by the kernel: built for another kernel or another ib_core"
        }
        (MessageKind::KeptOut, _) => "not let in: blacklisted, or not signed for Secure Boot",
        (MessageKind::Peermem, _) => "nvidia_peermem reports errors",
        (MessageKind::WrongParameter, _) => "does not know a parameter that it was given",
        (
            MessageKind::IommuUp
            | MessageKind::IommuAsked
            | MessageKind::IommuFirmware
            | MessageKind::IommuCopied
            | MessageKind::DmaFault
            | MessageKind::Recovered
            | MessageKind::Bound,
            _,
        ) => "in the kernel's log",
    }
}

/// Whether a message with this recovery action leaves a device unusable until the fault is over.
pub(crate) fn is_severe(sign: MessageKind, recovery: Recovery) -> bool {
    match sign {
        MessageKind::OffTheBus
        | MessageKind::NotTaken
        | MessageKind::ApiMismatch
        | MessageKind::SwitchFatal
        | MessageKind::Fatal
        | MessageKind::Contained
        | MessageKind::LinkDown => true,
        MessageKind::Xid => recovery >= Recovery::ResetGpu,
        _ => false,
    }
}

/// Returns the remedy for a message. `is_minor`: it left everything usable, or the fault is over.
fn remedy(sign: MessageKind, is_minor: bool) -> &'static str {
    match sign {
        MessageKind::OffTheBus if is_minor => "if it happens again, reseat or replace the GPU",
        MessageKind::Xid if is_minor => {
            "no job has to leave the host for it; reset the GPU when the host is free (`nvidia-smi --gpu-reset`), and replace it if the \
             number comes again"
        }
        MessageKind::OffTheBus => {
            "drain the node and power-cycle it; if it happens again, reseat or replace the GPU"
        }
        MessageKind::Xid => {
            "NVIDIA's \"Xid Errors\" says what the number means; `nvidia-smi -q` has counters; drain the node and reset the GPU \
             (`nvidia-smi --gpu-reset`) or reboot where it fails"
        }
        MessageKind::Switch | MessageKind::SwitchFatal => {
            "NVIDIA's Fabric Manager guide says what the number means; after a fatal one drain the node and reboot it"
        }
        MessageKind::NotTaken => {
            "`dmesg | grep NVRM` has the reason: another driver holds it, the driver is too old for it, or it does not answer; then \
             reboot"
        }
        MessageKind::WrongBuild => {
            "build it for the running kernel (`dkms autoinstall -k $(uname -r)`), or install the package for it; for nvidia_peermem \
             install DOCA-OFED before the NVIDIA driver, or use DMA-BUF, which needs no module"
        }
        MessageKind::KeptOut => {
            "take it out of `module_blacklist=`; sign the modules and enrol the key (`mokutil --import`)"
        }
        MessageKind::ApiMismatch => {
            "reboot, or stop every user of the GPUs and load the new modules; in containers use the host's libraries"
        }
        MessageKind::Peermem => {
            "`dmesg | grep nvidia-peermem`; use DMA-BUF where driver and kernel allow it (`bedplate verify --check modules.gpudirect`)"
        }
        MessageKind::WrongParameter => {
            "take the parameter out of modprobe.d or off the command line: it does nothing"
        }
        _ => ON_THE_WAY,
    }
}
