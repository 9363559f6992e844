//! Changes that wait for a boot and are not visible on the running host. The ledger records them with the boot in which
//! they were made. Every later plan reports them until the boot, the module's removal, or the revert of the change.

use bedplate_core::apply::{self, ApplyReport, Executor};
use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::{Check, Effect, Plan, RebootNeed, pending_need};
use bedplate_core::profile::{LayerText, load, shipped};
use bedplate_core::readback;
use bedplate_facts::Depth;
use bedplate_host::Reader;
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{ledger, revert};

const OPTIONS: &str =
    "options = { nvidia = { NVreg_Hidden = 1, NVreg_Shown = 1 } }\nblacklist = [\"nouveau\"]\n";

fn machine() -> Machine {
    let machine = Machine::new();
    machine.put("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    for module in ["nvidia", "nouveau"] {
        machine.put(&format!("/sys/module/{module}/initstate"), "live\n");
    }
    machine.put("/sys/module/nvidia/parameters/NVreg_Shown", "0\n");
    machine
}

fn plan(machine: &Machine, modules: &str) -> Plan {
    let text = format!("schema = 1\nname = \"t\"\n[modules]\ngpudirect = \"none\"\n{modules}");
    let loaded = load(&[LayerText { path: "t.toml", text: &text }], shipped()).expect("a profile");
    let reader = machine.reader();
    let facts = observe(&reader, Depth::Plan);
    engine::plan(&loaded.profile, &facts, &reader, &ledger(machine)).plan
}

fn apply(machine: &Machine, modules: &str) {
    let report = try_to_apply(machine, modules, &Fuse::none());
    assert!(report.succeeded(), "{report:?}");
}

fn try_to_apply(machine: &Machine, modules: &str, fuse: &Fuse) -> ApplyReport {
    let plan = plan(machine, modules);
    let reader = machine.reader();
    let facts = observe(&reader, Depth::Plan);
    let check = |check: &Check, reader: &dyn Reader| readback::check(reader, &facts, check);
    let mut ledger: Ledger = ledger(machine);
    let executor = Executor {
        reader: &reader,
        writer: &mut machine.writer(fuse),
        checker: &check,
        watch: &mut |_| {},
    };
    apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH)
}

/// Subjects of the waiting changes, and the reboot that they need.
fn waits(machine: &Machine, modules: &str) -> (Vec<String>, RebootNeed) {
    let plan = plan(machine, modules);
    let mut subjects: Vec<String> =
        plan.body.pending.iter().map(|pending| pending.subject.clone()).collect();
    subjects.sort();
    (subjects, pending_need(&plan.body.pending))
}

const ALL: [&str; 3] =
    ["blacklist nouveau", "options nvidia NVreg_Hidden", "options nvidia NVreg_Shown"];

fn nothing() -> (Vec<String>, RebootNeed) {
    (Vec::new(), RebootNeed::None)
}

#[test]
fn every_plan_until_the_boot_reports_waiting_changes() {
    let machine = machine();
    let planned = plan(&machine, OPTIONS);
    assert_eq!(planned.body.changes[0].effect, Effect::NextBoot);
    apply(&machine, OPTIONS);
    for _ in 0..2 {
        assert_eq!(waits(&machine, OPTIONS), (ALL.map(str::to_owned).to_vec(), RebootNeed::Reboot));
        assert!(plan(&machine, OPTIONS).body.changes.is_empty());
        apply(&machine, OPTIONS);
    }
    // After the boot sysfs shows one of them; changes that sysfs does not show are taken as done.
    machine.put("/proc/sys/kernel/random/boot_id", "another\n");
    machine.put("/sys/module/nvidia/parameters/NVreg_Shown", "1\n");
    assert_eq!(waits(&machine, OPTIONS), nothing());
}

#[test]
fn unloaded_module_waits_for_nothing() {
    let machine = machine();
    apply(&machine, OPTIONS);
    std::fs::remove_dir_all(machine.at("/sys/module/nouveau")).expect("ours");
    std::fs::remove_dir_all(machine.at("/sys/module/nvidia")).expect("ours");
    assert_eq!(waits(&machine, OPTIONS), nothing());
}

