//! Tests that need a mount: a full disk and a read-only one. Each runs itself again in new user and mount namespaces, where
//! it may mount anything without effect on the system.

use std::path::Path;
use std::process::Command;

use bedplate_core::apply::Outcome;
use bedplate_host::Writer as _;
use bedplate_tests::fake::tree::{everything, foreign, leftovers};
use bedplate_tests::fake::{Fuse, Machine};
use bedplate_tests::fixtures;

use crate::scenario::{NUMVFS, WANTED, apply, assert_done, contents, furnish, revert};

/// Environment variable with the mount point, set for the inner test.
const VARIABLE: &str = "BEDPLATE_TEST_MOUNT";

/// Runs the test `name` again with a directory mounted by `mount_arguments`.
fn inside(name: &str, mount_arguments: &[&str]) {
    fixtures::user_namespaces();
    let mount = tempfile::tempdir().unwrap();
    let script = r#"mount "${@:3}" "$1" || exit 99; exec "$0" --exact "$2" --nocapture"#;
    let output = Command::new("unshare")
        .args(["-rm", "bash", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(mount.path())
        .arg(format!("namespace::{name}"))
        .args(mount_arguments)
        .env(VARIABLE, mount.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn mount() -> Machine {
    Machine::open(Path::new(&std::env::var(VARIABLE).expect("run by the test outside")))
}

#[test]
#[cfg_attr(not(has = "user-namespaces"), ignore = "needs user-namespaces")]
fn a_full_disk() {
    if std::env::var_os(VARIABLE).is_some() {
        return inner_full_disk();
    }
    inside("a_full_disk", &["-t", "tmpfs", "-o", "size=512k,mode=755", "tmpfs"]);
}

fn inner_full_disk() {
    let (mut failed, mut by_us) = (0, 0);
    // From no free space to enough for everything, page by page.
    for pages in 0.. {
        let mut machine = mount();
        std::fs::read_dir(machine.root()).unwrap().for_each(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap()
            } else {
                std::fs::remove_file(path).unwrap()
            }
        });
        machine.put("/proc/sys/kernel/random/boot_id", "5a1c0d9e-0000-4000-8000-000000000001\n");
        furnish(&mut machine);
        // The kernel creates VFs without disk space; the fake host does not. So they exist already.
        machine.writer(&Fuse::none()).write_attribute(NUMVFS, "8", 1).unwrap();
        let (before, old) = (foreign(machine.root()), contents(&machine));
        let ballast = machine.at("/ballast");
        // Fills the disk, then frees some pages.
        let _ = std::fs::write(&ballast, vec![0_u8; 1 << 20]);
        let full = std::fs::metadata(&ballast).unwrap().len();
        let file = std::fs::OpenOptions::new().write(true).open(&ballast).unwrap();
        file.set_len(full.saturating_sub(pages * 4096)).unwrap();
        let report = apply(&machine, &Fuse::none());
        let context = format!("{pages} pages free");
        for (path, content) in contents(&machine) {
            let new = WANTED.iter().find(|(wanted, _)| *wanted == path).unwrap().1;
            assert!(
                content == old[path] || content.as_deref() == new,
                "{context}: {path} is {content:?}"
            );
        }
        assert_eq!(leftovers(machine.root()), Vec::<String>::new(), "{context}");
        let done = report.succeeded();
        for change in report.changes {
            if let Outcome::Failed { why, .. } = change.outcome {
                failed += 1;
                // A tool reports it in its output; a failed write by bedplate itself has the fix in the message.
                let ours = why.contains("No space left on device") && why.contains("free space");
                let theirs = why.contains("exit status 1") || why.contains("os error 28");
                assert!(ours || theirs, "{why}");
                by_us += u32::from(ours);
            }
        }
        drop(file);
        std::fs::remove_file(&ballast).unwrap();
        if pages % 2 == 0 {
            let report = apply(&machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(&machine, &context);
        }
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:?} {report:?}");
        let mut after = foreign(machine.root());
        after.retain(|path, _| !path.starts_with("sys/module"));
        assert_eq!(after, before, "{context}");
        if done && pages > 0 {
            break;
        }
        assert!(pages < 100, "it never succeeds");
    }
    assert!(by_us > 3, "only {failed} changes failed, {by_us} of them in the writer");
}

#[test]
#[cfg_attr(not(has = "user-namespaces"), ignore = "needs user-namespaces")]
fn a_read_only_disk() {
    if std::env::var_os(VARIABLE).is_some() {
        return inner_read_only_disk();
    }
    inside("a_read_only_disk", &["-t", "tmpfs", "-o", "mode=755", "tmpfs"]);
}

fn inner_read_only_disk() {
    let mut machine = mount();
    machine.put("/proc/sys/kernel/random/boot_id", "5a1c0d9e-0000-4000-8000-000000000001\n");
    furnish(&mut machine);
    let remount = |how: &str, path: &Path| {
        let done = Command::new("mount").args(["-o", how]).arg(path).status().unwrap();
        assert!(done.success());
    };
    // Only /etc is read-only: the ledger can be written, the files cannot.
    let etc = machine.at("/etc");
    assert!(Command::new("mount").arg("--bind").args([&etc, &etc]).status().unwrap().success());
    remount("remount,bind,ro", &etc);
    let before = foreign(machine.root());
    let report = apply(&machine, &Fuse::none());
    let failures: Vec<(String, String)> = report
        .changes
        .into_iter()
        .filter_map(|change| match change.outcome {
            Outcome::Failed { why, restored, .. } => {
                assert!(restored.left.is_empty(), "{restored:?}");
                Some((change.id, why))
            }
            _ => None,
        })
        .collect();
    let ids: Vec<&str> = failures.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["cmdline/grub", "modules/modprobe.d"]);
    assert!(failures.iter().all(|(_, why)| why.contains("Read-only file system")), "{failures:?}");
    let without_sys = |mut tree: std::collections::BTreeMap<String, String>| {
        tree.retain(|path, _| !path.starts_with("sys"));
        tree
    };
    assert_eq!(without_sys(foreign(machine.root())), without_sys(before));
    remount("remount,bind,rw", &etc);
    assert!(apply(&machine, &Fuse::none()).succeeded());
    assert_done(&machine, "writable again");

    // All of it is read-only: changes that cannot be recorded are not tried.
    let before = everything(machine.root());
    machine.put("/etc/default/grub", "x\n");
    let changed = everything(machine.root());
    remount("remount,ro", machine.root());
    remount("remount,bind,ro", &etc);
    let report = apply(&machine, &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("Read-only file system"), "{why}");
    assert!(!report.succeeded() && changed != before);
    assert_eq!(everything(machine.root()), changed);
}
