//! `seal`: an image that is sealed is still what its profile says, and `revert` still restores it.

use crate::session::{Session, set_mode, text};

const PROFILE: &str =
    "schema = 1\nname = \"t\"\n[sysctl]\nset = { \"vm.zone_reclaim_mode\" = \"0\" }\n";
const CONF: &str = "img/etc/sysctl.d/zz-bedplate.conf";

/// An image to which the profile was applied, and that was run as a host since.
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
    assert!(said.contains("nothing to remove: sealed already"), "{said}");

    assert_eq!(session.status(&["plan", "--root", "img", "--cpu", "intel", "--exit-code"]), 0);
    assert!(session.path(CONF).exists());
    assert_eq!(session.status(&["revert", "--root", "img", "--yes"]), 0);
    assert!(!session.path(CONF).exists());
}

#[test]
fn table_names_every_part_in_json() {
    let session = image();
    let output = session.run(&["seal", "--root", "img", "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(table["bedplate_seal"], 1);
    let parts = table["parts"].as_array().expect("a list");
    assert_eq!(parts.len(), bedplate::seal::PARTS.len());
    let part = |name: &str| parts.iter().find(|part| part["part"] == name).expect("the part");
    assert_eq!(part("hold.json")["fate"], "removed");
    assert_eq!(part("hold.json")["items"], serde_json::json!(["/var/lib/bedplate/hold.json"]));
    assert_eq!(part("blobs/")["fate"], "kept");
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
        assert!(said.contains("do: `bedplate apply --root DIR --chroot-tools`"), "{said}");
    }
    assert!(session.path("img/var/lib/bedplate/hold.json").exists());
}

#[test]
fn only_root_seals_the_running_host() {
    let session = Session::new();
    let output = session.run_as_nobody(&["seal", "--dry-run"]);
    if crate::session::is_root() {
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("hint: run as root"), "{}", text(&output.stderr));
    }
}

#[test]
fn root_directory_of_this_machine_is_no_image() {
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
        assert!(said.contains("a system runs in this directory"), "{said}");
        assert!(said.contains("do: stop that system, or run `bedplate seal` inside it"), "{said}");
    }
    assert!(session.path("img/var/lib/bedplate/hold.json").exists());
}
