//! Messages of the kernel log.

use serde::Serialize;

use super::{Device, FindingText, text};
use bedplate_base::Recovery;
use bedplate_facts::kernel_log::{MessageKind, xid};

const ON_THE_WAY: &str = "reseat the card or its riser, check cables, power and temperature; see `dmesg` and the BMC's event \
                          log";

/// A finding about the kernel log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LogCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LogFinding {
    /// The kernel log has a recognised message.
    Logged {
        /// Type of the message.
        event: MessageKind,
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
        let Self::Logged { event, device, module, number, lines, first, over, recovery } = self;
        let device = device.as_ref().map(Device::to_string);
        let subject = device.or_else(|| module.clone());
        let subject = subject.unwrap_or_else(|| "the NVIDIA driver".to_owned());
        let xid = number.and_then(xid::find).filter(|xid| xid.number != xid::OFF_THE_BUS);
        let number = match (number, xid) {
            (Some(number), Some(xid)) => format!("Xid {number}, {}; ", xid.means),
            (Some(number), None)
                if matches!(event, MessageKind::Switch | MessageKind::SwitchFatal) =>
            {
                format!("SXid {number}; ")
            }
            (Some(number), None) => format!("Xid {number}; "),
            (None, _) => String::new(),
        };
        let since = if *lines > 1 { format!("{lines} lines since") } else { "at".to_owned() };
        let text = text(
            logged(*event, *over),
            format!("{subject} ({number}{since} {}.{:03} s)", first / 1000, first % 1000),
            fix(*event, *over || !is_severe(*event, *recovery)),
        );
        text.recovery(if *over { Recovery::None } else { *recovery })
    }
}

/// Describes a message of the kernel log, without its subject.
fn logged(event: MessageKind, over: bool) -> &'static str {
    match (event, over) {
        (MessageKind::OffTheBus, false) => "fell off the bus",
        (MessageKind::OffTheBus, true) => {
            "fell off the bus, but its driver has bound it again since"
        }
        (MessageKind::Xid, false) => "reported an error of its own",
        (MessageKind::Xid, true) => "reported an error of its own, but has been reset since",
        (MessageKind::Switch | MessageKind::SwitchFatal, _) => "reported an error of its own",
        (MessageKind::Fatal | MessageKind::Uncorrected | MessageKind::Contained, false) => {
            "uncorrected PCIe errors"
        }
        (MessageKind::Fatal | MessageKind::Uncorrected | MessageKind::Contained, true) => {
            "uncorrected PCIe errors, recovered from"
        }
        (MessageKind::LinkDown, false) => "the link below went down",
        (MessageKind::LinkDown, true) => "the link below went down, but is up again",
        (MessageKind::NotTaken, false) => "a GPU was rejected by its driver",
        (MessageKind::NotTaken, true) => "a GPU was rejected by its driver at first",
        (MessageKind::ApiMismatch, false) => "libraries and kernel modules of different versions",
        (MessageKind::ApiMismatch, true) => {
            "libraries of another version, before this one was loaded"
        }
        (MessageKind::WrongBuild, _) => {
            "refused by the kernel: built for another kernel or another ib_core"
        }
        (MessageKind::NotAllowed, _) => "not loaded: blacklisted, or not signed for Secure Boot",
        (MessageKind::Peermem, _) => "nvidia_peermem reports errors",
        (MessageKind::WrongParameter, _) => "unknown module parameter",
        (
            MessageKind::IommuUp
            | MessageKind::IommuRequested
            | MessageKind::IommuFirmware
            | MessageKind::IommuCopied
            | MessageKind::DmaFault
            | MessageKind::Recovered
            | MessageKind::Bound,
            _,
        ) => "in the kernel log",
    }
}

/// Whether a message with this recovery action leaves a device unusable until the fault is over.
pub(crate) fn is_severe(event: MessageKind, recovery: Recovery) -> bool {
    match event {
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

/// Returns the fix for a message. `is_minor`: it left everything usable, or the fault is over.
fn fix(event: MessageKind, is_minor: bool) -> &'static str {
    match event {
        MessageKind::OffTheBus if is_minor => "if it recurs, reseat or replace the GPU",
        MessageKind::Xid if is_minor => {
            "no need to drain the node: reset the GPU when the host is idle (`nvidia-smi --gpu-reset`). If the number \
             recurs, replace the GPU"
        }
        MessageKind::OffTheBus => {
            "drain the node and power-cycle it. If it recurs, reseat or replace the GPU"
        }
        MessageKind::Xid => {
            "look up the number in NVIDIA's \"Xid Errors\" and the counters in `nvidia-smi -q`, drain the node, then reset \
             the GPU (`nvidia-smi --gpu-reset`), or reboot if that fails"
        }
        MessageKind::Switch | MessageKind::SwitchFatal => {
            "look up the number in NVIDIA's Fabric Manager guide. If it is fatal, drain the node and reboot it"
        }
        MessageKind::NotTaken => {
            "check `dmesg | grep NVRM` for the reason (another driver has it, the driver is too old for it, or it does not \
             answer), then reboot"
        }
        MessageKind::WrongBuild => {
            "build it for the running kernel (`dkms autoinstall -k $(uname -r)`), or install its package. For \
             nvidia_peermem, install DOCA-OFED before the NVIDIA driver, or use DMA-BUF, which needs no module"
        }
        MessageKind::NotAllowed => {
            "remove it from `module_blacklist=`, or sign the modules and enrol the key (`mokutil --import`)"
        }
        MessageKind::ApiMismatch => {
            "reboot, or stop all programs that use the GPUs and load the new modules; in containers, use the host's libraries"
        }
        MessageKind::Peermem => {
            "check `dmesg | grep nvidia-peermem`, or use DMA-BUF if driver and kernel support it (`bedplate verify --check \
             modules.gpudirect`)"
        }
        MessageKind::WrongParameter => {
            "remove the parameter from modprobe.d or the command line: it has no effect"
        }
        _ => ON_THE_WAY,
    }
}
