//! For every case, the plan of a recorded host equals the plan of the host itself byte for byte, except for masked parts:
//! file contents, and values that bedplate does not know to be harmless.

use std::path::{Path, PathBuf};

use bedplate_core::documents as json;
use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, LoadedProfile, load, shipped};
use bedplate_core::record::record;
use bedplate_daemon::public::{self, OperatorWords};
use bedplate_facts::Depth;
use bedplate_host::Reader;
use bedplate_host::snapshot::{Node, Snapshot};

/// Path of a host's profile.
const PROFILE: &str = "/etc/bedplate/profile.toml";

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

fn host(directory: &Path) -> Snapshot {
    bedplate_tests::case::host(directory).unwrap()
}

/// Returns the text of the case's profile.
fn text(directory: &Path) -> Option<String> {
    match read(directory, "profile") {
        Some(name) => {
            let shipped = shipped().iter().find(|shipped| shipped.name == name.trim())?;
            Some(shipped.text.to_owned())
        }
        None => read(directory, "profile.toml"),
    }
}

/// Returns a host's own profile, or `None` if it is invalid.
fn profile(host: &dyn Reader) -> Option<LoadedProfile> {
    let text = host.text(PROFILE).ok()?;
    load(&[LayerText { path: "profile.toml", text: &text }], shipped()).ok()
}

/// Returns the plan of a host with its own profile.
fn plan(host: &dyn Reader, words: &OperatorWords) -> Option<String> {
    let loaded = profile(host)?;
    let mut facts = observe(host, Depth::Plan);
    engine::assume_cpu(&mut facts, &loaded.profile);
    let ledger = Ledger::load(host).unwrap();
    let plan = engine::plan(&loaded.profile, &facts, host, &ledger).plan;
    Some(without_columns(&json::plan(&public::plan(&plan, words), &facts.label()).unwrap()))
}

fn cases() -> Vec<PathBuf> {
    let root = bedplate_tests::data("cases");
    let mut directories: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    directories.sort();
    directories
}

/// Number of parts that the cases are divided into, so that they run in parallel.
const PARTS: usize = 4;

#[test]
fn recording_keeps_the_plan_first_part() {
    assert_kept(0);
}

#[test]
fn recording_keeps_the_plan_second_part() {
    assert_kept(1);
}

#[test]
fn recording_keeps_the_plan_third_part() {
    assert_kept(2);
}

#[test]
fn recording_keeps_the_plan_fourth_part() {
    assert_kept(3);
}

fn assert_kept(part: usize) {
    let mut compared = 0;
    let mut different = Vec::new();
    for directory in cases().into_iter().skip(part).step_by(PARTS) {
        let Some(text) = text(&directory) else { continue };
        let mut host = host(&directory);
        host.remove("/etc/bedplate");
        host.insert(PROFILE, Node::File(text.into_bytes()));
        let recording = Snapshot::from_text(&record(&host).to_text()).unwrap();
        let texts = [&host, &recording].map(|host| host.text(PROFILE).unwrap_or_default());
        let words = OperatorWords::gather_from(texts.iter().map(String::as_str));
        let Some(expected) = plan(&host, &words) else { continue };
        let actual = plan(&recording, &words).unwrap_or_default();
        different.extend(difference(&expected, &actual, &directory));
        compared += 1;
    }
    assert!(different.is_empty(), "{} cases differ:\n{}", different.len(), different.join("\n"));
    assert!(compared >= 15, "only {compared} cases were compared");
}

/// Replaces columns in positions, because a mask differs in length from the masked text.
fn without_columns(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut parts: Vec<&str> = line.split(':').collect();
        let number = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        if let Some(at) = parts.windows(2).position(|pair| pair.iter().all(number)) {
            parts[at + 1] = "column";
        }
        lines.push(parts.join(":"));
    }
    lines.join("\n")
}

fn difference(expected: &str, actual: &str, directory: &Path) -> Option<String> {
    let name = directory.display().to_string();
    (expected != actual).then(|| bedplate_base::unified_diff(expected, actual, &name, "now"))
}
