//! An image root: no kernel, no hardware, tools only on request. Work that it cannot do is reported as pending and never
//! dropped.

use std::sync::Arc;

use bedplate_core::apply::{self, ApplyReport, Executor, Outcome};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::{Action, KindId, Plan};
use bedplate_core::revert;
use bedplate_core::setting::WriteAttribute;
use bedplate_host::write::DirWriter;
use bedplate_host::{DirReader, ImageRoot, Reader as _, ToolEnd, Writer as _};
use bedplate_tests::fake::Machine;
use bedplate_tests::fake::tools::GRUB_CFG;
use bedplate_tests::fake::tree::{everything, foreign, times};
use bedplate_tests::fixtures;

use crate::scenario::{
    DEFAULT, DROP_IN, NEW_CONF, NUMVFS, change, check, clear_acs, file, machine, next_boot,
    plan_of, register, update_grub,
};

fn image_plan(machine: &Machine) -> Plan {
    let reader = machine.reader();
    let boot = vec![
        file(&reader, DROP_IN, Some("GRUB_CMDLINE_LINUX=\"iommu=pt\"\n")),
        file(&reader, DEFAULT, Some("GRUB_TIMEOUT=5\n")),
        Some(update_grub()),
        Some(next_boot()),
    ];
    let modules = vec![
        file(&reader, NEW_CONF, Some("options nvidia NVreg_X=1\n")),
        Some(Action::LoadModule { module: "nvidia_peermem".into() }),
    ];
    let vfs = vec![Action::WriteAttribute(WriteAttribute {
        path: NUMVFS.into(),
        before: "0".into(),
        after: "8".into(),
        limit_s: 5,
    })];
    plan_of(vec![
        change(KindId::Cmdline, "grub", boot.into_iter().flatten().collect()),
        change(KindId::Modules, "nvidia", modules.into_iter().flatten().collect()),
        change(KindId::Sriov, "pf", vfs),
        change(KindId::Acs, "port", vec![clear_acs(0x1d)]),
    ])
}

fn load(machine: &Machine) -> Ledger {
    Ledger::load(&DirReader::image(machine.root()).unwrap()).unwrap()
}

fn apply_image(machine: &Machine, plan: &Plan, chroot_tools: bool) -> ApplyReport {
    let reader = DirReader::image(machine.root()).unwrap();
    let mut writer = DirWriter::image(machine.root(), chroot_tools).unwrap();
    let mut ledger = load(machine);
    let executor =
        Executor { reader: &reader, writer: &mut writer, checker: &check, watch: &mut |_| {} };
    apply::apply(plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH)
}

#[test]
fn image_gets_its_files_and_reports_pending_work() {
    let machine = machine();
    let before = foreign(machine.root());
    let plan = image_plan(&machine);
    let report = apply_image(&machine, &plan, false);
    assert!(report.succeeded(), "{report:?}");
    let owed = Outcome::ToolsPending { commands: vec![vec!["update-grub".into()]], why: None };
    assert_eq!(report.changes[0].outcome, owed);
    assert_eq!(report.changes[1].outcome, Outcome::Done);
    assert_eq!(report.changes[1].deferred, ["load module nvidia_peermem"]);
    for report in &report.changes[2..] {
        assert!(matches!(report.outcome, Outcome::Deferred { .. }), "{report:?}");
        assert_eq!(report.deferred.len(), 1, "{report:?}");
    }
    assert_eq!(machine.text(DEFAULT), "GRUB_TIMEOUT=5\n");
    assert_eq!(machine.text(NEW_CONF), "options nvidia NVreg_X=1\n");
    assert_eq!((machine.text(NUMVFS).as_str(), register(&machine)), ("0\n", 0x1d));
    assert_eq!(foreign(machine.root()).get("boot/grub/grub.cfg"), before.get("boot/grub/grub.cfg"));
    assert_eq!(load(&machine).owed.len(), 1, "the tool stays owed");

    // A second run reports the same and writes nothing.
    let written = times(machine.root());
    let report = apply_image(&machine, &plan, false);
    assert_eq!(report.changes[0].outcome, owed);
    assert!(matches!(report.changes[1].outcome, Outcome::Deferred { .. }), "{report:?}");
    assert_eq!(times(machine.root()), written);

    let reader = DirReader::image(machine.root()).unwrap();
    let mut writer = DirWriter::image(machine.root(), false).unwrap();
    let mut ledger = load(&machine);
    let back = revert::plan(&ledger, &reader, &writer, false);
    assert_eq!(back.pending_tools, [["update-grub"]], "the image build may have run it since");
    let now = jiff::Timestamp::UNIX_EPOCH;
    let report = revert::run(&back, &mut ledger, &reader, &mut writer, &mut |_| {}, now);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(foreign(machine.root()), before);
}

