//! Plans for PFs and their VFs.

mod attributes;
mod disturbing;
mod left_alone;
mod resolving;

use super::section::{Sriov, SriovManaged};
use super::*;
use crate::desired::{FunctionSelector, SriovCount, SriovRule};
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::{Action, Change, Effect, Rationale};
use crate::profile::of_text;
use crate::setting::WriteAttribute;
use bedplate_facts::Facts;
use bedplate_testhosts::fixture::{Files, Machine, at, facts, lab};

const PF: &str = "0000:24:00.0";
const NUMVFS: &str = "/sys/bus/pci/devices/0000:24:00.0/sriov_numvfs";
const AUTOPROBE: &str = "/sys/bus/pci/devices/0000:24:00.0/sriov_drivers_autoprobe";

fn rule(name: &str, select: FunctionSelector, vfs: SriovCount) -> SriovRule {
    let why = vec![Rationale::new("asked for", "site.toml:9")];
    SriovRule { name: name.into(), select, vfs, why, ..SriovRule::default() }
}

fn profile(rules: Vec<SriovRule>) -> Sriov {
    Sriov { managed: SriovManaged::Bedplate, rules }
}

/// One rule for the PF at 24:00.0.
fn single_rule(count: u16, vf_driver: VfDriver) -> Sriov {
    let select = FunctionSelector { address: Some(at(PF)), ..FunctionSelector::default() };
    profile(vec![SriovRule { vf_driver, ..rule("fabric", select, SriovCount::Number(count)) }])
}

fn auto(count: u16) -> Sriov {
    single_rule(count, VfDriver::Auto)
}

fn vfio(count: u16) -> Sriov {
    single_rule(count, VfDriver::Named("vfio-pci".into()))
}

fn plan_on(profile: &Sriov, machine: &Machine, reader: &Files) -> KindPlan {
    plan_with(profile, &machine.facts(), reader)
}

fn plan_with(profile: &Sriov, facts: &Facts, reader: &Files) -> KindPlan {
    plan_after(&Ledger::default(), profile, facts, reader)
}

fn plan_after(ledger: &Ledger, profile: &Sriov, facts: &Facts, reader: &Files) -> KindPlan {
    let resolved = resolve(profile, facts);
    assert_eq!((&resolved.blockers[..], &resolved.unknowns[..]), (&[][..], &[][..]));
    let desired = Desired { sriov: resolved.vfs, ..Desired::default() };
    plan_alone(&KIND, (&of_text("schema = 1"), &desired), facts, reader, ledger)
}

fn plan_of(profile: &Sriov, machine: &Machine) -> KindPlan {
    plan_on(profile, machine, &Files::default())
}

fn the_change(section: &KindPlan) -> &Change {
    assert_eq!(section.blockers, []);
    assert_eq!(section.changes.len(), 1, "{section:?}");
    &section.changes[0]
}

fn write(path: &str, before: u16, after: u16, limit_s: u32) -> Action {
    Action::WriteAttribute(WriteAttribute {
        path: path.into(),
        before: before.to_string(),
        after: after.to_string(),
        limit_s,
    })
}

/// Returns the lab with `count` VFs on 24:00.0, and files that show their interfaces as down.
fn with_vfs(count: u8, driver: Option<&str>) -> (Machine, Files) {
    let (mut machine, mut files) = (lab(), Files::default());
    for n in 0..count {
        let vf = machine.vf(&format!("0000:24:10.{n}"), PF);
        vf.driver = driver.map(str::to_owned);
        let net = vf.net[0].clone();
        if driver != Some("mlx5_core") {
            vf.net.clear();
        }
        files.files.insert(format!("/sys/class/net/{net}/flags"), "0x1002\n".into());
    }
    (machine, files)
}

