//! Ledgers and requests planted by an attacker who controls the daemon. The program is real, in its own namespaces: it
//! applies root's profile and nothing else.

use std::collections::BTreeMap;

use bedplate_core::ledger::Sha;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::node::{self, CHANGE, LIST, Node};
use super::rig::Rig;

const PROFILE: &str = "etc/bedplate/profile.toml";
const LEDGER: &str = "var/lib/bedplate/ledger.json";
/// File name that planted commands create, and part of all planted content.
const MARK: &str = "pwned";

/// A node whose profile requests a module, in this mode.
fn node<'a>(rig: &'a Rig, mode: &str) -> Node<'a> {
    let node = Node::new(rig);
    let profile = rig.read(PROFILE).replace("\"enforce\"", &format!("{mode:?}"));
    rig.write(PROFILE, &profile);
    for directory in ["etc/modprobe.d", "etc/sysctl.d", "etc/default/grub.d", "etc/cron.d"] {
        rig.write(&format!("{directory}/README"), "");
    }
    rig.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
    rig.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    node
}

/// Returns the record of a file's state, and saves the content.
fn saved(rig: &Rig, content: Option<&str>) -> Value {
    let Some(content) = content else { return json!({ "state": "absent" }) };
    let sha = Sha::digest(content.as_bytes());
    rig.write(&format!("var/lib/bedplate/blobs/{sha}"), content);
    let meta = json!({ "mode": 0o644, "uid": 0, "gid": 0, "xattrs": {} });
    json!({ "state": "file", "sha256": sha, "meta": meta })
}

