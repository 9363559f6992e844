//! `apply`, `revert` and `history` as a user sees them: refusals, and that a refused command changes nothing.

use std::path::Path;

use crate::session::{Session, set_mode, text};

fn listing(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            found.push(path.display().to_string());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn without_rights_apply_fails_without_a_question() {
    let session = Session::new();
    let image = session.image("image");
    let before = listing(&image);
    for directory in ["", "etc", "etc/default", "boot", "boot/grub"] {
        set_mode(&image.join(directory), 0o555);
    }
    let output =
        session.run_as_nobody(&["apply", "--root", "image", "--profile", "generic-intel", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.starts_with("error: cannot change this host: cannot write in /:"), "{said}");
    assert!(said.contains("run as root"), "{said}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(listing(&image), before);
    for directory in ["", "etc", "etc/default", "boot", "boot/grub"] {
        set_mode(&image.join(directory), 0o755);
    }
}

#[test]
fn error_lint_stops_apply_and_history_has_allow_reasons() {
    let session = Session::new();
    let image = session.image("image");
    let before = listing(&image);
    let profile = "schema = 1\nname = \"node\"\n[cmdline]\nargs = [\"amd_iommu=on\"]\n";
    session.file("bad.toml", profile);
    let apply = ["apply", "--root", "image", "--profile", "bad.toml", "--cpu", "amd"];
    let output = session.run(&apply);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(
        said.contains("error: profile rejected by lint ") && said.contains("bad.toml:4:9"),
        "{said}"
    );
    assert_eq!(listing(&image), before);

    let allow = ["--allow-lint", "amd-iommu-on=the installer adds it, ticket 12"];
    let output = session.run(&[apply.as_slice(), &allow].concat());
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    let history = text(&session.run(&["history", "--root", "image"]).stdout);
    let line = "    allowed lint amd-iommu-on: the installer adds it, ticket 12\n";
    assert!(history.contains(line), "{history}");
    let record = std::fs::read_to_string(image.join("var/lib/bedplate/ledger.json"));
    assert!(record.expect("the ledger").contains("the installer adds it, ticket 12"));
}

#[test]
fn plan_apply_and_revert_of_an_image() {
    let session = Session::new();
    let image = session.image("image");
    let before = listing(&image);
    let apply = ["apply", "--root", "image", "--profile", "generic-intel"];
    let output = session.run(&apply);
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("the image build must still run:\n    update-grub\n"));
    let drop_in = image.join("etc/default/grub.d/zz-bedplate.cfg");
    assert!(std::fs::read_to_string(&drop_in).expect("the drop-in").contains("iommu=pt"));

    let again = session.run(&apply);
    assert_eq!(again.status.code(), Some(6), "it is still owed");

    let history = text(&session.run(&["history", "--root", "image"]).stdout);
    assert_eq!(
        history.lines().filter(|line| line.contains("apply generic-intel")).count(),
        1,
        "{history}"
    );

    assert_eq!(session.status(&["snapshot", "--root", "image", "-o", "image.bp"]), 0);
    let recorded = session.run(&["history", "--snapshot", "image.bp"]);
    assert_eq!((recorded.status.code(), text(&recorded.stdout)), (Some(5), String::new()));

    let dry = session.run(&["revert", "--root", "image", "--dry-run"]);
    assert!(text(&dry.stdout).contains("/etc/default/grub.d/zz-bedplate.cfg: removed"));
    assert!(drop_in.exists());
    let reverted = session.run(&["revert", "--root", "image"]);
    assert_eq!(reverted.status.code(), Some(6));
    let said = text(&reverted.stdout);
    assert!(said.contains("the image build must still run: update-grub"), "{said}");
    let state = image.join("var").display().to_string();
    let after: Vec<String> =
        listing(&image).into_iter().filter(|path| !path.starts_with(&state)).collect();
    assert_eq!(after, before);
    let nothing = session.run(&["revert", "--root", "image"]);
    assert_eq!(nothing.status.code(), Some(6));
    assert_eq!(text(&nothing.stdout), "! the image build must still run: update-grub\n");
    let settled = session.run(&["revert", "--root", "image", "--ran", "update-grub"]);
    assert_eq!(
        text(&settled.stdout),
        "nothing to revert: bedplate has no record of changes here\n"
    );
}

/// A daemon that retries a failing change holds the lock every few seconds.
#[test]
fn revert_waits_for_the_lock() {
    let session = Session::new();
    let image = session.image("image");
    let apply = ["apply", "--root", "image", "--profile", "generic-intel", "--yes"];
    assert_eq!(session.status(&apply), 6);
    let other = std::fs::File::open(image.join("var/lib/bedplate/lock")).expect("the lock");
    other.lock().expect("nobody has it");
    let revert = std::thread::scope(|scope| {
        let revert = scope.spawn(|| session.run(&["revert", "--root", "image", "--yes"]));
        std::thread::sleep(std::time::Duration::from_millis(700));
        assert!(!revert.is_finished(), "it does not wait");
        other.unlock().expect("held");
        revert.join().expect("it ends")
    });
    assert_eq!(revert.status.code(), Some(6), "{}", text(&revert.stderr));
    assert!(
        text(&revert.stderr).contains("waiting for another bedplate"),
        "{}",
        text(&revert.stderr)
    );
}

/// A power cut just after the last write: nothing is left to plan, but the ledger still has an unfinished record.
#[test]
fn interrupted_change_is_finished_although_nothing_differs() {
    let profile = "schema = 1\nname = \"p\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n";
    for command in ["apply", "revert"] {
        let session = Session::new();
        let image = session.image("image");
        session.file("image/etc/bedplate/profile.toml", profile);
        assert_eq!(session.status(&["apply", "--root", "image", "--yes"]), 0);
        let ledger = image.join("var/lib/bedplate/ledger.json");
        let list = "/etc/modules-load.d/bedplate.conf";
        let mut record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&ledger).expect("the ledger")).expect("JSON");
        record["files"][list]["unfinished"] = serde_json::json!({
            "change": "modules/gone", "before": { "state": "absent" }
        });
        if command == "revert" {
            // The file is restored already, but its record is not yet removed.
            std::fs::remove_dir_all(image.join("etc/modules-load.d")).expect("ours");
            record["directories"] = serde_json::json!([]);
        }
        std::fs::write(&ledger, record.to_string()).expect("ours");
        assert_eq!(session.status(&[command, "--root", "image", "--yes"]), 0, "{command}");
        let now = std::fs::read_to_string(&ledger).expect("the ledger");
        assert!(!now.contains("unfinished"), "{command}: {now}");
    }
}

