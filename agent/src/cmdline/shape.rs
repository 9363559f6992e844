//! The table of parameters that are more than "one value, the last one wins": how their values are built, what
//! repeated occurrences do, and which values exclude each other. Every row names its source.
//!
//! A parameter without a row is [`Shape::Scalar`]: true of module parameters (`kernel/params.c`) and of most
//! `__setup`/`early_param` handlers.

use crate::facts::Arch;

use super::lex::fold_name;
use super::units::Units;

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

/// `drivers/pci/pci.c` `pci_setup`, `drivers/pci/setup-bus.c` `pci_realloc_get_opt`, `arch/x86/pci/common.c`
/// `pcibios_setup`. String-valued suboptions keep one pointer, so the last wins. `one_argument`: newer grubby
/// deletes every `pci=` when it adds one (handbook §10.3).
static PCI: OptionList = OptionList {
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
static IOMMU: OptionList = OptionList {
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
static INTEL_IOMMU: OptionList = OptionList {
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

/// `drivers/iommu/amd/init.c` `parse_amd_iommu_options`. Nothing undoes `off`; `on` is no option (handbook §1.3).
static AMD_IOMMU: OptionList = OptionList {
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
static FBCON: OptionList = OptionList {
    param: "fbcon",
    by_prefix: &[],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: ':',
};

/// `drivers/iommu/irq_remapping.c` `setup_irqremap`.
static INTREMAP: OptionList = OptionList {
    param: "intremap",
    by_prefix: &[&["on", "off"], &["nosid"], &["no_x2apic_optout"], &["nopost"]],
    whole: &[],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `drivers/firmware/efi/efi.c` `parse_efi_cmdline`, `drivers/firmware/efi/libstub/efi-stub-helper.c`
/// `efi_parse_options`. The stub reads `nochunk` of the last occurrence alone, where new options go.
static EFI: OptionList = OptionList {
    param: "efi",
    by_prefix: &[],
    whole: &[&["runtime", "noruntime"], &["disable_early_pci_dma", "no_disable_early_pci_dma"]],
    one_argument: false,
    stops: &[],
    separator: '=',
};

/// `arch/x86/kernel/acpi/sleep.c` `acpi_sleep_setup`.
static ACPI_SLEEP: OptionList = OptionList {
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
const REBOOT_CPU: &[&str] = &["smp", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];

/// `kernel/reboot.c` `reboot_setup`, which reads the first letter of an option.
static REBOOT: OptionList = OptionList {
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
/// systemd-debug-generator(8), systemd.unit names; `drivers/acpi/osi.c`; `arch/x86/kernel/e820.c`;
/// dracut.cmdline(7) and systemd-cryptsetup-generator(8), systemd-fstab-generator(8) for what names one device each;
/// `kernel/cgroup/cgroup.c`; and `kernel/module/main.c`, where `module_blacklist` is one string pointer.
static ITEMS: &[ItemList] = &[
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

const EACH: &str = "each one is carried out";
const FIRST_OF_ID: &str = "the first one for an id counts";
const IVRS: &str = "linux drivers/iommu/amd/init.c";

/// What may be given more than once, each occurrence read after the one before it.
static SEQUENCES: &[Sequence] = &[
    Sequence {
        params: &["hugepagesz", "hugepages"],
        joined: &["default_hugepagesz"],
        units: None,
        last_counts: false,
        rule: "`hugepages=` counts pages of the size that stands before it",
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
        rule: "the first one counts",
        source: "linux drivers/tty/serial/earlycon.c",
    },
    Sequence {
        params: &["earlyprintk"],
        joined: &[],
        units: None,
        last_counts: false,
        rule: "the first one counts",
        source: "linux arch/x86/kernel/early_printk.c",
    },
    sequence(
        &["video"],
        Units::Output,
        "the last one for an output counts",
        "linux drivers/video/cmdline.c",
    ),
    DYNDBG,
    sequence(
        &["crashkernel"],
        Units::CrashKernel,
        "the last of each kind counts; a plain one switches `,high` and `,low` off",
        "linux kernel/crash_reserve.c",
    ),
    sequence(
        &["ip"],
        Units::Interface,
        "dracut sets interfaces up in this order",
        "dracut.cmdline(7)",
    ),
    sequence(
        &["nameserver"],
        Units::Itself,
        "servers are asked in this order",
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

/// Also of a module: `nvme.dyndbg=`.
const DYNDBG: Sequence =
    sequence(&["dyndbg"], Units::Query, "queries run in this order", "linux lib/dynamic_debug.c");
static MODULE_DYNDBG: Sequence = DYNDBG;

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
    pub fn options(value: &str) -> impl Iterator<Item = &str> {
        value.split(',').filter(|option| !option.is_empty())
    }

    /// The options that exclude each other and of which `option` is one; alone: just its own name.
    pub fn group(&self, option: &str) -> Vec<String> {
        let name = self.name(option);
        let rows = self.by_prefix.iter().chain(self.whole);
        match rows.into_iter().find(|row| row.contains(&name)) {
            Some(row) => row.iter().map(|member| (*member).to_owned()).collect(),
            None => vec![name.to_owned()],
        }
    }

    /// What the kernel takes the option for: two options with the same meaning do the same.
    pub fn meaning(&self, option: &str) -> String {
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
    pub fn stops_at(&self, option: &str) -> bool {
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
    pub fn items<'a>(&self, value: &'a str) -> Vec<&'a str> {
        match self.commas {
            true => value.split(',').filter(|item| !item.is_empty()).collect(),
            false => vec![value],
        }
    }

    /// What makes two items the same.
    pub fn meaning(&self, item: &str) -> String {
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
