//! State and images that another user wrote or could write: bedplate does nothing that they request, and the message names
//! the fix.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use bedplate_core::ledger::Sha;
use bedplate_tests::fake::tree::everything;
use bedplate_tests::fixtures;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::session::{Session, text};

const PROFILE: &str =
    "schema = 1\nname = \"p\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n";
/// The file that this profile creates in an image.
const LIST: &str = "etc/modules-load.d/bedplate.conf";
const BLOB: &[u8] = b"#!/bin/sh\nexec sh\n";

/// An image whose bedplate state was forged by an attacker.
struct Image {
    session: Session,
    root: PathBuf,
}

impl Image {
    fn new() -> Self {
        let session = Session::new();
        let root = session.image("image");
        session.file("image/etc/bedplate/profile.toml", PROFILE);
        for path in ["usr/bin/x", "etc/shadow", LIST] {
            session.file(&format!("image/{path}"), "before\n");
        }
        Image { session, root }
    }

    fn state(&self, ledger: &Value) {
        let blob = format!("image{}", Sha::digest(BLOB).blob());
        self.session.file(&blob, BLOB);
        self.session.file("image/var/lib/bedplate/ledger.json", ledger.to_string());
        for (path, mode) in
            [("", 0o700), ("/ledger.json", 0o600), ("/blobs", 0o700), (&blob[22..], 0o600)]
        {
            set_mode(&self.root.join(format!("var/lib/bedplate{path}")), mode);
        }
    }

    fn run(&self, command: &str) -> Output {
        self.session.run(&[command, "--root", "image", "--yes"])
    }

    /// Asserts that `revert` and `apply` fail with this text and change nothing.
    fn refuses(&self, says: &str) {
        for command in ["revert", "apply"] {
            let before = everything(&self.root);
            let output = self.run(command);
            let said = unwrapped(&output);
            assert_eq!(output.status.code(), Some(1), "{command}: {said}");
            assert!(said.contains(says), "{command}: {says} is not in\n{said}");
            assert_eq!(everything(&self.root), before, "{command}");
        }
    }
}

/// The output without line breaks.
fn unwrapped(output: &Output) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

fn ledger(field: &str, value: Value) -> Value {
    let mut ledger = json!({ "version": 2, "owed": [], "owned": {} });
    ledger[field] = value;
    ledger
}

/// A record of one file whose original has this mode, owner and attributes, to be restored.
fn file(path: &str, meta: Value) -> Value {
    let mut state = json!({ "state": "file", "sha256": Sha::digest(BLOB).as_str(), "meta": { "mode": 0o644, "uid": 0, "gid": 0 } });
    for (name, value) in meta.as_object().expect("an object") {
        state["meta"][name] = value.clone();
    }
    let ours = Sha::digest(b"before\n");
    let unfinished =
        json!({ "change": "modules/etc/modules-load.d/bedplate.conf", "before": state });
    let record = json!({ "kind": "modules", "original": state, "ours": [ours.as_str()], "unfinished": unfinished });
    ledger("files", json!({ path: record }))
}

/// Resolved from `/`, the image's files would be those of the running machine.
#[test]
fn withdraw_with_a_relative_root_changes_only_the_image() {
    let image = Image::new();
    for name in ["reboot-required", "reboot-required.pkgs"] {
        image.session.file(&format!("image/run/{name}"), "linux-base\nbedplate\n");
    }
    let output = image.session.run(&["withdraw", "--root", "image"]);
    assert_eq!(output.status.code(), Some(0), "{}", unwrapped(&output));
    let list = fs::read_to_string(image.root.join("run/reboot-required.pkgs")).expect("it stays");
    assert_eq!(list, "linux-base\n");
}

