//! What lines of the kernel's log mean for GPUDirect: one table, a pattern a message, below the file that prints it. A line is
//! taken apart and put together again from the kernel's own words, addresses, names and numbers: nothing else of a log is
//! kept, shown or recorded. Pure.

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

use messages::{MESSAGES, MessagePattern, Part};

/// What a message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "Sign"))]
pub enum MessageKind {
    /// VT-d or AMD-Vi was brought up.
    IommuUp,
    /// `intel_iommu=on` was read. Says nothing of whether there is an IOMMU.
    IommuAsked,
    /// The firmware describes its IOMMU wrongly.
    IommuFirmware,
    /// A kernel before this one left the IOMMU on, and its tables were taken over (kexec).
    IommuCopied,
    /// The IOMMU refused a function's DMA.
    DmaFault,
    /// A module was built for another kernel, or another ib_core.
    WrongBuild,
    /// A module was not let in: blacklisted, or not signed as Secure Boot wants it.
    KeptOut,
    /// A module does not know a parameter that it was given.
    WrongParameter,
    /// NVIDIA's libraries and kernel modules are of different versions.
    ApiMismatch,
    /// The driver did not take a GPU.
    NotTaken,
    /// nvidia_peermem could not do its work.
    Peermem,
    /// A GPU no longer answers on the bus.
    OffTheBus,
    /// A GPU reported an error of its own.
    Xid,
    /// An NVSwitch reported an error after which its links work on.
    Switch,
    /// An NVSwitch reported an error that ends the jobs of the GPUs below.
    SwitchFatal,
    /// A PCIe transaction was lost, and the link is as reliable as before.
    Uncorrected,
    /// A PCIe link is no longer reliable.
    Fatal,
    /// A port cut off what is below it, to contain an error.
    Contained,
    /// The link of a slot went down.
    LinkDown,
    /// An error was recovered from, or a device was reset and works on.
    Recovered,
    /// A driver was loaded, or took a device.
    Bound,
}

impl MessageKind {
    /// The recovery action, as far as the message tells.
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

/// Recovery actions in the words of Xid 154 (open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/gpu/gpu.c). That it asks
/// for nothing is printed as well, once it is over.
const ACTIONS: [(Recovery, &str); 6] = [
    (Recovery::Reboot, "Recover IMEX Domain"),
    (Recovery::ResetGpu, "GPU Reset Required"),
    (Recovery::Reboot, "Node Reboot Required"),
    (Recovery::Drain, "Drain P2P"),
    (Recovery::ResetGpu, "Drain and Reset"),
    (Recovery::None, "(None)"),
];

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMessage {
    /// Meaning.
    pub kind: MessageKind,
    /// The function that it is about.
    pub function: Option<PciAddress>,
    /// The module that it is about, as /sys/module spells it.
    pub module: Option<String>,
    /// The number of an Xid or SXid.
    pub number: Option<u32>,
    /// The version that a program of NVIDIA's has, where another one is loaded.
    pub version: Option<String>,
    /// The recovery that a GPU asks for in words.
    pub action: Option<Recovery>,
    /// The line, of the kernel's own words.
    pub text: String,
}

/// Meaning of a line; `None`: nothing here.
pub fn classify(line: &str) -> Option<KernelMessage> {
    MESSAGES.iter().find_map(|pattern| pattern.match_line(line))
}

/// Modules that a log complains of.
pub fn modules(log: &KernelLog) -> BTreeSet<String> {
    log.lines.iter().filter_map(|line| classify(&line.text)?.module).collect()
}

/// Of a line what is kept: of one that means something here, and of a rejection of an argument.
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
            Part::Nothing => {}
            Part::End if !rest.trim_end().is_empty() => return None,
            Part::End => {}
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
        }
        Some(message)
    }
}

impl KernelMessage {
    /// Takes the function and the number of `0000:18:00): 79, …`, and returns them with the text from the number on.
    fn numbered<'r>(&mut self, rest: &'r str) -> Option<(PciAddress, u32, &'r str)> {
        let (at, rest) = rest.split_once("): ")?;
        let at = addresses(at).next()?;
        let number = word(rest, |c| c.is_ascii_digit())?.parse().ok()?;
        (self.function, self.number) = (Some(at), Some(number));
        Some((at, number, rest))
    }

    /// `0000:18:00): 79, pid=…`.
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

    /// `0000:ab:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error`.
    fn sxid(&mut self, rest: &str) -> Option<()> {
        let (at, number, rest) = self.numbered(rest)?;
        let is_fatal = rest.contains(", Fatal");
        self.kind = if is_fatal { MessageKind::SwitchFatal } else { MessageKind::Switch };
        let severity = if is_fatal { "Fatal" } else { "Non-fatal" };
        self.text.push_str(&format!("{at}): {number}, {severity}"));
        Some(())
    }

    /// Recovery action.
    pub fn recovery(&self) -> Recovery {
        match (self.kind, self.action, self.number.and_then(xid::find)) {
            (_, Some(action), _) => action,
            (MessageKind::Xid | MessageKind::OffTheBus, None, Some(xid)) => xid.recovery,
            (kind, ..) => kind.recovery(),
        }
    }
}

/// The characters at the start that are such; none is no word, nor is anything longer than a name.
fn word(text: &str, is_such: impl Fn(char) -> bool) -> Option<&str> {
    let word = &text[..text.find(|c| !is_such(c)).unwrap_or(text.len())];
    (!word.is_empty() && word.len() <= 64 && bedplate_base::mask::identity::places(word).is_empty())
        .then_some(word)
}

/// PCI functions in a text; a device without its function is its function 0.
fn addresses(text: &str) -> impl Iterator<Item = PciAddress> {
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || ":.".contains(c)));
    words.filter_map(|word| {
        let word = word.trim_matches([':', '.']);
        let device = || (word.matches(':').count() == 2).then(|| format!("{word}.0"))?.parse().ok();
        word.parse().ok().or_else(device)
    })
}