#[test]
fn creating_first_vfs_is_one_write() {
    let machine = lab();
    let section = plan_of(&auto(4), &machine);
    let change = the_change(&section);
    assert_eq!(change.id, "sriov/0000:24:00.0");
    assert_eq!(change.subject.text, "PF 0000:24:00.0 (net000024000)");
    assert_eq!(change.actions, [write(NUMVFS, 0, 4, 80)]);
    assert_eq!(
        (change.items[0].before.as_deref(), change.items[0].after.as_deref()),
        (Some("0 VFs"), Some("4 VFs"))
    );
    assert_eq!(change.items[0].why[1].source.as_deref(), Some("site.toml:9"));
    assert_eq!((change.effect, change.disrupts.len()), (Effect::EveryBoot, 0));
}

#[test]
fn matching_vfs_are_unchanged() {
    let (machine, files) = with_vfs(4, Some("mlx5_core"));
    for profile in [auto(4), single_rule(4, VfDriver::Named("mlx5_core".into()))] {
        let section = plan_on(&profile, &machine, &files);
        assert_eq!((section.changes.len(), section.unchanged.len()), (0, 1), "{section:?}");
    }
    let none = plan_of(&auto(0), &lab());
    assert_eq!(
        (none.changes.len(), none.unchanged[0].state.as_str()),
        (0, "0 VFs with the kernel's default driver")
    );
}

#[test]
fn count_of_unused_vfs_changes_through_zero() {
    let (machine, files) = with_vfs(3, Some("mlx5_core"));
    for (count, after) in [(1, "1 VF"), (5, "5 VFs")] {
        let section = plan_on(&auto(count), &machine, &files);
        let change = the_change(&section);
        let limit = 60 + 5 * u32::from(count);
        assert_eq!(change.actions, [write(NUMVFS, 3, 0, 75), write(NUMVFS, 0, count, limit)]);
        assert_eq!(change.items[0].after.as_deref(), Some(after));
        assert!(change.disrupts[0].contains("vf000024100"), "{:?}", change.disrupts);
    }
    let section = plan_on(&auto(0), &machine, &files);
    assert_eq!(the_change(&section).actions, [write(NUMVFS, 3, 0, 75)]);
}

#[test]
fn vfs_in_use_are_never_destroyed() {
    let refused = |machine: &Machine, files: &Files, because: &str| {
        for count in [0, 2, 6] {
            let section = plan_on(&auto(count), machine, files);
            assert_eq!((section.changes.len(), section.blockers.len()), (0, 1), "{because}");
            let reason = &section.blockers[0].reason;
            assert!(reason.contains(because), "{reason} lacks {because}");
        }
        // Other PFs, and this one with an unchanged count, are not blocked.
        let same = plan_on(&auto(3), machine, files);
        assert_eq!((same.blockers.len(), same.unchanged.len()), (0, 1));
    };
    let (machine, mut files) = with_vfs(3, Some("mlx5_core"));
    files.files.insert("/sys/class/net/vf000024101/flags".into(), "0x1003".into());
    refused(&machine, &files, "vf000024101 is up");
    files.files.insert("/sys/class/net/vf000024101/flags".into(), "nonsense".into());
    refused(&machine, &files, "invalid interface flags");
    files.files.remove("/sys/class/net/vf000024101/flags");
    refused(&machine, &files, "is not there");

    let (mut machine, files) = with_vfs(3, Some("mlx5_core"));
    machine.get("0000:24:10.2").net.clear();
    refused(&machine, &files, "another namespace");
    let (machine, files) = with_vfs(3, Some("vfio-pci"));
    refused(&machine, &files, "vfio-pci");
    let (mut machine, files) = with_vfs(3, None);
    machine.tree.functions.remove(&at("0000:24:10.2"));
    refused(&machine, &files, "0000:24:10.2 (not visible");
    let (mut machine, files) = with_vfs(3, None);
    machine.sriov(PF).vfs.truncate(1);
    refused(&machine, &files, "2 VFs that are not visible");
    let (mut machine, files) = with_vfs(3, Some("nvme"));
    machine.get("0000:24:10.0").class = 0x010802;
    refused(&machine, &files, "bound to nvme");
}

