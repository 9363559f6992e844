use super::*;
use crate::kind::{plan_alone, resolve};
use crate::ledger::Ledger;
use crate::profile::model::Profile;
use crate::profile::of_text;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;

#[test]
fn iommu_and_pci_arguments_need_cold_boot() {
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

/// A running kernel with three arguments of bedplate, two of which its boot entry has lost since.
#[test]
fn removed_arguments_stay_until_next_boot() {
    let spec = HostSpec::from_toml(
        "loader = 'debian'\ncmdline = 'pci=noaer iommu=pt'\n\
         running-cmdline = 'ro pci=noaer,realloc iommu=pt hugepagesz=2M hugepages=8'",
    );
    let host = spec.unwrap().build();
    let facts = observe(&host, Depth::Plan);
    let tokens = ["iommu=pt", "pci=realloc", "hugepagesz=2M", "hugepages=8", "nosmt"]
        .map(Token::from_static);
    assert_eq!(
        gone_at_next_boot(&host, &facts, &tokens),
        ["pci=realloc", "hugepagesz=2M hugepages=8"]
    );
}

/// The boot entry has an argument that the running kernel lacks.
#[test]
fn passthrough_is_pending_only_if_argument_enables_it() {
    let waits = |mode: &str, args: &str, next: &str, running: &str| {
        let spec =
            format!("loader = 'debian'\ncmdline = '{next}'\nrunning-cmdline = 'ro {running}'");
        let host = HostSpec::from_toml(&spec).unwrap().build();
        let facts = observe(&host, Depth::Plan);
        let profile = format!(
            "schema = 1\n[iommu]\nmode = '{mode}'\n[cmdline]\nargs = [{args}]\n[acs]\npolicy = 'keep'\n"
        );
        let plan = plan_of(&of_text(&profile), &host, &facts);
        assert!(!plan.pending.is_empty(), "{plan:#?}");
        plan.iommu.passthrough_pending
    };
    assert!(waits("keep", "'iommu=pt'", "iommu=pt", ""));
    assert!(waits("keep", "'iommu.passthrough=1'", "iommu.passthrough=1", ""));
    assert!(!waits("keep", "'iommu.strict=0'", "iommu.strict=0", ""));
    assert!(!waits("keep", "'iommu.passthrough=0'", "iommu.passthrough=0", "iommu=pt"));
    assert!(!waits("keep", "'pci=realloc'", "pci=realloc", ""));
}

/// A removed argument enables no passthrough, and arm64 kernels ignore `iommu=pt`.
#[test]
fn removed_or_inert_passthrough_is_not_pending() {
    let host = |spec: &str| HostSpec::from_toml(spec).unwrap().build();
    let pending = |profile: &str, host: &dyn Reader| {
        let plan = plan_of(&of_text(profile), host, &observe(host, Depth::Plan));
        assert!(!plan.pending.is_empty(), "{plan:#?}");
        plan.iommu.passthrough_pending
    };
    let profile = "schema = 1\n[iommu]\nmode = 'keep'\n[cmdline]\nabsent = ['iommu=pt']\n";
    let gone = "loader = 'debian'\ncmdline = 'quiet'\nrunning-cmdline = 'ro iommu=pt'";
    assert!(!pending(profile, &host(gone)));
    let profile = "schema = 1\n[iommu]\nmode = 'keep'\n[cmdline]\nargs = ['ARG']\n";
    for (arg, turns_on) in [("iommu=pt", false), ("iommu.passthrough=1", true)] {
        let arm = format!(
            "machine = 'grace'\nloader = 'debian'\ncmdline = '{arg}'\nrunning-cmdline = 'ro'"
        );
        assert_eq!(pending(&profile.replace("ARG", arg), &host(&arm)), turns_on, "{arg}");
    }
}

fn plan_of(profile: &Profile, reader: &dyn Reader, facts: &Facts) -> KindPlan {
    let ledger = Ledger::default();
    plan_alone(&KIND, (profile, &resolve(profile, facts, &ledger)), facts, reader, &ledger)
}
