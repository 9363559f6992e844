//! Status of profile entries for lines and kernels.

use bedplate_base::Arch;

use super::super::{CommandLine, Edit, KernelDefaults, Status, iommu_passthrough, pci_suboption};
use super::{edit_of, rows, tokens};

/// Status of the only entry, as text.
fn status_on(arch: Arch, line: &str, set: &str, config: &str) -> String {
    let edit = Edit::new(arch, tokens(&[set])).expect("sensible");
    let all = edit.satisfied_by(&CommandLine::parse(line), &KernelDefaults::parse(config));
    assert_eq!(all.len(), 1);
    match &all[0].status {
        Status::Present => "present".to_owned(),
        Status::Missing => "missing".to_owned(),
        Status::Equivalent { by } => format!("equivalent: {by}"),
        Status::KernelDefault { by } => format!("default: {by}"),
        Status::Other { found } => format!("other: {found}"),
        status => panic!("{status:?}"),
    }
}

/// Lines, profile entries, and expected status.
const STANDINGS: &str = r#"
    # The same words are present.
    ro iommu=pt | iommu=pt | present
    ro "iommu=pt" | iommu=pt | present
    pci=noaer,realloc | pci=realloc | present
    hugepages=4 | hugepages=4 | present
    # Other words for the same are equivalent.
    iommu.passthrough=1 | iommu=pt | equivalent: iommu.passthrough=1
    iommu=nopt iommu.passthrough=y | iommu=pt | equivalent: iommu=nopt iommu.passthrough=y
    intel_iommu=on,sm_on | intel_iommu=on | equivalent: intel_iommu=on,sm_on
    intel_iommu=off intel_iommu=on | intel_iommu=on | equivalent: intel_iommu=off intel_iommu=on
    pci=noaer pci=realloc | pci=realloc | equivalent: pci=realloc
    pci=realloc=on | pci=realloc | equivalent: pci=realloc=on
    modprobe.blacklist=a,nouveau | modprobe.blacklist=nouveau | equivalent: modprobe.blacklist=a,nouveau
    # The last word counts.
    iommu=pt iommu.passthrough=0 | iommu=pt | other: iommu=pt iommu.passthrough=0
    iommu=pt,nopt | iommu=pt | other: iommu=pt,nopt
    iommu=usedac,pt | iommu=pt | other: iommu=usedac,pt
    pci=realloc=off | pci=realloc | other: pci=realloc=off
    iommu.passthrough=perhaps | iommu=pt | other: iommu.passthrough=perhaps
    module_blacklist=a module_blacklist=b | module_blacklist=a | other: module_blacklist=a
    hugepages=4 hugepages=5 | hugepages=4 | other: hugepages=4 hugepages=5
    # Silence is missing.
    foo_iommu=pt -- iommu=pt | iommu=pt | missing
"#;

#[test]
fn status_follows_arguments_on_line() {
    for [line, set, expected] in rows(STANDINGS) {
        assert_eq!(status_on(Arch::X86_64, line, set, ""), expected, "{line}: {set}");
    }
    assert_eq!(status_on(Arch::Aarch64, "iommu=pt", "iommu.passthrough=1", ""), "missing");
}

const PASSTHROUGH: &str = "CONFIG_X86_64=y\nCONFIG_IOMMU_DEFAULT_PASSTHROUGH=y\n";
const TRANSLATED: &str =
    "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set\nCONFIG_IOMMU_DEFAULT_DMA_LAZY=y\n";
const VTD_ON: &str = "CONFIG_INTEL_IOMMU=y\nCONFIG_INTEL_IOMMU_DEFAULT_ON=y\n";
const DEBIAN: &str =
    "CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y\n# CONFIG_INTEL_IOMMU_DEFAULT_ON is not set\n";

#[test]
fn kernel_default_applies_if_line_does_not_set_it() {
    for (line, set, config, expected) in [
        ("ro", "iommu=pt", PASSTHROUGH, "default: CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y"),
        ("ro", "iommu=nopt", TRANSLATED, "default: CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set"),
        ("ro", "iommu=pt", TRANSLATED, "missing"),
        ("iommu=nopt", "iommu=pt", PASSTHROUGH, "other: iommu=nopt"),
        ("mem_encrypt=on", "iommu=pt", PASSTHROUGH, "missing"),
        ("ro", "intel_iommu=on", VTD_ON, "default: CONFIG_INTEL_IOMMU_DEFAULT_ON=y"),
        ("ro", "intel_iommu=on", DEBIAN, "default: CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y"),
        ("iommu=off", "intel_iommu=on", VTD_ON, "missing"),
        ("intel_iommu=off", "intel_iommu=on", VTD_ON, "other: intel_iommu=off"),
        // Firmware can opt in if the default is off.
        ("ro", "intel_iommu=off", "CONFIG_INTEL_IOMMU=y\n", "missing"),
        ("ro", "iommu=pt", "", "missing"),
    ] {
        assert_eq!(status_on(Arch::X86_64, line, set, config), expected, "{line}: {set}");
    }
}

#[test]
fn built_in_arguments_apply_like_in_kernel() {
    let prepended = "CONFIG_CMDLINE_BOOL=y\nCONFIG_CMDLINE=\"iommu=pt quiet\"\n";
    let instead =
        "CONFIG_CMDLINE_BOOL=y\nCONFIG_CMDLINE=\"iommu=nopt\"\nCONFIG_CMDLINE_OVERRIDE=y\n";
    let stand_in = "CONFIG_CMDLINE=\"iommu.passthrough=1\"\n";
    let status = |line: &str, config: &str| status_on(Arch::X86_64, line, "iommu=pt", config);
    assert_eq!(status("ro", prepended), "default: CONFIG_CMDLINE");
    assert_eq!(status("iommu=nopt", prepended), "other: iommu=nopt");
    assert_eq!(status("iommu=pt", instead), "other: iommu=nopt");
    assert_eq!(status("ro", stand_in), "missing");
    let line = CommandLine::parse("ro");
    let passthrough =
        |config: &str| iommu_passthrough(&line, &KernelDefaults::parse(config), Arch::X86_64);
    assert_eq!(passthrough(prepended), Some(true));
    assert_eq!(passthrough(instead), Some(false));
}

#[test]
fn unwanted_arguments_are_gone_or_lingering() {
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
fn same_arguments_in_other_order_are_reordered() {
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
