//! The standing of wishes on lines and kernels.

use bedplate_base::Arch;

use super::super::{CommandLine, Edit, KernelDefaults, Status, iommu_passthrough, pci_suboption};
use super::{edit_of, tokens};

fn status_on(arch: Arch, line: &str, set: &str, config: &str) -> Status {
    let edit = Edit::new(arch, tokens(&[set])).expect("sensible");
    let mut all = edit.satisfied_by(&CommandLine::parse(line), &KernelDefaults::parse(config));
    assert_eq!(all.len(), 1);
    all.remove(0).status
}

fn status(line: &str, set: &str) -> Status {
    status_on(Arch::X86_64, line, set, "")
}

fn by(text: &str) -> Status {
    Status::Equivalent { by: text.to_owned() }
}

fn other(text: &str) -> Status {
    Status::Other { found: text.to_owned() }
}

fn default(text: &str) -> Status {
    Status::KernelDefault { by: text.to_owned() }
}

#[test]
fn the_same_words_are_present() {
    assert_eq!(status("ro iommu=pt", "iommu=pt"), Status::Present);
    assert_eq!(status("ro \"iommu=pt\"", "iommu=pt"), Status::Present);
    assert_eq!(status("pci=noaer,realloc", "pci=realloc"), Status::Present);
    assert_eq!(status("hugepages=4", "hugepages=4"), Status::Present);
}

#[test]
fn other_words_for_the_same_are_equivalent() {
    assert_eq!(status("iommu.passthrough=1", "iommu=pt"), by("iommu.passthrough=1"));
    assert_eq!(
        status("iommu=nopt iommu.passthrough=y", "iommu=pt"),
        by("iommu=nopt iommu.passthrough=y")
    );
    assert_eq!(status("intel_iommu=on,sm_on", "intel_iommu=on"), by("intel_iommu=on,sm_on"));
    assert_eq!(
        status("intel_iommu=off intel_iommu=on", "intel_iommu=on"),
        by("intel_iommu=off intel_iommu=on")
    );
    assert_eq!(status("pci=noaer pci=realloc", "pci=realloc"), by("pci=realloc"));
    assert_eq!(status("pci=realloc=on", "pci=realloc"), by("pci=realloc=on"));
    assert_eq!(
        status("modprobe.blacklist=a,nouveau", "modprobe.blacklist=nouveau"),
        by("modprobe.blacklist=a,nouveau")
    );
}

#[test]
fn the_last_word_counts() {
    assert_eq!(
        status("iommu=pt iommu.passthrough=0", "iommu=pt"),
        other("iommu=pt iommu.passthrough=0")
    );
    assert_eq!(status("iommu=pt,nopt", "iommu=pt"), other("iommu=pt,nopt"));
    assert_eq!(status("iommu=usedac,pt", "iommu=pt"), other("iommu=usedac,pt"));
    assert_eq!(status("pci=realloc=off", "pci=realloc"), other("pci=realloc=off"));
    assert_eq!(status("iommu.passthrough=perhaps", "iommu=pt"), other("iommu.passthrough=perhaps"));
    assert_eq!(
        status("module_blacklist=a module_blacklist=b", "module_blacklist=a"),
        other("module_blacklist=a")
    );
    assert_eq!(status("hugepages=4 hugepages=5", "hugepages=4"), other("hugepages=4 hugepages=5"));
}

#[test]
fn silence_is_missing() {
    assert_eq!(status("foo_iommu=pt -- iommu=pt", "iommu=pt"), Status::Missing);
    assert_eq!(status_on(Arch::Aarch64, "iommu=pt", "iommu.passthrough=1", ""), Status::Missing);
}

const PASSTHROUGH: &str = "CONFIG_X86_64=y\nCONFIG_IOMMU_DEFAULT_PASSTHROUGH=y\n";
const TRANSLATED: &str =
    "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set\nCONFIG_IOMMU_DEFAULT_DMA_LAZY=y\n";
const VTD_ON: &str = "CONFIG_INTEL_IOMMU=y\nCONFIG_INTEL_IOMMU_DEFAULT_ON=y\n";
const DEBIAN: &str =
    "CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y\n# CONFIG_INTEL_IOMMU_DEFAULT_ON is not set\n";

