//! Table entries: parameters that take more than one value, each with its source.

use super::super::parameter_units::Units;
use super::{ItemList, OptionList, Sequence};

/// `drivers/pci/pci.c` `pci_setup`, `drivers/pci/setup-bus.c` `pci_realloc_get_opt`, `arch/x86/pci/common.c`
/// `pcibios_setup`. String-valued suboptions keep one pointer, so the last wins. `one_argument`: newer grubby
/// deletes every `pci=` when it adds one (handbook §10.3).
pub(super) static PCI: OptionList = OptionList {
    param: "pci",
    by_prefix: &[
        &["realloc"],
        &["noats"],
        &["noari"],
        &["notph"],
        &["pcie_scan_all"],
        &["pcie_bus_tune_off", "pcie_bus_safe", "pcie_bus_perf", "pcie_bus_peer2peer"],
    ],
    whole: &[&["bfsort", "nobfsort"]],
    one_argument: true,
    stops: &[],
    separator: '=',
};

/// `arch/x86/kernel/pci-dma.c` `iommu_setup`. `usedac` makes the handler return at once.
pub(super) static IOMMU: OptionList = OptionList {
    param: "iommu",
    by_prefix: &[
        &["pt", "nopt"],
        &["off"],
        &["force", "noforce"],
        &["biomerge"],
        &["merge", "nomerge"],
        &["panic", "nopanic"],
        &["forcesac"],
        &["allowdac", "nodac", "usedac"],
        &["soft"],
    ],
    whole: &[],
    one_argument: false,
    stops: &["usedac"],
    separator: '=',
};

