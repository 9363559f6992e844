//! Meaning of kernel log messages for GPUDirect: one table with one pattern per message, below the file that prints it.
//! A recognised line is rebuilt from the kernel's own words, addresses, names and numbers. Nothing else of a log is
//! retained, shown or recorded. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use bedplate_base::Recovery;
use bedplate_base::kernel_prefix::is_prefix;
use bedplate_base::mask::is_name;
use bedplate_base::value::PciAddress;
use bedplate_cmdline::rejected_argument;
use bedplate_host::KernelLog;

mod messages;
#[cfg(test)]
mod tests;
pub mod xid;

use messages::{EVENT, EVENT_RECORD, MESSAGES, MessagePattern, Part};

/// Meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MessageKind {
    /// VT-d or AMD-Vi was initialised.
    IommuUp,
    /// `intel_iommu=on` was parsed. Does not prove that there is an IOMMU.
    IommuRequested,
    /// The firmware describes its IOMMU incorrectly.
    IommuFirmware,
    /// The previous kernel left the IOMMU on, and this kernel copied its tables (kexec).
    IommuCopied,
    /// The IOMMU rejected a function's DMA.
    DmaFault,
    /// A module was built for another kernel, or another ib_core.
    WrongBuild,
    /// A module was rejected: blacklisted, or without a signature that Secure Boot accepts.
    NotAllowed,
    /// A module does not know one of its configured parameters.
    WrongParameter,
    /// NVIDIA's libraries and kernel modules have different versions.
    ApiMismatch,
    /// The driver did not bind a GPU.
    NotTaken,
    /// nvidia_peermem reported an error.
    Peermem,
    /// A GPU no longer answers on the bus.
    OffTheBus,
    /// A GPU reported an error (Xid).
    Xid,
    /// An NVSwitch reported an error that its links survive.
    Switch,
    /// An NVSwitch reported an error that ends the jobs of the GPUs below it.
    SwitchFatal,
    /// A PCIe transaction was lost; the link is still reliable.
    Uncorrected,
    /// A PCIe link is no longer reliable.
    Fatal,
    /// A port disconnected the devices below it, to contain an error.
    Contained,
    /// The link of a slot went down.
    LinkDown,
    /// An error was recovered, or a device was reset successfully.
    Recovered,
    /// A driver was loaded or bound a device.
    Bound,
}

impl MessageKind {
    /// Returns the recovery action that the message alone implies.
    pub fn recovery(self) -> Recovery {
        match self {
            MessageKind::OffTheBus => Recovery::PowerCycle,
            MessageKind::NotTaken
            | MessageKind::ApiMismatch
            | MessageKind::Fatal
            | MessageKind::Contained
            | MessageKind::SwitchFatal => Recovery::Reboot,
            MessageKind::Xid | MessageKind::LinkDown => Recovery::Drain,
            _ => Recovery::None,
        }
    }
}

/// Recovery actions as worded by Xid 154 (open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/gpu/gpu.c). The
/// driver also prints the return to `(None)`.
const ACTIONS: [(Recovery, &str); 6] = [
    (Recovery::Reboot, "Recover IMEX Domain"),
    (Recovery::ResetGpu, "GPU Reset Required"),
    (Recovery::Reboot, "Node Reboot Required"),
    (Recovery::Drain, "Drain P2P"),
    (Recovery::ResetGpu, "Drain and Reset"),
    (Recovery::None, "(None)"),
];

/// Names of SMMU events (drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c, `event_str`).
const EVENTS: [&str; 13] = [
    "C_BAD_STREAMID",
    "F_STE_FETCH",
    "C_BAD_STE",
    "F_STREAM_DISABLED",
    "C_BAD_SUBSTREAMID",
    "F_CD_FETCH",
    "C_BAD_CD",
    "F_TRANSLATION",
    "F_ADDR_SIZE",
    "F_ACCESS",
    "F_PERMISSION",
    "F_VMS_FETCH",
    "UNKNOWN",
];
/// Text in place of the device, if no driver uses its stream.
const NO_CLIENT: &str = "(unassigned sid)";
/// Text in place of the name of a device other than a PCI function: the name may identify the host.
const PLATFORM: &str = "(platform device)";

