//! VF attributes: actions of a plan, and interrupted runs. Plan texts are in tests/data/cases.

use super::*;
use crate::setting::{SetEswitch, SetVf, VfKey, WriteAttribute};
use bedplate_base::value::vf::{EswitchMode, Mac, VfAttributes, VfTable};
use bedplate_host::capability::STATUS;
use bedplate_host::snapshot_paths::{eswitch_at, vfs_at};

const NET: &str = "net000024000";

fn trusted(vf: VfDriver, mac: bool) -> Sriov {
    let mut profile = single_rule(2, vf);
    profile.rules[0].vf.mac = mac;
    profile.rules[0].vf.set.trust = Some(true);
    profile
}

/// Sets the kernel's answer: VFs with or without trust.
fn answer(files: &mut Files, vfs: &[bool]) {
    let vf = |trust: &bool| VfAttributes { trust: Some(*trust), ..VfAttributes::default() };
    let table = VfTable {
        mac: Some(Mac([0x9c, 0x63, 0xc0, 0, 0, 1])),
        vfs: (0..).zip(vfs.iter().map(vf)).collect(),
        ..VfTable::default()
    };
    files.files.insert(vfs_at(NET), serde_json::to_string(&table).unwrap());
    files.files.insert(eswitch_at(at(PF)), "\"legacy\"".into());
    files.files.insert(STATUS.into(), "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n".into());
}

/// Returns each action as a short text.
fn steps(section: &KindPlan) -> Vec<String> {
    let step = |action: &Action| match action {
        Action::WriteAttribute(WriteAttribute { path, after, .. }) => {
            format!("{} {after}", path.rsplit('/').next().unwrap())
        }
        Action::SetVf(SetVf { key: VfKey { vf, .. }, after, start, .. }) => {
            format!("vf {vf} {after} {start}")
        }
        Action::SetEswitch(SetEswitch { after, .. }) => format!("eswitch {after}"),
        Action::BindVfs { driver, .. } => format!("bind {driver}"),
        other => format!("{other:?}"),
    };
    the_change(section).actions.iter().map(step).collect()
}

#[test]
fn new_vfs_get_attributes_before_drivers_start() {
    let mut files = Files::default();
    answer(&mut files, &[]);
    let facts = lab().facts();
    let auto = plan_with(&trusted(VfDriver::Auto, true), &facts, &files);
    assert_eq!(
        steps(&auto),
        [
            "sriov_drivers_autoprobe 0",
            "sriov_numvfs 2",
            "sriov_drivers_autoprobe 1",
            "vf 0 MAC address 9e:63:c1:00:00:01, trust on true",
            "vf 1 MAC address 9e:63:c2:00:00:01, trust on true",
        ]
    );
    let addresses = &the_change(&auto).items[1];
    assert_eq!(addresses.subject, "MAC address of VFs 0-1");
    assert_eq!(addresses.after.as_deref(), Some("9e:63:c1:00:00:01 … 9e:63:c2:00:00:01"));
    files.files.insert("/sys/bus/pci/drivers/vfio-pci".into(), String::new());
    let vfio = plan_with(&trusted(VfDriver::Named("vfio-pci".into()), false), &facts, &files);
    assert_eq!(
        steps(&vfio)[1..],
        [
            "sriov_numvfs 2",
            "vf 0 trust on false",
            "vf 1 trust on false",
            "bind vfio-pci",
            "sriov_drivers_autoprobe 1"
        ]
    );
    let mut switchdev = trusted(VfDriver::None, false);
    switchdev.rules[0].eswitch = Some(EswitchMode::Switchdev);
    let none = plan_with(&switchdev, &facts, &files);
    assert_eq!(
        steps(&none),
        [
            "eswitch switchdev",
            "sriov_drivers_autoprobe 0",
            "sriov_numvfs 2",
            "vf 0 trust on false",
            "vf 1 trust on false",
        ]
    );
}

#[test]
fn only_differing_vfs_are_changed() {
    let (machine, mut files) = with_vfs(2, Some("mlx5_core"));
    answer(&mut files, &[true, false]);
    let section = plan_on(&trusted(VfDriver::Auto, false), &machine, &files);
    assert_eq!(steps(&section), ["vf 1 trust on false"]);
    assert_eq!(the_change(&section).items[0].subject, "trust of VF 1");
    answer(&mut files, &[true, true]);
    let section = plan_on(&trusted(VfDriver::Auto, false), &machine, &files);
    assert_eq!(section.unchanged[0].state, "2 VFs with the kernel's default driver; trust on");
    // The kernel does not list one of them.
    answer(&mut files, &[true]);
    let section = plan_on(&trusted(VfDriver::Auto, false), &machine, &files);
    assert_eq!(section.unknowns[0].reason, "the kernel lists 1 of its 2 VFs: VF 1 is missing");
}

/// Only interfaces with settings are watched: on the rest, each link change would cause a needless wakeup.
#[test]
fn only_pfs_with_attributes_are_watched() {
    let facts = lab().facts();
    let interfaces = |rule: &str| {
        let select = format!("select = {{ address = \"{PF}\" }}");
        let text =
            format!("schema = 1\n[[sriov.devices]]\nname = \"x\"\n{select}\nvfs = 2\n{rule}");
        paths::watch(&of_text(&text), &facts).interfaces
    };
    assert_eq!(interfaces("vf = { trust = true }"), [NET]);
    assert_eq!(interfaces(""), Vec::<String>::new());
}