/// `drivers/iommu/intel/iommu.c` `intel_iommu_setup`.
pub(super) static INTEL_IOMMU: OptionList = OptionList {
    param: "intel_iommu",
    by_prefix: &[
        &["on", "off"],
        &["sm_on", "sm_off"],
        &["igfx_off"],
        &["forcedac"],
        &["strict"],
        &["sp_off"],
        &["tboot_noforce"],
    ],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `drivers/iommu/amd/init.c` `parse_amd_iommu_options`. Nothing undoes `off`; `on` is not an option (handbook §1.3).
pub(super) static AMD_IOMMU: OptionList = OptionList {
    param: "amd_iommu",
    by_prefix: &[
        &["fullflush"],
        &["force_enable"],
        &["off"],
        &["force_isolation"],
        &["pgtbl_v1", "pgtbl_v2"],
        &["irtcachedis"],
        &["nohugepages"],
        &["v2_pgsizes_only"],
    ],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `drivers/video/fbdev/core/fbcon.c` `fb_console_setup`.
pub(super) static FBCON: OptionList = OptionList {
    param: "fbcon",
    by_prefix: &[],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: ':',
};

/// `drivers/iommu/irq_remapping.c` `setup_irqremap`.
pub(super) static INTREMAP: OptionList = OptionList {
    param: "intremap",
    by_prefix: &[&["on", "off"], &["nosid"], &["no_x2apic_optout"], &["nopost"]],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `drivers/firmware/efi/efi.c` `parse_efi_cmdline`, `drivers/firmware/efi/libstub/efi-stub-helper.c`
/// `efi_parse_options`. The stub reads `nochunk` only from the last occurrence, which is where bedplate adds new
/// options.
pub(super) static EFI: OptionList = OptionList {
    param: "efi",
    by_prefix: &[],
    whole: &[&["runtime", "noruntime"], &["disable_early_pci_dma", "no_disable_early_pci_dma"]],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `arch/x86/kernel/acpi/sleep.c` `acpi_sleep_setup`.
pub(super) static ACPI_SLEEP: OptionList = OptionList {
    param: "acpi_sleep",
    by_prefix: &[
        &["s3_bios"],
        &["s3_mode"],
        &["s3_beep"],
        &["s4_hwsig", "s4_nohwsig"],
        &["nonvs"],
        &["nonvs_s3"],
        &["old_ordering"],
        &["nobl"],
    ],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// Processor that reboots: `smp3`, `s3`.
pub(super) const REBOOT_CPU: &[&str] =
    &["smp", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];

/// `kernel/reboot.c` `reboot_setup`, which reads the first letter of an option.
pub(super) static REBOOT: OptionList = OptionList {
    param: "reboot",
    by_prefix: &[
        &["w", "c", "h", "s", "g"],
        &["panic_w", "panic_c", "panic_h", "panic_s", "panic_g"],
        &["b", "a", "k", "t", "e", "p"],
        &["f"],
        REBOOT_CPU,
    ],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

const fn items(param: &'static str, commas: bool, modules: bool) -> ItemList {
    ItemList { param, commas, modules, last_wins: false }
}

/// libkmod `kmod_config_parse_kcmdline`; dracut.cmdline(7); kernel `init/main.c` `initcall_blacklist`;
/// systemd-debug-generator(8), systemd.unit names; `drivers/acpi/osi.c`; `arch/x86/kernel/e820.c`; dracut.cmdline(7),
/// systemd-cryptsetup-generator(8) and systemd-fstab-generator(8) for parameters that name one device each;
/// `kernel/cgroup/cgroup.c`; and `kernel/module/main.c`, where `module_blacklist` is one string pointer.
pub(super) static ITEMS: &[ItemList] = &[
    items("modprobe.blacklist", true, true),
    items("rd.driver.blacklist", true, true),
    items("rd.driver.pre", true, true),
    items("rd.driver.post", true, true),
    items("initcall_blacklist", true, false),
    items("systemd.mask", false, false),
    items("systemd.wants", false, false),
    items("systemd.setenv", false, false),
    items("rd.luks.uuid", false, false),
    items("rd.lvm.lv", false, false),
    items("rd.md.uuid", false, false),
    items("rd.lvm.vg", false, false),
    items("rd.luks.name", false, false),
    items("rd.luks.options", false, false),
    items("rd.luks.key", false, false),
    items("luks.uuid", false, false),
    items("luks.name", false, false),
    items("luks.options", false, false),
    items("luks.key", false, false),
    items("rd.route", false, false),
    items("rd.znet", false, false),
    items("rd.dasd", false, false),
    items("rd.zfcp", false, false),
    items("netroot", false, false),
    items("ifname", false, false),
    items("bond", false, false),
    items("team", false, false),
    items("bridge", false, false),
    items("vlan", false, false),
    items("systemd.mount_extra", false, false),
    items("systemd.swap_extra", false, false),
    items("systemd.set_credential", false, false),
    items("systemd.set_credential_binary", false, false),
    items("cgroup_disable", true, false),
    items("cgroup_no_v1", true, false),
    items("acpi_osi", false, false),
    items("memmap", true, false),
    ItemList { param: "module_blacklist", commas: true, modules: true, last_wins: true },
];

const fn sequence(
    param: &'static [&'static str],
    units: Units,
    rule: &'static str,
    source: &'static str,
) -> Sequence {
    Sequence { params: param, joined: &[], units: Some(units), last_counts: false, rule, source }
}

const EACH: &str = "each one is applied";
const FIRST_OF_ID: &str = "the first one per id applies";
const IVRS: &str = "linux drivers/iommu/amd/init.c";

/// Parameters that may occur more than once. The kernel reads the occurrences in order.
pub(super) static SEQUENCES: &[Sequence] = &[
    Sequence {
        params: &["hugepagesz", "hugepages"],
        joined: &["default_hugepagesz"],
        units: None,
        last_counts: false,
        rule: "`hugepages=` counts pages of the size before it",
        source: "linux mm/hugetlb.c",
    },
    Sequence {
        params: &["console"],
        joined: &[],
        units: Some(Units::Device),
        last_counts: true,
        rule: "the last `console=` becomes /dev/console",
        source: "linux kernel/printk/printk.c",
    },
    Sequence {
        params: &["earlycon"],
        joined: &[],
        units: None,
        last_counts: false,
        rule: "the first one applies",
        source: "linux drivers/tty/serial/earlycon.c",
    },
    Sequence {
        params: &["earlyprintk"],
        joined: &[],
        units: None,
        last_counts: false,
        rule: "the first one applies",
        source: "linux arch/x86/kernel/early_printk.c",
    },
    sequence(
        &["video"],
        Units::Output,
        "the last one per output applies",
        "linux drivers/video/cmdline.c",
    ),
    DYNDBG,
    sequence(
        &["crashkernel"],
        Units::CrashKernel,
        "the last of each kind applies; a plain one disables `,high` and `,low`",
        "linux kernel/crash_reserve.c",
    ),
    sequence(
        &["ip"],
        Units::Interface,
        "dracut configures interfaces in this order",
        "dracut.cmdline(7)",
    ),
    sequence(
        &["nameserver"],
        Units::Itself,
        "servers are queried in this order",
        "dracut.cmdline(7)",
    ),
    sequence(&["tsc"], Units::Tsc, EACH, "linux arch/x86/kernel/tsc.c"),
    sequence(&["mce"], Units::Mce, EACH, "linux arch/x86/kernel/cpu/mce/core.c"),
    sequence(&["acpi"], Units::Acpi, EACH, "linux arch/x86/kernel/acpi/boot.c"),
    sequence(&["numa"], Units::Word, EACH, "linux arch/x86/mm/numa.c"),
    sequence(&["ivrs_ioapic"], Units::Mapped, FIRST_OF_ID, IVRS),
    sequence(&["ivrs_hpet"], Units::Mapped, FIRST_OF_ID, IVRS),
    sequence(&["ivrs_acpihid"], Units::Mapped, FIRST_OF_ID, IVRS),
    sequence(
        &["inst.addrepo"],
        Units::Device,
        "each one adds a repository",
        "Anaconda boot options, inst.addrepo",
    ),
];

/// Also per module: `nvme.dyndbg=`.
const DYNDBG: Sequence =
    sequence(&["dyndbg"], Units::Query, "queries run in this order", "linux lib/dynamic_debug.c");
pub(super) static MODULE_DYNDBG: Sequence = DYNDBG;