/// Recognised content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMessage {
    /// Meaning.
    pub kind: MessageKind,
    /// Function in the message.
    pub function: Option<PciAddress>,
    /// Module in the message, as /sys/module spells it.
    pub module: Option<String>,
    /// Number of an Xid or SXid.
    pub number: Option<u32>,
    /// Version of the NVIDIA program that mismatches the loaded module.
    pub version: Option<String>,
    /// Recovery action that the GPU requests by name.
    pub action: Option<Recovery>,
    /// The redacted line: only the kernel's own words.
    pub text: String,
}

/// Classifies a line. Returns `None` for an unknown message.
pub fn classify(line: &str) -> Option<KernelMessage> {
    MESSAGES.iter().find_map(|pattern| pattern.match_line(line))
}

/// Returns the modules that messages in the log complain about.
pub fn modules(log: &KernelLog) -> BTreeSet<String> {
    log.lines.iter().filter_map(|line| classify(&line.text)?.module).collect()
}

/// Returns the redacted form of a recognised line, including rejected kernel arguments.
pub fn redacted_line(line: &str) -> Option<String> {
    let rejection = rejected_argument::parse(line).map(|parts| parts.to_string());
    rejection.or_else(|| classify(line).map(|message| message.text))
}

impl MessagePattern {
    fn match_line(&self, line: &str) -> Option<KernelMessage> {
        let (before, rest) = line.split_once(self.text)?;
        if self.before != Part::Name && !is_prefix(before) {
            return None;
        }
        let mut message = KernelMessage {
            kind: self.kind,
            function: None,
            module: None,
            number: None,
            version: None,
            action: None,
            text: self.text.to_owned(),
        };
        match self.before {
            Part::Function => {
                let at = addresses(before).last()?;
                message.function = Some(at);
                message.text.insert_str(0, &format!("{at}: "));
            }
            Part::Name => {
                let name = before.strip_prefix("Module ").unwrap_or(before);
                let name = Some(name).filter(|name| is_name(name))?;
                message.module = Some(name.replace('-', "_"));
                message.text.insert_str(0, name);
            }
            _ => {}
        }
        match self.after {
            Part::End if !rest.trim_end().is_empty() => return None,
            Part::Nothing | Part::End => {}
            Part::Function => {
                let at = addresses(rest).next()?;
                message.function = Some(at);
                message.text.push_str(&at.to_string());
            }
            Part::Name => {
                let name = word(rest, |c| c.is_ascii_alphanumeric() || "_-.".contains(c))?;
                message.text.push_str(name);
            }
            Part::Number => {
                let number = word(rest, |c| c.is_ascii_digit() || c == '.')?;
                message.version =
                    (self.kind == MessageKind::ApiMismatch).then(|| number.to_owned());
                message.text.push_str(number);
            }
            Part::Reset => {
                let number = word(rest, |c| c.is_ascii_digit())?;
                rest[number.len()..]
                    .trim_end()
                    .strip_prefix(") succeeded!")
                    .filter(|rest| rest.is_empty())?;
                message.text.push_str(&format!("{number}) succeeded!"));
            }
            Part::Xid => message.xid(rest)?,
            Part::SXid => message.sxid(rest)?,
            Part::Error => message.text.push_str(rest.find("ERROR").map(|_| "ERROR")?),
            Part::EventNumber => message.event_number(rest)?,
            Part::Event => message.event(rest)?,
        }
        Some(message)
    }
}

