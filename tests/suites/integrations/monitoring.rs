//! Alert rules and the dashboard: valid for promtool, and limited to metrics that the daemon writes.

use std::collections::BTreeSet;
use std::process::Command;

use bedplate_daemon::export::metrics;
use bedplate_daemon::status::Status;
use bedplate_tests::fixtures;
use serde_json::Value;

use super::{shipped, text};

/// Names of bedplate's metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !word(c)).filter(|word| word.starts_with("bedplate_"));
    words.map(str::to_owned).collect()
}

/// Metric families that the daemon writes.
fn written() -> BTreeSet<String> {
    let text = metrics(&Status::starting("b".into()));
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    families.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
#[cfg_attr(not(has = "promtool"), ignore = "needs promtool")]
fn rules_pass_promtool_and_their_own_tests() {
    let promtool = fixtures::tool("promtool");
    for arguments in
        [["check", "rules", "bedplate.rules.yml"], ["test", "rules", "bedplate.test.yml"]]
    {
        let done = Command::new(&promtool)
            .args(arguments)
            .current_dir(shipped("prometheus"))
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout).into_owned()
            + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("SUCCESS"), "{arguments:?}: {said}");
    }
}

/// Every alert has a test case in which it fires.
#[test]
fn every_alert_is_tested() {
    let tests = text("prometheus/bedplate.test.yml");
    let rules = text("prometheus/bedplate.rules.yml");
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 4, "{alerts:?}");
    for alert in alerts {
        let cases = tests.split("- alertname: ").filter(|case| case.starts_with(alert));
        assert!(cases.into_iter().any(|case| case.contains("exp_labels")), "{alert}");
    }
}

#[test]
fn metrics_in_rules_and_dashboard_exist() {
    let written = written();
    assert!(written.contains("bedplate_ready"), "{written:?}");
    for file in ["prometheus/bedplate.rules.yml", "prometheus/dashboard.json"] {
        let named = named(&text(file));
        assert!(named.len() > 4, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&written).collect();
        assert!(unknown.is_empty(), "{file}: no such metrics: {unknown:?}");
    }
    // The states in alerts exist.
    let all = metrics(&Status::starting("b".into()));
    for state in ["bedplate_state{state=\"error\"}", "bedplate_state{state=\"failed\"}"] {
        assert!(all.contains(state), "{state}");
    }
    assert!(all.contains("bedplate_reboot_state{state=\"attempts-exhausted\"}"));
}

/// The shape that Grafana's import requires: panels with a type, a separate position, a data source and queries.
#[test]
fn dashboard_is_valid() {
    let dashboard: Value = serde_json::from_str(&text("prometheus/dashboard.json")).expect("JSON");
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    assert!(dashboard["uid"].is_string() && dashboard["title"].is_string());
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut places = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        assert!(["stat", "timeseries", "table"].contains(&panel["type"].as_str().expect("a type")));
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(places.insert((x, y)), "two panels at {x}, {y}: {panel}");
            }
        }
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty());
        for target in targets {
            let query = target["expr"].as_str().expect("a query");
            assert!(query.contains("$instance"), "not of the chosen hosts: {query}");
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "instance"]);
}
