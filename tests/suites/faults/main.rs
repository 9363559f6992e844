//! Single faults, each put into a recording of a ready host (`tests/data/faults/*.toml`), and the result that `bedplate
//! verify` must give. A host on which a job would break must not be ready; a healthy or recovered neighbour of a fault must
//! cause no warning.
//!
//! Each row was written, with the source of its expectation, before it was run. Words in braces are replaced by a part of
//! the host, see [`recording`].

use std::collections::{BTreeMap, BTreeSet};

use bedplate_core::verify::{Answer, Report, Verdict};
use serde::Deserialize;

mod recording;

use recording::{Change, Host, Unchanged};

/// The expectation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    /// Not ready, by this check.
    NotReady,
    /// Ready, with a warning of this check.
    Warning,
    /// The check is unknown, and no other check fails.
    Unknown,
    /// Ready, without a warning.
    Ready,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Neighbour {
    change: Vec<Change>,
    #[serde(default = "ready")]
    expect: Expected,
    by: Option<String>,
}

fn ready() -> Expected {
    Expected::Ready
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Fault {
    name: String,
    /// Hosts on which the fault is tried.
    #[serde(default = "hgx")]
    on: Vec<String>,
    /// Source of the expectation.
    source: String,
    change: Vec<Change>,
    expect: Expected,
    by: String,
    /// Name in JSON of the required recovery.
    recovery: Option<String>,
    /// The same host after the fault, or with a similar change that is not a fault.
    neighbour: Neighbour,
}

fn hgx() -> Vec<String> {
    vec!["hgx".to_owned()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Good {
    name: String,
    host: String,
    #[serde(default)]
    change: Vec<Change>,
}

impl Good {
    /// Returns the host with these further changes.
    fn with(&self, changes: &[Change], unchanged: &mut Unchanged) -> Host {
        Host::new(&self.host, self.change.iter().chain(changes), unchanged)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    good: Vec<Good>,
    #[serde(default)]
    fault: Vec<Fault>,
}

/// The names of the files, without their extension.
fn files() -> Vec<String> {
    let entries = bedplate_tests::data("faults").read_dir().expect("tests/data/faults");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut names: Vec<String> = paths
        .map(|path| path.file_stem().expect("a file").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn file(name: &str) -> File {
    let path = bedplate_tests::data(&format!("faults/{name}.toml"));
    let text = std::fs::read_to_string(&path).expect("a readable file");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn goods() -> BTreeMap<String, Good> {
    file("good").good.into_iter().map(|good| (good.name.clone(), good)).collect()
}

fn warned(report: &Report) -> BTreeSet<&'static str> {
    let all = report.checks.iter().filter(|judged| judged.verdict == Verdict::Warn);
    all.map(|judged| judged.id).collect()
}

/// Returns the difference from the expectation.
fn differs(report: &Report, expect: Expected, by: Option<&str>) -> Option<String> {
    let verdict = |id: &str| {
        let judged = report.checks.iter().find(|judged| judged.id == id);
        judged.unwrap_or_else(|| panic!("no check is called {id}")).verdict
    };
    for judged in &report.checks {
        let found = matches!(judged.verdict, Verdict::Fail | Verdict::Warn);
        assert!(!judged.finding.is_empty(), "{}: no words", judged.id);
        assert_eq!(found, !judged.codes.is_empty(), "{}: {:?}", judged.id, judged.codes);
    }
    let warned = warned(report);
    let is_as_expected = match (expect, by) {
        (Expected::NotReady, Some(by)) => {
            report.answer == Answer::NotReady && verdict(by) == Verdict::Fail
        }
        (Expected::Warning, Some(by)) => {
            report.answer == Answer::Ready && verdict(by) == Verdict::Warn
        }
        (Expected::Unknown, Some(by)) => {
            report.answer != Answer::NotReady && verdict(by) == Verdict::Unknown
        }
        (Expected::Ready, _) => report.answer == Answer::Ready && warned.is_empty(),
        (_, None) => panic!("`by` is missing"),
    };
    let by = by.map(|by| format!("{by} is {:?}", verdict(by))).unwrap_or_default();
    let reason = report.reason.as_deref().unwrap_or_default();
    (!is_as_expected).then(|| {
        format!(
            "expected {expect:?}, got {:?}: {reason}; {by}; warned of {warned:?}",
            report.answer
        )
    })
}

#[test]
fn good_hosts_are_ready_without_warnings() {
    for good in goods().values() {
        let report = good.with(&[], &mut Unchanged::new()).report();
        let warned = warned(&report);
        assert_eq!(report.answer, Answer::Ready, "{}: {:?}", good.name, report.reason);
        assert!(warned.is_empty(), "{}: {warned:?}", good.name);
    }
}

/// Checks that each fault of a file has the result that its source states.
fn assert_faults(name: &str) {
    let (goods, faults, mut unchanged) = (goods(), file(name).fault, Unchanged::new());
    let mut wrong = Vec::new();
    assert!(!faults.is_empty(), "{name}.toml has no fault");
    for fault in &faults {
        assert!(!fault.source.is_empty(), "{}: no source", fault.name);
        for on in &fault.on {
            let good = goods.get(on).unwrap_or_else(|| panic!("{}: no host {on}", fault.name));
            let report = good.with(&fault.change, &mut unchanged).report();
            let found = differs(&report, fault.expect, Some(&fault.by));
            wrong.extend(found.map(|found| format!("{} on {on}: {found}", fault.name)));
            if let Some(recovery) = &fault.recovery
                && recovery != report.recovery.name()
            {
                wrong.push(format!("{} on {on}: recovery {}", fault.name, report.recovery.name()));
            }
            let Neighbour { change, expect, by } = &fault.neighbour;
            let report = good.with(change, &mut unchanged).report();
            let found = differs(&report, *expect, by.as_deref());
            wrong
                .extend(found.map(|found| format!("neighbour of {} on {on}: {found}", fault.name)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

/// Defines one test per file of faults, so that they run in parallel.
macro_rules! faults {
    ($($file:ident)*) => {
        $(
            #[test]
            fn $file() {
                assert_faults(stringify!($file));
            }
        )*

        #[test]
        fn every_file_has_a_test_and_fault_names_are_unique() {
            let tested = BTreeSet::from([$(stringify!($file).to_owned()),*]);
            let all: BTreeSet<String> = files().into_iter().filter(|name| name != "good").collect();
            assert_eq!(tested, all);
            let mut names = BTreeSet::new();
            for fault in all.iter().flat_map(|name| file(name).fault) {
                assert!(names.insert(fault.name.clone()), "two faults are called {}", fault.name);
            }
            assert!(file("good").fault.is_empty());
            assert!(all.iter().all(|name| file(name).good.is_empty()));
        }
    };
}

faults! { devices driver fabric guests host links log nccl window }