#[test]
fn change_reverted_in_the_same_boot_waits_for_nothing() {
    let machine = machine();
    apply(&machine, OPTIONS);
    apply(&machine, "");
    assert_eq!(waits(&machine, ""), nothing());
    assert_eq!(ledger(&machine).waiting, []);
    apply(&machine, OPTIONS);
    revert(&machine, &Fuse::none(), false);
    assert_eq!(ledger(&machine).waiting, []);
}

/// A file needs no boot if the module already runs with its values.
#[test]
fn value_that_the_module_runs_with_needs_no_boot() {
    let machine = machine();
    let options = "options = { nvidia = { NVreg_Shown = 0 } }\n";
    let planned = plan(&machine, options);
    assert_eq!((planned.body.changes[0].effect, planned.reboot), (Effect::Now, RebootNeed::None));
    apply(&machine, options);
    assert_eq!(waits(&machine, options), nothing());
}

/// At whichever step an apply is killed, the next one knows of the pending boot.
#[test]
fn kill_at_any_step_keeps_the_pending_boot() {
    let options = "options = { nvidia = { NVreg_Hidden = 1 } }\n";
    let mut cut = 0;
    for step in 0.. {
        let machine = machine();
        let fuse = Fuse::at(step);
        try_to_apply(&machine, options, &fuse);
        if !fuse.blown() {
            break;
        }
        cut += 1;
        apply(&machine, options);
        assert_ne!(waits(&machine, options), nothing(), "cut at {step}: {:?}", fuse.trail().last());
    }
    assert!(cut > 3, "{cut}");
}

#[test]
fn rolled_back_change_waits_for_nothing() {
    let machine = machine();
    // The initramfs tool cannot be run: the change fails after its file was written.
    machine.put("/usr/sbin/update-initramfs", "");
    let report = try_to_apply(&machine, ONE, &Fuse::none());
    assert!(!report.succeeded(), "{report:?}");
    assert!(!machine.at("/etc/modprobe.d/zz-bedplate.conf").exists());
    assert_eq!(ledger(&machine).waiting, []);
}

const ONE: &str = "options = { nvidia = { NVreg_Hidden = 1 } }\n";
const TWO: &str = "options = { nvidia = { NVreg_Hidden = 2 } }\n";

/// A host that was booted with [`ONE`] in its file.
fn booted_with_one() -> Machine {
    let machine = machine();
    apply(&machine, ONE);
    machine.put("/proc/sys/kernel/random/boot_id", "another\n");
    assert_eq!(waits(&machine, ONE), nothing());
    machine
}

#[test]
fn file_restored_in_a_later_boot_needs_no_boot() {
    for edited in [None, Some("options nvidia NVreg_Hidden=3\n")] {
        let machine = booted_with_one();
        match edited {
            Some(text) => machine.put("/etc/modprobe.d/zz-bedplate.conf", text),
            None => {
                std::fs::remove_file(machine.at("/etc/modprobe.d/zz-bedplate.conf"))
                    .expect("there");
            }
        }
        assert_eq!(plan(&machine, ONE).body.changes[0].effect, Effect::Now);
        apply(&machine, ONE);
        assert_eq!(waits(&machine, ONE), nothing());
    }
}

#[test]
fn change_undone_within_a_boot_needs_no_boot() {
    for other in [TWO, ""] {
        let machine = booted_with_one();
        apply(&machine, other);
        apply(&machine, ONE);
        assert_eq!(waits(&machine, ONE), nothing(), "{other}");
        assert_eq!(ledger(&machine).waiting, []);
    }
}

/// A file written in this boot needs a reboot, even if it only restores the earlier content.
#[test]
fn file_restored_in_the_boot_of_its_change_waits() {
    let machine = booted_with_one();
    apply(&machine, TWO);
    std::fs::remove_file(machine.at("/etc/modprobe.d/zz-bedplate.conf")).expect("there");
    apply(&machine, TWO);
    assert_eq!(waits(&machine, TWO).1, RebootNeed::Reboot);
}