#[test]
fn only_files_of_known_kinds_are_restored() {
    let image = Image::new();
    for path in [
        "/usr/bin/x",
        "/etc/shadow",
        "/etc/modules-load.d/other.conf",
        "/etc/modules-load.d/../shadow",
        "/etc/modules-load.d/bedplate.conf/../../shadow",
        "etc/modules-load.d/bedplate.conf",
        "/var/lib/bedplate/lock",
    ] {
        image.state(&file(path, json!({})));
        image.refuses(&format!("entry for {path}, a file that bedplate never writes"));
    }
    image.state(&ledger("directories", json!(["/usr/share/empty"])));
    image.refuses("entry for directory /usr/share/empty");
    for path in ["/proc/sysrq-trigger", "/sys/kernel/../power/state"] {
        let action = json!({ "path": path, "before": "b", "after": "a", "limit_s": 1 });
        let record = json!({ "kind": "sysctl", "boot": "b", "action": action, "ours": [] });
        image.state(&ledger("attributes", json!({ path: record })));
        image.refuses(&format!("entry for {path}"));
    }
    let path = "/proc/sys/kernel/core_pattern";
    let action = json!({ "path": path, "before": "b", "after": "a", "limit_s": 1 });
    let record = json!({ "kind": "sysctl", "boot": "b", "action": action, "ours": [] });
    image.state(&ledger("attributes", json!({ "/proc/sys/vm/swappiness": record })));
    image.refuses("entry \"/proc/sys/vm/swappiness\", which bedplate never sets");
    let action = json!({ "address": "0000:00:00.0", "offset": 16, "register": "BAR 0", "mask": 65535, "value": 0, "before": 1 });
    let record = json!({ "kind": "acs", "boot": "b", "action": action, "ours": [] });
    image.state(&ledger("registers", json!({ "BAR 0 of 0000:00:00.0": record })));
    image.refuses("entry for register 0x10 of 0000:00:00.0");
    let action = json!({ "pf": "0000:18:00.0", "interface": "ens1f0", "vf": 1, "before": {}, "after": {}, "start": false, "limit_s": 1 });
    let record = json!({ "kind": "sriov", "boot": "b", "action": action, "ours": [] });
    image.state(&ledger("vfs", json!({ "VF 2 of 0000:18:00.0": record })));
    image.refuses("entry \"VF 2 of 0000:18:00.0\", which bedplate never sets");
    let key = json!({ "pf": "0000:18:00.0", "interface": "ens1f0", "vf": 1 });
    let record = json!({ "boot": "b", "key": key, "limit_s": 1 });
    image.state(&ledger("starts", json!({ "VF 3 of 0000:18:00.0": record })));
    image.refuses("entry \"VF 3 of 0000:18:00.0\", which bedplate never sets");
    let action =
        json!({ "pf": "0000:18:00.0", "before": "legacy", "after": "switchdev", "limit_s": 1 });
    let record = json!({ "kind": "sriov", "boot": "b", "action": action, "ours": [] });
    image.state(&ledger("eswitches", json!({ "../ens1f0": record })));
    image.refuses("entry \"../ens1f0\", which bedplate never sets");
}

#[test]
fn only_tools_of_known_kinds_are_run() {
    let image = Image::new();
    for argv in [json!(["sh", "-c", "id"]), json!(["update-initramfs", "-d"]), json!([])] {
        let tool = json!({ "kind": "modules", "argv": argv, "purpose": "p", "limit_s": 1 });
        image.state(&ledger("undo", json!([tool])));
        image.refuses("entry that would run `");
        let owed = json!({ "kind": "modules", "argv": argv, "purpose": "p" });
        image.state(&ledger("owed", json!([owed])));
        image.refuses("entry that would run `");
        let mut made = file(&format!("/{LIST}"), json!({}));
        let generator = json!({ "argv": argv, "purpose": "p", "limit_s": 1 });
        made["files"][format!("/{LIST}")]["readers"] = json!([generator]);
        image.state(&made);
        image.refuses("entry that would run `");
    }
}

