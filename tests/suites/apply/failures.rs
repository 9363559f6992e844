//! Tools that fail, hang, are missing or report a false success, hardware that refuses writes, and concurrent changes by
//! other programs: the change is rolled back, the other changes continue, and the report names each failure with its cause.

use bedplate_core::apply::{Outcome, Restored};
use bedplate_core::plan::{Action, Check, Deferred, KindId};
use bedplate_tests::fake::tools::{GRUB_CFG, Mood};
use bedplate_tests::fake::tree::{everything, foreign};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{
    ACS, DEFAULT, DROP_IN, NEW_CONF, NUMVFS, PORT, TOKEN, apply, assert_done, change, clear_acs,
    content, file, ledger, machine, next_boot, plan, plan_of, register, revert, run, update_grub,
};

/// The outcome of the one change that failed. Asserts that all other changes were done.
fn the_failure(machine: &Machine) -> (String, String, Option<String>, Restored) {
    let report = apply(machine, &Fuse::none());
    assert!(!report.succeeded());
    let mut failed = None;
    for change in report.changes {
        match change.outcome {
            Outcome::Done => {}
            Outcome::Failed { action, why, output, restored } if failed.is_none() => {
                failed = Some((action, why, output, restored));
            }
            other => panic!("{}: {other:?}", change.id),
        }
    }
    failed.expect("one change failed")
}

fn assert_boot_untouched(machine: &Machine, mood: Mood) -> Option<String> {
    let files = |machine: &Machine| {
        let mut all = foreign(machine.root());
        all.retain(|path, _| path.starts_with("etc/default") || path.starts_with("boot"));
        all
    };
    let before = files(machine);
    let (action, why, output, restored) = the_failure(machine);
    assert_eq!(files(machine), before, "{mood:?}");
    assert!(restored.left.is_empty(), "{mood:?}: {restored:?}");
    assert!(restored.back.iter().any(|path| path == DEFAULT), "{mood:?}: {restored:?}");
    assert!(
        why.contains(match mood {
            Mood::Fails => "update-grub: exit status 1",
            Mood::Hangs => "exceeded its time limit",
            Mood::Missing => "not installed",
            Mood::Lies => "does not carry",
            Mood::Works => unreachable!(),
        }),
        "{mood:?}: {why}"
    );
    assert_eq!(action.starts_with("verify"), mood == Mood::Lies, "{mood:?}: {action}");
    let ledger = ledger(machine);
    assert!(
        ledger.owed.is_empty() && !ledger.owned.contains_key(&KindId::Cmdline),
        "{mood:?}: {ledger:?}"
    );
    assert!(
        ledger.files.keys().all(|path| path.starts_with("/etc/modprobe.d")),
        "{mood:?}: {ledger:?}"
    );
    output
}

#[test]
fn failing_tool_restores_files_and_works_after_repair() {
    for mood in [Mood::Fails, Mood::Hangs, Mood::Missing, Mood::Lies] {
        let mut machine = machine();
        machine.tools.update_grub = mood;
        let output = assert_boot_untouched(&machine, mood);
        assert_eq!(
            output.is_some_and(|text| text.contains("syntax error")),
            mood == Mood::Fails,
            "{mood:?}"
        );
        machine.tools.update_grub = Mood::Works;
        assert!(apply(&machine, &Fuse::none()).succeeded());
        assert_done(&machine, &format!("repaired after {mood:?}"));
    }
}

#[test]
fn failing_tool_after_a_kill_rolls_back_the_killed_run() {
    let trail = {
        let (machine, fuse) = (machine(), Fuse::none());
        apply(&machine, &fuse);
        fuse.trail()
    };
    let runs = trail.iter().position(|step| step == "run update-grub").unwrap();
    for step in [runs, runs + 1, runs + 2] {
        let mut machine = machine();
        let before = foreign(machine.root());
        apply(&machine, &Fuse::at(step));
        assert_ne!(machine.text(DROP_IN), "", "the killed run wrote its files");
        machine.tools.update_grub = Mood::Fails;
        let (_, _, _, restored) = the_failure(&machine);
        assert!(restored.left.is_empty(), "{restored:?}");
        for path in ["etc/default/grub", "boot/grub/grub.cfg"] {
            assert_eq!(
                foreign(machine.root()).get(path),
                before.get(path),
                "{path} after step {step}"
            );
        }
        assert!(!machine.at(DROP_IN).exists(), "after step {step}");
        machine.tools.update_grub = Mood::Works;
        assert!(apply(&machine, &Fuse::none()).succeeded());
        assert_done(&machine, &format!("after step {step}"));
    }
}

