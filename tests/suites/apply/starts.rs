//! VFs without a driver while their attributes are set. Killed at every step, the next run binds the driver. A VF that was
//! assigned to a guest meanwhile is not changed. The plans are the real ones.

use bedplate_base::value::vf::{Mac, VfAttributes};
use bedplate_core::apply::{ApplyReport, Outcome};
use bedplate_core::engine;
use bedplate_core::plan::Plan;
use bedplate_core::profile::{LayerText, load, shipped};
use bedplate_host::{Writer as _, boot_id};
use bedplate_tests::fake::nic::{as_made, table};
use bedplate_tests::fake::{Fuse, Machine};

use crate::nic::{LINK, adjust, has_driver, machine, vf};
use crate::scenario::{NUMVFS, ledger, plan_of, revert, run};

const PROFILE: &str = "schema = 1\nname = \"vf\"\n[[sriov.devices]]\nname = \"nics\"\n\
                       select = { address = \"0000:18:00.0\" }\nvfs = 2\n\
                       vf = { mac = \"derived\", trust = true }\n";

/// The same rule without attributes, and a profile without rules.
const PLAIN: &str = "schema = 1\nname = \"vf\"\n[[sriov.devices]]\nname = \"nics\"\n\
                     select = { address = \"0000:18:00.0\" }\nvfs = 2\n";
const AUTOPROBE: &str = "/sys/bus/pci/devices/0000:18:00.0/sriov_drivers_autoprobe";
const NO_RULE: &str = "schema = 1\nname = \"vf\"\n";

fn plan(machine: &Machine) -> Plan {
    plan_for(machine, PROFILE)
}

fn plan_for(machine: &Machine, profile: &str) -> Plan {
    let layer = LayerText { path: "profile.toml", text: profile };
    let loaded = load(&[layer], shipped()).unwrap();
    engine::prepare_loaded(&machine.reader(), loaded).unwrap().plan
}

fn apply(machine: &Machine, fuse: &Fuse) -> ApplyReport {
    run(machine, &plan(machine), fuse)
}

fn link(number: u8) -> String {
    format!("/sys/bus/pci/devices/0000:18:00.{number}/driver")
}

fn give_to_guest(machine: &Machine, number: u8) {
    let vf = format!("0000:18:00.{number}");
    let mut writer = machine.writer(&Fuse::none());
    writer.write_attribute("/sys/bus/pci/drivers/mlx5_core/unbind", &vf, 1).unwrap();
    writer.write_attribute("/sys/bus/pci/drivers/vfio-pci/bind", &vf, 1).unwrap();
}

fn driver(machine: &Machine, number: u8) -> String {
    let link = std::fs::read_link(machine.at(&link(number))).unwrap();
    link.file_name().unwrap().to_string_lossy().into_owned()
}

fn assert_done(machine: &Machine, context: &str) {
    assert_eq!(machine.text(NUMVFS), "2\n", "{context}");
    for number in [0, 1] {
        let found = vf(machine, number);
        let mac = Mac([0x9e, 0x63, 0xc1 + number.to_le_bytes()[0], 0, 0, 1]);
        assert_eq!((found.mac, found.trust), (Some(mac), Some(true)), "{context}");
        assert!(has_driver(machine, number), "{context}: VF {number} has no driver");
    }
    let again = plan(machine).body;
    assert_eq!((again.changes, again.blockers), (vec![], vec![]), "{context}");
}

/// Calls `each` with every step at which an undisturbed run can be killed.
fn at_every_step(
    make: impl Fn() -> Machine,
    attempt: impl Fn(&Machine, &Fuse),
    each: impl Fn(&Machine, &str),
) {
    for step in 0.. {
        let machine = make();
        let fuse = Fuse::at(step);
        attempt(&machine, &fuse);
        if !fuse.blown() {
            assert!(step > 10, "only {step} steps");
            return;
        }
        each(&machine, &format!("killed at step {step}, after {:?}", fuse.trail().last()));
    }
}