#[test]
fn restored_file_gets_no_program_rights_or_other_owner() {
    let image = Image::new();
    let path = format!("/{LIST}");
    for mode in [0o4755, 0o2755, 0o6711] {
        image.state(&file(&path, json!({ "mode": mode })));
        image.refuses(
            "entry that gives /etc/modules-load.d/bedplate.conf a set-user-ID or set-group-ID bit",
        );
    }
    let xattrs = json!({ "security.capability": "0100000280000000000000000000000000000000" });
    image.state(&file(&path, json!({ "xattrs": xattrs })));
    image.refuses("file capabilities");
    let unit = "/etc/systemd/system/slurmd.service.d/zz-bedplate.conf";
    for meta in [
        json!({ "mode": 0o666 }),
        json!({ "mode": 0o664 }),
        json!({ "xattrs": { "system.posix_acl_access": "0200" } }),
    ] {
        image.state(&file(unit, meta));
        image.refuses("a mode with which others can write it");
    }

    let own = fs::metadata(&image.root).expect("ours");
    let mut foreign = file(&path, json!({ "uid": 1234, "gid": own.gid() }));
    foreign["files"][&path]["unfinished"] = Value::Null;
    image.state(&foreign);
    let output = image.run("revert");
    let said = unwrapped(&output);
    assert!(said.contains("the ledger records owner 1234:"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let list = fs::metadata(image.root.join(LIST)).expect("it is there");
    assert_eq!((list.uid(), list.mode() & 0o7777), (own.uid(), 0o644));
}

/// A record of the caller's own, which may be restored.
fn honest() -> Value {
    let own = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut honest = file(&format!("/{LIST}"), json!({ "uid": own.0, "gid": own.1 }));
    honest["files"][format!("/{LIST}")]["unfinished"] = Value::Null;
    honest
}

#[test]
fn state_writable_by_other_users_is_refused() {
    let image = Image::new();
    let state = image.root.join("var/lib/bedplate");
    image.state(&honest());
    let shown = |path: &str| format!("chmod go-w image/var/lib/bedplate{path}");
    for (path, mode) in
        [("", 0o777), ("", 0o1777), ("/ledger.json", 0o666), ("/ledger.json", 0o602)]
    {
        set_mode(&state.join(path.trim_start_matches('/')), mode);
        image.refuses(&shown(path));
        image.state(&honest());
    }
    let blob = format!("/blobs/{}", Sha::digest(BLOB));
    for (path, mode) in [("/blobs", 0o777), (blob.as_str(), 0o666)] {
        set_mode(&state.join(&path[1..]), mode);
        let output = image.run("revert");
        let said = unwrapped(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(&shown(path)), "{said}");
        image.state(&honest());
    }
    let done = image.run("revert");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(fs::read(image.root.join(LIST)).expect("it is there"), BLOB);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn state_of_another_user_is_refused() {
    fixtures::root();
    let image = Image::new();
    let state = image.root.join("var/lib/bedplate");
    for path in ["", "ledger.json"] {
        image.state(&honest());
        chown(state.join(path), Some(1234), None).expect("root may");
        let path = if path.is_empty() { path.to_owned() } else { format!("/{path}") };
        image.refuses(&format!(
            "owned by uid 1234, not by root; run chown root image/var/lib/bedplate{path}"
        ));
        chown(state.join(path.trim_start_matches('/')), Some(0), None).expect("root may");
    }
    // Through a link, too.
    fs::rename(&state, image.root.join("state")).expect("ours");
    symlink("/state", &state).expect("ours");
    chown(image.root.join("state"), Some(1234), None).expect("root may");
    image.refuses("owned by uid 1234");
}

#[test]
fn image_writable_by_other_users_is_refused() {
    let image = Image::new();
    for mode in [0o777, 0o1777] {
        set_mode(&image.root, mode);
        image.refuses("writable by other users");
        // By its whole path: the command works from any directory.
        image.refuses(&format!("chmod go-w {}", image.root.display()));
    }
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn image_of_another_user_is_refused() {
    fixtures::root();
    let image = Image::new();
    chown(&image.root, Some(1234), None).expect("root may");
    let help = format!("chown root {}", image.root.display());
    image.refuses(&format!("owned by uid 1234, not by root; run {help}"));
    // Reading is harmless.
    assert_eq!(image.session.status(&["plan", "--root", "image"]), 0);
}

/// Two directories are swapped as fast as possible while bedplate works on one of them. Each run works on the same one from
/// its first byte to its last.
#[test]
fn run_stays_in_one_directory() {
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        let image = Image::new();
        fs::remove_file(image.root.join(LIST)).expect("ours");
        let decoy = image.session.path("decoy");
        copy(&image.root, &decoy);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &image.root, CWD, &decoy, RenameFlags::EXCHANGE)
                        .expect("ours");
                }
            });
            let output = image.run("apply");
            done.store(true, Ordering::Relaxed);
            assert_eq!(output.status.code(), Some(0), "round {round}: {}", unwrapped(&output));
        });
        for root in [&image.root, &decoy] {
            let ledger = fs::read_to_string(root.join("var/lib/bedplate/ledger.json"));
            let recorded = ledger.is_ok_and(|ledger| ledger.contains(LIST));
            assert_eq!(root.join(LIST).exists(), recorded, "round {round}: {}", root.display());
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("ours");
    for entry in fs::read_dir(from).expect("ours") {
        let entry = entry.expect("ours");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("ours").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("ours")),
        }
    }
}