/// A menu that GRUB can parse, with an entry of this kernel.
fn make_menu(machine: &Machine, kernel: &str) -> String {
    let entry = format!("menuentry '{kernel}' {{\nlinux /vmlinuz-{kernel} root=/dev/a\n}}\n");
    machine.put("/etc/default/grub.d/50-kernel.cfg", entry);
    let menu = bedplate_tests::fake::tools::grub_cfg(machine.root());
    machine.put(GRUB_CFG, &menu);
    menu
}

/// Killed in update-grub. Packages then replace the kernel and generate the menu before bedplate runs again. The menu from
/// before the kill would not boot.
#[test]
fn failing_tool_restores_menu_made_since_the_kill() {
    let trail = {
        let (machine, fuse) = (machine(), Fuse::none());
        make_menu(&machine, "old");
        apply(&machine, &fuse);
        fuse.trail()
    };
    let runs = trail.iter().position(|step| step == "run update-grub").unwrap();
    for (step, reverts) in (runs..runs + 3).flat_map(|step| [(step, false), (step, true)]) {
        let mut machine = machine();
        make_menu(&machine, "old");
        apply(&machine, &Fuse::at(step));
        assert!(ledger(&machine).files[DEFAULT].unfinished.is_some(), "step {step}");
        let menu = make_menu(&machine, "new");
        machine.tools.update_grub = Mood::Fails;
        match reverts {
            true => assert!(!revert(&machine, &Fuse::none(), false).1.succeeded()),
            false => assert!(!apply(&machine, &Fuse::none()).succeeded()),
        }
        assert_eq!(machine.text(GRUB_CFG), menu, "step {step}, reverts: {reverts}");
        machine.tools.update_grub = Mood::Works;
        assert!(apply(&machine, &Fuse::none()).succeeded());
        assert_done(&machine, &format!("after step {step}, reverts: {reverts}"));
    }
}

/// A truncated menu is not kept: the menu from before the kill is restored.
#[test]
fn failing_tool_replaces_menu_truncated_by_a_kill() {
    let mut machine = machine();
    let menu = make_menu(&machine, "old");
    let trail = {
        let (machine, fuse) = (self::machine(), Fuse::none());
        make_menu(&machine, "old");
        apply(&machine, &fuse);
        fuse.trail()
    };
    let half = trail.iter().position(|step| step == "second half of grub.cfg").unwrap();
    apply(&machine, &Fuse::at(half));
    assert!(menu.len() > machine.text(GRUB_CFG).len(), "the tool was cut short");
    machine.tools.update_grub = Mood::Fails;
    assert!(!apply(&machine, &Fuse::none()).succeeded());
    assert_eq!(machine.text(GRUB_CFG), menu);
}

#[test]
fn tool_is_recorded_as_pending_before_its_input_is_written() {
    let trail = {
        let (machine, fuse) = (machine(), Fuse::none());
        apply(&machine, &fuse);
        fuse.trail()
    };
    let first_write = trail.iter().position(|step| step == &format!("create {DEFAULT}")).unwrap();
    let machine = machine();
    apply(&machine, &Fuse::at(first_write));
    let owed = ledger(&machine).owed;
    assert_eq!(owed.len(), 1, "{owed:?}");
    assert_eq!(
        (owed[0].kind, &owed[0].argv[..]),
        (KindId::Cmdline, &["update-grub".to_owned()][..])
    );
}