#[test]
fn first_boot_runs_what_the_image_build_left() {
    let machine = machine();
    let plan = image_plan(&machine);
    apply_image(&machine, &plan, false);
    let report = crate::scenario::run(&machine, &plan, &bedplate_tests::fake::Fuse::none());
    assert!(report.succeeded(), "{report:?}");
    assert!(machine.text(GRUB_CFG).contains("iommu=pt"));
    assert_eq!((machine.text(NUMVFS).as_str(), register(&machine)), ("8\n", 0x01));
    assert!(load(&machine).owed.is_empty());
    let before = times(machine.root());
    assert!(crate::scenario::run(&machine, &plan, &bedplate_tests::fake::Fuse::none()).succeeded());
    assert_eq!(times(machine.root()), before);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tools_run_inside_the_image_on_request() {
    fixtures::root();
    let machine = machine();
    put_busy_shell(&machine);
    let script = "#!/bin/sh\n{ echo made in $PWD; while read -r line; do echo \"$line\"; done < /etc/default/grub.d/zz-bedplate.cfg; } > /boot/grub/grub.cfg\n";
    machine.put_mode("/usr/sbin/update-grub", script, 0o755);
    let plan = plan_of(image_plan(&machine).body.changes.drain(..1).collect());
    let report = apply_image(&machine, &plan, true);
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    assert_eq!(machine.text(GRUB_CFG), "made in /\nGRUB_CMDLINE_LINUX=\"iommu=pt\"\n");
    assert!(load(&machine).owed.is_empty());
    std::fs::remove_file(machine.at("/usr/sbin/update-grub")).unwrap();
    machine.put(DROP_IN, "");
    let plan = plan_of(image_plan(&machine).body.changes.drain(..1).collect());
    let report = apply_image(&machine, &plan, true);
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("update-grub") && why.contains("--chroot-tools"), "{why}");
    assert_eq!(machine.text(DROP_IN), "");
}

/// A shell and the libraries it needs.
fn put_busy_shell(machine: &Machine) {
    let listed = std::process::Command::new("ldd").arg("/bin/sh").output().expect("ldd runs");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
    for path in libraries.chain(["/bin/sh"]) {
        machine.put(path, std::fs::read(path).expect("a library"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(machine.at(path), mode).unwrap();
    }
}

/// A user who may rename the image's directory can replace it with another one at any time.
#[test]
fn reader_writer_and_lock_stay_in_the_opened_directory() {
    assert_stays_in_directory(false);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tools_stay_in_the_opened_directory() {
    fixtures::root();
    assert_stays_in_directory(true);
}

fn assert_stays_in_directory(with_tools: bool) {
    let place = tempfile::tempdir().unwrap();
    let (image, away) = (place.path().join("image"), place.path().join("away"));
    std::fs::create_dir_all(image.join("etc")).unwrap();
    let machine = Machine::open(&image);
    machine.put("/etc/own", "own\n");
    if with_tools {
        put_busy_shell(&machine);
    }
    let root = ImageRoot::open(&image).unwrap();
    let reader = DirReader::within(Arc::clone(&root));
    let mut writer = DirWriter::within(root, true);
    std::fs::rename(&image, &away).unwrap();
    std::fs::create_dir_all(image.join("etc")).unwrap();
    std::fs::write(image.join("etc/own"), "decoy\n").unwrap();
    let before = everything(&image);

    assert_eq!(reader.text("/etc/own").unwrap(), "own\n");
    let lock = writer.lock().unwrap();
    writer.replace_file("/etc/own", b"new\n", 0o644).unwrap();
    if with_tools {
        let script = "echo ran > /etc/ran";
        let ran = writer.run_tool(&["sh", "-c", script].map(str::to_owned), 60);
        assert_eq!(ran.end, ToolEnd::Exited(0), "{ran:?}");
        assert_eq!(std::fs::read_to_string(away.join("etc/ran")).unwrap(), "ran\n");
    }
    drop(lock);
    assert_eq!(everything(&image), before);
    assert_eq!(std::fs::read_to_string(away.join("etc/own")).unwrap(), "new\n");
}
