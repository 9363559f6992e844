//! The effect of a line for the few questions that other modules often ask.

use bedplate_base::{Arch, CpuVendor};

use super::defaults::KernelDefaults;
use super::key::{Key, Meaning};
use super::line::CommandLine;
use super::occurrences::{Occurrence, occurrences};
use super::shape::{OptionList, PASSTHROUGH, Shape, shape_of};

/// Whether host-driver devices get identity mappings by default. `None` if the line does not set it and the kernel's
/// own default is unknown. Devices can differ from the default (handbook §1.3): sysfs decides per group.
pub fn iommu_passthrough(
    line: &CommandLine,
    defaults: &KernelDefaults,
    arch: Arch,
) -> Option<bool> {
    let line = &with_built_in(line, defaults);
    let audible = |speaker: &Occurrence| match speaker.meaning {
        Meaning::Bool(on) if speaker.heard => Some(on),
        _ => None,
    };
    let said =
        occurrences(line, &Key::Param(PASSTHROUGH.to_owned()), arch).iter().rev().find_map(audible);
    said.or_else(|| default_passthrough(line, defaults))
}

/// Returns the argument, on the line or built in, that keeps the IOMMU off on a machine with a CPU of this vendor.
pub fn iommu_off_by(
    line: &CommandLine,
    defaults: &KernelDefaults,
    vendor: CpuVendor,
    arch: Arch,
) -> Option<&'static str> {
    let line = &with_built_in(line, defaults);
    if !matches!(vendor, CpuVendor::Intel | CpuVendor::Amd) {
        return None;
    }
    if detection_off(line, arch) {
        return Some("iommu=off");
    }
    let off = Meaning::Text(Some("off".to_owned()));
    let said = |param: &str| {
        option_group(param, "off", arch).map_or_else(Vec::new, |key| occurrences(line, &key, arch))
    };
    match vendor {
        // The last one takes effect; AMD's `off` is sticky (handbook §1.2).
        CpuVendor::Intel => said("intel_iommu")
            .last()
            .is_some_and(|last| last.meaning == off)
            .then_some("intel_iommu=off"),
        _ => said("amd_iommu").iter().any(|one| one.meaning == off).then_some("amd_iommu=off"),
    }
}

impl KernelDefaults {
    /// Whether this kernel build leaves VT-d off with this line, unless firmware opts in.
    pub fn leaves_intel_iommu_off(&self, line: &CommandLine, arch: Arch) -> bool {
        let silent = option_group("intel_iommu", "on", arch)
            .is_some_and(|key| occurrences(&with_built_in(line, self), &key, arch).is_empty());
        self.intel_iommu == Some(false) && silent
    }
}

/// Returns the value of a `pci=` suboption; the last one takes effect. A suboption without a value gives an empty text,
/// a bare `realloc` gives `on`.
pub fn pci_suboption(line: &CommandLine, name: &str) -> Option<String> {
    let Shape::Options(list) = shape_of("pci", Arch::Other) else { return None };
    let arguments: Vec<_> = line.named("pci").filter_map(|token| token.value()).collect();
    let options = arguments.iter().rev().flat_map(|value| {
        let options: Vec<&str> = OptionList::options(value).collect();
        options.into_iter().rev()
    });
    for option in options {
        let meaning = list.meaning(option);
        match meaning.split_once('=') {
            Some((own, value)) if own == name => return Some(value.to_owned()),
            None if meaning == name => return Some(String::new()),
            _ => {}
        }
    }
    None
}

/// Returns the kernel's built-in passthrough default, unless an argument makes it uncertain.
pub(super) fn default_passthrough(line: &CommandLine, defaults: &KernelDefaults) -> Option<bool> {
    let default = defaults.passthrough?;
    let encryption =
        line.named("mem_encrypt").next_back().and_then(|token| token.value().map(|v| v == "on"));
    let encrypted = encryption.or(defaults.memory_encryption)?;
    // With memory encryption, the kernel may drop a passthrough default that is only built in.
    if default && encrypted { None } else { Some(default) }
}

/// Returns the kernel's built-in VT-d default, unless an argument makes it uncertain.
pub(super) fn default_intel_iommu(
    line: &CommandLine,
    defaults: &KernelDefaults,
    arch: Arch,
) -> Option<bool> {
    match defaults.intel_iommu {
        Some(true) if arch == Arch::X86_64 && !detection_off(line, arch) => Some(true),
        _ => None,
    }
}

/// `iommu=off` stops the search for any IOMMU (`arch/x86/kernel/pci-dma.c`); no later argument undoes it.
fn detection_off(line: &CommandLine, arch: Arch) -> bool {
    let Some(key) = option_group("iommu", "off", arch) else { return false };
    occurrences(line, &key, arch).iter().any(|speaker| speaker.heard)
}

fn option_group(param: &str, option: &str, arch: Arch) -> Option<Key> {
    match shape_of(param, arch) {
        Shape::Options(list) => {
            Some(Key::Option { param: param.to_owned(), group: list.group(option) })
        }
        _ => None,
    }
}

/// Returns the line that the kernel really reads.
fn with_built_in(line: &CommandLine, defaults: &KernelDefaults) -> CommandLine {
    match &defaults.built_in {
        Some(built_in) if defaults.overrides => CommandLine::parse(built_in),
        Some(built_in) => CommandLine::parse(&format!("{built_in} {line}")),
        None => line.clone(),
    }
}
