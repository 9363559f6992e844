//! NIC settings written by netlink, VF attributes and eswitch modes: applied, rolled back, reverted.

use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, Mac, VfAttributes, VfTable, Vlan};
use bedplate_core::apply::{Left, Outcome};
use bedplate_core::plan::{Action, Change, KindId};
use bedplate_core::revert::Step;
use bedplate_core::setting::{SetEswitch, SetVf, VfKey};
use bedplate_host::snapshot_paths::{eswitch_at, vfs_at};
use bedplate_host::{Reader as _, Writer as _};
use bedplate_tests::fake::nic::{as_made, table};
use bedplate_tests::fake::tree::times;
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{
    NUMVFS, change, ledger, machine as bare_machine, plan_of, revert, run, write,
};

const PF: &str = "0000:18:00.0";
pub const LINK: &str = "ens1f0";
const AUTOPROBE: &str = "/sys/bus/pci/devices/0000:18:00.0/sriov_drivers_autoprobe";

fn pf() -> PciAddress {
    PF.parse().unwrap()
}

/// A machine with a NIC whose driver supports everything, and this many VFs bound to their driver.
pub fn machine(vfs: u16) -> Machine {
    let machine = bare_machine();
    machine.put(&format!("/sys/bus/pci/devices/{PF}/net/{LINK}/flags"), "0x1003\n");
    machine.put("/sys/bus/pci/drivers/mlx5_core/unbind", "");
    machine.put("/sys/bus/pci/drivers_probe", "");
    machine.put("/proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
    machine.put(&eswitch_at(pf()), "\"legacy\"");
    let table = VfTable { mac: Some(Mac([0x9c, 0x63, 0xc0, 0, 0, 1])), ..VfTable::default() };
    machine.put(&vfs_at(LINK), serde_json::to_vec(&table).unwrap());
    std::os::unix::fs::symlink(
        "../../../bus/pci/drivers/mlx5_core",
        machine.at(&format!("/sys/bus/pci/devices/{PF}/driver")),
    )
    .unwrap();
    if vfs > 0 {
        let made = vec![write(NUMVFS, "0", &vfs.to_string())];
        run(&machine, &plan_of(vec![change(KindId::Sriov, "made", made)]), &Fuse::none());
        // Their interfaces are down: they are not in use.
        for number in 1..=vfs {
            let vf = format!("/sys/bus/pci/devices/0000:18:00.{number}");
            let mut writer = machine.writer(&Fuse::none());
            writer.write_attribute("/sys/bus/pci/drivers_probe", &vf[21..], 1).unwrap();
            machine.put(&format!("{vf}/net/v{number}/x"), "");
            machine.put(&format!("/sys/class/net/v{number}/flags"), "0x1002\n");
        }
        // The ledger does not know them, as if another program had created them.
        std::fs::remove_file(machine.at("/var/lib/bedplate/ledger.json")).unwrap();
    }
    machine
}

fn set(vf: u16, before: VfAttributes, after: VfAttributes, start: bool) -> Action {
    let interface = LINK.to_owned();
    Action::SetVf(SetVf {
        key: VfKey { pf: pf(), interface, vf },
        before,
        after,
        start,
        limit_s: 5,
    })
}

fn wanted(vf: u16) -> VfAttributes {
    VfAttributes {
        mac: Some(Mac([2, 0, 0, 0, 0, vf.to_le_bytes()[0]])),
        vlan: Some(Vlan { id: 100, ..Vlan::default() }),
        max_tx_rate: Some(1000),
        ..VfAttributes::default()
    }
}

/// As planned by the sriov kind: no probing while the VFs are created. Each driver starts once its VF has its attributes.
fn create() -> Change {
    let mut actions =
        vec![write(AUTOPROBE, "1", "0"), write(NUMVFS, "0", "2"), write(AUTOPROBE, "0", "1")];
    let none = VfAttributes::default();
    actions.extend([0, 1].map(|vf| set(vf, none, wanted(vf), true)));
    change(KindId::Sriov, PF, actions)
}

pub fn adjust(after: VfAttributes, start: bool) -> Change {
    change(KindId::Sriov, PF, vec![set(1, as_made().intersect(&after), after, start)])
}

pub fn vf(machine: &Machine, number: u16) -> VfAttributes {
    table(machine.root(), LINK).unwrap().vfs[&number]
}

pub fn has_driver(machine: &Machine, number: u16) -> bool {
    let link = format!("/sys/bus/pci/devices/0000:18:00.{}/driver", number + 1);
    machine.at(&link).symlink_metadata().is_ok()
}

#[test]
fn new_vfs_have_their_attributes_before_their_driver_starts() {
    let machine = machine(0);
    let fuse = Fuse::none();
    let plan = plan_of(vec![create()]);
    let report = run(&machine, &plan, &fuse);
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    for number in [0, 1] {
        assert_eq!(vf(&machine, number), wanted(number).or(&as_made()));
        assert!(has_driver(&machine, number));
    }
    let trail = fuse.trail();
    let at = |what: &str| trail.iter().rposition(|step| step.contains(what));
    assert!(at("of VF 1 of ens1f0") < at("drivers_probe"), "{trail:#?}");
    let before = times(machine.root());
    assert_eq!(run(&machine, &plan, &Fuse::none()).changes[0].outcome, Outcome::AlreadyDone);
    assert_eq!(times(machine.root()), before);
    // They go with their VFs: there is nothing to restore.
    assert!(ledger(&machine).vfs.is_empty());
    std::fs::remove_file(machine.at("/sys/bus/pci/devices/0000:18:00.1/driver")).unwrap();
    std::fs::remove_file(machine.at("/sys/bus/pci/devices/0000:18:00.2/driver")).unwrap();
    let (_, report) = revert(&machine, &Fuse::none(), true);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(machine.text(NUMVFS), "0\n");
}

#[test]
fn unsupported_attribute_rolls_back_the_new_vfs() {
    let mut machine = machine(0);
    machine.habits.not_for_vfs = vec!["VLAN"];
    let report = run(&machine, &plan_of(vec![create()]), &Fuse::none());
    let Outcome::Failed { action, why, restored, .. } = &report.changes[0].outcome else {
        panic!("{report:?}")
    };
    assert!(action.starts_with("set VF 0 of 0000:18:00.0 (ens1f0): MAC address 02:"), "{action}");
    assert!(why.starts_with("driver mlx5_core: cannot set "), "{why}");
    assert!(why.ends_with("the driver cannot do it"), "{why}");
    assert_eq!(restored.left, [], "{restored:?}");
    assert_eq!((machine.text(NUMVFS).as_str(), machine.text(AUTOPROBE).as_str()), ("0\n", "1\n"));
}

#[test]
fn attributes_of_existing_vfs_are_reverted() {
    let machine = machine(2);
    let vlan =
        VfAttributes { vlan: Some(Vlan { id: 7, ..Vlan::default() }), ..VfAttributes::default() };
    let report = run(&machine, &plan_of(vec![adjust(vlan, false)]), &Fuse::none());
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    assert_eq!((vf(&machine, 0), vf(&machine, 1)), (as_made(), vlan.or(&as_made())));
    // A second attribute of the same VF: the first original is recorded for each.
    let trust = VfAttributes { trust: Some(true), ..VfAttributes::default() };
    run(&machine, &plan_of(vec![adjust(trust, false)]), &Fuse::none());
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    let [Step::Vf(SetVf { before, after, start: false, .. })] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (before.to_string(), after.to_string()),
        ("VLAN 7, trust on".into(), "VLAN none, trust off".into())
    );
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(vf(&machine, 1), as_made());
    assert!(ledger(&machine).vfs.is_empty());
}

