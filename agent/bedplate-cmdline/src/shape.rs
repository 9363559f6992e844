//! Parameters that are more than "one value, the last one wins": structure of their values, effect of repeated
//! occurrences, and values that exclude each other. Every entry names its source.
//!
//! Parameters without an entry are [`Shape::Scalar`]: true of module parameters (`kernel/params.c`) and of most
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

/// How the values of a parameter combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value; the last occurrence wins.
    Scalar,
    /// A truth value read with `kstrtobool`; the last readable occurrence wins.
    Bool,
    /// A comma list of options. The kernel reads every occurrence, in order; within a group the last option wins.
    Options(&'static OptionList),
    /// A collection of independent items.
    Items(&'static ItemList),
    /// Occurrences whose order carries meaning: owned all together or not at all.
    Sequence(&'static Sequence),
}

/// A comma list of options whose effects combine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OptionList {
    /// Parameter name, folded.
    pub param: &'static str,
    /// Options that the kernel matches by prefix (`strncmp` with the option's own length). Options of one group exclude
    /// each other: the last one on the line wins.
    pub by_prefix: &'static [&'static [&'static str]],
    /// Groups of options that the kernel matches whole.
    pub whole: &'static [&'static [&'static str]],
    /// Whether it is always written as a single argument, because tools between bedplate and the kernel drop repeated ones.
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
    /// Whether an occurrence may hold several items, separated by commas.
    pub commas: bool,
    /// Whether items are module names, in which `-` and `_` are the same.
    pub modules: bool,
    /// Whether only the last occurrence takes effect.
    pub last_wins: bool,
}

/// Parameters with occurrences that must be read in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Parameters that always belong to the sequence, folded.
    pub params: &'static [&'static str],
    /// Parameters that belong to the sequence if the profile sets them together with the others.
    pub joined: &'static [&'static str],
    /// Rule for units, if each unit is owned separately. `None` if all occurrences are owned together.
    pub units: Option<Units>,
    /// Whether the last occurrence has a special meaning, so that the profile's last argument must be last on the line.
    pub last_counts: bool,
    /// Effect of the order.
    pub rule: &'static str,
    /// Source of the rule.
    pub source: &'static str,
}

/// Returns the shape of a parameter, by folded name.
pub(super) fn shape_of(folded_name: &str, arch: Arch) -> Shape {
    let x86 = arch == Arch::X86_64;
    match folded_name {
        "pci" => return Shape::Options(&PCI),
        // Other architectures have no `iommu=` handler, so there it is an ordinary name.
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
    /// Splits a value into its options. Skips empty ones, which the kernel ignores.
    pub(crate) fn options(value: &str) -> impl Iterator<Item = &str> {
        value.split(',').filter(|option| !option.is_empty())
    }

    /// Returns the options that exclude each other, including `option`; only its own name if there are no others.
    pub(crate) fn group(&self, option: &str) -> Vec<String> {
        let name = self.name(option);
        let rows = self.by_prefix.iter().chain(self.whole);
        match rows.into_iter().find(|row| row.contains(&name)) {
            Some(row) => row.iter().map(|member| (*member).to_owned()).collect(),
            None => vec![name.to_owned()],
        }
    }

    /// Returns the option as the kernel reads it. Options with equal meaning have the same effect.
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

    /// Returns the option's name in the table, or the text before the separator.
    fn name<'a>(&self, option: &'a str) -> &'a str {
        let plain = option.split_once(self.separator).map_or(option, |(name, _)| name);
        // Use the longest match: `forcesac` is not `force`.
        let known =
            self.by_prefix.iter().copied().flatten().filter(|known| option.starts_with(**known));
        match known.map(|known| known.len()).max() {
            Some(len) => &option[..len],
            None => plain,
        }
    }
}

impl ItemList {
    /// Splits a value into its items.
    pub(crate) fn items<'a>(&self, value: &'a str) -> Vec<&'a str> {
        match self.commas {
            true => value.split(',').filter(|item| !item.is_empty()).collect(),
            false => vec![value],
        }
    }

    /// Returns the normalized item, for comparison.
    pub(crate) fn meaning(&self, item: &str) -> String {
        if self.modules { fold_name(item) } else { item.to_owned() }
    }
}

/// Reads a truth value like the kernel's `kstrtobool` (`lib/kstrtox.c`). Returns `None` if the kernel refuses it; then
/// the parameter keeps its value. The letters that only newer kernels know (`e`, `d`, `t`, `f`) are unreadable here.
pub(super) fn kernel_bool(value: Option<&str>) -> Option<bool> {
    let value = value?.as_bytes();
    match (value.first()?, value.get(1)) {
        (b'y' | b'Y' | b'1', _) | (b'o' | b'O', Some(b'n' | b'N')) => Some(true),
        (b'n' | b'N' | b'0', _) | (b'o' | b'O', Some(b'f' | b'F')) => Some(false),
        _ => None,
    }
}
