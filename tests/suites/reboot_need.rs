//! The daemon's pending reboot matches a fresh plan in every combination of the four states of the command line, and a
//! running argument never needs a boot.

use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::{KindId, Plan, RebootNeed, pending_need};
use bedplate_core::profile::{LayerText, load, shipped};
use bedplate_facts::Depth;
use bedplate_testhosts::HostSpec;

const WANTED: &str =
    "schema = 1\nname = \"t\"\n[iommu]\nmode = \"passthrough\"\n[modules]\ngpudirect = \"none\"\n";
const NOTHING: &str = "schema = 1\nname = \"t\"\n[modules]\ngpudirect = \"none\"\n";

/// Which of the states have `iommu=pt`.
#[derive(Debug, Clone, Copy)]
struct States {
    configured: bool,
    next: bool,
    running: bool,
    effective: bool,
}

fn every() -> impl Iterator<Item = States> {
    (0..16).map(|bits| States {
        configured: bits & 1 != 0,
        next: bits & 2 != 0,
        running: bits & 4 != 0,
        effective: bits & 8 != 0,
    })
}

fn line(has: bool) -> &'static str {
    if has { "console=ttyS0 iommu=pt" } else { "console=ttyS0" }
}

fn plan(states: States, profile: &str, owned: &[&str]) -> Plan {
    let iommu = if states.effective { "passthrough" } else { "translated" };
    // The host is created with boot entries that fit its configuration; then the configuration is replaced.
    let spec = format!(
        "iommu = \"{iommu}\"\ncmdline = \"{}\"\nrunning-cmdline = \"{}\"\n[files]\n\
         \"/etc/default/grub\" = 'GRUB_CMDLINE_LINUX=\"{}\"\n'\n",
        line(states.next),
        line(states.running),
        line(states.configured)
    )
    .replace("\"\n'\n", "\"'\n");
    let host = HostSpec::from_toml(&spec).expect("a host").build();
    let facts = observe(&host, Depth::Plan);
    let loaded =
        load(&[LayerText { path: "t.toml", text: profile }], shipped()).expect("a profile");
    let mut ledger = Ledger::default();
    if !owned.is_empty() {
        ledger.owned.insert(KindId::Cmdline, owned.iter().map(|&token| token.to_owned()).collect());
    }
    engine::plan(&loaded.profile, &facts, &host, &ledger).plan
}

fn writes_boot_configuration(plan: &Plan) -> bool {
    plan.body.changes.iter().any(|change| change.kind == KindId::Cmdline)
}

#[test]
fn only_arguments_not_running_need_a_boot() {
    for states in every() {
        let before = plan(states, WANTED, &["iommu=pt"]);
        let right = states.configured && states.next;
        assert_eq!(writes_boot_configuration(&before), !right, "{states:?}");
        let needed = if states.running { RebootNeed::None } else { RebootNeed::Cold };
        assert_eq!(before.reboot, needed, "{states:?}, planned");

        let after = plan(States { configured: true, next: true, ..states }, WANTED, &["iommu=pt"]);
        assert!(!writes_boot_configuration(&after), "{states:?}: {:#?}", after.body.changes);
        assert_eq!(after.reboot, needed, "{states:?}, a fresh plan");
        assert_eq!(pending_need(&after.body.pending), after.reboot, "{states:?}, the daemon");
    }
}

/// A profile that drops the argument, and one that adds it again before any boot.
#[test]
fn change_and_change_back_need_no_boot() {
    let booted = States { configured: true, next: true, running: true, effective: true };
    let dropped = plan(booted, NOTHING, &["iommu=pt"]);
    assert!(writes_boot_configuration(&dropped), "{dropped:?}");
    let gone = States { configured: false, next: false, ..booted };
    let after = plan(gone, NOTHING, &[]);
    assert_eq!(
        (after.body.changes.len(), pending_need(&after.body.pending)),
        (0, RebootNeed::None)
    );
    let back = plan(gone, WANTED, &[]);
    assert!(writes_boot_configuration(&back));
    assert_eq!(back.reboot, RebootNeed::None);
    assert_eq!(pending_need(&plan(booted, WANTED, &["iommu=pt"]).body.pending), RebootNeed::None);
}