#[test]
fn interrupted_vf_creation_is_finished_or_reverted() {
    let attempt = |machine: &Machine, fuse: &Fuse| drop(apply(machine, fuse));
    at_every_step(
        || machine(0),
        attempt,
        |machine, context| {
            let report = apply(machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(machine, context);
        },
    );
    at_every_step(
        || machine(0),
        attempt,
        |machine, context| {
            let (_, report) = revert(machine, &Fuse::none(), true);
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_eq!(machine.text(NUMVFS), "0\n", "{context}");
            assert!(ledger(machine).starts.is_empty(), "{context}");
        },
    );
}

#[test]
fn pending_drivers_start_with_any_later_profile() {
    for (present, profile) in [(0, PLAIN), (2, PLAIN), (2, NO_RULE)] {
        let attempt = |machine: &Machine, fuse: &Fuse| drop(apply(machine, fuse));
        at_every_step(
            || machine(present),
            attempt,
            |machine, context| {
                // Twice: the fake kernel binds no driver by itself when VFs are created.
                for _ in 0..2 {
                    let report = run(machine, &plan_for(machine, profile), &Fuse::none());
                    assert!(report.succeeded(), "{present} {profile} {context}: {report:#?}");
                }
                let context = format!("{present} {profile} {context}");
                assert_eq!(machine.text(AUTOPROBE), "1\n", "{context}");
                for number in (0..2).filter(|_| present > 0) {
                    assert!(has_driver(machine, number), "{context}: VF {number} has no driver");
                }
                assert_eq!(plan_for(machine, profile).body.changes, [], "{context}");
            },
        );
    }
}

#[test]
fn existing_vfs_get_their_driver_back() {
    let attempt = |machine: &Machine, fuse: &Fuse| drop(apply(machine, fuse));
    at_every_step(
        || machine(2),
        attempt,
        |machine, context| {
            let report = apply(machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(machine, context);
        },
    );
    let assert_back = |machine: &Machine, context: &str| {
        let (plan, report) = revert(machine, &Fuse::none(), false);
        assert!(report.succeeded(), "{context}: {report:#?}");
        assert_eq!(plan.refused, [], "{context}");
        for number in [0, 1] {
            assert_eq!(vf(machine, number), as_made(), "{context}");
            assert!(has_driver(machine, number), "{context}: VF {number} has no driver");
        }
        assert!(ledger(machine).starts.is_empty() && ledger(machine).vfs.is_empty(), "{context}");
    };
    at_every_step(|| machine(2), attempt, assert_back);
    let applied = || {
        let machine = machine(2);
        assert!(apply(&machine, &Fuse::none()).succeeded());
        assert_done(&machine, "undisturbed");
        machine
    };
    let attempt = |machine: &Machine, fuse: &Fuse| drop(revert(machine, fuse, false));
    at_every_step(applied, attempt, assert_back);
}

/// VFs created again, as many as before: their count is not in the ledger, so they stay, and their drivers start.
#[test]
fn revert_starts_pending_drivers() {
    let machine = machine(2);
    let mut writer = machine.writer(&Fuse::none());
    writer.write_attribute("/sys/bus/pci/drivers/mlx5_core/unbind", "0000:18:00.2", 1).unwrap();
    let boot = boot_id::read(&machine.reader()).unwrap();
    let mut known = ledger(&machine);
    let key = bedplate_core::setting::VfKey {
        pf: "0000:18:00.0".parse().unwrap(),
        interface: LINK.into(),
        vf: 1,
    };
    known.owe_start(&key, &boot, 5);
    machine.put("/var/lib/bedplate/ledger.json", known.text().unwrap());
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert_eq!((plan.steps.len(), report.succeeded()), (1, true), "{plan:?}");
    assert!(has_driver(&machine, 1) && ledger(&machine).starts.is_empty());
}

#[test]
fn vf_assigned_to_a_guest_is_not_changed() {
    let machine = machine(2);
    let mac = VfAttributes { mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..VfAttributes::default() };
    let change = plan_of(vec![adjust(mac, true)]);
    assert_eq!(run(&machine, &change, &Fuse::none()).changes[0].outcome, Outcome::Done);
    give_to_guest(&machine, 2);
    let (plan, _) = revert(&machine, &Fuse::none(), false);
    assert_eq!(plan.steps, []);
    assert_eq!(
        plan.refused[0].reason,
        "in use (bound to vfio-pci: possibly assigned to a guest), and reverting this restarts its driver: MAC address unset"
    );
    assert_eq!(ledger(&machine).vfs.len(), 1, "the record stays");
    // Not with force either: the guest would lose it.
    let (_, report) = revert(&machine, &Fuse::none(), true);
    assert!(!report.succeeded(), "{report:?}");
    assert_eq!((driver(&machine, 2).as_str(), vf(&machine, 1).mac), ("vfio-pci", mac.mac));

    // Assigned to the guest after the plan was made.
    let machine = self::machine(2);
    give_to_guest(&machine, 2);
    let report = run(&machine, &change, &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert_eq!(why, "VF 0000:18:00.2 is bound to vfio-pci: plan again");
    assert_eq!((driver(&machine, 2).as_str(), vf(&machine, 1)), ("vfio-pci", as_made()));
    assert!(ledger(&machine).starts.is_empty());
}

#[test]
fn driver_is_not_unbound_without_autoprobe() {
    let machine = machine(2);
    machine.put("/sys/bus/pci/devices/0000:18:00.0/sriov_drivers_autoprobe", "0\n");
    let mac = VfAttributes { mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..VfAttributes::default() };
    let report = run(&machine, &plan_of(vec![adjust(mac, true)]), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("sriov_drivers_autoprobe of 0000:18:00.0 is 0"), "{why}");
    assert!(has_driver(&machine, 1));
}

/// An unbind that exceeds its limit finishes later.
#[test]
fn slow_unbind_is_followed_by_a_start() {
    let mut machine = machine(2);
    machine.habits.slow_unbind = true;
    let mac = VfAttributes { mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..VfAttributes::default() };
    let report = run(&machine, &plan_of(vec![adjust(mac, true)]), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("still at it"), "{why}");
    assert!(has_driver(&machine, 1), "{report:?}");
    assert_eq!(table(machine.root(), LINK).unwrap().vfs[&1], as_made());
    assert!(ledger(&machine).starts.is_empty());
}

/// Further requests to the PF would wait for the same lock: it is not changed, and the report says so.
#[test]
fn unresponsive_pf_is_not_changed() {
    let mut machine = machine(0);
    machine.habits.silent = true;
    let fuse = Fuse::none();
    let report = apply(&machine, &fuse);
    let Outcome::Failed { restored, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    let left: Vec<(&str, &str)> =
        restored.left.iter().map(|left| (left.subject.as_str(), left.why.as_str())).collect();
    let why = "skipped: 0000:18:00.0 timed out and may still be busy";
    assert_eq!(left, [(NUMVFS, why)]);
    let asked = |step: &&String| step.contains("drivers_probe") || step.contains(" of VF ");
    assert_eq!(fuse.trail().iter().filter(asked).count(), 1, "{:#?}", fuse.trail());
    // When it responds again, the next run finishes.
    machine.habits.silent = false;
    assert!(apply(&machine, &Fuse::none()).succeeded());
    assert_done(&machine, "it answers again");
}
