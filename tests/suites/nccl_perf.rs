//! Each directory in `tests/data/nccl/perf` is a case: a benchmark's output (`input.txt`), the host for comparison (`args`,
//! e.g. `--demo hgx`, or `host.toml`), and the output of `bedplate nccl perf` (`expected.txt`, `expected.json`).
//!
//! `BLESS=1 cargo nextest run -p bedplate-tests -E 'binary(nccl_perf)'` rewrites the expected files, and docs/nccl-perf.md.

use std::path::{Path, PathBuf};

use bedplate::report::nccl_perf;
use bedplate_testhosts::HostSpec;
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
    let run = program::bedplate(&["nccl", "perf", "-", "--demo", "hgx", "--algo=Ring", "--ascii"])
        .env("COLUMNS", "100")
        .stdin(input)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(text.replace("-:", "input.txt:"), plain);
    let run = program::run(&["nccl", "perf", "/no/such/file", "--demo", "hgx"]);
    assert_eq!(run.status.code(), Some(1));
}

/// The slowest of several snapshots limits a run, and an unusable one makes the command fail.
#[test]
fn slowest_of_several_snapshots_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, spec) in [("a", ""), ("b", "[[pci]]\nat = \"0000:19:00.0\"\nlink-now = [4, 8]\n")] {
        let spec =
            HostSpec::from_toml(&format!("machine = \"hgx\"\niommu = \"passthrough\"\n{spec}"));
        let text = spec.expect("a host").build().to_text();
        std::fs::write(directory.path().join(format!("{name}.bp")), text).expect("a snapshot");
    }
    let input = bedplate_tests::data("nccl/perf/no-header/input.txt");
    let pattern = directory.path().join("*.bp").display().to_string();
    let args =
        ["nccl", "perf", &input.display().to_string(), "--per-host", "8", "--snapshot", &pattern];
    let run = program::bedplate(&args).arg("--json").output().expect("it starts");
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let slowest = directory.path().join("b.bp").display().to_string();
    assert_eq!(json["runs"][0]["host"], slowest);
    assert_eq!(json["host"], slowest);
    assert_eq!(json["runs"][0]["limit"]["limited_by_pcie"].as_array().expect("NICs").len(), 1);
    let text = program::run(&args);
    assert!(String::from_utf8_lossy(&text.stdout).contains("b.bp, the slowest of the snapshots"));
    std::fs::write(directory.path().join("c.bp"), "damaged").expect("a file");
    assert_eq!(program::run(&args).status.code(), Some(1));
}

#[test]
fn impossible_options_and_binary_files_are_rejected() {
    let of = |name: &str| {
        bedplate_tests::data(&format!("nccl/perf/{name}/input.txt")).display().to_string()
    };
    let status = |input: &str, options: &[&str]| {
        let args = [&["nccl", "perf", input, "--demo", "hgx"], options].concat();
        let run = program::run(&args);
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    for (name, options) in [
        ("no-header", ["--ranks", "0"]),
        ("no-header", ["--per-host", "0"]),
        ("no-header", ["--ranks", "-1"]),
        ("no-header", ["--ranks", "8"]),
        ("no-header", ["--per-host", "5"]),
        ("no-header", ["--test", "ib_write_bw"]),
        ("all-reduce", ["--ranks", "8"]),
        ("all-reduce", ["--per-host", "4"]),
        ("all-reduce", ["--test", "all_gather"]),
        ("perftest-write", ["--ranks", "8"]),
        ("oneccl", ["--ranks", "8"]),
    ] {
        let (code, error) = status(&of(name), &options);
        assert!(code == Some(64) && !error.is_empty(), "{name} {options:?}: {code:?} {error}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), (0..=255).collect::<Vec<u8>>().repeat(16)).expect("it is written");
    let (code, error) = status(&file.path().display().to_string(), &[]);
    assert!(code == Some(1) && error.contains("is binary"), "{code:?} {error}");
}

/// Values that no run can have, and unknown algorithms, are usage errors.
#[test]
fn impossible_assumptions_are_usage_errors() {
    let given = |option: &str| {
        program::run(&["nccl", "perf", "result.txt", "--demo", "hgx", option]).status.code()
    };
    for value in ["0", "-1", "NaN", "inf", "1e400", "fast", ""] {
        assert_eq!(given(&format!("--expect={value}")), Some(64), "{value}");
    }
    assert_eq!(given("--algo=rings"), Some(64));
}

#[test]
fn documentation_matches_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl-perf.md");
    expected::file(&path, &nccl_perf::markdown(), "nccl_perf").expect("docs/nccl-perf.md");
}
