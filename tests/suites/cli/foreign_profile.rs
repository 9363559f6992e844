//! Profiles decide what runs as root. A profile that another user could have written is refused, as sudo refuses its own
//! files. The message names the file and the command that fixes it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use bedplate_tests::fake::tree::everything;
use bedplate_tests::fixtures;

use crate::session::{Session, text};

const PROFILE: &str =
    "schema = 1\nname = \"p\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n";
const LAYER: &str = "schema = 1\n[modules]\nload = [\"dummy\"]\n";

/// An image with its own profile and a drop-in, and a profile next to the image.
fn session() -> Session {
    let session = Session::new();
    session.image("image");
    session.file("image/etc/bedplate/profile.toml", PROFILE);
    session.file("image/etc/bedplate/profile.d/10-site.toml", LAYER);
    session.file("named/site.toml", PROFILE);
    for path in ["image", "image/etc/bedplate", "image/etc/bedplate/profile.d", "named"] {
        set_mode(&session.path(path), 0o755);
    }
    session
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

fn refused(session: &Session, args: &[&str], says: &str) {
    let before = everything(&session.path("image"));
    let output = session.run(args);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains(says), "{args:?}: {says} is not in\n{said}");
    assert_eq!(everything(&session.path("image")), before, "{args:?}");
}

const OWN: [&str; 4] = ["apply", "--root", "image", "--yes"];
const NAMED: [&str; 6] = ["apply", "--root", "image", "--yes", "--profile", "named/site.toml"];

#[test]
fn profile_writable_by_other_users_is_refused() {
    for (path, mode) in [
        ("image/etc/bedplate", 0o777),
        ("image/etc/bedplate", 0o1777),
        ("image/etc/bedplate/profile.toml", 0o666),
        ("image/etc/bedplate/profile.toml", 0o646),
        ("image/etc/bedplate/profile.d", 0o777),
        ("image/etc/bedplate/profile.d/10-site.toml", 0o666),
    ] {
        let session = session();
        set_mode(&session.path(path), mode);
        refused(&session, &OWN, &format!("(mode {mode:04o}); run chmod go-w {path}"));
        // Nor is it used as the host's profile for a plan.
        refused(&session, &["plan", "--root", "image"], &format!("chmod go-w {path}"));
    }
    for (path, mode, help) in [
        ("named/site.toml", 0o666, "run chmod go-w {path}"),
        ("named", 0o777, "copy the file to a directory writable only by root"),
    ] {
        let session = session();
        set_mode(&session.path(path), mode);
        // By its whole path: the command works from any directory.
        let help = help.replace("{path}", &session.path(path).display().to_string());
        refused(&session, &NAMED, &format!("(mode {mode:04o}); {help}"));
        // Planning with a named profile is harmless.
        let plan = ["plan", "--root", "image", "--profile", "named/site.toml"];
        assert_eq!(session.status(&plan), 0, "{path}");
    }
    // In a sticky directory like /tmp only the file's own mode matters, since only an owner can remove a file.
    let session = session();
    set_mode(&session.path("named"), 0o1777);
    assert_eq!(session.status(&NAMED), 0);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn profile_owned_by_another_user_is_refused() {
    fixtures::root();
    for path in [
        "image/etc/bedplate",
        "image/etc/bedplate/profile.toml",
        "image/etc/bedplate/profile.d",
        "image/etc/bedplate/profile.d/10-site.toml",
    ] {
        let session = session();
        chown(session.path(path), Some(1234), None).expect("root may");
        let says = format!("owned by uid 1234, not by root; run chown root {path}");
        refused(&session, &OWN, &says);
    }
    for (path, help) in
        [("named", "copy the file to a directory"), ("named/site.toml", "run chown root {path}")]
    {
        let session = session();
        chown(session.path(path), Some(1234), None).expect("root may");
        let help = help.replace("{path}", &session.path(path).display().to_string());
        refused(&session, &NAMED, &format!("not by root; {help}"));
    }
    // No fix with `chown`: a home must not be given to root, whatever path names it.
    let session = self::session();
    chown(session.path("named"), Some(1234), None).expect("root may");
    let mut apply =
        session.command(&["apply", "--root", "../image", "--yes", "--profile", "site.toml"]);
    let output = apply.current_dir(session.path("named")).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && !said.contains("chown"), "{said}");
    // By root's link, too: the owner of its target decides.
    let session = self::session();
    let profile = session.path("image/etc/bedplate/profile.toml");
    fs::rename(&profile, session.path("image/etc/elsewhere.toml")).expect("ours");
    symlink("/etc/elsewhere.toml", &profile).expect("ours");
    assert_eq!(session.status(&["plan", "--root", "image"]), 0);
    chown(session.path("image/etc/elsewhere.toml"), Some(1234), None).expect("root may");
    refused(&session, &OWN, "owned by uid 1234");
    // A user with write access to the target's directory can replace the file.
    for (link, to) in [
        ("image/etc/bedplate/profile.toml", "/home/site.toml"),
        ("named/site.toml", "../image/home/site.toml"),
    ] {
        let session = self::session();
        session.file("image/home/site.toml", PROFILE);
        let link = session.path(link);
        fs::remove_file(&link).expect("ours");
        symlink(to, &link).expect("ours");
        let args: &[&str] = if to.starts_with('/') { &OWN } else { &NAMED };
        assert_eq!(session.status(args), 0, "{to}");
        chown(session.path("image/home"), Some(1234), None).expect("root may");
        refused(&session, args, "image/home: owned by uid 1234, not by root; copy the file");
    }
}

