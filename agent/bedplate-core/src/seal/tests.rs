use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::ledger::{LEDGER, Sha};
use bedplate_host::DirReader;
use bedplate_host::write::DirWriter;

const LEDGER_TEXT: &str = r#"{"version":2,"owed":[],"owned":{"cmdline":["iommu=pt"]},
    "files":{"/etc/x":{"kind":"modules","original":{"state":"file","sha256":"SHA","meta":{"mode":420,"uid":0,"gid":0}},
        "ours":[null]}},
    "attributes":{"/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs":{"kind":"sriov","boot":"b","ours":["8"],"action":
        {"path":"/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs","before":"0","after":"8","limit_s":5}}},
    "waiting":[{"kind":"modules","boot":"b","module":"nvidia","subject":"options nvidia"}],
    "history":[{"at":"2026-03-03T03:00:00Z","command":"apply","results":[
        {"subject":"modules/options","result":"done"},{"subject":"acs/0000:15:01.0","result":"done"}]}]}"#;

/// Builds a host with every part.
fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let saved = Sha::digest(b"original\n");
    let blob = format!("var/lib/bedplate/blobs/{saved}");
    let surplus = format!("var/lib/bedplate/blobs/{}", Sha::digest(b"surplus\n"));
    let ledger = LEDGER_TEXT.replace("SHA", saved.as_str());
    let files = [
        (blob.as_str(), "original\n"),
        (surplus.as_str(), "surplus\n"),
        (LEDGER.trim_start_matches('/'), &ledger),
        ("etc/bedplate/profile.toml", "schema = 1\n"),
        ("var/lib/bedplate/lock", ""),
        ("var/lib/bedplate/hold.json", "{}"),
        ("var/lib/bedplate/enforce-hold.json", "{}"),
        ("var/lib/bedplate/daemon/devices.json", "{}"),
        ("var/lib/bedplate/daemon/reboot.json", "{\"version\":2}"),
        ("var/lib/bedplate/daemon/.reboot.json.tmp", ""),
        ("run/bedplate/status.json", "{}"),
        ("var/lib/prometheus/node-exporter/bedplate.prom", ""),
        ("var/lib/prometheus/node-exporter/apt.prom", ""),
        ("etc/kubernetes/node-feature-discovery/features.d/bedplate", ""),
        ("etc/machine-id", "0123\n"),
    ];
    for (path, text) in files {
        put(root.path(), path, text);
    }
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    found.insert(path.strip_prefix(root).unwrap().display().to_string(), text);
                }
            }
        }
    }
    found
}

fn planned(root: &Path) -> (SealPlan, Ledger) {
    let reader = DirReader::image(root).unwrap();
    let ledger = Ledger::load(&reader).unwrap();
    (plan(&ledger, &reader, None), ledger)
}

/// A machine with a function for its use.
struct Looked<F: FnMut() -> Option<Refused>>(F);

impl<F: FnMut() -> Option<Refused>> Machine for Looked<F> {
    fn in_use(&mut self) -> Option<Refused> {
        (self.0)()
    }

    fn remove_published_files(&mut self) -> Vec<String> {
        panic!("an image publishes nothing")
    }
}

fn sealed(root: &Path, writer: &mut DirWriter) -> SealReport {
    sealed_on(root, writer, &mut Looked(|| None))
}

fn sealed_on(root: &Path, writer: &mut DirWriter, machine: &mut dyn Machine) -> SealReport {
    let (plan, mut ledger) = planned(root);
    let reader = DirReader::image(root).unwrap();
    run(plan, &mut ledger, (&reader, writer), machine)
}

fn daemon() -> Refused {
    let [subject, reason, fix] = ["bedplate.service", "the daemon runs", "stop it"];
    Refused { subject: subject.into(), reason: reason.into(), fix: fix.into() }
}

/// Returns the ledger after a seal.
fn reduced() -> Ledger {
    let text = LEDGER_TEXT.replace("SHA", Sha::digest(b"original\n").as_str());
    let mut ledger = Ledger::parse(text.as_bytes(), "ledger.json").unwrap();
    ledger.attributes.clear();
    ledger.waiting.clear();
    ledger.history[0].results.pop();
    ledger
}

#[test]
fn sealed_image_keeps_only_state_for_clones() {
    let root = host();
    let mut writer = DirWriter::image(root.path(), false).unwrap();
    let report = sealed(root.path(), &mut writer);
    assert_eq!(report.failed, [""; 0]);
    let left = files(root.path());
    let names: Vec<&str> = left.keys().map(String::as_str).collect();
    let blob = format!("var/lib/bedplate/blobs/{}", Sha::digest(b"original\n"));
    assert_eq!(
        names,
        [
            "etc/bedplate/profile.toml",
            "etc/machine-id",
            blob.as_str(),
            "var/lib/bedplate/ledger.json",
            "var/lib/bedplate/lock",
            "var/lib/prometheus/node-exporter/apt.prom",
        ]
    );
    let (again, ledger) = planned(root.path());
    assert_eq!(ledger, reduced());
    assert!(again.is_empty() && again.refused.is_empty(), "{again:#?}");
    assert_eq!(sealed(root.path(), &mut writer).failed, [""; 0]);
    assert_eq!(files(root.path()), left, "a second seal changes nothing");
}

