//! Killed at every step, once and twice in a row: each file has its old or its new content, the next apply finishes, revert
//! restores everything.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use bedplate_core::plan::KindId;
use bedplate_host::write::DirWriter;
use bedplate_tests::fake::tree::{foreign, leftovers, times};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{
    DEFAULT, WANTED, apply, assert_done, change, contents, file, ledger, machine, plan_of, revert,
    revert_with, run, run_with,
};

/// Loading a module is not undone: everything else must be as before.
fn assert_undone(machine: &Machine, before: &BTreeMap<String, String>, context: &str) {
    let without_module = |tree: BTreeMap<String, String>| -> BTreeMap<String, String> {
        tree.into_iter().filter(|(path, _)| !path.starts_with("sys/module")).collect()
    };
    let (now, before) = (without_module(foreign(machine.root())), without_module(before.clone()));
    for (path, was) in &before {
        assert_eq!(now.get(path), Some(was), "{context}: {path}");
    }
    let new: Vec<&String> = now.keys().filter(|path| !before.contains_key(*path)).collect();
    assert!(new.is_empty(), "{context}: new are {new:?}");
    let ledger = ledger(machine);
    assert!(ledger.files.is_empty() && ledger.attributes.is_empty(), "{context}: {ledger:?}");
    assert!(ledger.registers.is_empty() && ledger.directories.is_empty(), "{context}: {ledger:?}");
    assert!(ledger.owed.is_empty() && ledger.owned.is_empty(), "{context}: {ledger:?}");
    assert!(
        !machine.at("/var/lib/bedplate/blobs").exists(),
        "{context}: saved contents are still there"
    );
    assert_eq!(leftovers(machine.root()), Vec::<String>::new(), "{context}");
}

fn assert_old_or_new(machine: &Machine, old: &BTreeMap<&str, Option<String>>, context: &str) {
    for (path, content) in contents(machine) {
        let new = WANTED.iter().find(|(wanted, _)| *wanted == path).unwrap().1;
        assert!(
            content == old[path] || content.as_deref() == new,
            "{context}: {path} is {content:?}"
        );
    }
}

/// The number of steps of an undisturbed run.
fn steps_of_apply() -> usize {
    let machine = machine();
    let fuse = Fuse::none();
    let report = apply(&machine, &fuse);
    assert!(report.succeeded(), "{report:#?}");
    assert_eq!(report.warnings, Vec::<String>::new());
    assert_done(&machine, "undisturbed");
    let steps = fuse.trail().len();
    assert!(steps > 100, "the scenario has only {steps} steps");
    steps
}

#[test]
fn second_apply_does_nothing() {
    let machine = machine();
    assert!(apply(&machine, &Fuse::none()).succeeded());
    let before = times(machine.root());
    let fuse = Fuse::none();
    assert!(apply(&machine, &fuse).succeeded());
    assert_eq!(fuse.trail(), Vec::<String>::new());
    assert_eq!(times(machine.root()), before);
}

#[test]
fn same_plan_again_does_nothing() {
    let machine = machine();
    let plan = crate::scenario::plan(&machine, &ledger(&machine));
    assert!(crate::scenario::run(&machine, &plan, &Fuse::none()).succeeded());
    let before = times(machine.root());
    let fuse = Fuse::none();
    let report = crate::scenario::run(&machine, &plan, &fuse);
    assert!(report.succeeded(), "{report:#?}");
    assert_eq!(fuse.trail(), Vec::<String>::new());
    assert_eq!(times(machine.root()), before);
}

#[test]
fn apply_killed_at_any_step_is_finished_and_reverted() {
    for step in 0..steps_of_apply() {
        let machine = machine();
        let (before, old) = (foreign(machine.root()), contents(&machine));
        let fuse = Fuse::at(step);
        apply(&machine, &fuse);
        let context = format!("killed at step {step}, after {:?}", fuse.trail().last());
        assert!(fuse.blown(), "{context}");
        assert_old_or_new(&machine, &old, &context);
        let report = apply(&machine, &Fuse::none());
        assert!(report.succeeded(), "{context}: {report:#?}");
        assert_done(&machine, &context);
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:#?} {report:#?}");
        assert_undone(&machine, &before, &context);
    }
}

#[test]
fn apply_killed_at_any_step_is_reverted() {
    for step in 0..steps_of_apply() {
        let machine = machine();
        let before = foreign(machine.root());
        let fuse = Fuse::at(step);
        apply(&machine, &fuse);
        let context = format!("killed at step {step}, after {:?}", fuse.trail().last());
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:#?} {report:#?}");
        assert_undone(&machine, &before, &context);
    }
}

