//! Each directory in `tests/data/verify` is a case: a host, described (`host.toml`, see `bedplate_testhosts`; a profile
//! would be one of its files) or recorded (`host.bp`), and the output of `bedplate verify -v` (`verify.txt`).
//!
//! `BLESS=1 cargo test -p bedplate-tests --test verify` rewrites the expected files, docs/checks.md and docs/reboot.md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bedplate::report::{style, verify as text};
use bedplate_core::documents as json;
use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{self, Request, VerifyOutcome};
use bedplate_core::record::record;
use bedplate_core::verify::{Answer, CHECKS, Judged, Report, Selection, Stage, Verdict};
use bedplate_host::Reader;
use bedplate_host::snapshot::Snapshot;
use bedplate_testhosts::HostSpec;
use bedplate_tests::expected;

fn cases() -> Vec<(String, PathBuf)> {
    bedplate_tests::case::directories("verify")
}

fn verified(host: &dyn Reader) -> Result<VerifyOutcome, String> {
    let choice = Choice::HostOnly;
    let request = Request::dry_run(choice);
    engine::verify(host, &request, &Selection::default()).map_err(|error| error.to_string())
}

fn report(directory: &Path) -> Result<Report, String> {
    Ok(verified(&bedplate_tests::case::host(directory)?)?.report)
}

fn expect(path: &Path, actual: &str) -> Result<(), String> {
    expected::file(path, actual, "verify")
}

fn case(directory: &Path) -> Result<(), String> {
    let host = bedplate_tests::case::host(directory)?;
    let VerifyOutcome { report, facts, .. } = verified(&host)?;
    let label = facts.label();
    let shown = text::verify(&report, &label, true);
    let shown = anstream::adapter::strip_str(&style::terminal(&shown)).to_string();
    let judging = json::JudgementFrame { file: None, host: &label, exit_status: 0, moment: None };
    let document = json::verify(judging, &report).map_err(|error| error.to_string())?;
    let value = serde_json::from_str(&document).map_err(|error| error.to_string())?;
    let schema = serde_json::from_str(json::VERIFY_SCHEMA).map_err(|error| error.to_string())?;
    let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
    if let Some(error) = validator.iter_errors(&value).next() {
        return Err(format!("--json breaks its schema at {}: {error}", error.instance_path()));
    }
    // A recording gives the same results as its host, except for the profile's reasons, which are masked.
    let recorded = record(&host).to_text();
    let recorded = Snapshot::from_text(&recorded).map_err(|error| error.to_string())?;
    let again = verified(&recorded)?.report;
    let unmasked = |judged: &Judged| Judged { severity_reason: None, ..judged.clone() };
    for (then, now) in report.checks.iter().zip(&again.checks) {
        if unmasked(then) != unmasked(now) {
            return Err(format!("the host's recording says something else: {then:#?}, {now:#?}"));
        }
    }
    expect(&directory.join("verify.txt"), &shown)
}

