//! Each directory in `tests/data/nccl/perf` is a case: a benchmark's output (`input.txt`), the host for comparison (`args`,
//! e.g. `--demo hgx`, or `host.toml`), and the output of `bedplate nccl perf` (`expected.txt`, `expected.json`).
//!
//! `BLESS=1 cargo nextest run -p bedplate-tests -E 'binary(nccl_perf)'` rewrites the expected files, and docs/nccl-perf.md.

use std::path::{Path, PathBuf};

use bedplate::report::nccl_perf;
use bedplate_tests::{case, expected, program};

fn cases() -> Vec<(String, PathBuf)> {
    case::directories("nccl/perf")
}

/// Returns stdout and exit status for the case's host.
fn report_of(directory: &Path, more: &[&str]) -> (String, i32) {
    let recorded = tempfile::NamedTempFile::new().expect("a file");
    let mut host = std::fs::read_to_string(directory.join("args")).unwrap_or_default();
    if directory.join("host.toml").exists() {
        let text = case::host(directory).expect("a host").to_text();
        std::fs::write(recorded.path(), text).expect("a recorded host");
        host = format!("--snapshot {}", recorded.path().display());
    }
    let mut args = vec!["nccl", "perf", "input.txt"];
    args.extend(host.split_whitespace());
    args.extend(more);
    let run = program::bedplate(&args)
        .current_dir(directory)
        .env("COLUMNS", "100")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("it starts");
    assert!(run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    (String::from_utf8(run.stdout).expect("UTF-8"), run.status.code().expect("it was not killed"))
}

#[test]
fn each_case_has_the_expected_output() {
    let schema = serde_json::from_str(nccl_perf::SCHEMA).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut wrong = Vec::new();
    for (name, directory) in cases() {
        let (text, status) = report_of(&directory, &[]);
        let (json, same) = report_of(&directory, &["--json"]);
        assert_eq!(status, same, "{name}");
        let value = serde_json::from_str(&json).expect("JSON");
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let text = format!("{text}exit status {status}\n");
        for (file, actual) in [("expected.txt", &text), ("expected.json", &json)] {
            wrong.extend(expected::file(&directory.join(file), actual, "nccl_perf").err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The picture is XML with a panel for each run that measured something.
#[test]
fn each_picture_shows_all_measured_runs() {
    for (name, directory) in cases() {
        let (svg, _) = report_of(&directory, &["--svg"]);
        let document =
            roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        let fields =
            document.descendants().filter(|node| node.attribute("class") == Some("panel")).count();
        let (json, _) = report_of(&directory, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let runs = json["runs"].as_array().expect("runs").iter();
        let measured = runs
            .filter(|judged| !judged["run"]["points"].as_array().expect("points").is_empty())
            .count();
        assert_eq!(fields, measured, "{name}");
    }
}

/// Standard input is read like a file, and the plain plot is ASCII.
#[test]
fn piped_input_and_ascii_plot_work() {
    let directory = bedplate_tests::data("nccl/perf/all-reduce");
    let (plain, _) = report_of(&directory, &["--ascii"]);
    assert!(plain.is_ascii() && plain.contains("####"), "{plain}");
    let input = std::fs::File::open(directory.join("input.txt")).expect("a file");
    let run = program::bedplate(&["nccl", "perf", "-", "--demo", "hgx", "--ascii"])
        .env("COLUMNS", "100")
        .stdin(input)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(text.replace("-:", "input.txt:"), plain);
    let run = program::run(&["nccl", "perf", "/no/such/file", "--demo", "hgx"]);
    assert_eq!(run.status.code(), Some(1));
}

#[test]
fn documentation_matches_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl-perf.md");
    expected::file(&path, &nccl_perf::markdown(), "nccl_perf").expect("docs/nccl-perf.md");
}