#[test]
fn revert_killed_at_any_step_is_finished_by_the_next() {
    let mut step = 0;
    loop {
        let machine = machine();
        let (before, old) = (foreign(machine.root()), contents(&machine));
        assert!(apply(&machine, &Fuse::none()).succeeded());
        let fuse = Fuse::at(step);
        revert(&machine, &fuse, false);
        let context = format!("revert killed at step {step}, after {:?}", fuse.trail().last());
        if !fuse.blown() {
            assert!(step > 20, "only {step} steps");
            break;
        }
        assert_old_or_new(&machine, &old, &context);
        if step % 2 == 0 {
            let report = apply(&machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(&machine, &context);
        }
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:#?} {report:#?}");
        assert_undone(&machine, &before, &context);
        step += 1;
    }
}

const LINE: &str = "/etc/kernel/cmdline";

/// A host with a kernel-install that compares the ages of /etc/kernel/cmdline and /etc/default/grub.
fn with_kernel_cmdline() -> Machine {
    let machine = machine();
    machine.put("/usr/lib/kernel/install.d/20-grub.install", "");
    machine.put(LINE, "root=/dev/r ro\n");
    machine
}

/// Makes /etc/kernel/cmdline the newer file.
fn set_ages(machine: &Machine) {
    for (path, age) in [(DEFAULT, 1), (LINE, 2)] {
        let file = File::options().write(true).open(machine.at(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(age)).unwrap();
    }
}

/// Asserts that /etc/kernel/cmdline has its content and is the newer file.
fn assert_newer(machine: &Machine, context: &str) {
    let modified = |path| machine.at(path).metadata().unwrap().modified().unwrap();
    assert!(modified(LINE) >= modified(DEFAULT), "{context}");
    assert_eq!(machine.text(LINE), "root=/dev/r ro\n", "{context}");
    assert!(!ledger(machine).files.contains_key(LINE), "{context}");
}

/// Red Hat's kernel-install treats /etc/kernel/cmdline as outdated if it is older than /etc/default/grub.
#[test]
fn kernel_cmdline_stays_newer_after_a_kill() {
    for kills_revert in [false, true] {
        let run = |machine: &Machine, fuse: &Fuse| match kills_revert {
            true => drop(revert(machine, fuse, false)),
            false => drop(apply(machine, fuse)),
        };
        for step in 0.. {
            let machine = with_kernel_cmdline();
            if kills_revert {
                assert!(apply(&machine, &Fuse::none()).succeeded());
            }
            set_ages(&machine);
            let fuse = Fuse::at(step);
            run(&machine, &fuse);
            if !fuse.blown() {
                assert!(step > 20, "only {step} steps");
                break;
            }
            run(&machine, &Fuse::none());
            let context = format!("killed at step {step}, after {:?}", fuse.trail().last());
            assert_newer(&machine, &context);
        }
    }
}

/// A writer that fails to write /etc/kernel/cmdline this many times, as on a full disk.
fn full_disk(machine: &Machine, mut failures: usize) -> DirWriter {
    let gate = move |step: &str, path: &str| {
        if (step, path) == ("create", LINE) && failures > 0 {
            failures -= 1;
            return Err(io::Error::other("no space"));
        }
        Ok(())
    };
    DirWriter::image(machine.root(), false).unwrap().gated(Box::new(gate))
}

/// The renewal of /etc/kernel/cmdline fails once, or until the end of the run.
#[test]
fn kernel_cmdline_stays_newer_after_a_full_disk() {
    for failures in [1, usize::MAX] {
        let machine = with_kernel_cmdline();
        set_ages(&machine);
        let before = machine.text(DEFAULT);
        let write = file(&machine.reader(), DEFAULT, Some("GRUB_TIMEOUT=1\n")).unwrap();
        let plan = plan_of(vec![change(KindId::Cmdline, "x", vec![write])]);
        let report = run_with(&machine, &plan, &mut full_disk(&machine, failures));
        assert!(!report.succeeded(), "{report:?}");
        assert_eq!(machine.text(DEFAULT), before);
        if failures > 1 {
            run(&machine, &plan_of(Vec::new()), &Fuse::none());
        }
        assert_newer(&machine, &format!("apply, {failures}"));
    }
    let machine = with_kernel_cmdline();
    assert!(apply(&machine, &Fuse::none()).succeeded());
    set_ages(&machine);
    let (_, report) = revert_with(&machine, &mut full_disk(&machine, 1), false);
    assert!(!report.succeeded(), "{report:?}");
    assert_newer(&machine, "revert");
}

#[test]
fn apply_killed_twice_is_finished_or_reverted() {
    let steps = steps_of_apply();
    // Every first step, with second steps spread over the whole run.
    for (number, first) in (0..steps).enumerate() {
        let second = number * 37 % steps;
        let machine = machine();
        let before = foreign(machine.root());
        apply(&machine, &Fuse::at(first));
        apply(&machine, &Fuse::at(second));
        let context = format!("killed at step {first}, then at step {second}");
        if number % 2 == 0 {
            let report = apply(&machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(&machine, &context);
        }
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:#?} {report:#?}");
        assert_undone(&machine, &before, &context);
    }
}
