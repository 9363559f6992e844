//! Applies what the real planner plans for every case of `tests/data/cases`, as a tree of files. A failed change is rolled
//! back, a finished one stays, a second apply writes nothing, and revert restores everything.

use std::path::Path;

use bedplate_core::apply::{self, ApplyReport, Executor, Outcome};
use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::orphans;
use bedplate_core::plan::{Check, Plan};
use bedplate_core::profile::{LayerText, LoadedProfile, load, shipped};
use bedplate_core::readback;
use bedplate_core::revert;
use bedplate_facts::Depth;
use bedplate_host::DirReader;
use bedplate_host::write::DirWriter;
use bedplate_host::{HostKind, Reader, Writer};
use bedplate_testhosts::write_tree;
use bedplate_tests::fake::tree::{except, leftovers, times};
use bedplate_tests::fake::{Fuse, Machine};

fn profile(directory: &Path) -> Option<LoadedProfile> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    let base = match read("profile") {
        Some(name) => shipped().iter().find(|shipped| shipped.name == name.trim())?.text.to_owned(),
        None => read("profile.toml")?,
    };
    let layers: Vec<String> = [Some(base), read("layer.toml")].into_iter().flatten().collect();
    let texts: Vec<LayerText> =
        layers.iter().map(|text| LayerText { path: "profile.toml", text }).collect();
    load(&texts, shipped()).ok()
}

struct Case {
    machine: Machine,
    profile: LoadedProfile,
    kind: HostKind,
}

impl Case {
    fn open(directory: &Path, as_image: bool) -> Option<Self> {
        let snapshot = bedplate_tests::case::host(directory).ok()?;
        let machine = Machine::new();
        write_tree(&snapshot, machine.root()).expect("the case can be written");
        // A case's ledger has no backup copies of the files that it refers to, so these tests start with an empty one.
        let _ = std::fs::remove_dir_all(machine.at("/var/lib/bedplate"));
        if !machine.at("/proc/sys/kernel/random/boot_id").exists() {
            machine
                .put("/proc/sys/kernel/random/boot_id", "5a1c0d9e-0000-4000-8000-000000000001\n");
        }
        let kind = if as_image { HostKind::Image } else { snapshot.kind() };
        Some(Case { machine, profile: profile(directory)?, kind })
    }

    fn reader(&self) -> Box<dyn Reader> {
        match self.kind {
            HostKind::Image => Box::new(DirReader::image(self.machine.root()).unwrap()),
            HostKind::Live | HostKind::Snapshot => Box::new(self.machine.reader()),
        }
    }

    fn writer(&self) -> Box<dyn Writer> {
        match self.kind {
            HostKind::Image => Box::new(DirWriter::image(self.machine.root(), false).unwrap()),
            HostKind::Live | HostKind::Snapshot => Box::new(self.machine.writer(&Fuse::none())),
        }
    }

    fn apply(&self) -> (Plan, ApplyReport) {
        let (reader, mut writer) = (self.reader(), self.writer());
        let mut facts = observe(reader.as_ref(), Depth::Plan);
        engine::assume_cpu(&mut facts, &self.profile.profile);
        let mut ledger = Ledger::load(reader.as_ref()).unwrap();
        let plan = engine::plan(&self.profile.profile, &facts, reader.as_ref(), &ledger).plan;
        let check = |check: &Check, reader: &dyn Reader| readback::check(reader, &facts, check);
        let executor = Executor {
            reader: reader.as_ref(),
            writer: writer.as_mut(),
            checker: &check,
            watch: &mut |_| {},
        };
        let report = apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH);
        (plan, report)
    }

    fn revert(&self) -> revert::RevertPlan {
        let (reader, mut writer) = (self.reader(), self.writer());
        let mut ledger = Ledger::load(reader.as_ref()).unwrap();
        // Without force, VFs that are assigned to guests are not removed.
        let plan = revert::plan(&ledger, reader.as_ref(), writer.as_ref(), true);
        let now = jiff::Timestamp::UNIX_EPOCH;
        revert::run(&plan, &mut ledger, reader.as_ref(), writer.as_mut(), &mut |_| {}, now);
        plan
    }
}

/// Files that revert restores. Those of the hardware are checked elsewhere, with fake hardware that has state.
fn files(case: &Case) -> std::collections::BTreeMap<String, String> {
    let mut all = except(case.machine.root(), &["sys", "proc", ".bedplate", "var/lib/bedplate"]);
    all.remove("var");
    all.remove("var/lib");
    all
}