#[test]
fn external_changes_since_the_plan_are_not_overwritten() {
    let machine = machine();
    let stale = plan(&machine, &ledger(&machine));
    machine.put(DEFAULT, "GRUB_TIMEOUT=1\n");
    machine.put(NUMVFS, "3\n");
    let config = format!("/sys/bus/pci/devices/{PORT}/config");
    let mut bytes = std::fs::read(machine.at(&config)).unwrap();
    bytes[usize::from(ACS)] = 0x0d;
    machine.put(&config, bytes);
    let before = foreign(machine.root());
    let report = run(&machine, &stale, &Fuse::none());
    let mut refused = Vec::new();
    for change in &report.changes {
        if let Outcome::Failed { why, restored, .. } = &change.outcome {
            assert!(why.contains("plan again"), "{why}");
            assert_eq!(restored, &Restored::default());
            refused.push(change.kind);
        }
    }
    assert_eq!(refused, [KindId::Cmdline, KindId::Sriov, KindId::Acs]);
    let after = foreign(machine.root());
    for path in ["etc/default/grub", "boot/grub/grub.cfg", &NUMVFS[1..], &config[1..]] {
        assert_eq!(after.get(path), before.get(path), "{path}");
    }
    assert!(!machine.at(DROP_IN).exists(), "nothing of the refused change is done");
}

#[test]
fn failed_change_blocks_only_its_dependents() {
    let machine = machine();
    let reader = machine.reader();
    let write = |path: &str| vec![file(&reader, path, Some("x\n")).unwrap()];
    let mut first = change(KindId::Cmdline, "first", write("/etc/first"));
    first.actions.push(Action::Verify(Check::NextBoot {
        present: vec!["not=there".into()],
        absent: vec![],
        before: None,
    }));
    let mut second = change(KindId::Cmdline, "second", write("/etc/second"));
    second.needs = vec![first.id.clone()];
    let mut third = change(KindId::Cmdline, "third", write("/etc/third"));
    third.needs = vec![second.id.clone()];
    let fourth = change(KindId::Cmdline, "fourth", write("/etc/fourth"));
    let mut later = change(KindId::Sriov, "later", write("/etc/later"));
    later.deferred = Some(Deferred { until: "at first boot".into() });
    let mut after_later = change(KindId::Sriov, "after", write("/etc/after"));
    after_later.needs = vec![later.id.clone()];
    let report = run(
        &machine,
        &plan_of(vec![first, second, third, fourth, later, after_later]),
        &Fuse::none(),
    );
    let outcomes: Vec<&Outcome> = report.changes.iter().map(|change| &change.outcome).collect();
    assert!(matches!(outcomes[0], Outcome::Failed { .. }), "{outcomes:?}");
    assert_eq!(outcomes[1], &Outcome::Blocked { by: vec!["cmdline/first".into()] });
    assert_eq!(outcomes[2], &Outcome::Blocked { by: vec!["cmdline/second".into()] });
    assert_eq!(outcomes[3], &Outcome::Done);
    assert_eq!(outcomes[4], &Outcome::Deferred { until: "at first boot".into() });
    assert_eq!(outcomes[5], &Outcome::Deferred { until: "at first boot".into() });
    for (name, there) in [
        ("first", false),
        ("second", false),
        ("third", false),
        ("fourth", true),
        ("later", false),
        ("after", false),
    ] {
        assert_eq!(machine.at(&format!("/etc/{name}")).exists(), there, "{name}");
    }
    let results: Vec<String> =
        ledger(&machine).history[0].results.iter().map(|r| r.result.clone()).collect();
    assert_eq!(results, ["failed", "blocked", "blocked", "done", "deferred", "deferred"]);
}

#[test]
fn fewer_vfs_than_requested_fails_and_restores_count() {
    let mut machine = machine();
    machine.habits.most_vfs = Some(6);
    let (_, why, _, restored) = the_failure(&machine);
    assert!(why.contains("wrote \"8\", read back \"6\""), "{why}");
    assert_eq!((restored.back, restored.left.len()), (vec![NUMVFS.to_owned()], 0));
    assert_eq!(machine.text(NUMVFS), "0\n");
    assert!(ledger(&machine).attributes.is_empty());
}