#[test]
fn externally_changed_attribute_is_reverted_only_by_force() {
    let machine = machine(2);
    let rate = VfAttributes { max_tx_rate: Some(10), ..VfAttributes::default() };
    run(&machine, &plan_of(vec![adjust(rate, false)]), &Fuse::none());
    let mut theirs = table(machine.root(), LINK).unwrap();
    theirs.vfs.get_mut(&1).unwrap().max_tx_rate = Some(77);
    machine.put(&vfs_at(LINK), serde_json::to_vec(&theirs).unwrap());
    let (plan, _) = revert(&machine, &Fuse::none(), false);
    assert_eq!(plan.refused[0].subject, "VF 1 of 0000:18:00.0");
    assert_eq!(plan.refused[0].reason, "set to max tx rate 77 Mbit/s by another tool since");
    assert_eq!(vf(&machine, 1).max_tx_rate, Some(77));
    assert_eq!(ledger(&machine).vfs.len(), 1, "the record stays");
    let (_, report) = revert(&machine, &Fuse::none(), true);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(vf(&machine, 1), as_made());
    // An outdated plan is not carried out.
    let mut machine = self::machine(2);
    machine.habits.not_for_vfs = vec!["MAC address"];
    machine.put(&vfs_at(LINK), serde_json::to_vec(&theirs).unwrap());
    let report = run(&machine, &plan_of(vec![adjust(rate, false)]), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("changed since planning"), "{why}");
}

#[test]
fn vf_gets_its_driver_back_even_if_its_address_fails() {
    let mut machine = machine(2);
    let mac = VfAttributes { mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..VfAttributes::default() };
    let fuse = Fuse::none();
    let report = run(&machine, &plan_of(vec![adjust(mac, true)]), &fuse);
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    let trail: Vec<String> =
        fuse.trail().into_iter().filter(|step| !step.contains("bedplate")).collect();
    assert_eq!(
        trail,
        [
            "write /sys/bus/pci/drivers/mlx5_core/unbind",
            "set MAC address 02:00:00:00:00:09 of VF 1 of ens1f0",
            "write /sys/bus/pci/drivers_probe"
        ]
    );
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded() && has_driver(&machine, 1), "{report:?}");
    assert_eq!(vf(&machine, 1), as_made());

    machine.habits.not_for_vfs = vec!["MAC address"];
    let report = run(&machine, &plan_of(vec![adjust(mac, true)]), &Fuse::none());
    let Outcome::Failed { restored, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert_eq!(restored.left, Vec::<Left>::new());
    assert!(has_driver(&machine, 1));
    assert!(ledger(&machine).vfs.is_empty(), "nothing of it is bedplate's");
}

