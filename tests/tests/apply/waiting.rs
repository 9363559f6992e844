//! What waits for a boot and shows nowhere on the running host: remembered by the ledger in the boot it was done in, seen by
//! every later plan, and gone with the boot, the module, or the change itself.

use bedplate::apply::{self, ApplyReport, Hands};
use bedplate::checker;
use bedplate::engine;
use bedplate::facts::{Depth, observe};
use bedplate::host::Reader;
use bedplate::ledger::Ledger;
use bedplate::plan::{Check, Effect, Plan, RebootNeed};
use bedplate::profile::{LayerText, load, shipped};
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

fn apply(machine: &Machine, modules: &str) -> ApplyReport {
    let plan = plan(machine, modules);
    let reader = machine.reader();
    let facts = observe(&reader, Depth::Plan);
    let check = |check: &Check, reader: &dyn Reader| checker::check(reader, &facts, check);
    let mut ledger: Ledger = ledger(machine);
    let fuse = Fuse::none();
    let hands =
        Hands { reader: &reader, writer: &mut machine.writer(&fuse), checker: &check, watch: &mut |_| {} };
    let report = apply::apply(&plan, &mut ledger, hands, jiff::Timestamp::UNIX_EPOCH);
    assert!(report.succeeded(), "{report:?}");
    report
}

/// Subjects of what waits, and what for.
fn waits(machine: &Machine, modules: &str) -> (Vec<String>, RebootNeed) {
    let plan = plan(machine, modules);
    let mut subjects: Vec<String> = plan.body.pending.iter().map(|pending| pending.subject.clone()).collect();
    subjects.sort();
    (subjects, engine::waits_for(&plan))
}

const ALL: [&str; 3] = ["blacklist nouveau", "options nvidia NVreg_Hidden", "options nvidia NVreg_Shown"];

fn nothing() -> (Vec<String>, RebootNeed) {
    (Vec::new(), RebootNeed::None)
}

#[test]
fn every_later_plan_knows_until_the_boot() {
    let machine = machine();
    let planned = plan(&machine, OPTIONS);
    assert_eq!(planned.body.changes[0].effect, Effect::NextBoot);
    apply(&machine, OPTIONS);
    for _ in 0..2 {
        assert_eq!(waits(&machine, OPTIONS), (ALL.map(str::to_owned).to_vec(), RebootNeed::Reboot));
        assert!(plan(&machine, OPTIONS).body.changes.is_empty());
        apply(&machine, OPTIONS);
    }
    // The boot brings the one that sysfs shows, and whatever does not show is taken for done.
    machine.put("/proc/sys/kernel/random/boot_id", "another\n");
    machine.put("/sys/module/nvidia/parameters/NVreg_Shown", "1\n");
    assert_eq!(waits(&machine, OPTIONS), nothing());
}

#[test]
fn a_module_that_is_gone_waits_for_nothing() {
    let machine = machine();
    apply(&machine, OPTIONS);
    std::fs::remove_dir_all(machine.at("/sys/module/nouveau")).expect("ours");
    std::fs::remove_dir_all(machine.at("/sys/module/nvidia")).expect("ours");
    assert_eq!(waits(&machine, OPTIONS), nothing());
}

#[test]
fn taken_back_in_the_same_boot_it_waits_for_nothing() {
    let machine = machine();
    apply(&machine, OPTIONS);
    apply(&machine, "");
    assert_eq!(waits(&machine, ""), nothing());
    assert_eq!(ledger(&machine).waiting, []);
    apply(&machine, OPTIONS);
    revert(&machine, &Fuse::none(), false);
    assert_eq!(ledger(&machine).waiting, []);
}

/// A file that is only put back owes no boot: the module runs with what it says.
#[test]
fn what_the_module_runs_with_is_put_back_without_a_boot() {
    let machine = machine();
    let options = "options = { nvidia = { NVreg_Shown = 0 } }\n";
    let planned = plan(&machine, options);
    assert_eq!((planned.body.changes[0].effect, planned.reboot), (Effect::Now, RebootNeed::None));
    apply(&machine, options);
    assert_eq!(waits(&machine, options), nothing());
}
