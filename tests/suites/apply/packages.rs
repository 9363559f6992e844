//! A running package manager: no tool runs at the same time, and if it is detected early enough nothing is written either.

use bedplate_core::apply::{ApplyReport, Outcome, Restored};
use bedplate_core::plan::KindId;
use bedplate_core::revert::{RevertReport, StepOutcome};
use bedplate_tests::fake::tools::GRUB_CFG;
use bedplate_tests::fake::tree::foreign;
use bedplate_tests::fake::{Fuse, LOCKED, Machine};

use crate::scenario::{
    DEFAULT, DROP_IN, NEW_CONF, NUMVFS, apply, assert_done, change, file, ledger, machine, plan_of,
    revert, run, update_grub,
};

const LOCK: &str = "/var/lib/dpkg/lock-frontend";

fn unlock(machine: &Machine) {
    std::fs::remove_file(machine.at(LOCK)).unwrap();
}

/// The failures of an apply, each of which names the lock.
fn failures(report: &ApplyReport) -> Vec<(&str, &Restored)> {
    let failed = report.changes.iter().filter_map(|change| match &change.outcome {
        Outcome::Failed { why, restored, .. } => {
            assert!(why.contains("package manager") && why.contains(LOCK), "{why}");
            Some((change.id.as_str(), restored))
        }
        _ => None,
    });
    failed.collect()
}

#[test]
fn change_of_any_kind_waits_for_packages_with_nothing_written() {
    for kind in [KindId::Cmdline, KindId::Modules] {
        let machine = machine();
        let write = file(&machine.reader(), NEW_CONF, Some("options nvidia NVreg_X=1\n")).unwrap();
        let plan = plan_of(vec![change(kind, "x", vec![write, update_grub()])]);
        machine.put(LOCK, LOCKED);
        let before = foreign(machine.root());
        let fuse = Fuse::none();
        let report = run(&machine, &plan, &fuse);
        assert_eq!(failures(&report), [(&*format!("{kind}/x"), &Restored::default())]);
        assert_eq!(foreign(machine.root()), before);
        assert!(!fuse.trail().iter().any(|step| step.starts_with("run ")), "{:?}", fuse.trail());
        assert!(ledger(&machine).files.is_empty() && ledger(&machine).owed.is_empty());
        unlock(&machine);
        assert!(run(&machine, &plan, &Fuse::none()).succeeded());
    }
}

#[test]
fn lock_taken_before_the_tool_rolls_back_the_change() {
    let steps = {
        let (machine, fuse) = (machine(), Fuse::none());
        apply(&machine, &fuse);
        fuse.trail().iter().position(|step| step == "run update-grub").unwrap()
    };
    let machine = machine();
    let (menu, default) = (machine.text(GRUB_CFG), machine.text(DEFAULT));
    let lock = machine.at(LOCK);
    let fuse = Fuse::meddling(steps - 1, move || {
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(lock, LOCKED).unwrap();
    });
    let report = apply(&machine, &fuse);
    let failed = failures(&report);
    assert_eq!(failed.len(), 1, "{report:?}");
    assert!(failed[0].1.left.is_empty(), "{failed:?}");
    assert_eq!((machine.text(GRUB_CFG), machine.text(DEFAULT)), (menu, default));
    assert!(!machine.at(DROP_IN).exists() && ledger(&machine).owed.is_empty());
    unlock(&machine);
    assert!(apply(&machine, &Fuse::none()).succeeded());
    assert_done(&machine, "unlocked");
}

/// Subjects of the steps that failed, each of which names the lock.
fn failed(report: &RevertReport) -> Vec<&str> {
    let failed = report.steps.iter().filter_map(|step| match &step.outcome {
        StepOutcome::Failed { why, .. } => {
            assert!(why.contains("package manager") && why.contains(LOCK), "{why}");
            Some(step.subject.as_str())
        }
        _ => None,
    });
    failed.collect()
}

#[test]
fn revert_waits_for_packages_with_boot_config_unchanged() {
    let machine = machine();
    assert!(apply(&machine, &Fuse::none()).succeeded());
    let (menu, default) = (machine.text(GRUB_CFG), machine.text(DEFAULT));
    machine.put(LOCK, LOCKED);
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert_eq!(failed(&report), [DEFAULT, DROP_IN, "update-grub"]);
    assert_eq!((machine.text(GRUB_CFG), machine.text(DEFAULT)), (menu, default));
    assert!(machine.at(DROP_IN).exists());
    assert_eq!(machine.text(NUMVFS), "0\n", "the rest goes back");
    unlock(&machine);
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded() && ledger(&machine).files.is_empty(), "{report:?}");
    assert!(!machine.at(DROP_IN).exists());
}

/// A package manager may start between the writing of the files and the tool.
#[test]
fn lock_before_the_tool_of_a_revert_leaves_it_pending() {
    let run_at = {
        let (machine, fuse) = (machine(), Fuse::none());
        assert!(apply(&machine, &Fuse::none()).succeeded());
        revert(&machine, &fuse, false);
        fuse.trail().iter().position(|step| step == "run update-grub").unwrap()
    };
    let machine = machine();
    assert!(apply(&machine, &Fuse::none()).succeeded());
    let (menu, lock) = (machine.text(GRUB_CFG), machine.at(LOCK));
    let fuse = Fuse::meddling(run_at - 1, move || {
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(lock, LOCKED).unwrap();
    });
    let (_, report) = revert(&machine, &fuse, false);
    assert_eq!(failed(&report), ["update-grub"]);
    assert_eq!(machine.text(GRUB_CFG), menu);
    unlock(&machine);
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded() && ledger(&machine).files.is_empty(), "{report:?}");
    assert!(!machine.text(GRUB_CFG).contains("iommu=pt"));
}
