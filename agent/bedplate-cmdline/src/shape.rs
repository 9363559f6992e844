//! The table of parameters that are more than "one value, the last one wins": how their values are built, what
//! repeated occurrences do, and which values exclude each other. Every row names its source.
//!
//! A parameter without a row is [`Shape::Scalar`]: true of module parameters (`kernel/params.c`) and of most
//! `__setup`/`early_param` handlers.

mod tables;

use bedplate_base::Arch;

use super::lex::fold_name;
use super::parameter_units::Units;

use tables::{
    ACPI_SLEEP, AMD_IOMMU, EFI, FBCON, INTEL_IOMMU, INTREMAP, IOMMU, ITEMS, MODULE_DYNDBG, PCI,
    REBOOT, REBOOT_CPU, SEQUENCES,
};

/// The parameter that shares one kernel variable with `iommu=pt` and `iommu=nopt`.
pub(super) const PASSTHROUGH: &str = "iommu.passthrough";

/// How the values of a parameter add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value; the last occurrence wins.
    Scalar,
    /// A truth value read with `kstrtobool`; the last readable occurrence wins.
    Bool,
    /// A comma list of options. Every occurrence is read, in order; within a group the last option wins.
    Options(&'static OptionList),
    /// A collection in which every item stands for itself, whatever put it there.
    Items(&'static ItemList),
    /// Occurrences whose order carries meaning: owned all together or not at all.
    Sequence(&'static Sequence),
}

/// A comma list of options whose meanings add up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OptionList {
    /// Parameter name, folded.
    pub param: &'static str,
    /// Options that the kernel matches by prefix (`strncmp` with the option's own length). Options of one row
    /// exclude each other: the last one on the line decides.
    pub by_prefix: &'static [&'static [&'static str]],
    /// The same for options that it matches whole.
    pub whole: &'static [&'static [&'static str]],
    /// Always written as a single argument, because tools between bedplate and the kernel drop repeated ones.
    pub one_argument: bool,
    /// Options after which the kernel stops reading this occurrence.
    pub stops: &'static [&'static str],
    /// Character between the name of an option and its value.
    pub separator: char,
}

/// A collection of items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ItemList {
    /// Parameter name, folded.
    pub param: &'static str,
    /// One occurrence may hold several items with commas between them.
    pub commas: bool,
    /// Items are module names, in which `-` and `_` are the same.
    pub modules: bool,
    /// Only the last occurrence counts.
    pub last_wins: bool,
}

/// Parameters whose occurrences must be read in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Parameters that always belong to it, folded.
    pub params: &'static [&'static str],
    /// Parameters that join it when the profile gives them together with the others.
    pub joined: &'static [&'static str],
    /// The unit of a value, where each unit is owned alone; `None`: all occurrences are owned together.
    pub units: Option<Units>,
    /// The last occurrence means something of its own, so that what the profile has last comes last on the line.
    pub last_counts: bool,
    /// What the order decides.
    pub rule: &'static str,
    /// Where that stands.
    pub source: &'static str,
}

/// The shape of a parameter, by folded name.
pub(super) fn shape_of(folded_name: &str, arch: Arch) -> Shape {
    let x86 = arch == Arch::X86_64;
    match folded_name {
        "pci" => return Shape::Options(&PCI),
        // Other architectures have no `iommu=` handler at all: for them it is a name like any other.
        "iommu" if x86 => return Shape::Options(&IOMMU),
        "intel_iommu" => return Shape::Options(&INTEL_IOMMU),
        "amd_iommu" => return Shape::Options(&AMD_IOMMU),
        "fbcon" => return Shape::Options(&FBCON),
        "intremap" if x86 => return Shape::Options(&INTREMAP),
        "efi" => return Shape::Options(&EFI),
        "acpi_sleep" if x86 => return Shape::Options(&ACPI_SLEEP),
        "reboot" => return Shape::Options(&REBOOT),
        // `drivers/iommu/iommu.c`.
        PASSTHROUGH | "iommu.strict" => return Shape::Bool,
        _ => {}
    }
    if let Some(list) = ITEMS.iter().find(|list| list.param == folded_name) {
        return Shape::Items(list);
    }
    if folded_name.ends_with(".dyndbg") {
        return Shape::Sequence(&MODULE_DYNDBG);
    }
    match SEQUENCES.iter().find(|sequence| sequence.params.contains(&folded_name)) {
        Some(sequence) => Shape::Sequence(sequence),
        None => Shape::Scalar,
    }
}

impl OptionList {
    /// Cuts a value into its options; empty ones mean nothing to the kernel.
    pub(crate) fn options(value: &str) -> impl Iterator<Item = &str> {
        value.split(',').filter(|option| !option.is_empty())
    }

    /// The options that exclude each other and of which `option` is one; alone: just its own name.
    pub(crate) fn group(&self, option: &str) -> Vec<String> {
        let name = self.name(option);
        let rows = self.by_prefix.iter().chain(self.whole);
        match rows.into_iter().find(|row| row.contains(&name)) {
            Some(row) => row.iter().map(|member| (*member).to_owned()).collect(),
            None => vec![name.to_owned()],
        }
    }

    /// What the kernel takes the option for: two options with the same meaning do the same.
    pub(crate) fn meaning(&self, option: &str) -> String {
        if self.param == "pci"
            && let Some(rest) = option.strip_prefix("realloc")
        {
            let value = rest.strip_prefix('=').unwrap_or("on");
            let known = ["off", "on"].into_iter().find(|known| value.starts_with(known));
            return format!("realloc={}", known.unwrap_or(value));
        }
        let name = self.name(option);
        let has_value = option.contains(self.separator) || REBOOT_CPU.contains(&name);
        if has_value { option.to_owned() } else { name.to_owned() }
    }

    /// Whether the kernel stops reading an occurrence after this option.
    pub(crate) fn stops_at(&self, option: &str) -> bool {
        self.stops.iter().any(|stop| option.starts_with(stop))
    }

    /// The option's name in the table, or what stands before its `=`.
    fn name<'a>(&self, option: &'a str) -> &'a str {
        let plain = option.split_once(self.separator).map_or(option, |(name, _)| name);
        // The longest one: `forcesac` is not `force`.
        let known =
            self.by_prefix.iter().copied().flatten().filter(|known| option.starts_with(**known));
        match known.map(|known| known.len()).max() {
            Some(len) => &option[..len],
            None => plain,
        }
    }
}

impl ItemList {
    /// Cuts a value into its items.
    pub(crate) fn items<'a>(&self, value: &'a str) -> Vec<&'a str> {
        match self.commas {
            true => value.split(',').filter(|item| !item.is_empty()).collect(),
            false => vec![value],
        }
    }

    /// What makes two items the same.
    pub(crate) fn meaning(&self, item: &str) -> String {
        if self.modules { fold_name(item) } else { item.to_owned() }
    }
}

/// Reads a truth value as the kernel's `kstrtobool` does (`lib/kstrtox.c`). `None`: the kernel refuses it and the
/// parameter keeps its value. The letters that only newer kernels know (`e`, `d`, `t`, `f`) count as unreadable.
pub(super) fn kernel_bool(value: Option<&str>) -> Option<bool> {
    let value = value?.as_bytes();
    match (value.first()?, value.get(1)) {
        (b'y' | b'Y' | b'1', _) | (b'o' | b'O', Some(b'n' | b'N')) => Some(true),
        (b'n' | b'N' | b'0', _) | (b'o' | b'O', Some(b'f' | b'F')) => Some(false),
        _ => None,
    }
}