#[test]
fn kernel_defaults_count_where_nothing_is_said() {
    let status = |line: &str, set: &str, config: &str| status_on(Arch::X86_64, line, set, config);
    assert_eq!(
        status("ro", "iommu=pt", PASSTHROUGH),
        default("CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y")
    );
    assert_eq!(
        status("ro", "iommu=nopt", TRANSLATED),
        default("CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set")
    );
    assert_eq!(status("ro", "iommu=pt", TRANSLATED), Status::Missing);
    assert_eq!(status("iommu=nopt", "iommu=pt", PASSTHROUGH), other("iommu=nopt"));
    assert_eq!(status("mem_encrypt=on", "iommu=pt", PASSTHROUGH), Status::Missing);
    assert_eq!(status("ro", "intel_iommu=on", VTD_ON), default("CONFIG_INTEL_IOMMU_DEFAULT_ON=y"));
    assert_eq!(
        status("ro", "intel_iommu=on", DEBIAN),
        default("CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y")
    );
    assert_eq!(status("iommu=off", "intel_iommu=on", VTD_ON), Status::Missing);
    assert_eq!(status("intel_iommu=off", "intel_iommu=on", VTD_ON), other("intel_iommu=off"));
    // Firmware can opt in where the default is off.
    assert_eq!(status("ro", "intel_iommu=off", "CONFIG_INTEL_IOMMU=y\n"), Status::Missing);
    assert_eq!(status("ro", "iommu=pt", ""), Status::Missing);
}

#[test]
fn built_in_arguments_count_as_the_kernel_reads_them() {
    let prepended = "CONFIG_CMDLINE_BOOL=y\nCONFIG_CMDLINE=\"iommu=pt quiet\"\n";
    let instead =
        "CONFIG_CMDLINE_BOOL=y\nCONFIG_CMDLINE=\"iommu=nopt\"\nCONFIG_CMDLINE_OVERRIDE=y\n";
    let stand_in = "CONFIG_CMDLINE=\"iommu.passthrough=1\"\n";
    let status = |line: &str, config: &str| status_on(Arch::X86_64, line, "iommu=pt", config);
    assert_eq!(status("ro", prepended), default("CONFIG_CMDLINE"));
    assert_eq!(status("iommu=nopt", prepended), other("iommu=nopt"));
    assert_eq!(status("iommu=pt", instead), other("iommu=nopt"));
    assert_eq!(status("ro", stand_in), Status::Missing);
    let line = CommandLine::parse("ro");
    let passthrough =
        |config: &str| iommu_passthrough(&line, &KernelDefaults::parse(config), Arch::X86_64);
    assert_eq!(passthrough(prepended), Some(true));
    assert_eq!(passthrough(instead), Some(false));
}

#[test]
fn unwanted_things_are_gone_or_linger() {
    let edit = edit_of(&[], &["nomodeset", "pci=noats", "iommu=off"]).expect("fine");
    let all = edit.satisfied_by(
        &CommandLine::parse("pci=noaer,noats nomodesetx"),
        &KernelDefaults::default(),
    );
    let status: Vec<_> = all.into_iter().map(|finding| finding.status).collect();
    assert_eq!(
        status,
        [Status::Gone, Status::Lingering { found: "pci=noaer,noats".to_owned() }, Status::Gone]
    );
}

#[test]
fn effective_values() {
    let none = KernelDefaults::default();
    let line = CommandLine::parse;
    let x86 = Arch::X86_64;
    assert_eq!(iommu_passthrough(&line("iommu=pt"), &none, x86), Some(true));
    assert_eq!(iommu_passthrough(&line("iommu=pt"), &none, Arch::Aarch64), None);
    assert_eq!(iommu_passthrough(&line("iommu.passthrough=1 iommu=nopt"), &none, x86), Some(false));
    assert_eq!(
        iommu_passthrough(&line("ro"), &KernelDefaults::parse(TRANSLATED), x86),
        Some(false)
    );
    let pci = line("pci=config_acs=a;b,noats pci=realloc,config_acs=c,realloc=off");
    assert_eq!(pci_suboption(&pci, "config_acs").as_deref(), Some("c"));
    assert_eq!(pci_suboption(&pci, "realloc").as_deref(), Some("off"));
    assert_eq!(pci_suboption(&pci, "noats").as_deref(), Some(""));
    assert_eq!(pci_suboption(&pci, "noari"), None);
    assert_eq!(pci_suboption(&line("pci=realloc"), "realloc").as_deref(), Some("on"));
}

#[test]
fn the_same_arguments_in_another_order_are_said_to_be_that() {
    let status = |set: &[&str], line: &str| {
        let edit = edit_of(set, &[]).expect("fine");
        edit.satisfied_by(&CommandLine::parse(line), &KernelDefaults::default()).remove(0).status
    };
    let set = ["console=tty0", "console=ttyS0"];
    let reordered = status(&set, "console=ttyS0 ro console=tty0");
    assert!(
        matches!(&reordered, Status::Reordered { found, rule, .. }
            if found == "console=ttyS0 console=tty0" && rule.contains("/dev/console")),
        "{reordered:?}"
    );
    assert!(matches!(status(&set, "console=ttyS0 console=tty1"), Status::Other { .. }));
    assert!(matches!(status(&set, "console=tty0 console=ttyS0"), Status::Present));
}
