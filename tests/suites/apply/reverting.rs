//! `revert` after changes by other tools: each conflict is refused on its own, with the reason, and reverted with
//! `--force`.

use bedplate_core::ledger::{Ledger, LedgerError};
use bedplate_core::plan::KindId;
use bedplate_core::revert::{self, StepOutcome};
use bedplate_host::DirReader;
use bedplate_host::write::DirWriter;
use bedplate_tests::fake::tools::{GRUB_CFG, Mood};
use bedplate_tests::fake::tree::{everything, foreign};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{
    DEFAULT, DROP_IN, NEW_CONF, NUMVFS, OLD_CONF, apply, change, file, ledger, machine, plan_of,
    register, revert, run, update_grub,
};

fn applied() -> Machine {
    let machine = machine();
    let report = apply(&machine, &Fuse::none());
    assert!(report.succeeded(), "{report:?}");
    machine
}

fn refusals(machine: &Machine) -> Vec<String> {
    let (plan, report) = revert(machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{report:?}");
    assert!(
        plan.refused.iter().all(|refused| !refused.reason.is_empty() && !refused.fix.is_empty())
    );
    plan.refused.into_iter().map(|refused| refused.subject).collect()
}

#[test]
fn external_changes_are_reverted_only_by_force() {
    let machine = applied();
    let before = foreign(crate::scenario::machine().root());
    machine.put(DEFAULT, "GRUB_TIMEOUT=60\n");
    machine.put(OLD_CONF, "somebody's\n");
    machine.put(NUMVFS, "5\n");
    assert_eq!(refusals(&machine), [NUMVFS, DEFAULT, OLD_CONF]);
    assert_eq!(machine.text(DEFAULT), "GRUB_TIMEOUT=60\n");
    assert_eq!(machine.text(OLD_CONF), "somebody's\n");
    assert_eq!(machine.text(NUMVFS), "5\n");
    assert!(!machine.at(DROP_IN).exists() && !machine.at(NEW_CONF).exists(), "the rest went back");
    assert_eq!(register(&machine), 0x1d);
    assert!(
        machine.text(GRUB_CFG).contains("GRUB_TIMEOUT=60"),
        "made from the files as they are now"
    );
    assert_eq!(ledger(&machine).files.keys().collect::<Vec<_>>(), [DEFAULT, OLD_CONF]);

    let (plan, report) = revert(&machine, &Fuse::none(), true);
    assert!(plan.refused.is_empty() && report.succeeded(), "{report:?}");
    let mut after = foreign(machine.root());
    after.retain(|path, _| !path.starts_with("sys/module"));
    // The forged count removed no fake VFs, so they stay; everything outside /sys is restored.
    after.retain(|path, _| !path.starts_with("sys"));
    assert_eq!(after, before.into_iter().filter(|(path, _)| !path.starts_with("sys")).collect());
    assert_eq!(machine.text(NUMVFS), "0\n");
}

#[test]
fn first_original_is_restored() {
    let machine = machine();
    let first = foreign(machine.root());
    for text in ["one\n", "two\n", "three\n"] {
        let action = file(&machine.reader(), DEFAULT, Some(text)).unwrap();
        assert!(
            run(
                &machine,
                &plan_of(vec![change(KindId::Cmdline, "grub", vec![action])]),
                &Fuse::none()
            )
            .succeeded()
        );
    }
    assert_eq!(refusals(&machine), Vec::<String>::new());
    assert_eq!(foreign(machine.root()), first);
}

#[test]
fn original_without_external_edits_needs_force() {
    let machine = machine();
    let write = |text: &str| {
        let action = file(&machine.reader(), DEFAULT, Some(text)).unwrap();
        assert!(
            run(
                &machine,
                &plan_of(vec![change(KindId::Cmdline, "grub", vec![action])]),
                &Fuse::none()
            )
            .succeeded()
        );
    };
    write("ours\n");
    machine.put(DEFAULT, "ours\nand theirs\n");
    write("ours again\nand theirs\n");
    assert_eq!(refusals(&machine), [DEFAULT]);
    assert_eq!(machine.text(DEFAULT), "ours again\nand theirs\n");
    let (plan, _) = revert(&machine, &Fuse::none(), true);
    assert!(plan.refused.is_empty());
    assert!(machine.text(DEFAULT).contains("quiet pci=realloc"));
}

#[test]
fn file_changed_back_leaves_no_record() {
    let machine = machine();
    let original = machine.text(DEFAULT);
    for text in ["ours\n", &original] {
        let action = file(&machine.reader(), DEFAULT, Some(text)).unwrap();
        assert!(
            run(
                &machine,
                &plan_of(vec![change(KindId::Cmdline, "grub", vec![action])]),
                &Fuse::none()
            )
            .succeeded()
        );
    }
    assert!(ledger(&machine).files.is_empty());
    assert_eq!(std::fs::read_dir(machine.at("/var/lib/bedplate/blobs")).unwrap().count(), 0);
}

/// Drop-ins that an image had name no reload; the host's systemd has read them since.
#[test]
fn restored_drop_in_reloads_systemd_unless_containers_run() {
    const UNIT: &str = "/etc/systemd/system/slurmd.service.d/zz-bedplate.conf";
    const GROUP: &str = "/sys/fs/cgroup/system.slice/containerd.service/cgroup.procs";
    for (procs, reloads) in [("", 1), ("901\n", 0)] {
        let machine = Machine::new();
        let text = "[Service]\nLimitMEMLOCK=infinity\n";
        let action = file(&machine.reader(), UNIT, Some(text)).unwrap();
        let plan = plan_of(vec![change(KindId::Limits, "units", vec![action])]);
        assert!(run(&machine, &plan, &Fuse::none()).succeeded());
        machine.put("/run/systemd/system/x", "");
        machine.put(GROUP, procs);
        machine.put("/proc/1/comm", "systemd\n");
        machine.put("/proc/901/comm", "containerd\n");
        machine.put("/proc/901/status", "Uid:\t0\t0\t0\t0\n");
        let limits = "Max stack size  1 1 bytes\nMax locked memory  1 1 bytes\n";
        machine.put("/proc/901/limits", limits);
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(report.succeeded() && !machine.at(UNIT).exists(), "{report:?}");
        let tools = report.steps.iter().filter(|step| step.subject == "systemctl daemon-reload");
        assert_eq!(tools.count(), reloads, "{report:?}");
        assert_eq!(plan.notes.len(), 1 - reloads, "{plan:?}");
    }
}

#[test]
fn tool_that_fails_in_a_revert_is_retried_by_the_next() {
    let mut machine = applied();
    let made = machine.text(GRUB_CFG);
    let before = machine_before();
    machine.tools.update_grub = Mood::Fails;
    let (_, report) = revert(&machine, &Fuse::none(), false);
    let failed: Vec<_> = report
        .steps
        .iter()
        .filter(|step| matches!(step.outcome, StepOutcome::Failed { .. }))
        .collect();
    assert_eq!(failed.len(), 1, "{report:?}");
    assert_eq!(machine.text(GRUB_CFG), made, "as it was right before the tool");
    assert_eq!(machine.text(DEFAULT), before.text(DEFAULT));
    machine.tools.update_grub = Mood::Works;
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(
        report.succeeded() && report.steps.iter().any(|step| step.subject == "update-grub"),
        "{plan:?}"
    );
    assert!(ledger(&machine).files.is_empty());
}

fn machine_before() -> Machine {
    machine()
}

#[test]
fn boot_entry_of_a_new_kernel_survives_the_revert() {
    let machine = applied();
    // Since then another update-grub has run, with a kernel that bedplate has never seen.
    machine.put("/etc/default/grub.d/50-new-kernel.cfg", "menuentry new\n");
    let made = bedplate_tests::fake::tools::grub_cfg(machine.root());
    machine.put(GRUB_CFG, made);
    assert_eq!(refusals(&machine), Vec::<String>::new());
    assert!(machine.text(GRUB_CFG).contains("menuentry new"));
    assert!(!machine.text(GRUB_CFG).contains("iommu=pt"));
}

/// The kernels have been replaced since the first apply, and a later apply has regenerated the menu. The ledger's original
/// names kernels that are gone.
fn applied_over_new_kernels() -> (Machine, String) {
    let machine = applied();
    machine.put("/etc/default/grub.d/50-new-kernel.cfg", "menuentry new\n");
    machine.put(GRUB_CFG, bedplate_tests::fake::tools::grub_cfg(machine.root()));
    let again = file(&machine.reader(), DROP_IN, Some("GRUB_CMDLINE_LINUX=\"iommu=pt nosmt\"\n"));
    let actions = vec![again.unwrap(), update_grub()];
    assert!(
        run(&machine, &plan_of(vec![change(KindId::Cmdline, "grub", actions)]), &Fuse::none())
            .succeeded()
    );
    let menu = machine.text(GRUB_CFG);
    assert!(menu.contains("menuentry new") && menu.contains("nosmt"));
    (machine, menu)
}

#[test]
fn failed_tool_keeps_the_menu_of_new_kernels() {
    for mood in [Mood::Fails, Mood::Hangs, Mood::Missing] {
        let (mut machine, menu) = applied_over_new_kernels();
        machine.tools.update_grub = mood;
        for force in [false, true] {
            let (_, report) = revert(&machine, &Fuse::none(), force);
            assert!(!report.succeeded(), "{mood:?}: {report:?}");
            assert_eq!(machine.text(GRUB_CFG), menu, "{mood:?}");
        }
        machine.tools.update_grub = Mood::Works;
        let (_, report) = revert(&machine, &Fuse::none(), false);
        assert!(report.succeeded() && ledger(&machine).files.is_empty(), "{mood:?}: {report:?}");
        assert!(machine.text(GRUB_CFG).contains("menuentry new"), "{mood:?}");
    }
}

/// A disk mounted by a rescue system.
#[test]
fn revert_without_tools_keeps_the_menu_and_owes_the_tool() {
    for force in [false, true] {
        let (machine, menu) = applied_over_new_kernels();
        let reader = DirReader::image(machine.root()).unwrap();
        let mut writer = DirWriter::image(machine.root(), false).unwrap();
        let mut ledger = ledger(&machine);
        let plan = revert::plan(&ledger, &reader, &writer, force);
        assert_eq!(plan.pending_tools, [["update-grub"]]);
        assert!(plan.notes.iter().any(|note| note.starts_with(GRUB_CFG)), "{:?}", plan.notes);
        let now = jiff::Timestamp::UNIX_EPOCH;
        let report = revert::run(&plan, &mut ledger, &reader, &mut writer, &mut |_| {}, now);
        assert!(report.succeeded(), "{report:?}");
        assert_eq!(machine.text(GRUB_CFG), menu);
        assert!(!machine.at(DROP_IN).exists(), "its sources are back");
    }
}

#[test]
fn live_values_of_an_earlier_boot_are_not_reverted() {
    let machine = applied();
    machine.put("/proc/sys/kernel/random/boot_id", "5a1c0d9e-0000-4000-8000-000000000002\n");
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(plan.refused.is_empty() && report.succeeded());
    assert_eq!(plan.notes.len(), 2, "{plan:?}");
    assert_eq!(
        (machine.text(NUMVFS).as_str(), register(&machine)),
        ("8\n", 0x01),
        "this boot's values are not ours"
    );
    assert!(ledger(&machine).attributes.is_empty() && ledger(&machine).registers.is_empty());
}

#[test]
fn lost_or_damaged_backup_is_refused() {
    for (damage, reason) in [("lost", "cannot read the saved content"), ("damaged", "is damaged")] {
        let machine = applied();
        let ledger = ledger(&machine);
        let blob = ledger.files[DEFAULT].original.sha().unwrap().blob();
        match damage {
            "lost" => std::fs::remove_file(machine.at(&blob)).unwrap(),
            _ => machine.put(&blob, "something else"),
        }
        let now = machine.text(DEFAULT);
        for force in [false, true] {
            let (plan, _) = revert(&machine, &Fuse::none(), force);
            let refused: Vec<&str> =
                plan.refused.iter().map(|refused| refused.subject.as_str()).collect();
            assert_eq!(refused, [DEFAULT], "{damage}");
            assert!(plan.refused[0].reason.contains(reason), "{:?}", plan.refused);
            assert_eq!(machine.text(DEFAULT), now);
        }
        assert!(machine.text(OLD_CONF).contains("blacklist"), "the rest went back");
    }
}

#[test]
fn unreadable_ledger_is_an_error_and_not_changed() {
    let machine = applied();
    let path = "/var/lib/bedplate/ledger.json";
    let good = machine.text(path);
    let newer = good.replacen("\"version\": 2", "\"version\": 3", 1);
    let older = good.replacen("\"version\": 2", "\"version\": 1", 1);
    let unknown = good.replacen("\"owed\"", "\"surprise\": 1, \"owed\"", 1);
    let cut = good[..good.len() / 2].to_owned();
    let escaping = good.replacen(
        ledger(&machine).files[DEFAULT].original.sha().unwrap().as_str(),
        "../../etc/shadow",
        1,
    );
    for text in [newer.clone(), older.clone(), unknown, cut, String::new(), escaping] {
        machine.put(path, &text);
        let before = everything(machine.root());
        let error = Ledger::load(&machine.reader()).unwrap_err();
        assert_eq!(matches!(error, LedgerError::Newer { found: 3, .. }), text == newer, "{error}");
        assert_eq!(matches!(error, LedgerError::Older { found: 1, .. }), text == older, "{error}");
        assert!(error.to_string().contains(path), "{error}");
        let other = text.contains("surprise") || text.contains("shadow");
        assert_eq!(matches!(error, LedgerError::Foreign { .. }), other, "{error}");
        assert_eq!(everything(machine.root()), before);
    }
    machine.put(path, &good);
    assert_eq!(refusals(&machine), Vec::<String>::new());
}

#[test]
fn ledger_is_root_only_and_has_the_history() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = applied();
    let mode =
        |path: &str| std::fs::metadata(machine.at(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("/var/lib/bedplate"), 0o700);
    assert_eq!(mode("/var/lib/bedplate/blobs"), 0o700);
    assert_eq!(mode("/var/lib/bedplate/ledger.json"), 0o600);
    for blob in std::fs::read_dir(machine.at("/var/lib/bedplate/blobs")).unwrap() {
        assert_eq!(blob.unwrap().metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
    assert_eq!(mode("/var/lib"), 0o755);
    assert_eq!(refusals(&machine), Vec::<String>::new());
    let history = ledger(&machine).history;
    let commands: Vec<&str> = history.iter().map(|entry| entry.command.as_str()).collect();
    assert_eq!(commands, ["apply", "revert"]);
    assert!(history[0].results.iter().all(|result| result.result == "done"), "{history:?}");
    assert_eq!(history[0].at, "1970-01-01T00:00:00Z");
}

#[test]
fn created_directory_with_another_file_stays() {
    let machine = applied();
    machine.put("/etc/default/grub.d/10-theirs.cfg", "theirs\n");
    assert_eq!(refusals(&machine), Vec::<String>::new());
    assert_eq!(machine.text("/etc/default/grub.d/10-theirs.cfg"), "theirs\n");
    assert!(!machine.at(DROP_IN).exists());
    assert!(ledger(&machine).directories.is_empty(), "it is theirs now");
}

/// An upgrade has reworded `purpose` (formerly "make … anew", now "regenerate …"). If the ledger told tools apart by it,
/// files written before and after the upgrade would name two tools. update-grub would then run twice, and a failure would
/// leave the truncated grub.cfg of the first run as the restored content.
#[test]
fn tool_with_a_reworded_purpose_is_the_same_tool() {
    let mut machine = applied();
    let made = machine.text(GRUB_CFG);
    let path = machine.at("/var/lib/bedplate/ledger.json");
    let mut ledger: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for record in ledger["files"].as_object_mut().unwrap().values_mut() {
        let Some(readers) = record.get_mut("readers").and_then(|readers| readers.as_array_mut())
        else {
            continue;
        };
        if let Some(mut earlier) = readers.first().cloned() {
            earlier["purpose"] = "an earlier release's words".into();
            readers.insert(0, earlier);
        }
    }
    std::fs::write(&path, serde_json::to_vec(&ledger).unwrap()).unwrap();
    machine.tools.update_grub = Mood::Fails;
    let (plan, _) = revert(&machine, &Fuse::none(), false);
    let tools = plan.steps.iter().filter(|step| step.subject() == "update-grub").count();
    assert_eq!(machine.text(GRUB_CFG), made, "half-made");
    assert_eq!(tools, 1);
}

/// The initramfs that the tool has written cannot be restored.
#[test]
fn started_rebuild_of_a_failed_change_stays_pending() {
    for (mood, is_pending) in [(Mood::Fails, true), (Mood::Missing, false)] {
        let mut machine = machine();
        machine.tools.update_grub = mood;
        let write = file(&machine.reader(), NEW_CONF, Some("options nvidia NVreg_X=1\n")).unwrap();
        let plan = plan_of(vec![change(KindId::Modules, "x", vec![write, update_grub()])]);
        assert!(!run(&machine, &plan, &Fuse::none()).succeeded(), "{mood:?}");
        assert!(!machine.at(NEW_CONF).exists(), "{mood:?}");
        assert_eq!(ledger(&machine).owed.len(), usize::from(is_pending), "{mood:?}");
        machine.tools.update_grub = Mood::Works;
        let fuse = Fuse::none();
        let (_, report) = revert(&machine, &fuse, false);
        assert!(report.succeeded() && ledger(&machine).owed.is_empty(), "{mood:?}: {report:?}");
        let ran = fuse.trail().iter().any(|step| step == "run update-grub");
        assert_eq!(ran, is_pending, "{mood:?}");
    }
}
