//! The plan of a recorded host is the plan of the host itself, byte for byte: for every case, whatever it asks for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bedplate::facts::Depth;
use bedplate::host::Reader;
use bedplate::host::snapshot::Snapshot;
use bedplate::ledger::Ledger;
use bedplate::profile::{LayerText, Loaded, load, shipped};
use bedplate::record::record;
use bedplate::{
    engine::{self, observe},
    report::json,
};

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

fn host(directory: &Path) -> Snapshot {
    bedplate_tests::case::host(directory).unwrap()
}

/// The case's profile; `None` = it is a case about profiles that cannot be used.
fn profile(directory: &Path) -> Option<Loaded> {
    let text = match read(directory, "profile") {
        Some(name) => shipped().iter().find(|shipped| shipped.name == name.trim())?.text.to_owned(),
        None => read(directory, "profile.toml")?,
    };
    load(&[LayerText { path: "profile.toml", text: &text }], shipped()).ok()
}

fn plan(loaded: &Loaded, host: &dyn Reader) -> String {
    let mut facts = observe(host, Depth::Plan);
    engine::assume_cpu(&mut facts, None, &loaded.profile);
    let ledger = Ledger::load(host).unwrap();
    json::plan(&engine::plan(&loaded.profile, &facts, host, &ledger).plan, &facts.label()).unwrap()
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut directories: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    directories.sort();
    directories
}

/// A host and its recording; many cases share one.
fn recorded(
    directory: &Path,
    known: &mut BTreeMap<String, (Snapshot, Snapshot)>,
) -> (Snapshot, Snapshot) {
    let host = host(directory);
    let text = host.to_text();
    let made = || {
        let recording = Snapshot::from_text(&record(&host).to_text()).unwrap();
        (host, recording)
    };
    known.entry(text).or_insert_with(made).clone()
}

#[test]
fn recording_keeps_the_plan() {
    let mut compared = 0;
    let mut known = BTreeMap::new();
    for directory in cases() {
        let Some(loaded) = profile(&directory) else { continue };
        let (host, recording) = recorded(&directory, &mut known);
        assert_same(&plan(&loaded, &host), &plan(&loaded, &recording), &directory);
        compared += 1;
    }
    assert!(compared >= 60, "only {compared} cases were compared");
}

fn assert_same(expected: &str, actual: &str, directory: &Path) {
    if expected != actual {
        let difference = similar::TextDiff::from_lines(expected, actual);
        panic!("{}:\n{}", directory.display(), difference.unified_diff().context_radius(2));
    }
}