/// An interface that is up blocks the removal of its VF, and no uevent reports that it went down.
#[test]
fn interfaces_of_vfs_are_watched() {
    let facts = with_vfs(2, Some("mlx5_core")).0.facts();
    let tree = facts.pci.known().unwrap();
    let vfs = tree.functions.values().filter(|one| one.is_vf());
    let nets: Vec<String> = vfs.flat_map(|vf| vf.net.clone()).collect();
    assert_eq!(nets.len(), 2);
    assert_eq!(paths::watch(&of_text("schema = 1\n"), &facts).links, Vec::<String>::new());
    let rule = format!(
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nselect = {{ address = \"{PF}\" }}\nvfs = 4\n"
    );
    assert_eq!(paths::watch(&of_text(&rule), &facts).links, nets);
}

/// Killed after creating VFs or unbinding their drivers, before starting these: the ledger records the VFs that wait.
#[test]
fn interrupted_run_is_finished() {
    let (mut machine, mut files) = with_vfs(2, None);
    answer(&mut files, &[true, false]);
    files.files.insert(bedplate_host::boot_id::PATH.into(), "boot".into());
    let mut ledger = Ledger::default();
    let plan = |ledger: &Ledger, machine: &Machine, vf: VfDriver| {
        plan_after(ledger, &trusted(vf, false), &machine.facts(), &files)
    };
    // Unbound by another program: the VF that differs gets its attribute, but no driver.
    assert_eq!(steps(&plan(&ledger, &machine, VfDriver::Auto)), ["vf 1 trust on false"]);
    let owe = |ledger: &mut Ledger, boot: &str, vf: u16| {
        ledger.owe_start(&VfKey { pf: at(PF), interface: NET.into(), vf }, boot, 60);
    };
    owe(&mut ledger, "an earlier boot", 1);
    owe(&mut ledger, "boot", 0);
    // VF 0 has its attributes, and no driver yet.
    let section = plan(&ledger, &machine, VfDriver::Auto);
    assert_eq!(steps(&section), ["vf 0 trust on true", "vf 1 trust on false"]);
    let subjects: Vec<&str> =
        the_change(&section).items.iter().map(|item| item.subject.as_str()).collect();
    assert_eq!(subjects, ["trust of VF 0", "trust of VF 1", "driver of VF 0"]);
    // The profile no longer sets attributes; the start is still pending.
    let plain = plan_after(&ledger, &auto(2), &machine.facts(), &files);
    assert_eq!(steps(&plain), ["vf 0  true"]);
    // The profile now requests VFs without drivers.
    assert_eq!(
        steps(&plan(&ledger, &machine, VfDriver::None)).last().unwrap(),
        "vf 1 trust on false"
    );
    // Killed while probing was suspended.
    machine.sriov(PF).autoprobe = Reading::Known(false);
    assert_eq!(steps(&plan(&ledger, &machine, VfDriver::Auto)), ["vf 1 trust on false"]);
    let stop = WriteAttribute {
        path: AUTOPROBE.into(),
        before: "1".into(),
        after: "0".into(),
        limit_s: 10,
    };
    ledger.begin_setting(&stop, NAME, "boot", &stop.before);
    owe(&mut ledger, "boot", 1);
    assert_eq!(
        steps(&plan(&ledger, &machine, VfDriver::Auto)),
        ["sriov_drivers_autoprobe 1", "vf 0 trust on true", "vf 1 trust on true"]
    );
}

/// The shipped unit may create VFs but not set their attributes: every run would create and destroy them.
#[test]
fn missing_capability_blocks_attribute_changes() {
    let mut files = Files::default();
    answer(&mut files, &[]);
    let facts = lab().facts();
    let plan = |status: &str, files: &Files| {
        let mut files = Files { files: files.files.clone(), ..Files::default() };
        files.files.insert(STATUS.into(), status.into());
        plan_with(&trusted(VfDriver::Auto, true), &facts, &files)
    };
    let shipped = plan("Uid:\t0\t0\t0\t0\nCapEff:\t000000000029000a\n", &files);
    assert_eq!(shipped.changes, []);
    let blocker = &shipped.blockers[0];
    assert!(blocker.reason.contains("CAP_NET_ADMIN"), "{}", blocker.reason);
    let copy = "mkdir -p $d && cp /usr/share/bedplate/systemd/bedplate-worker@.service.d/vf-attributes.conf $d/";
    assert!(blocker.fix.contains(copy), "{}", blocker.fix);
    // An unprivileged user's plan is never applied.
    let user = plan("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n", &files);
    assert_eq!((user.changes.len(), user.blockers), (1, vec![]));
    assert_eq!(plan("Name:\tbedplate\n", &files).unknowns.len(), 1);
    // VFs without attributes need only sysfs.
    files.files.insert(STATUS.into(), "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\n".into());
    assert_eq!(plan_with(&auto(2), &facts, &files).changes.len(), 1);
}
