//! `--json`: stdout has nothing but JSON that follows its schema, with any output on stderr.

use std::path::Path;

use serde_json::Value;

use bedplate_core::documents::{APPLIED_SCHEMA, PLAN_SCHEMA};
use bedplate_tests::expected;

use crate::session::{Session, text};
use crate::transcripts::{CHANGES, PENDING};

fn valid(schema: &str, document: &Value) {
    let schema = serde_json::from_str(schema).expect("a schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a JSON Schema");
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The only document on stdout, and the text on stderr.
fn document(session: &Session, args: &[&str]) -> (Value, String) {
    let output = session.run(args);
    let stdout = text(&output.stdout);
    let value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args:?}: {error}\n{stdout}"));
    (value, text(&output.stderr))
}

#[test]
fn schema_files_match_the_types() {
    let agent = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../agent"));
    let core = bedplate_core::documents::generated_schemas()
        .expect("JSON")
        .map(|named| ("bedplate-core", named));
    let program =
        bedplate::report::generated_schemas().expect("JSON").map(|named| ("bedplate", named));
    for (package, (name, schema)) in core.into_iter().chain(program) {
        let file = agent.join(package).join(format!("schemas/{name}.json"));
        expected::file(&file, &schema, "cli").unwrap_or_else(|difference| panic!("{difference}"));
    }
}

#[test]
fn plan_follows_its_schema() {
    let session = Session::new();
    let (printed, _) = document(&session, &["plan", "--json-schema"]);
    assert_eq!(printed, serde_json::from_str::<Value>(PLAN_SCHEMA).expect("JSON"));
    for demo in bedplate_testhosts::names() {
        let (plan, stderr) = document(&session, &["plan", "--demo", demo, "--json"]);
        assert_eq!(stderr, "");
        assert_eq!(plan["bedplate_plan"], 2);
        assert!(plan.get("file").is_none());
        valid(PLAN_SCHEMA, &plan);
        // Hosts with no GPU that shares a switch with a NIC, or with its Data Direct function, need no changes.
        let needs_nothing = ["grace", "gb200", "vera-rubin"].contains(&demo);
        let changes = plan["changes"].as_array().expect("a list");
        assert_eq!(changes.is_empty(), needs_nothing, "{demo}: {changes:?}");
    }
}

#[test]
fn warnings_and_costs_are_not_in_the_json() {
    let session = Session::new();
    session.file("habit.toml", "schema = 1\n[cmdline]\nargs = [\"amd_iommu=on\"]\n");
    let (plan, stderr) = document(
        &session,
        &["plan", "--demo", "hgx", "--profile", "habit.toml", "--json", "--cost"],
    );
    valid(PLAN_SCHEMA, &plan);
    assert!(stderr.contains("amd-iommu-on") && stderr.contains("system calls"), "{stderr}");
    let rendered = ["render", "tuned", "--profile", "generic-intel", "--cpu", "intel", "--json"];
    let (files, stderr) = document(&session, &rendered);
    assert!(files["files"].as_array().is_some_and(|files| files.len() == 1), "{files}");
    assert!(stderr.contains("warning: tuned cannot express"), "{stderr}");
}

#[test]
fn each_host_has_a_document_that_names_its_file() {
    let session = Session::new();
    session
        .host("fleet/a.bp", CHANGES)
        .host("fleet/c.bp", PENDING)
        .file("fleet/b.bp", "no snapshot");
    for command in ["plan", "inspect", "topology"] {
        let output = session.run(&[command, "--json", "--snapshot", "fleet/*.bp"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("fleet/b.bp is not a usable snapshot"),
            "{}",
            text(&output.stderr)
        );
        let documents: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
            .into_iter()
            .collect::<Result<_, _>>()
            .expect("a stream of JSON documents");
        let files: Vec<&str> =
            documents.iter().filter_map(|document| document["file"].as_str()).collect();
        assert_eq!(files, ["fleet/a.bp", "fleet/c.bp"], "{command}");
        if command == "plan" {
            documents.iter().for_each(|document| valid(PLAN_SCHEMA, document));
        }
    }
}

#[test]
fn other_commands_print_json() {
    let session = Session::new();
    session.image("image");
    for args in [
        ["inspect", "--demo", "hgx", "--json"].as_slice(),
        &["topology", "--demo", "hgx", "--json", "--all", "--vfs"],
        &["topology", "--demo", "hgx", "--json", "--for", "nvshmem"],
        &["topology", "--json-schema"],
        &["profile", "list", "--demo", "gb300", "--json"],
        &["profile", "show", "--demo", "hgx", "--json"],
        &["profile", "schema"],
        &["history", "--root", "image", "--json"],
        &["revert", "--root", "image", "--json"],
    ] {
        let (_, stderr) = document(&session, args);
        assert_eq!(stderr, "", "{args:?}");
    }
}

#[test]
fn error_leaves_stdout_empty() {
    let session = Session::new();
    session.file("wrong.toml", "schema = 1\nk = 1\n");
    for args in [
        ["plan", "--json", "--demo", "hgx", "--profile", "wrong.toml"].as_slice(),
        &["plan", "--json", "--root", "missing"],
        &["apply", "--json", "--root", "missing"],
        &["inspect", "--json", "--snapshot", "missing"],
    ] {
        let output = session.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn apply_report_follows_its_schema() {
    let session = Session::new();
    session.image("image");
    let args = ["apply", "--root", "image", "--profile", "generic-intel", "--json"];
    let (first, stderr) = document(&session, &args);
    assert_eq!(stderr, "");
    valid(APPLIED_SCHEMA, &first);
    assert_eq!(first["bedplate_apply"], 2);
    assert_eq!(first["changes"].as_array().map(Vec::len), Some(1), "{first}");
    let (second, _) = document(&session, &args);
    valid(APPLIED_SCHEMA, &second);
    assert_eq!(
        second["changes"][0]["outcome"], "tools-pending",
        "the image build has not run it: {second}"
    );
    let (history, _) = document(&session, &["history", "--root", "image", "--json"]);
    assert_eq!(history[0]["profile"], "generic-intel");
}