impl KernelMessage {
    /// Parses `0000:18:00): 79, …`: stores function and number, and returns them with the text from the number on.
    fn numbered<'r>(&mut self, rest: &'r str) -> Option<(PciAddress, u32, &'r str)> {
        let (at, rest) = rest.split_once("): ")?;
        let at = addresses(at).next()?;
        let number = word(rest, |c| c.is_ascii_digit())?.parse().ok()?;
        (self.function, self.number) = (Some(at), Some(number));
        Some((at, number, rest))
    }

    /// Parses `0000:18:00): 79, pid=…`.
    fn xid(&mut self, rest: &str) -> Option<()> {
        let (at, number, rest) = self.numbered(rest)?;
        self.kind = match number {
            xid::OFF_THE_BUS => MessageKind::OffTheBus,
            number if xid::is_of_a_program(number) => return None,
            _ => MessageKind::Xid,
        };
        self.text.push_str(&format!("{at}): {number}"));
        let has = |word| rest.split(|c: char| !c.is_alphanumeric()).any(|one| one == word);
        if xid::OF_NVLINK5.contains(&number) && has("Nonfatal") && !has("Fatal") {
            self.action = Some(Recovery::None);
            self.text.push_str(", Nonfatal");
        }
        // `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`
        if number == xid::ACTION {
            let (action, words) = ACTIONS.iter().find(|(_, words)| {
                rest.rsplit_once(" to ").is_some_and(|(_, to)| to.contains(words))
            })?;
            self.action = Some(*action);
            if *action == Recovery::None {
                self.kind = MessageKind::Recovered;
            }
            self.text.push_str(&format!(", GPU recovery action changed to ({words})"));
        }
        Some(())
    }

    /// Parses `0000:ab:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error`.
    fn sxid(&mut self, rest: &str) -> Option<()> {
        let (at, number, rest) = self.numbered(rest)?;
        let is_fatal = rest.contains(", Fatal");
        self.kind = if is_fatal { MessageKind::SwitchFatal } else { MessageKind::Switch };
        let severity = if is_fatal { "Fatal" } else { "Non-fatal" };
        self.text.push_str(&format!("{at}): {number}, {severity}"));
        Some(())
    }

    /// Parses `10 received:`.
    fn event_number(&mut self, rest: &str) -> Option<()> {
        let number = word(rest, |c| c.is_ascii_hexdigit())?;
        if rest[number.len()..].trim_end() != " received:" {
            return None;
        }
        self.text.push_str(&format!("{number} received:"));
        Some(())
    }

    /// Parses `F_TRANSLATION client: 0009:01:00.0 sid: 0x10000 …`, also with a platform device (`fc900000.iommu`).
    fn event(&mut self, rest: &str) -> Option<()> {
        let (name, client) = rest.split_once(" client: ")?;
        let name = EVENTS.iter().find(|event| **event == name)?;
        let other = [NO_CLIENT, PLATFORM].into_iter().find(|other| client.starts_with(*other));
        let is_whole = client.contains(" sid: 0x");
        self.function = addresses(client.split(' ').next()?).next().filter(|_| other.is_none());
        let client = match (self.function, other) {
            (Some(at), _) => at.to_string(),
            (None, Some(other)) => other.to_owned(),
            (None, None) if is_whole => PLATFORM.to_owned(),
            (None, None) => return None,
        };
        self.text.push_str(&format!("{name} client: {client}"));
        Some(())
    }

    /// Whether this is the record of an SMMU event. The record does not name the device.
    pub fn is_event_record(&self) -> bool {
        self.text.starts_with(EVENT_RECORD)
    }

    /// Whether this is the line with the device of an SMMU event. Linux 6.14 and later print it after the record.
    pub fn is_named_event(&self) -> bool {
        self.text.starts_with(EVENT)
    }

    /// Whether this is an SMMU event of a device other than a PCI function, which carries no GPUDirect traffic.
    pub fn is_platform_event(&self) -> bool {
        self.is_named_event() && self.text.ends_with(PLATFORM)
    }

    /// Returns the recovery action for this message: the GPU's own request, else that of the Xid, else that of the kind.
    pub fn recovery(&self) -> Recovery {
        match (self.kind, self.action, self.number.and_then(xid::find)) {
            (_, Some(action), _) => action,
            (MessageKind::Xid | MessageKind::OffTheBus, None, Some(xid)) => xid.recovery,
            (kind, ..) => kind.recovery(),
        }
    }
}

/// Returns the leading characters that satisfy `is_such`, up to 64. An empty, longer or identifying text is not a word.
fn word(text: &str, is_such: impl Fn(char) -> bool) -> Option<&str> {
    let word = &text[..text.find(|c| !is_such(c)).unwrap_or(text.len())];
    (!word.is_empty() && word.len() <= 64 && bedplate_base::mask::identity::places(word).is_empty())
        .then_some(word)
}

/// Returns the PCI functions in a text. A device without a function number means function 0.
fn addresses(text: &str) -> impl Iterator<Item = PciAddress> {
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || ":.".contains(c)));
    words.filter_map(|word| {
        let word = word.trim_matches([':', '.']);
        let device = || (word.matches(':').count() == 2).then(|| format!("{word}.0"))?.parse().ok();
        word.parse().ok().or_else(device)
    })
}