#[test]
fn failed_change_of_vf_count_restores_it() {
    for (most, left_with) in [(None, "8\n"), (Some(6), "2\n")] {
        let mut machine = machine();
        let mut writer = machine.writer(&Fuse::none());
        bedplate_host::Writer::write_attribute(&mut writer, NUMVFS, "2", 1).unwrap();
        machine.habits.most_vfs = most;
        let report = apply(&machine, &Fuse::none());
        assert_eq!(report.succeeded(), most.is_none(), "{report:?}");
        assert_eq!(machine.text(NUMVFS), left_with);
    }
}

#[test]
fn hard_wired_bits_are_named_and_the_rest_restored() {
    let mut machine = machine();
    machine.habits.hard_wired = 0x08;
    let (action, why, _, restored) = the_failure(&machine);
    assert!(action.contains("set ACS control of 0000:17:00.0"), "{action}");
    assert!(why.contains("bits 0x0008 are hard-wired"), "{why}");
    assert_eq!((restored.back.len(), restored.left.len()), (1, 0), "{restored:?}");
    assert_eq!(register(&machine), 0x1d);
    assert!(ledger(&machine).registers.is_empty());
}

#[test]
fn bits_outside_the_mask_are_unchanged() {
    let machine = machine();
    let report = run(
        &machine,
        &plan_of(vec![change(KindId::Acs, PORT, vec![clear_acs(0xff1c)])]),
        &Fuse::none(),
    );
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(register(&machine), 0x01);
}

#[test]
fn directory_in_place_of_a_file_fails_before_any_write() {
    let machine = machine();
    let planned = plan(&machine, &ledger(&machine));
    std::fs::create_dir_all(machine.at(NEW_CONF)).unwrap();
    let before = everything(machine.root());
    let conf = planned
        .body
        .changes
        .into_iter()
        .filter(|change| change.id == "modules/modprobe.d")
        .collect();
    let report = run(&machine, &plan_of(conf), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("directory"), "{why}");
    let mut after = everything(machine.root());
    after.retain(|path, _| !path.starts_with("var"));
    assert_eq!(after, before);
}

#[test]
fn changes_that_cannot_be_recorded_are_not_made() {
    let machine = machine();
    let before = everything(machine.root());
    // Every access to bedplate's own directory fails, as on a full or read-only /var.
    machine.put("/var/lib/bedplate", "a file where the directory should be");
    let report = {
        let reader = machine.reader();
        let mut writer = machine.writer(&Fuse::none());
        let mut ledger = bedplate_core::ledger::Ledger::default();
        let executor = bedplate_core::apply::Executor {
            reader: &reader,
            writer: &mut writer,
            checker: &crate::scenario::check,
            watch: &mut |_| {},
        };
        let plan = plan(&machine, &ledger);
        bedplate_core::apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH)
    };
    for change in &report.changes {
        let loads = change.id == "modules/load";
        assert_eq!(matches!(change.outcome, Outcome::Failed { .. }), !loads, "{change:?}");
    }
    let mut after = everything(machine.root());
    after.retain(|path, _| !path.starts_with("var") && !path.starts_with("sys/module"));
    assert_eq!(after, before);
}

#[test]
fn two_writes_of_one_file_are_both_rolled_back() {
    let machine = machine();
    let twice = |last: bool| {
        let replace = |before: &str, after: &str| Action::ReplaceFile {
            path: DEFAULT.into(),
            before: content(before),
            after: content(after),
        };
        let now = machine.text(DEFAULT);
        let mut actions = vec![replace(&now, "one\n"), replace("one\n", "two\n")];
        if last {
            actions.extend([update_grub(), next_boot()]);
        }
        plan_of(vec![change(KindId::Cmdline, "twice", actions)])
    };
    let before = foreign(machine.root());
    let report = run(&machine, &twice(true), &Fuse::none());
    assert!(
        matches!(report.changes[0].outcome, Outcome::Failed { .. }),
        "{TOKEN} is not there: {report:?}"
    );
    assert_eq!(foreign(machine.root()), before);
    let plan = twice(false);
    assert!(run(&machine, &plan, &Fuse::none()).succeeded());
    assert_eq!(machine.text(DEFAULT), "two\n");
    let report = run(&machine, &plan, &Fuse::none());
    assert_eq!(report.changes[0].outcome, Outcome::AlreadyDone);
    assert!(!machine.text(GRUB_CFG).contains("two"));
}