#[test]
fn every_case_has_the_expected_report() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|(name, path)| case(path).err().map(|error| format!("{name}: {error}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Each check passes, does not pass, and is unknown in at least one case.
#[test]
fn every_check_has_its_cases() {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, path) in cases() {
        let report = report(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        for judged in &report.checks {
            let is_found = matches!(judged.verdict, Verdict::Fail | Verdict::Warn);
            assert!(!is_found || !judged.codes.is_empty(), "{} has no code", judged.id);
            let verdict = match judged.verdict {
                Verdict::Pass => "passes",
                Verdict::Fail | Verdict::Warn => "does not pass",
                Verdict::Unknown => "is not known",
                Verdict::NotApplicable => continue,
            };
            seen.insert((judged.id, verdict));
        }
    }
    let wanted = CHECKS
        .iter()
        .flat_map(|check| ["passes", "does not pass", "is not known"].map(|what| (check.id, what)));
    let missing: Vec<(&str, &str)> = wanted.filter(|one| !seen.contains(one)).collect();
    assert!(missing.is_empty(), "no case in tests/data/verify in which: {missing:?}");
}

/// An operator that installs the GPU driver waits for the host stage, so that stage must not wait for the driver, nor for
/// modules of the profile that need it.
#[test]
fn host_without_gpu_driver_passes_the_host_stage() {
    let ready = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/verify/hgx-ready/host.toml");
    let ready = std::fs::read_to_string(ready).expect("a host");
    let profile = r#"
        [files]
        "/etc/bedplate/profile.toml" = '''
        schema = 1
        name = "p"
        [modules]
        load = ["nvidia_peermem"]
        '''"#;
    for (more, in_effect) in
        [("", [Verdict::NotApplicable; 2]), (profile, [Verdict::Pass, Verdict::Fail])]
    {
        let spec = format!("nvidia = \"none\"\n{ready}{more}");
        let host = HostSpec::from_toml(&spec).expect("a host").build();
        let request = Request::dry_run(Choice::HostOnly);
        let of = |stage| Selection::new(&[], &[], stage).expect("a stage");
        let selections = [&of(Stage::Host), &of(Stage::Gpudirect)];
        let [early, all] = engine::verify_by(&host, &request, selections).expect("reports").report;
        assert_eq!(early.answer, Answer::Ready, "{:?}", early.reason);
        assert_eq!((early.stage, early.partial), (Some(Stage::Host), false));
        assert!(early.checks.iter().all(|judged| judged.id != "modules.driver"));
        assert_eq!((all.answer, all.stage), (Answer::NotReady, None));
        assert!(all.decided_by.contains(&"modules.driver"), "{:?}", all.decided_by);
        let verdict = |report: &Report| {
            let check = report.checks.iter().find(|judged| judged.id == "profile.in-effect");
            check.expect("the check").verdict
        };
        assert_eq!([verdict(&early), verdict(&all)], in_effect);
    }
}

/// `modules.gpudirect` on MI300X, by kernel, options and other software that registers GPU memory.
#[test]
fn rccl_check_uses_kernel_options_and_peer_memory() {
    let judged = |kernel: &str, options: &[&str], more: &str, files: &[(&str, &str)]| {
        let config: String = options.iter().map(|option| format!("CONFIG_{option}=y\n")).collect();
        let spec = format!("machine = \"mi300x\"\nkernel = \"{kernel}\"\n{more}");
        let mut spec = HostSpec::from_toml(&spec).expect("a host");
        spec.files.insert(format!("/boot/config-{kernel}"), config);
        spec.files.extend(files.iter().map(|(path, text)| ((*path).into(), (*text).into())));
        let host = spec.build();
        let of = |host: &dyn Reader| {
            let report = verified(host).expect("a report").report;
            let check = report.checks.iter().find(|one| one.id == "modules.gpudirect").cloned();
            check.expect("the check")
        };
        let live = of(&host);
        let recorded = Snapshot::from_text(&record(&host).to_text()).expect("a recording");
        assert_eq!(of(&recorded), live, "recorded");
        live.verdict
    };
    let (both, p2p) = (["DMABUF_MOVE_NOTIFY", "PCI_P2PDMA"], ["PCI_P2PDMA"]);
    assert_eq!(judged("7.0.9", &both, "", &[]), Verdict::Pass);
    assert_eq!(judged("7.0.9", &p2p, "", &[]), Verdict::Fail);
    assert_eq!(judged("7.1.2", &both, "", &[]), Verdict::Pass);
    assert_eq!(judged("7.1.2", &p2p, "", &[]), Verdict::Unknown);
    let forced = |value| [("/etc/rccl.conf", value)];
    assert_eq!(judged("7.1.2", &p2p, "", &forced("RCCL_FORCE_ENABLE_DMABUF=1\n")), Verdict::Pass);
    assert_eq!(
        judged("7.1.2", &p2p, "", &forced("RCCL_FORCE_ENABLE_DMABUF=0\n")),
        Verdict::Unknown
    );
    assert_eq!(judged("7.1.2", &[], "", &forced("RCCL_FORCE_ENABLE_DMABUF=1\n")), Verdict::Fail);
    assert_eq!(judged("7.0.9", &p2p, "", &forced("RCCL_FORCE_ENABLE_DMABUF=1\n")), Verdict::Fail);
    for below in ["/sys/kernel/mm", "/sys/kernel", "/sys"] {
        let client = format!("{below}/memory_peers/amdkfd/version");
        let client = [(client.as_str(), "1.0\n")];
        assert_eq!(
            judged("5.15.0-105-generic", &p2p, "ofed = true", &client),
            Verdict::Pass,
            "{below}"
        );
    }
    // The symbols exist, but no client has registered.
    assert_eq!(judged("5.15.0-105-generic", &p2p, "ofed = true", &[]), Verdict::Unknown);
}

/// Each unknown has a fix.
#[test]
fn every_unknown_check_has_a_fix() {
    let mut silent: BTreeSet<(&str, String)> = BTreeSet::new();
    for (name, path) in cases() {
        let report = report(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let unknown = report.checks.iter().filter(|judged| judged.verdict == Verdict::Unknown);
        let without = unknown.filter(|judged| judged.fix.is_none());
        silent.extend(without.map(|judged| (judged.id, format!("{name}: {}", judged.finding))));
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn ids_are_unique_and_begin_with_their_group() {
    let mut ids = BTreeSet::new();
    for check in CHECKS {
        assert!(ids.insert(check.id), "two checks are called {}", check.id);
        let group = check.id.split_once('.').expect("group.subject").0;
        let name = check.group.name().replace('-', "");
        let fits = name == group || (check.id.starts_with("cmdline.") && name == "commandline");
        assert!(fits, "{} is in group {}", check.id, check.group.name());
        assert!(check.source.contains("handbook \u{a7}"), "{} names no section", check.id);
    }
}

#[test]
fn reboot_document_is_generated_from_the_tables() {
    let text = bedplate_daemon::reboot::docs::markdown();
    expect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reboot.md"), &text)
        .expect("docs/reboot.md");
}

#[test]
fn list_of_checks_in_docs_matches_the_table() {
    expect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/checks.md"), &text::markdown())
        .expect("docs/checks.md");
}
