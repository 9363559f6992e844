//! Parameters that only one architecture's kernels read. Other kernels ignore them, and log only names without a dot
//! (handbook §1.7).

use super::lex::fold_name;
use bedplate_base::Arch;

/// Names registered only by x86 code: arch/x86 and drivers that depend on it. IOMMU names are missing here because
/// `[iommu]` handles them in more detail.
const X86: &[&str] = &[
    "acpi_sleep",
    "amd_iommu_intr",
    "amd_prefcore",
    "amd_pstate",
    "apic",
    "clearcpuid",
    "gather_data_sampling",
    "idle",
    "intel_pstate",
    "intremap",
    "ivrs_acpihid",
    "ivrs_hpet",
    "ivrs_ioapic",
    "l1tf",
    "lapic",
    "mce",
    "mds",
    "mem_encrypt",
    "mmio_stale_data",
    "noapic",
    "nolapic",
    "nomce",
    "nopti",
    "nox2apic",
    "pti",
    "retbleed",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_v2",
    "spectre_v2_user",
    "srbds",
    "tsc",
    "tsx",
    "tsx_async_abort",
    "vsyscall",
    "x2apic_phys",
];
/// Modules that exist only on x86.
const X86_MODULES: &[&str] =
    &["intel_idle", "intel_pstate", "intel_rapl_common", "kvm_amd", "kvm_intel", "mce"];
/// Options of `pci=` that arch/x86/pci/common.c reads.
const X86_PCI: &[&str] = &[
    "assign-busses",
    "bfsort",
    "big_root_window",
    "bios",
    "check_enable_amd_mmconf",
    "conf1",
    "conf2",
    "ioapicreroute",
    "irqmask",
    "lastbus",
    "no_e820",
    "nobar",
    "nobfsort",
    "nobios",
    "nocrs",
    "noioapicquirk",
    "noioapicreroute",
    "nommconf",
    "norom",
    "rom",
    "routeirq",
    "skip_isa_align",
    "use_crs",
    "use_e820",
];
const ARM64: &[&str] = &["kpti", "ssbd"];
const ARM64_MODULES: &[&str] = &["arm64", "arm_smmu", "arm_smmu_v3", "kvm_arm"];

/// Returns the only architecture whose kernels read `argument`. Returns `None` if several do, or if it is unknown.
pub fn only_on(argument: &str) -> Option<Arch> {
    let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
    let name = fold_name(name);
    if name == "pci" {
        let is_of_x86 =
            |option: &str| X86_PCI.contains(&option.split('=').next().unwrap_or_default());
        return value.split(',').any(is_of_x86).then_some(Arch::X86_64);
    }
    let (names, module): ([&[&str]; 2], &str) = match name.split_once('.') {
        Some((module, _)) => ([X86_MODULES, ARM64_MODULES], module),
        None => ([X86, ARM64], &name),
    };
    let [x86, arm64] = names.map(|names| names.contains(&module));
    match (x86, arm64) {
        (true, _) => Some(Arch::X86_64),
        (_, true) => Some(Arch::Aarch64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_maps_to_its_only_architecture() {
        for argument in [
            "intel_idle.max_cstate=1",
            "intel-pstate=disable",
            "pci=realloc,nocrs",
            "nopti",
            "tsc=reliable",
        ] {
            assert_eq!(only_on(argument), Some(Arch::X86_64), "{argument}");
        }
        for argument in ["arm64.nosve", "arm-smmu-v3.disable_msipolling=1", "kpti=off"] {
            assert_eq!(only_on(argument), Some(Arch::Aarch64), "{argument}");
        }
        for argument in [
            "quiet",
            "iommu.passthrough=1",
            "pci=realloc",
            "pci=config_acs=xx@0000:17:00.0",
            "processor.max_cstate=1",
        ] {
            assert_eq!(only_on(argument), None, "{argument}");
        }
    }
}