/// The PF identifies it: in another eswitch mode its interface may have another name.
#[test]
fn renamed_interface_is_reverted_by_its_pf() {
    let machine = machine(2);
    let renamed = |from: &str, to: &str| {
        let net = |name: &str| machine.at(&format!("/sys/bus/pci/devices/{PF}/net/{name}"));
        std::fs::rename(net(from), net(to)).unwrap();
        std::fs::rename(machine.at(&vfs_at(from)), machine.at(&vfs_at(to))).unwrap();
    };
    renamed(LINK, "ens1f0np0");
    let rate = VfAttributes { max_tx_rate: Some(10), ..VfAttributes::default() };
    let report = run(&machine, &plan_of(vec![adjust(rate, false)]), &Fuse::none());
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    renamed("ens1f0np0", LINK);
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(vf(&machine, 1), as_made());
}

/// 2 VFs in legacy mode, then 2 in switchdev mode, and back, always without VFs in between.
#[test]
fn eswitch_mode_changes_without_vfs() {
    let machine = machine(2);
    let mode = || machine.reader().eswitch(pf()).unwrap().unwrap();
    let switch = Action::SetEswitch(SetEswitch {
        pf: pf(),
        before: EswitchMode::Legacy,
        after: EswitchMode::Switchdev,
        limit_s: 5,
    });
    let too_early = change(KindId::Sriov, PF, vec![switch.clone()]);
    let report = run(&machine, &plan_of(vec![too_early]), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("driver mlx5_core") && why.contains("no VFs created"), "{why}");

    let actions = vec![write(NUMVFS, "2", "0"), switch, write(NUMVFS, "0", "3")];
    let report = run(&machine, &plan_of(vec![change(KindId::Sriov, PF, actions)]), &Fuse::none());
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    assert_eq!((mode(), machine.text(NUMVFS).as_str()), (EswitchMode::Switchdev, "3\n"));
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{plan:#?} {report:?}");
    let subjects: Vec<String> = plan.steps.iter().map(Step::subject).collect();
    assert_eq!(subjects, [NUMVFS, "eswitch of 0000:18:00.0", NUMVFS]);
    assert_eq!((mode(), machine.text(NUMVFS).as_str()), (EswitchMode::Legacy, "2\n"));
    assert!(ledger(&machine).eswitches.is_empty());
}

#[test]
fn eswitch_with_vfs_in_use_is_not_reverted() {
    let machine = machine(0);
    let (before, after) = (EswitchMode::Legacy, EswitchMode::Switchdev);
    let switch = Action::SetEswitch(SetEswitch { pf: pf(), before, after, limit_s: 5 });
    run(&machine, &plan_of(vec![change(KindId::Sriov, PF, vec![switch])]), &Fuse::none());
    machine.put(NUMVFS, "4\n");
    let (plan, _) = revert(&machine, &Fuse::none(), false);
    assert_eq!(
        plan.refused[0].reason,
        "changing the mode removes the VFs, which are in use: 4 VFs that are not visible"
    );
    machine.put(NUMVFS, "0\n");
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(machine.reader().eswitch(pf()), Ok(Some(before)));
}

/// As many VFs before as after: their count is not in the ledger, and they are removed and created again for the mode.
#[test]
fn vfs_are_recreated_around_an_eswitch_change() {
    let machine = machine(2);
    let (before, after) = (EswitchMode::Legacy, EswitchMode::Switchdev);
    let switch = Action::SetEswitch(SetEswitch { pf: pf(), before, after, limit_s: 5 });
    for number in [1, 2] {
        let link = format!("/sys/bus/pci/devices/0000:18:00.{number}/driver");
        std::fs::remove_file(machine.at(&link)).unwrap();
    }
    let actions = vec![write(NUMVFS, "2", "0"), switch, write(NUMVFS, "0", "2")];
    run(&machine, &plan_of(vec![change(KindId::Sriov, PF, actions)]), &Fuse::none());
    assert!(!ledger(&machine).attributes.contains_key(NUMVFS));
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{plan:#?} {report:?}");
    let subjects: Vec<String> = plan.steps.iter().map(Step::subject).collect();
    assert_eq!(subjects, [NUMVFS, "eswitch of 0000:18:00.0", NUMVFS]);
    assert_eq!(machine.reader().eswitch(pf()), Ok(Some(before)));
    assert_eq!(machine.text(NUMVFS), "2\n");
}