fn plant(rig: &Rig, ledger: &Value) {
    rig.write(LEDGER, &ledger.to_string());
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn worker_applies_nothing_in_observe_mode() {
    for (mode, applies) in [("observe", false), ("enforce", true)] {
        let rig = Rig::new();
        let node = node(&rig, mode);
        let (code, said) = node.run(&["worker", &node::only(CHANGE), "--unjudged"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(rig.path(LIST).exists(), applies, "{mode}: {said}");
    }
}

/// The rollback of a failed tool would write both files.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn rollback_writes_no_planted_commands() {
    for mode in ["observe", "enforce"] {
        let rig = Rig::new();
        let node = node(&rig, mode);
        let change = "modules/dracut --force --regenerate-all";
        let file = |content: &str| {
            let before = saved(&rig, Some(content));
            json!({ "kind": "modules", "original": { "state": "absent" }, "ours": [null],
                "unfinished": { "change": change, "before": before, "wrote": [null] } })
        };
        plant(
            &rig,
            &json!({
                "version": 2, "owned": {}, "history": [],
                "owed": [{ "kind": "modules", "argv": ["dracut", "--force", "--regenerate-all"], "purpose": "p" }],
                "files": {
                    "/etc/modprobe.d/zz-bedplate.conf": file("install loop /bin/touch /etc/pwned\n"),
                    "/etc/default/grub.d/00-x.cfg": file("touch /etc/pwned\n"),
                    "/etc/sysctl.d/zz-bedplate.conf": file("kernel.core_pattern=|/etc/pwned\n")
                }
            }),
        );
        for args in [
            &["worker", &node::only(change), "--unjudged"][..],
            &["apply", "--yes"],
            &["revert", "--yes", "--force"],
        ] {
            let (_, said) = node.run(args);
            assert_unharmed(&rig, &format!("{mode} {args:?}: {said}"));
        }
    }
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn kernel_parameters_naming_programs_are_not_restored() {
    let rig = Rig::new();
    let node = node(&rig, "enforce");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    for path in ["kernel/core_pattern", "kernel/modprobe", "fs/binfmt_misc/register"] {
        let path = format!("/proc/sys/{path}");
        plant(
            &rig,
            &json!({
                "version": 2, "owed": [], "owned": {}, "history": [],
                "attributes": { path.clone(): { "kind": "sysctl", "boot": boot.trim(), "ours": ["core"], "action":
                    { "path": path, "before": "|/etc/pwned", "after": "core", "limit_s": 5 } } }
            }),
        );
        let (code, said) = node.run(&["revert", "--dry-run"]);
        assert!(code == Some(1) && said.contains("which bedplate never writes"), "{said}");
    }
}

/// Checks that no file has planted content and that no planted command ran.
fn assert_unharmed(rig: &Rig, what: &str) {
    assert!(!rig.path("etc").join(MARK).exists(), "{what}");
    // In modules-load.d each line is only the name of a module.
    for (path, content) in files(rig).iter().filter(|(path, _)| !path.ends_with(LIST)) {
        assert!(!content.contains(MARK), "{path}: {content}\n{what}");
    }
    assert_eq!(rig.read("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", "{what}");
}

/// Returns the files below /etc with their content.
fn files(rig: &Rig) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut directories = vec![rig.path("etc")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("ours") {
            let path = entry.expect("ours").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let content = std::fs::read(&path).expect("ours");
            let content = String::from_utf8_lossy(&content).into_owned();
            files.insert(path.display().to_string(), content);
        }
    }
    files
}

const PATHS: [&str; 9] = [
    "/etc/modprobe.d/zz-bedplate.conf",
    "/etc/modules-load.d/bedplate.conf",
    "/etc/sysctl.d/zz-bedplate.conf",
    "/etc/default/grub",
    "/etc/default/grub.d/00-x.cfg",
    "/etc/default/grub.d/zz-bedplate.cfg",
    "/etc/cron.d/x",
    "/etc/passwd",
    "/etc/default/grub.d/../../cron.d/x",
];
const CONTENTS: [Option<&str>; 7] = [
    None,
    Some("install loop /bin/touch /etc/pwned\n"),
    Some("touch /etc/pwned\n"),
    Some("GRUB_CMDLINE_LINUX=\"$(touch /etc/pwned)\"\n"),
    Some("options loop max_loop=8\nremove loop /etc/pwned\n"),
    Some("kernel.modprobe = /etc/pwned\n"),
    Some("GRUB_CMDLINE_LINUX=a; touch /etc/pwned\n"),
];
const TOOLS: [&[&str]; 5] = [
    &["dracut", "--force", "--regenerate-all"],
    &["update-initramfs", "-u", "-k", "all"],
    &["sh", "-c", "touch /etc/pwned"],
    &["touch", "/etc/pwned"],
    &["/bin/touch", "/etc/pwned"],
];
const CHANGES: [&str; 4] = [
    "modules/dracut --force --regenerate-all",
    "modules/etc/modules-load.d/bedplate.conf",
    "cmdline/etc/default/grub",
    "../../etc/pwned",
];

prop_compose! {
    /// Path, original content, content and id of an interrupted change, and a tool that generates the file.
    fn record()(
        path in 0..PATHS.len(),
        original in 0..CONTENTS.len(),
        cut in proptest::option::of((0..CONTENTS.len(), 0..CHANGES.len())),
        tool in proptest::option::of(0..TOOLS.len()),
    ) -> (usize, usize, Option<(usize, usize)>, Option<usize>) {
        (path, original, cut, tool)
    }
}

proptest! {
    #![proptest_config(bedplate_tests::property::config(24))]

    /// No planted content is written and no planted command is run, for any request.
    #[test]
    #[cfg_attr(not(all(has = "dbus-daemon", has = "user-namespaces")), ignore = "needs dbus-daemon and user-namespaces")]
    fn planted_records_have_no_effect(
        records in proptest::collection::vec(record(), 1..4),
        owed in proptest::option::of((0..TOOLS.len(), 0..CHANGES.len())),
        only in 0..CHANGES.len(),
        enforce in any::<bool>(),
    ) {
        let rig = Rig::new();
        let node = node(&rig, if enforce { "enforce" } else { "observe" });
        let tool = |at: usize| json!({ "argv": TOOLS[at], "purpose": "p", "limit_s": 20 });
        let mut files = serde_json::Map::new();
        for (path, original, cut, made_by) in &records {
            let now = rig.path(PATHS[*path].trim_start_matches('/'));
            let now = std::fs::read(now).ok().map(|bytes| Sha::digest(&bytes));
            let mut record = json!({ "kind": "modules", "original": saved(&rig, CONTENTS[*original]), "ours": [now] });
            if let Some((before, change)) = cut {
                record["unfinished"] = json!({ "change": CHANGES[*change], "before": saved(&rig, CONTENTS[*before]), "wrote": [now] });
            }
            if let Some(at) = made_by {
                record["generator"] = tool(*at);
            }
            files.insert(PATHS[*path].to_owned(), record);
        }
        let owed: Vec<Value> = owed.iter()
            .map(|(at, _)| json!({ "kind": "modules", "argv": TOOLS[*at], "purpose": "p" }))
            .collect();
        plant(&rig, &json!({ "version": 2, "owed": owed, "owned": {}, "history": [], "files": files }));
        for args in [
            &["worker", &node::only(CHANGES[only]), "--unjudged"][..],
            &["apply", "--yes"],
            &["revert", "--yes"],
            &["revert", "--yes", "--force"],
        ] {
            let (_, said) = node.run(args);
            assert_unharmed(&rig, &format!("{args:?}: {said}\n{}", rig.read(LEDGER)));
        }
    }
}
