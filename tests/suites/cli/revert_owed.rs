//! Tools that must run after the revert of an image: they stay pending until they have run.

use crate::ran::{CFG, CMDLINE, MADE, MODULES, UPDATE_INITRAMFS, apply, image, initramfs, owed};
use crate::session::{Session, text};

/// An image with everything applied and generated.
fn finished() -> Session {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    assert_eq!(apply(&session, &[]).0, 6);
    session.file(CFG, MADE);
    initramfs(&session, "6.1.0", 3600);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
    session
}

fn run(session: &Session, args: &[&str]) -> (i32, String) {
    let output = session.run(args);
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

fn revert(session: &Session, more: &[&str]) -> (i32, String) {
    run(session, &[&["revert", "--root", "img", "--yes"], more].concat())
}

fn seal(session: &Session) -> (i32, String) {
    run(session, &["seal", "--root", "img", "--yes"])
}

#[test]
fn tools_of_a_revert_are_pending_until_they_have_run() {
    let session = finished();
    let (status, said) = revert(&session, &[]);
    assert_eq!(status, 6, "{said}");
    for tool in ["update-grub", UPDATE_INITRAMFS] {
        assert_eq!(said.matches(tool).count(), 1, "{said}");
    }
    assert_eq!(owed(&session), ["update-grub", UPDATE_INITRAMFS]);
    let (status, said) = seal(&session);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("update-grub") && said.contains(UPDATE_INITRAMFS), "{said}");

    let (status, said) = revert(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("must still run: update-grub\n"), "{said}");
    assert!(!said.contains("nothing to revert"), "{said}");
    let (status, said) = revert(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("update-grub: recorded as run"), "{said}");
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
    let (status, said) = revert(&session, &["--ran", "update-initramfs", "--ran", "update-grub"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("update-grub: not pending"), "{said}");
    assert!(owed(&session).is_empty());
    assert_eq!(seal(&session).0, 0);
    assert_eq!(revert(&session, &["--ran", "mkinitcpio"]).0, 64);
}

/// The profile requires nothing, so no change would run the tools.
#[test]
fn image_with_pending_tools_of_a_revert_fails_verify() {
    let session = finished();
    assert_eq!(revert(&session, &[]).0, 6);
    session.file("img/etc/bedplate/profile.toml", "schema = 1\nname = \"t\"\n");
    let pending = || {
        let (status, said) =
            run(&session, &["verify", "--root", "img", "--cpu", "intel", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let mut checks = report["checks"].as_array().expect("a list").iter();
        let check = checks.find(|check| check["id"] == "profile.in-effect").expect("the check");
        (status, check["codes"][0]["commands"].to_string())
    };
    let (status, commands) = pending();
    assert_eq!(status, 4, "{commands}");
    assert!(commands.contains("update-grub") && commands.contains(UPDATE_INITRAMFS), "{commands}");
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 7200);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub"], "the initramfs was made since the revert");
    assert_eq!(pending(), (4, "[\"update-grub\"]".to_owned()));
    assert_eq!(apply(&session, &["--ran", "update-grub"]).0, 0);
    assert_eq!(pending().1, "null");
}

/// Arguments of the new profile are in the menu from before the revert, too.
#[test]
fn menu_from_before_a_revert_proves_nothing() {
    for profile in ["[cmdline]\nargs = [\"quiet\"]\n", "[cmdline]\nabsent = [\"iommu=off\"]\n", ""]
    {
        let session = finished();
        assert_eq!(revert(&session, &["--ran", "update-initramfs"]).0, 6);
        initramfs(&session, "6.1.0", 7200);
        session
            .file("img/etc/bedplate/profile.toml", format!("schema = 1\nname = \"t\"\n{profile}"));
        for _ in 0..2 {
            let (status, said) = apply(&session, &[]);
            assert_eq!(status, 6, "{profile}: {said}");
            assert_eq!(owed(&session), ["update-grub"], "{profile}: {said}");
        }
        let plan = ["plan", "--root", "img", "--cpu", "intel", "--exit-code"];
        assert_eq!(run(&session, &plan).0, 6);
        session.file(CFG, MADE.replace(" iommu=pt", ""));
        let (status, said) = apply(&session, &[]);
        assert_eq!(status, 0, "{profile}: {said}");
        assert_eq!(seal(&session).0, 0);
    }
}

/// The tool was pending before the revert: its menu has arguments of an earlier profile.
#[test]
fn menu_from_before_a_revert_leaves_older_tools_pending() {
    let session = finished();
    let profile = |sections: &str| {
        session.file(
            "img/etc/bedplate/profile.toml",
            format!("schema = 1\nname = \"t\"\n{sections}{MODULES}"),
        );
    };
    profile("[cmdline]\nargs = [\"iommu=pt\", \"nosmt\"]\n");
    assert_eq!(apply(&session, &[]).0, 6);
    assert_eq!(owed(&session), ["update-grub"]);
    assert_eq!(revert(&session, &[]).0, 6);
    profile("[cmdline]\nargs = [\"quiet\"]\n");
    let (status, said) = apply(&session, &["--ran", "update-initramfs"]);
    assert_eq!(status, 6, "{said}");
    assert!(owed(&session).contains(&"update-grub".to_owned()));
}

/// A revert in two runs: the first one refused a file that another program had edited.
#[test]
fn later_revert_keeps_pending_tools_of_an_earlier_one() {
    let session = image("[modules]\nload = [\"vfio\"]\nblacklist = [\"nouveau\"]\n");
    session.file("img/lib/modules/6.1.0/modules.builtin", "kernel/drivers/vfio/vfio.ko\n");
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    let list = "img/etc/modules-load.d/bedplate.conf";
    let text = std::fs::read_to_string(session.path(list)).expect("the file");
    session.file(list, format!("{text}# mine\n"));
    assert_eq!(revert(&session, &[]).0, 4);
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
    let (status, said) = revert(&session, &["--force"]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
    assert_eq!(seal(&session).0, 4);
}

/// Files that are already gone leave no step, but the menu and the initramfs are still the old ones.
#[test]
fn revert_without_steps_records_pending_tools() {
    let session = finished();
    for file in ["default/grub.d/zz-bedplate.cfg", "modprobe.d/zz-bedplate.conf"] {
        std::fs::remove_file(session.path("img/etc").join(file)).expect("removed");
    }
    let (status, said) = revert(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub", UPDATE_INITRAMFS]);
    assert_eq!(seal(&session).0, 4);
    let (status, said) = revert(&session, &["--ran", "update-grub", "--ran", "update-initramfs"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(seal(&session).0, 0);
}

/// The question is not answered with yes.
#[test]
fn declined_revert_records_no_tool_as_run() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    let args = ["revert", "--root", "img", "--ran", "update-initramfs"];
    assert_ne!(run(&session, &args).0, 0);
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
}

/// An entry has an argument that no setting requires any more, and no file has to be written.
#[test]
fn argument_left_in_the_menu_makes_the_tool_pending() {
    let session = finished();
    let drop_in = session.path("img/etc/default/grub.d/zz-bedplate.cfg");
    std::fs::remove_file(drop_in).expect("removed");
    session.file("img/etc/bedplate/profile.toml", format!("schema = 1\nname = \"t\"\n{MODULES}"));
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub"]);
    assert_eq!(seal(&session).0, 4);
}

/// Written by `render`: the ledger does not have the file.
#[test]
fn block_of_nccl_conf_is_removed_with_its_file_by_force() {
    for (rest, expected) in [("", 0), ("NCCL_DEBUG=INFO\n", 4)] {
        let session = image("");
        let file = "img/etc/nccl.conf";
        session.file(file, format!("# BEGIN bedplate\n# written by bedplate from profile t\nA=1\n# END bedplate\n{rest}"));
        assert_eq!(revert(&session, &[]).0, 4);
        let (status, said) = revert(&session, &["--force"]);
        assert_eq!(status, expected, "{said}");
        assert_eq!(session.path(file).exists(), expected == 4);
    }
}