#[test]
fn every_case_is_applied_rolled_back_and_reverted() {
    let [applied, done, failed, _] = all(false);
    assert!(applied > 60 && done > 300 && failed > 20, "{applied} {done} {failed}");
}

#[test]
fn every_case_as_an_image_is_applied_and_reverted() {
    let [applied, done, _, owed] = all(true);
    assert!(applied > 60 && done > 5 && owed > 20, "{applied} {done} {owed}");
}

/// The number of applied cases, and of changes that were done, that failed, and that left their tools pending.
fn all(as_image: bool) -> [u32; 4] {
    let (mut applied, mut done, mut failed, mut owed) = (0, 0, 0, 0);
    for (name, directory) in bedplate_tests::case::directories("cases") {
        let Some(case) = Case::open(&directory, as_image) else { continue };
        let before = files(&case);
        let facts = observe(case.reader().as_ref(), Depth::Plan);
        let orphans = orphans::orphans(case.reader().as_ref(), &Ledger::default(), &|| &facts);
        let (_, report) = case.apply();
        applied += 1;
        for change in &report.changes {
            match &change.outcome {
                Outcome::Done => done += 1,
                Outcome::ToolsPending { .. } => owed += 1,
                Outcome::Failed { restored, why, .. } => {
                    failed += 1;
                    let modules =
                        restored.left.iter().all(|left| left.subject.starts_with("module "));
                    assert!(modules, "{name}: {}: {why}: {restored:?}", change.id);
                }
                _ => {}
            }
        }
        assert_eq!(leftovers(case.machine.root()), Vec::<String>::new(), "{name}");
        if report.changes.iter().all(|change| matches!(change.outcome, Outcome::Failed { .. })) {
            assert_eq!(
                files(&case),
                before,
                "{name}: nothing was done, and something is different"
            );
        }
        if report.succeeded() {
            let written = times(case.machine.root());
            let (again, second) = case.apply();
            let left: Vec<_> = second
                .changes
                .iter()
                .filter(|change| matches!(change.outcome, Outcome::Done | Outcome::Failed { .. }))
                .collect();
            assert!(left.is_empty(), "{name}: {left:?}\n{:?}", again.body.changes);
            assert_eq!(times(case.machine.root()), written, "{name}");
        }
        let plan = case.revert();
        // `revert --force` also removes bedplate's files that are in no ledger, and generates menus without them. It
        // refuses files that belong to bedplate only in part.
        if orphans.is_empty() {
            assert!(plan.refused.is_empty(), "{name}: {:?}", plan.refused);
            assert_eq!(files(&case), before, "{name}");
        }
    }
    [applied, done, failed, owed]
}

#[test]
fn kernel_parameters_are_set_and_restored() {
    const FILE: &str = "/etc/sysctl.d/zz-bedplate.conf";
    const VALUES: [(&str, &str, &str); 2] = [
        ("/proc/sys/kernel/numa_balancing", "1", "0"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456", "4096\t131072\t16777216"),
    ];
    let directory = bedplate_tests::data("cases/sysctl-drift");
    let case = Case::open(&directory, false).unwrap();
    let (plan, report) = case.apply();
    assert!(report.succeeded() && plan.body.blockers.is_empty(), "{plan:?} {report:?}");
    assert!(case.machine.text(FILE).contains("\nkernel.numa_balancing = 0\n"));
    for (path, _, ours) in VALUES {
        assert_eq!(case.machine.text(path).trim_end(), ours);
    }
    assert_eq!(case.apply().0.body.changes, [], "a second run finds nothing to do");
    case.revert();
    assert!(!case.machine.at(FILE).exists());
    for (path, original, _) in VALUES {
        assert_eq!(case.machine.text(path).trim_end(), original);
    }
}

#[test]
fn huge_pages_that_the_kernel_provides_stay() {
    const COUNT: &str = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    let directory = bedplate_tests::data("cases/hugepages-set");
    let mut case = Case::open(&directory, false).unwrap();
    case.machine.habits.most_pages = Some(600);
    let (_, report) = case.apply();
    assert!(!report.succeeded(), "{report:?}");
    assert_eq!(case.machine.text(COUNT).trim_end(), "600");
    case.revert();
    assert_eq!(case.machine.text(COUNT).trim_end(), "512");
}