#[test]
fn active_rdma_port_counts_as_use_with_interface_down() {
    let (mut machine, mut files) = with_vfs(2, Some("mlx5_core"));
    machine.get("0000:24:10.1").infiniband = vec!["mlx5_3".into()];
    let profile = auto(1);
    let state = "/sys/class/infiniband/mlx5_3/ports/1/state".to_owned();
    files.files.insert(state.clone(), "4: ACTIVE\n".into());
    assert!(
        plan_on(&profile, &machine, &files).blockers[0].reason.contains("mlx5_3 port 1 is active")
    );
    files.files.insert(state.clone(), "1: DOWN\n".into());
    assert_eq!(plan_on(&profile, &machine, &files).changes.len(), 1);
    files.files.remove(&state);
    assert_eq!(plan_on(&profile, &machine, &files).blockers.len(), 1);
}

#[test]
fn unbound_vfs_count_as_unused() {
    let (machine, files) = with_vfs(3, None);
    assert_eq!(plan_on(&auto(1), &machine, &files).changes.len(), 1);
    assert!(!files.asked.borrow().iter().any(|path| path.contains("/class/net/vf")));
}

#[test]
fn named_driver_is_bound_while_probing_is_off() {
    let section = plan_of(&vfio(2), &lab());
    let bind = Action::BindVfs { pf: at(PF), count: 2, driver: "vfio-pci".into(), limit_s: 70 };
    let change = the_change(&section);
    assert_eq!(
        change.actions,
        [
            Action::LoadModule { module: "vfio_pci".into() },
            write(AUTOPROBE, 1, 0, 10),
            write(NUMVFS, 0, 2, 70),
            bind.clone(),
            write(AUTOPROBE, 0, 1, 10),
        ]
    );
    assert!(change.actions.iter().all(Action::is_live));
    assert_eq!(change.items[0].after.as_deref(), Some("2 VFs with driver vfio-pci"));
    // The driver is loaded and probing is already off.
    let mut machine = lab();
    machine.sriov(PF).autoprobe = Reading::Known(false);
    let files = Files::new(&[("/sys/bus/pci/drivers/vfio-pci/new_id", "")]);
    let section = plan_on(&vfio(2), &machine, &files);
    assert_eq!(the_change(&section).actions, [write(NUMVFS, 0, 2, 70), bind.clone()]);
    // Existing VFs without a driver only need binding: an earlier run may have been interrupted.
    let (machine, _) = with_vfs(2, None);
    let section = plan_on(&vfio(2), &machine, &files);
    assert_eq!(the_change(&section).actions, [bind]);
    assert_eq!(the_change(&section).items[0].before.as_deref(), Some("2 VFs without driver"));
}

#[test]
fn unused_vfs_with_wrong_driver_are_recreated() {
    let (machine, mut files) = with_vfs(2, Some("mlx5_core"));
    let profile = vfio(2);
    let section = plan_on(&profile, &machine, &files);
    let actions = &the_change(&section).actions;
    assert_eq!(
        actions[1..4],
        [write(NUMVFS, 2, 0, 70), write(AUTOPROBE, 1, 0, 10), write(NUMVFS, 0, 2, 70)]
    );
    files.files.insert("/sys/class/net/vf000024100/flags".into(), "0x1003".into());
    assert_eq!(plan_on(&profile, &machine, &files).blockers.len(), 1);
}

#[test]
fn vf_driver_none_keeps_probing_off() {
    let none = single_rule(2, VfDriver::None);
    let section = plan_of(&none, &lab());
    assert_eq!(the_change(&section).actions, [write(AUTOPROBE, 1, 0, 10), write(NUMVFS, 0, 2, 70)]);
    let (mut machine, files) = with_vfs(2, None);
    let section = plan_on(&none, &machine, &files);
    assert_eq!(the_change(&section).actions, [write(AUTOPROBE, 1, 0, 10)]);
    machine.sriov(PF).autoprobe = Reading::Known(false);
    assert_eq!(plan_on(&none, &machine, &files).unchanged.len(), 1);
    let auto = auto(2);
    machine.get(PF).sriov = lab().get(PF).sriov.clone();
    machine.sriov(PF).autoprobe = Reading::Known(false);
    assert!(plan_on(&auto, &machine, &files).notes[0].text.contains("autoprobe"));
}