/// An ordinary user may read their own profiles and root's.
#[test]
fn ordinary_user_reads_their_own_and_roots_profiles() {
    let session = session();
    let args = ["profile", "check", "named/site.toml"];
    assert!(session.run_as_nobody(&args).status.success());
    let says = session.run_as_nobody(&["plan", "--root", "image"]);
    assert!(says.status.success(), "{}", text(&says.stderr));
}

/// An ordinary user builds images from their own profiles.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn ordinary_user_applies_their_own_profile() {
    fixtures::root();
    let session = session();
    for entry in everything(&session.path("image")).into_keys() {
        chown(session.path("image").join(entry), Some(65534), Some(65534)).expect("root may");
    }
    chown(session.path("image"), Some(65534), Some(65534)).expect("root may");
    // Owned by the user, writable only by the user's own group.
    set_mode(&session.path("image/etc/bedplate/profile.toml"), 0o664);
    let done = session.run_as_nobody(&OWN);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Only root's own group may write them, as in an /etc/bedplate created with umask 002. An ordinary user may read them.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn profile_writable_by_roots_group_is_trusted() {
    let session = session();
    fixtures::root();
    for path in ["image/etc/bedplate", "image/etc/bedplate/profile.toml"] {
        chown(session.path(path), Some(0), Some(0)).expect("root may");
        set_mode(&session.path(path), 0o775);
    }
    let says = session.run_as_nobody(&["plan", "--root", "image"]);
    assert!(says.status.success(), "{}", text(&says.stderr));
}

/// Root may run in another group (`Group=` of bedplate-observer@.service). Members of that group are not trusted.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn root_in_another_group_does_not_trust_the_group() {
    let session = session();
    fixtures::root();
    chown(session.path("image/etc/bedplate/profile.toml"), Some(0), Some(65534)).expect("root may");
    set_mode(&session.path("image/etc/bedplate/profile.toml"), 0o664);
    let output = std::process::Command::new("setpriv")
        .args(["--regid=65534", "--clear-groups"])
        .arg(bedplate_tests::program::path())
        .args(OWN)
        .current_dir(session.path("."))
        .output()
        .expect("setpriv starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("writable by other users (mode 0664)"), "{said}");
}

/// A plan does not need the ledger: an untrusted one is one more unknown.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn plan_works_with_a_ledger_of_another_user() {
    fixtures::root();
    let session = session();
    assert_eq!(session.status(&OWN), 0);
    let ledger = session.path("image/var/lib/bedplate/ledger.json");
    chown(&ledger, Some(1234), None).expect("root may");
    let plan = session.run(&["plan", "--root", "image"]);
    let said = text(&plan.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plan.status.success() && said.contains("bedplate's record of its changes"), "{said}");
    assert!(said.contains("owned by uid 1234"), "{said}");
    refused(&session, &OWN, "owned by uid 1234, not by root; run chown root");
}

/// In a user namespace the caller is root, and so is the files' owner.
#[test]
#[cfg_attr(not(has = "user-namespaces"), ignore = "needs user-namespaces")]
fn image_is_built_in_a_user_namespace() {
    let session = session();
    fixtures::user_namespaces();
    let done = std::process::Command::new("unshare")
        .arg("-rm")
        .arg(bedplate_tests::program::path())
        .args(NAMED)
        .current_dir(session.path(""))
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(session.status(&["revert", "--root", "image", "--yes"]), 0);
}

/// A line of an invalid file is quoted only if the file is the caller's own and is named as a profile.
#[test]
fn line_of_an_invalid_file_is_not_quoted() {
    assert_quoted(&[
        (&["plan", "-p", "./secrets", "--demo", "hgx"], false, false),
        (&["profile", "check", "./secrets"], false, false),
        (&["plan", "-p", "./own.toml", "--demo", "hgx"], true, false),
    ]);
}

/// sudo may let a user run bedplate on any file as a profile: no line of an invalid one is shown.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn line_is_not_quoted_to_a_sudo_caller() {
    fixtures::root();
    assert_quoted(&[
        (&["plan", "-p", "./own.toml", "--demo", "hgx"], false, true),
        (&["profile", "check", "./own.toml"], false, true),
    ]);
}

/// Arguments, whether a line of the file is quoted, and whether another user called through sudo.
fn assert_quoted(cases: &[(&[&str], bool, bool)]) {
    const SECRET: &str = "root:hunter2:1:\n";
    let session = Session::new();
    session.file("secrets", SECRET).file("own.toml", SECRET);
    for &(args, quoted, of_another) in cases {
        let mut command = session.command(args);
        command.env_remove("SUDO_UID").env_remove("PKEXEC_UID");
        if of_another {
            command.env("SUDO_UID", "65534");
        }
        let output = command.output().expect("it starts");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(said.contains("hunter2"), quoted, "{args:?}: {said}");
        assert!(said.contains(if quoted { ":1:" } else { "line 1" }), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    }
}
