//! Messages of the kernel's log.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Device, Words};
use crate::kernel_log::{Sign, xid};
use crate::recovery::Recovery;

/// A finding about the kernel's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LogCode {
    /// The kernel's log has a message that means something.
    Logged {
        /// Its meaning.
        sign: Sign,
        /// The device that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<Device>,
        /// The module that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        module: Option<String>,
        /// The number of an Xid or SXid.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// How many lines say so.
        lines: usize,
        /// When the first did, in milliseconds since the boot.
        first: u64,
        /// Whether a later line, or what is there now, says that it is over.
        over: bool,
        /// Recovery action.
        recovery: Recovery,
    },
}

impl Words for LogCode {
    fn says(&self) -> Cow<'static, str> {
        let LogCode::Logged { sign, over, .. } = self;
        logged(*sign, *over).into()
    }

    fn subject(&self) -> String {
        let LogCode::Logged { sign, device, module, number, lines, first, .. } = self;
        let device = device.as_ref().map(Device::to_string);
        let subject = device.or_else(|| module.clone());
        let subject = subject.unwrap_or_else(|| "the NVIDIA driver".to_owned());
        let xid = number.and_then(xid::find).filter(|xid| xid.number != xid::OFF_THE_BUS);
        let number = match (number, xid) {
            (Some(number), Some(xid)) => format!("Xid {number}, {}; ", xid.means),
            (Some(number), None) if matches!(sign, Sign::Switch | Sign::SwitchFatal) => {
                format!("SXid {number}; ")
            }
            (Some(number), None) => format!("Xid {number}; "),
            (None, _) => String::new(),
        };
        let since = if *lines > 1 { format!("{lines} lines since") } else { "at".to_owned() };
        format!("{subject} ({number}{since} {}.{:03} s)", first / 1000, first % 1000)
    }

    fn recovery(&self) -> Recovery {
        match self {
            LogCode::Logged { over: true, .. } => Recovery::None,
            LogCode::Logged { recovery, .. } => *recovery,
        }
    }
}

/// A message of the kernel's log in words, without its subject.
fn logged(sign: Sign, over: bool) -> &'static str {
    match (sign, over) {
        (Sign::OffTheBus, false) => "fell off the bus",
        (Sign::OffTheBus, true) => "fell off the bus, and has been taken by its driver since",
        (Sign::Xid, false) => "reported an error of its own",
        (Sign::Xid, true) => "reported an error of its own, and has been reset since",
        (Sign::Switch | Sign::SwitchFatal, _) => "reported an error of its own",
        (Sign::Fatal | Sign::Uncorrected | Sign::Contained, false) => "uncorrected PCIe errors",
        (Sign::Fatal | Sign::Uncorrected | Sign::Contained, true) => {
            "uncorrected PCIe errors, recovered from"
        }
        (Sign::LinkDown, false) => "the link below went down",
        (Sign::LinkDown, true) => "the link below went down, and is up again",
        (Sign::NotTaken, false) => "did not take a GPU",
        (Sign::NotTaken, true) => "did not take a GPU at first",
        (Sign::ApiMismatch, false) => "libraries and kernel modules of different versions",
        (Sign::ApiMismatch, true) => "libraries of another version, before this one was loaded",
        (Sign::WrongBuild, _) => {
            "refused by the kernel: built for another kernel or another ib_core"
        }
        (Sign::KeptOut, _) => "not let in: blacklisted, or not signed for Secure Boot",
        (Sign::Peermem, _) => "nvidia_peermem reports errors",
        (Sign::WrongParameter, _) => "does not know a parameter that it was given",
        (
            Sign::IommuUp
            | Sign::IommuAsked
            | Sign::IommuFirmware
            | Sign::IommuCopied
            | Sign::DmaFault
            | Sign::Recovered
            | Sign::Bound,
            _,
        ) => "in the kernel's log",
    }
}