#[test]
fn vfio_needs_an_iommu() {
    let mut facts = lab().facts();
    facts.iommu.active = Reading::Known(vec![]);
    let section = plan_with(&vfio(2), &facts, &Files::default());
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 1));
    assert_eq!(plan_with(&auto(2), &facts, &Files::default()).changes.len(), 1);
}

#[test]
fn pf_without_its_driver_blocks_vf_creation() {
    let mut machine = lab();
    machine.get(PF).driver = None;
    let section = plan_of(&auto(2), &machine);
    assert!(section.blockers[0].reason.contains("ENOENT"), "{section:?}");
    machine.get(PF).driver = Some("vfio-pci".into());
    assert!(plan_of(&auto(2), &machine).blockers[0].reason.contains("guest"));
    assert_eq!(plan_of(&auto(0), &machine).blockers, [], "nothing is to be done");
}

/// Executes the plan's actions on the machine as Linux would.
fn carry_out(actions: &[Action], machine: &mut Machine) {
    let probing = |machine: &mut Machine| machine.sriov(PF).autoprobe == Reading::Known(true);
    for action in actions {
        match action {
            Action::WriteAttribute(WriteAttribute { path, before, after, .. })
                if path == AUTOPROBE =>
            {
                assert_eq!(before == "1", probing(machine));
                let sriov = machine.sriov(PF);
                sriov.autoprobe = Reading::Known(after == "1");
            }
            Action::WriteAttribute(WriteAttribute { path, before, after, .. })
                if path == NUMVFS =>
            {
                let sriov = machine.sriov(PF);
                assert_eq!(sriov.enabled, Reading::Known(before.parse().unwrap()));
                assert!(before == "0" || after == "0", "Linux answers EBUSY");
                sriov.enabled = Reading::Known(0);
                let old = std::mem::take(&mut sriov.vfs);
                machine.tree.functions.retain(|address, _| !old.contains(address));
                let probed = probing(machine);
                for n in 0..after.parse::<u8>().unwrap() {
                    let vf = machine.vf(&format!("0000:24:10.{n}"), PF);
                    vf.driver = probed.then(|| "mlx5_core".into());
                }
            }
            Action::BindVfs { pf, count, driver, .. } => {
                assert_eq!(*pf, at(PF));
                for n in 0..*count {
                    let vf = machine.get(&format!("0000:24:10.{n}"));
                    assert!(vf.driver.is_none(), "a bound VF cannot be bound again");
                    vf.driver = Some(driver.clone());
                }
            }
            Action::LoadModule { .. } => {}
            other => panic!("not expected: {other:?}"),
        }
    }
}

#[test]
fn applied_plan_converges_from_any_start() {
    let drivers = [VfDriver::Auto, VfDriver::None, VfDriver::Named("vfio-pci".into())];
    for present in [0, 2, 3] {
        for bound in [None, Some("mlx5_core")] {
            for (driver, count) in
                drivers.iter().flat_map(|driver| [0, 1, 3].map(|count| (driver, count)))
            {
                let (mut machine, files) = with_vfs(present, bound);
                let profile = single_rule(count, driver.clone());
                let section = plan_on(&profile, &machine, &files);
                let actions: Vec<_> =
                    section.changes.iter().flat_map(|c| c.actions.clone()).collect();
                carry_out(&actions, &mut machine);
                let again = plan_on(&profile, &machine, &files);
                let case = format!("{present} {bound:?} to {count} {driver:?}");
                assert_eq!((&again.changes[..], &again.blockers[..]), (&[][..], &[][..]), "{case}");
                assert_eq!(again.unchanged.len(), 1, "{case}");
            }
        }
    }
}