#[test]
fn a_host_that_bedplate_never_changed() {
    let session = Session::new();
    session.image("image");
    session.expect(
        "never-changed",
        &[
            &["revert", "--root", "image"],
            &["revert", "--root", "image", "--dry-run"],
            &["history", "--root", "image"],
            &["history", "--demo", "hgx"],
        ],
    );
}

#[test]
fn unusable_ledger_stops_every_command() {
    let session = Session::new();
    let versions = ["{\"version\": 99}", "{\"version\": 1}", "{\"version\": 2}"];
    for (number, content) in ["{garbage", "", "[]"].iter().chain(&versions).enumerate() {
        let name = format!("image{number}");
        session.image(&name);
        session.file(&format!("{name}/var/lib/bedplate/ledger.json"), content);
        let before = listing(&session.path(&name));
        for args in [
            ["plan", "--profile", "generic-intel", "--root", &name].as_slice(),
            &["apply", "--profile", "generic-intel", "--root", &name],
            &["revert", "--root", &name],
            &["history", "--root", &name],
        ] {
            let output = session.run(args);
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            let said = text(&output.stderr);
            let fix = match *content {
                "{\"version\": 99}" => "use the newer bedplate",
                "{\"version\": 1}" => "Run `bedplate revert` with that bedplate",
                _ => "restore it from a backup",
            };
            // By its whole path: it is not the ledger of the machine that builds the image.
            let path = format!("ledger {name}/var/lib/bedplate/ledger.json");
            assert!(said.contains(&path) && said.contains(fix), "{args:?}: {said}");
        }
        assert_eq!(listing(&session.path(&name)), before);
    }
}

#[test]
fn plan_of_a_changed_image_needs_no_rights() {
    let session = Session::new();
    let image = session.image("image");
    assert_eq!(session.status(&["apply", "--root", "image", "--profile", "generic-intel"]), 6);
    // A file may be unreadable even to its owner; then only root can read it.
    set_mode(&image.join("var/lib/bedplate/ledger.json"), 0o000);
    let plan = session.run_as_nobody(&["plan", "--root", "image", "--profile", "generic-intel"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stderr));
    let shown = text(&plan.stdout);
    assert!(shown.contains("? bedplate's record of its changes: unknown"), "{shown}");
    // The boot entry must still be regenerated, which does not depend on the ledger.
    assert!(shown.contains("boot configuration"), "{shown}");
    for command in [
        ["apply", "--root", "image", "--profile", "generic-intel"].as_slice(),
        &["revert", "--root", "image"],
    ] {
        let output = session.run_as_nobody(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(
            text(&output.stderr).contains("cannot read the ledger: run as root"),
            "{}",
            text(&output.stderr)
        );
    }
}
