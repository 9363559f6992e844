//! `bedplate profile edit`: installs only a valid profile, and loses no edit.

use std::fs;

use crate::session::{Session, set_mode, text};

const PROFILE: &str = "etc/bedplate/profile.toml";
const OLD: &str = "schema = 1\nname = \"site\"\nextends = \"generic-intel\"\n";

/// An image with a profile and an editor that runs `script` on its file.
fn image(script: &str) -> Session {
    let session = Session::new();
    session.image("root");
    session.file(&format!("root/{PROFILE}"), OLD);
    session.file("editor", format!("#!/bin/sh\n{script}\n"));
    set_mode(&session.path("editor"), 0o755);
    fs::create_dir(session.path("tmp")).expect("a directory");
    session
}

/// Runs the editor. Returns the exit status, stdout and stderr.
fn edit(session: &Session, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = session.command(&[&["profile", "edit", "--root", "root"], args].concat());
    command.env("TMPDIR", session.path("tmp")).env_remove("VISUAL");
    let output = command.env("EDITOR", session.path("editor")).output().expect("it runs");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn profile(session: &Session) -> String {
    fs::read_to_string(session.path(&format!("root/{PROFILE}"))).expect("a profile")
}

/// Texts of the drafts that are left.
fn drafts(session: &Session) -> Vec<String> {
    let directories = fs::read_dir(session.path("tmp")).expect("a directory");
    let files = directories.map(|entry| entry.expect("an entry").path().join("profile.toml"));
    files.map(|file| fs::read_to_string(file).expect("a draft")).collect()
}

#[test]
fn valid_profile_is_planned_and_installed() {
    let session = image("sed -i s/site/rack/ \"$1\"");
    set_mode(&session.path(&format!("root/{PROFILE}")), 0o600);
    let (status, plan, said) = edit(&session, &[]);
    assert_eq!(status, Some(0), "{said}");
    assert!(plan.starts_with("Profile rack on "), "{plan}");
    assert!(said.contains("bedplate apply --root root"), "{said}");
    assert_eq!(profile(&session), OLD.replace("site", "rack"));
    let meta = fs::metadata(session.path(&format!("root/{PROFILE}"))).expect("a file");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777, 0o600);
    assert_eq!(drafts(&session), [""; 0]);
}

#[test]
fn unchanged_profile_is_not_written() {
    let session = image(":");
    let (status, plan, said) = edit(&session, &[]);
    assert_eq!((status, plan.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("no changes"), "{said}");
    assert_eq!((profile(&session).as_str(), drafts(&session).len()), (OLD, 0));
}

#[test]
fn invalid_profile_is_not_installed_and_draft_is_kept() {
    for (script, status) in [
        ("echo nonsense >> \"$1\"", 1),
        ("printf '[cmdline]\\nargs = [\"amd_iommu=on\"]\\n' >> \"$1\"", 4),
        ("echo '# half' >> \"$1\"; exit 3", 1),
    ] {
        let session = image(script);
        let (found, _, said) = edit(&session, &["--yes"]);
        assert_eq!(found, Some(status), "{script}: {said}");
        assert_eq!(profile(&session), OLD, "{script}");
        let drafts = drafts(&session);
        assert!(drafts.len() == 1 && drafts[0].len() > OLD.len(), "{script}: {drafts:?}");
        assert!(said.contains("the draft is kept: "), "{script}: {said}");
    }
}

#[test]
fn profile_changed_during_the_edit_is_not_overwritten() {
    let session =
        image("echo '# mine' >> \"$1\"; echo '# theirs' >> root/etc/bedplate/profile.toml");
    let (status, _, said) = edit(&session, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(profile(&session), format!("{OLD}# theirs\n"));
    assert_eq!(drafts(&session), [format!("{OLD}# mine\n")]);
}

#[test]
fn missing_profile_is_an_error_with_a_fix() {
    let session = image(":");
    fs::remove_file(session.path(&format!("root/{PROFILE}"))).expect("a profile");
    let (status, _, said) = edit(&session, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("`bedplate profile init --root root`"), "{said}");
}

#[test]
fn link_out_of_the_image_is_not_followed() {
    let session = image("echo '# more' >> \"$1\"");
    session.file("outside.toml", OLD);
    let file = session.path(&format!("root/{PROFILE}"));
    fs::remove_file(&file).expect("a profile");
    std::os::unix::fs::symlink(session.path("outside.toml"), &file).expect("a link");
    let (status, _, said) = edit(&session, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(fs::read_to_string(session.path("outside.toml")).expect("a file"), OLD);
}
