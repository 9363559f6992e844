//! `seal`: a sealed image still matches its profile, and `revert` still restores it.

use crate::session::{Session, set_mode, text};

const PROFILE: &str =
    "schema = 1\nname = \"t\"\n[sysctl]\nset = { \"vm.zone_reclaim_mode\" = \"0\" }\n";
const CONF: &str = "img/etc/sysctl.d/zz-bedplate.conf";

/// An image to which the profile was applied, and which has since run as a host.
fn image() -> Session {
    let session = Session::new();
    session.image("img");
    session.file("img/etc/bedplate/profile.toml", PROFILE);
    assert_eq!(session.status(&["apply", "--root", "img", "--cpu", "intel", "--yes"]), 0);
    let state = "img/var/lib/bedplate/daemon";
    session
        .file(&format!("{state}/devices.json"), "{}")
        .file(&format!("{state}/reboot.json"), "{\"version\":2}")
        .file("img/var/lib/bedplate/hold.json", "{}")
        .file("img/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    set_mode(&session.path(state), 0o700);
    session
}

fn run(session: &Session, more: &[&str]) -> (i32, String) {
    let args = [&["seal", "--root", "img"], more].concat();
    let output = session.run(&args);
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn sealed_image_plans_nothing_and_reverts() {
    let session = image();
    assert_eq!(run(&session, &["--dry-run", "--exit-code"]).0, 2);
    assert!(session.path("img/var/lib/bedplate/hold.json").exists(), "a dry run removes nothing");
    let (status, said) = run(&session, &["--yes"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("daemon/devices.json") && said.contains("/etc/machine-id"), "{said}");
    for gone in ["hold.json", "daemon/devices.json", "daemon/reboot.json"] {
        assert!(!session.path(&format!("img/var/lib/bedplate/{gone}")).exists(), "{gone}");
    }
    assert!(session.path("img/etc/machine-id").exists());
    assert_eq!(run(&session, &["--dry-run", "--exit-code"]).0, 0);
    let (status, said) = run(&session, &["--yes"]);
    assert_eq!(status, 0);
    assert!(said.contains("nothing to remove: already sealed"), "{said}");

    assert_eq!(session.status(&["plan", "--root", "img", "--cpu", "intel", "--exit-code"]), 0);
    assert!(session.path(CONF).exists());
    assert_eq!(session.status(&["revert", "--root", "img", "--yes"]), 0);
    assert!(!session.path(CONF).exists());
}

#[test]
fn json_names_every_part() {
    let session = image();
    let output = session.run(&["seal", "--root", "img", "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(table["bedplate_seal"], 2);
    let parts = table["parts"].as_array().expect("a list");
    assert_eq!(parts.len(), bedplate_core::seal::PARTS.len());
    let part = |name: &str| parts.iter().find(|part| part["part"] == name).expect("the part");
    assert_eq!(part("hold.json")["fate"], "removed");
    assert_eq!(part("hold.json")["items"], serde_json::json!(["/var/lib/bedplate/hold.json"]));
    assert_eq!(part("hold.json")["present"], true);
    assert_eq!(part("enforce-hold.json")["present"], false);
    assert_eq!(part("/etc/bedplate/")["fate"], "kept");
    assert_eq!(part("/etc/bedplate/")["present"], true);
}

#[test]
fn owed_tool_blocks_a_seal() {
    let session = image();
    let path = "img/var/lib/bedplate/ledger.json";
    let text = std::fs::read_to_string(session.path(path)).expect("a ledger");
    let mut ledger: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    ledger["owed"] = serde_json::json!([
        { "kind": "cmdline", "argv": ["update-grub"], "purpose": "regenerate" }
    ]);
    session.file(path, ledger.to_string());
    for more in [&["--yes"][..], &["--dry-run"]] {
        let (status, said) = run(&session, more);
        assert_eq!(status, 4, "{said}");
        assert!(said.contains("still to run: `update-grub`"), "{said}");
        assert!(said.contains("fix: run `bedplate apply --root DIR --chroot-tools`"), "{said}");
    }
    assert!(session.path("img/var/lib/bedplate/hold.json").exists());
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn only_root_seals_the_running_host() {
    bedplate_tests::fixtures::root();
    let session = Session::new();
    let output = session.run_as_nobody(&["seal", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("hint: run as root"), "{}", text(&output.stderr));
}

#[test]
fn root_directory_of_this_machine_is_refused() {
    let session = Session::new();
    let output = session.run_as_nobody(&["seal", "--root", "/", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("/ is the root directory of this machine"), "{said}");
    assert!(said.contains("hint: run as root"), "{said}");
}

#[test]
fn image_in_which_a_system_runs_is_refused() {
    let session = image();
    std::fs::create_dir_all(session.path("img/run/systemd/system")).expect("a directory");
    for more in [&["--yes"][..], &["--dry-run"]] {
        let (status, said) = run(&session, more);
        assert_eq!(status, 4, "{said}");
        assert!(said.contains("a system is running in this directory"), "{said}");
        assert!(said.contains("fix: stop that system, or run `bedplate seal` in it"), "{said}");
    }
    assert!(session.path("img/var/lib/bedplate/hold.json").exists());
}

/// Asserts that a dry run and a run are refused, name cause and fix, and remove nothing.
fn refused(session: &Session, cause: &str, fix: &str) {
    for more in [&["--dry-run"][..], &["--yes"]] {
        let (status, said) = run(session, more);
        assert_eq!(status, 4, "{said}");
        assert!(said.contains(cause) && said.contains(fix), "{said}");
    }
    assert!(session.path("img/var/lib/bedplate/hold.json").symlink_metadata().is_ok());
}

/// Replaces the directory `path` by a link to `target`, and moves it to `kept`.
fn link(session: &Session, path: &str, target: &str, kept: &str) {
    let from = session.path(path);
    if from.exists() {
        let to = session.path(kept);
        std::fs::create_dir_all(to.parent().expect("a parent")).expect("a directory");
        std::fs::rename(&from, to).expect("a rename");
    }
    std::os::unix::fs::symlink(target, from).expect("a link");
}

#[test]
fn link_to_unmanaged_files_is_refused() {
    const REMEDY: &str = "fix: replace the link with a directory, or remove it";
    for (path, target, kept, cause) in [
        ("img/var/lib/bedplate/daemon", "/etc", "img/kept", "leads to /etc,"),
        ("img/var/lib/bedplate", "../../home", "img/home", "leads to /home,"),
        ("img/var/lib/bedplate/daemon", "../../../home", "img/home", "leads to /home,"),
    ] {
        let session = image();
        session.file("img/home/theirs", "x");
        std::fs::remove_dir_all(session.path("img/home")).expect("the directory");
        link(&session, path, target, kept);
        session.file("img/home/theirs", "x").file("img/etc/shadow", "x");
        refused(&session, cause, REMEDY);
        assert!(session.path("img/home/theirs").exists(), "{path}");
        assert!(session.path("img/etc/shadow").exists(), "{path}");
    }
}

#[test]
fn unmanaged_files_in_the_run_of_an_image_stay() {
    let session = image();
    session.file("img/run/bedplate/theirs", "x").file("img/run/bedplate/status.json", "{}");
    let (status, said) = run(&session, &["--yes"]);
    assert_eq!(status, 0, "{said}");
    assert!(session.path("img/run/bedplate/theirs").exists(), "{said}");
    assert!(!session.path("img/run/bedplate/status.json").exists(), "{said}");

    let session = image();
    link(&session, "img/run", "/etc", "img/kept");
    let (status, said) = run(&session, &["--yes"]);
    assert_eq!(status, 0, "{said}");
    assert!(session.path("img/etc/bedplate/profile.toml").exists(), "{said}");

    session.file("img/etc/bedplate/status.json", "x");
    session.file("img/var/lib/bedplate/hold.json", "{}");
    refused(&session, "/run/bedplate: a symbolic link leads to /etc/bedplate", "fix: replace");
}

#[test]
fn links_of_a_distribution_are_followed() {
    let session = image();
    session.file("img/run/bedplate/status.json", "{}");
    link(&session, "img/var", "data/var", "img/data/var");
    link(&session, "img/run", "var/run", "img/data/var/run");
    let (status, said) = run(&session, &["--yes"]);
    assert_eq!(status, 0, "{said}");
    for gone in ["data/var/lib/bedplate/hold.json", "data/var/run/bedplate/status.json"] {
        assert!(!session.path(&format!("img/{gone}")).exists(), "{gone}");
    }
}

#[test]
fn irregular_file_is_refused_before_any_removal() {
    let session = image();
    session.file("img/var/lib/bedplate/daemon/old/x", "");
    let directory = "/var/lib/bedplate/daemon/old: unexpected directory";
    refused(&session, directory, "fix: move it away, or remove it by hand");
    assert!(session.path("img/var/lib/bedplate/daemon/devices.json").exists());

    let session = image();
    std::fs::remove_file(session.path("img/var/lib/bedplate/hold.json")).expect("a file");
    link(&session, "img/var/lib/bedplate/hold.json", "/etc/machine-id", "img/kept");
    refused(&session, "hold.json: unexpected symbolic link", "fix: move it away");
    assert!(session.path("img/var/lib/bedplate/daemon/devices.json").exists());
}

#[test]
fn directory_without_bedplate_has_nothing_to_remove() {
    let session = Session::new();
    session.image("img");
    for more in [&["--dry-run", "--exit-code"][..], &["--yes"]] {
        let (status, said) = run(&session, more);
        assert_eq!(status, 0, "{said}");
        let end = "nothing to remove: no profile or state of bedplate found\n";
        assert!(said.ends_with(end) && !said.contains("keep"), "{said}");
    }
    assert!(!session.path("img/var/lib/bedplate").exists());
}
