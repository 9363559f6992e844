//! `[match]`: the machines that a profile is for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::section::{
    Checked, Checker, Entry, Pattern, Printer, Reason, Spanned, section, toml_text,
};
use bedplate_base::value::{NotAValue, PciId};
use bedplate_base::{Arch, CpuVendor};

/// Word in place of conditions.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MatchWord {
    /// Extends the shipped profile that fits the hardware best.
    Auto,
}

section! {
    /// `[match]`: every given condition must hold; more conditions are a better match.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "match" Match, MatchFile {
        /// Vendor of the CPU.
        #[schemars(example = &"intel", extend("x-source" = "/proc/cpuinfo vendor_id; CPU implementer on Arm"))]
        cpu_vendor: CpuVendor;

        /// Processor architecture.
        #[schemars(example = &"aarch64", extend("x-source" = "uname(2) machine"))]
        arch: Arch;

        /// Shell pattern for the DMI system vendor; case-insensitive.
        #[schemars(example = &"Supermicro*", extend("x-source" = "/sys/class/dmi/id/sys_vendor"))]
        sys_vendor: String as Checked<Pattern>;

        /// Shell pattern for the DMI product name; case-insensitive.
        #[schemars(example = &"DGXH100*", extend("x-source" = "/sys/class/dmi/id/product_name"))]
        product_name: String as Checked<Pattern>;
    }
    special read_pci {
        /// Required PCI functions. A later file replaces the whole list.
        pci: Spanned<Vec<MatchPciEntry>>;
    }
    after {
        /// Required PCI ids with their counts.
        pci: Vec<MatchPci>;
    }
    show show_pci;
}

/// An entry of `[[match.pci]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatchPci {
    /// Functions with any of these ids are counted.
    pub ids: Vec<PciIdPair>,
    /// Minimum number of functions.
    pub at_least: u32,
    /// Maximum number of functions.
    pub at_most: Option<u32>,
}

/// A PCI vendor with one of its devices, or with all of them: `10de:2330`, `10de:*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciIdPair {
    /// Vendor id.
    pub vendor: PciId,
    /// Device id; `None`: any.
    pub device: Option<PciId>,
}

impl fmt::Display for PciIdPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(f, "{}:{device}", self.vendor),
            None => write!(f, "{}:*", self.vendor),
        }
    }
}

impl FromStr for PciIdPair {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let parse = || {
            let (vendor, device) = text.split_once(':')?;
            let device = if device == "*" { None } else { Some(device.parse().ok()?) };
            Some(PciIdPair { vendor: vendor.parse().ok()?, device })
        };
        parse().ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "a pair of PCI ids such as 10de:2330 or 10de:*",
        })
    }
}

impl Serialize for PciIdPair {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An entry of `[[match.pci]]`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchPciEntry {
    /// `vendor:device` in hexadecimal, `vendor:*` for any device; a list counts functions with any of its ids. Virtual
    /// functions are not counted.
    #[cfg_attr(feature = "schemars", schemars(example = &"10de:2330", extend("x-source" = "/sys/bus/pci/devices/*/{vendor,device}; pci.ids")))]
    pub id: Spanned<Entry<PciIdText, PciIds>>,

    /// Minimum number of functions.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1), extend("default" = 1), example = 8))]
    pub at_least: Option<u32>,

    /// Maximum number of functions. Default: no limit.
    #[cfg_attr(feature = "schemars", schemars(example = 8))]
    pub at_most: Option<Spanned<u32>>,
}

/// A pair of PCI ids.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub(crate) struct PciIdText(
    /// `vendor:device` in hexadecimal, `vendor:*` for any device.
    #[cfg_attr(
        feature = "schemars",
        schemars(regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}:((0x)?[0-9A-Fa-f]{1,4}|\*)$"))
    )]
    pub String,
);

// No doc comment: it would appear in the schema, which describes the pairs.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub(crate) struct PciIds(
    #[cfg_attr(feature = "schemars", schemars(length(min = 1)))] pub Vec<Spanned<PciIdText>>,
);

fn read_pci(section: &mut Match, files: Vec<MatchFile>, checker: &mut Checker<'_>) {
    for list in files.into_iter().filter_map(|file| file.pci) {
        checker.note("match.pci", list.place, Reason::NONE);
        let entries = list.value.into_iter();
        section.pci = entries.filter_map(|entry| match_pci(checker, entry)).collect();
    }
}

fn match_pci(checker: &mut Checker<'_>, entry: MatchPciEntry) -> Option<MatchPci> {
    let texts = match entry.id.value {
        Entry::Short(id) => vec![Spanned { value: id, place: entry.id.place }],
        Entry::Long(ids) => ids.0,
    };
    let given = texts.len();
    let ids = texts.into_iter().map(|id| Spanned { value: id.value.0, place: id.place });
    let ids: Vec<_> = ids.filter_map(|id| checker.parse(&id, "bad-pci-id")).collect();
    let at_least = entry.at_least.unwrap_or(1);
    if let Some(at_most) = entry.at_most.as_ref().filter(|at_most| at_most.value < at_least) {
        let message = "`at_most` is less than `at_least`";
        let label = format!("`at_least` is {at_least}");
        checker.error(at_most.place, "empty-range", message, label, None);
        return None;
    }
    let at_most = entry.at_most.map(|at_most| at_most.value);
    (ids.len() == given).then_some(MatchPci { ids, at_least, at_most })
}

fn show_pci(conditions: &Match, out: &mut Printer<'_>) {
    if conditions.pci.is_empty() {
        return;
    }
    out.line("pci = [", None);
    for pci in &conditions.pci {
        let most = pci.at_most.map(|most| format!(", at_most = {most}")).unwrap_or_default();
        let entry =
            format!("  {{ id = {}, at_least = {}{most} }},", toml_text(&pci.ids), pci.at_least);
        out.line(&entry, Some("match.pci"));
    }
    out.line("]", None);
}