/// Stopped before any system call, it loses no files or contents of the ledger, and the next run completes it.
#[test]
fn interrupted_seal_preserves_state_for_clones() {
    for step in 0.. {
        let root = host();
        let mut left = step;
        let gate = Box::new(move |_: &str, _: &str| {
            left -= 1;
            if left < 0 { Err(std::io::Error::other("stopped")) } else { Ok(()) }
        });
        let mut writer = DirWriter::image(root.path(), false).unwrap().gated(gate);
        let report = sealed(root.path(), &mut writer);
        let (_, ledger) = planned(root.path());
        assert_eq!((&ledger.files, &ledger.owned), (&reduced().files, &reduced().owned), "{step}");
        let blob = Sha::digest(b"original\n").blob();
        assert!(root.path().join(blob.trim_start_matches('/')).exists(), "{step}");
        if report.failed.is_empty() {
            assert!(step > 10, "{step}");
            return;
        }
        let held = root.path().join("var/lib/bedplate/enforce-hold.json").exists();
        let others = root.path().join("var/lib/bedplate/daemon/devices.json").exists();
        assert!(held || !others, "{step}: the hold is removed last");
        let mut writer = DirWriter::image(root.path(), false).unwrap();
        assert_eq!(sealed(root.path(), &mut writer).failed, [""; 0], "{step}");
        assert!(planned(root.path()).0.is_empty(), "{step}");
    }
}

#[test]
fn daemon_started_during_seal_keeps_the_holds() {
    let root = host();
    let mut writer = DirWriter::image(root.path(), false).unwrap();
    let report = sealed_on(root.path(), &mut writer, &mut Looked(|| Some(daemon())));
    assert_eq!(report.failed, ["bedplate.service: the daemon runs; stop it"]);
    let there = |name: &str| root.path().join("var/lib/bedplate").join(name).exists();
    assert!(there("hold.json") && there("enforce-hold.json"));
}

#[test]
fn state_written_during_a_seal_is_reported() {
    let root = host();
    let mut writer = DirWriter::image(root.path(), false).unwrap();
    let mut looks = 0;
    let mut machine = Looked(|| {
        looks += 1;
        put(root.path(), "var/lib/bedplate/daemon/devices.json", "{}");
        (looks > 1).then(daemon)
    });
    let report = sealed_on(root.path(), &mut writer, &mut machine);
    assert_eq!(
        report.failed,
        [
            "bedplate.service: the daemon runs; stop it",
            "daemon/devices.json: written again during the seal: /var/lib/bedplate/daemon/devices.json"
        ]
    );
    assert_eq!(sealed(root.path(), &mut writer).failed, [""; 0]);
}

#[test]
fn owed_tool_and_interrupted_change_are_refused() {
    let owed = r#""owed":[{"kind":"cmdline","argv":["update-grub"],"purpose":"make grub.cfg"}]"#;
    let begun = r#""ours":[null],"unfinished":{"change":"modules/x","before":{"state":"absent"}}"#;
    for (from, to, said) in [
        (r#""owed":[]"#, owed, "still to run: `update-grub`"),
        (r#""ours":[null]"#, begun, "unfinished: /etc/x"),
    ] {
        let root = host();
        let text =
            std::fs::read_to_string(root.path().join("var/lib/bedplate/ledger.json")).unwrap();
        put(root.path(), "var/lib/bedplate/ledger.json", &text.replacen(from, to, 1));
        let before = files(root.path());
        let mut writer = DirWriter::image(root.path(), false).unwrap();
        let report = sealed(root.path(), &mut writer);
        assert!(report.plan.refused[0].reason.contains(said), "{:#?}", report.plan.refused);
        assert_eq!(files(root.path()), before);
    }
}

#[test]
fn link_out_of_an_image_is_not_followed() {
    let root = host();
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "bedplate.prom", "theirs");
    put(outside.path(), "status.json", "theirs");
    let replace = |directory: &str| {
        std::fs::remove_dir_all(root.path().join(directory)).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join(directory)).unwrap();
    };
    replace("var/lib/prometheus/node-exporter");
    replace("run/bedplate");
    let mut writer = DirWriter::image(root.path(), false).unwrap();
    sealed(root.path(), &mut writer);
    assert_eq!(files(outside.path()).len(), 2);
}

#[test]
fn slot_of_a_lock_server_is_named() {
    let root = host();
    let record = r#"{"version":3,"lock":{"server":{"url":"http://lock/","group":"gpu"},"certain":true,
        "since":"2026-03-03T03:00:00Z","boot_id":"","before":[]}}"#;
    put(root.path(), "var/lib/bedplate/daemon/reboot.json", record);
    let (plan, _) = planned(root.path());
    assert_eq!(
        plan.notes,
        [
            "this host holds a slot of group gpu at the lock server http://lock/: release the slot there",
            NOT_TOUCHED
        ]
    );
}
