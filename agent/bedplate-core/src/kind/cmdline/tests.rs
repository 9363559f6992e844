use super::*;
use crate::plan::KindId;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;

#[test]
fn the_class_of_boot_that_arguments_wait_for() {
    for cold in [
        "iommu=pt",
        "intel_iommu=on",
        "amd_iommu=off",
        "iommu.passthrough=1",
        "iommu.strict=0",
        "intel-iommu=on",
        "pci=realloc",
        "pci",
    ] {
        assert_eq!(effect_of([cold].into_iter()), Effect::ColdBoot, "{cold}");
        assert_eq!(effect_of(["quiet", cold].into_iter()), Effect::ColdBoot, "{cold}");
    }
    for ordinary in ["quiet", "hugepages=8", "pcie_aspm=off", "iommufd.x=1", "nosmt"] {
        assert_eq!(effect_of([ordinary].into_iter()), Effect::NextBoot, "{ordinary}");
    }
    assert_eq!(effect_of(std::iter::empty()), Effect::ColdBoot, "unknown");
}

#[test]
fn only_what_turns_passthrough_on_waits_for_it() {
    let waits = |kind, subject: &str| {
        let (subject, effect) = (subject.to_owned(), Effect::ColdBoot);
        waits_for_passthrough(&Pending { kind, subject, running: None, next: None, effect })
    };
    assert!(waits(NAME, "iommu=pt") && waits(NAME, "iommu.passthrough=1"));
    for other in ["iommu=nopt", "iommu.passthrough=0", "iommu.strict=0", "pci=realloc"] {
        assert!(!waits(NAME, other), "{other}");
    }
    assert!(!waits(KindId::Modules, "iommu=pt"), "of another kind");
}

/// A kernel booted with three arguments of bedplate's, whose boot entry has lost two of them since.
#[test]
fn what_was_taken_off_the_line_stays_until_the_boot() {
    let spec = HostSpec::from_toml(
        "loader = 'debian'\ncmdline = 'pci=noaer iommu=pt'\n\
         running-cmdline = 'ro pci=noaer,realloc iommu=pt hugepagesz=2M hugepages=8'",
    );
    let host = spec.unwrap().build();
    let facts = observe(&host, Depth::Plan);
    let tokens =
        ["iommu=pt", "pci=realloc", "hugepagesz=2M", "hugepages=8", "nosmt"].map(str::to_owned);
    assert_eq!(
        gone_at_next_boot(&host, &facts, &tokens),
        ["pci=realloc", "hugepagesz=2M hugepages=8"]
    );
}
