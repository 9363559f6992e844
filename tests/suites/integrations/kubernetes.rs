//! Kubernetes integration: the plugin is run, the other files are checked against the shape in their documentation and
//! types.

use std::process::Command;

use bedplate_tests::fixtures;
use serde_json::{Value, json};

use super::{documents, fake, shipped, text, yaml};

/// Stages of `bedplate verify`, with their node condition and taint.
pub(super) const STAGES: [(&str, &str, &str); 2] = [
    ("host", "GPUHostNotReady", "readiness.k8s.io/gpu-host"),
    ("gpudirect", "GPUDirectNotReady", "readiness.k8s.io/gpudirect"),
];

/// Exit status and stdout of the plugin for this output of bedplate.
fn condition(says: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let bedplate = fake(directory.path(), "bedplate", says);
    run(Command::new(shipped("kubernetes/bedplate-condition"))
        .arg("host")
        .env("BEDPLATE", bedplate))
}

fn run(plugin: &mut Command) -> (Option<i32>, String) {
    let done = plugin.output().expect("it starts");
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn plugin_reports_the_verdict_in_one_line() {
    for (says, status, line) in [
        ("echo 'ready: all of it'; echo '  profile p'", 0, "ready: all of it"),
        ("echo 'not ready: iommu=pt and 2 more'; exit 4", 1, "not ready: iommu=pt and 2 more"),
        ("echo 'unknown: 1 unknown'; exit 5", 2, "unknown: 1 unknown"),
        ("echo already: no; exit 0", 2, "unknown: bedplate does not answer"),
        ("exit 1", 2, "unknown: bedplate does not answer"),
    ] {
        assert_eq!(condition(says), (Some(status), format!("{line}\n")), "{says}");
    }
}

#[test]
fn plugin_asks_the_daemon_for_its_stage() {
    let asked = "echo \"not ready: $*\"; exit 4";
    let words = "verify --since-boot --stage host --quiet --color never";
    assert_eq!(condition(asked), (Some(1), format!("not ready: {words}\n")));
}

/// In a pod, `bedplate verify --conditions` writes the files in another container.
#[test]
fn plugin_reads_the_file_of_its_stage_until_it_expires() {
    let directory = tempfile::tempdir().expect("a directory");
    let now = jiff::Timestamp::now().as_second();
    let (valid, expired) = (now + 100, now - 1);
    for (content, status, line) in [
        (format!("{valid} ready: all of it\n"), 0, "ready: all of it".to_owned()),
        (format!("{valid} not ready: iommu=pt"), 1, "not ready: iommu=pt".into()),
        (format!("{valid} unknown: no profile\n"), 2, "unknown: no profile".into()),
        (
            format!("{expired} ready: all of it\n"),
            2,
            "unknown: the last verdict of bedplate has expired (ready: all of it)".into(),
        ),
        (
            "soon ready: all of it\n".into(),
            2,
            "unknown: the last verdict of bedplate has expired (ready: all of it)".into(),
        ),
        (format!("{valid} already: no\n"), 2, "unknown: bedplate does not answer".into()),
        (format!("{valid}\n"), 2, "unknown: bedplate has not written a verdict yet".into()),
        (String::new(), 2, "unknown: bedplate has not written a verdict yet".into()),
    ] {
        std::fs::write(directory.path().join("host"), &content).expect("ours");
        let plugin = || Command::new(shipped("kubernetes/bedplate-condition"));
        let expected = (Some(status), format!("{line}\n"));
        assert_eq!(run(plugin().arg("host").arg(directory.path())), expected, "{content}");
        let by_variable = ("BEDPLATE_CONDITIONS", directory.path());
        assert_eq!(run(plugin().arg("host").env(by_variable.0, by_variable.1)), expected);
        // The other stage has no file.
        let (status, line) = run(plugin().arg("gpudirect").arg(directory.path()));
        assert_eq!((status, line.starts_with("unknown: ")), (Some(2), true), "{line}");
    }
}

/// The plugin and Slurm's check search for the words that the real program prints.
#[test]
fn scripts_search_for_the_programs_words() {
    use bedplate::report::status as show;
    use bedplate_daemon::status::{Status, Verdict};
    let now = "2026-03-03T03:00:00Z".parse().expect("a time");
    for (verdict, words) in [
        (Verdict::Ready, "ready: "),
        (Verdict::NotReady, "not ready: "),
        (Verdict::CannotTell, "unknown: "),
    ] {
        let mut status = Status::starting("b".into());
        status.verdict = verdict;
        let shown = bedplate::report::style::terminal(&show::status(&status, true, now));
        let shown = anstream::adapter::strip_str(&shown).to_string();
        assert!(shown.starts_with(words), "{shown}");
        let first = format!("\"{words}\"*");
        for script in ["kubernetes/bedplate-condition", "slurm/bedplate-health"] {
            assert!(text(script).contains(&first), "{script}: {first}");
        }
    }
}

/// Reports are wrapped even without a terminal, but a reason must arrive whole.
#[test]
fn long_reason_stays_on_one_line() {
    let script = "[ \"$COLUMNS\" -ge 200 ] || { echo 'not ready: a'; echo '  b'; exit 4; }\n\
                  echo 'not ready: a b'; exit 4";
    assert_eq!(condition(script), (Some(1), "not ready: a b\n".to_owned()));
    // The real program obeys the variable.
    let reason = |columns: &str| {
        let mut status = bedplate_tests::program::bedplate(&["status", "--color", "never"]);
        let said = status.env("COLUMNS", columns).output().expect("it starts");
        String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let (whole, broken) = (reason("1000"), reason("20"));
    assert!(whole.len() > broken.len() && broken.len() <= 20, "{whole}\n{broken}");
}

/// Node Problem Detector, docs/custom_plugin_monitor.md: the rule's condition is declared, and its plugin is shipped.
#[test]
fn detector_configurations_are_valid() {
    for (stage, condition, _) in STAGES {
        let config = detector(stage);
        assert_eq!(config["plugin"], "custom");
        let seconds = |at: &Value| -> u32 {
            let text = at.as_str().expect("a length of time");
            text.strip_suffix('s').expect("seconds").parse().expect("a number")
        };
        let plugin = &config["pluginConfig"];
        assert!(seconds(&plugin["timeout"]) < seconds(&plugin["invoke_interval"]));
        // Else the detector reports `False` (no problem) until the plugin has run.
        assert_eq!(plugin["skip_initial_status"], true);
        // Each result publishes all conditions of its file, also those without a result yet.
        let [only] = config["conditions"].as_array().expect("conditions").as_slice() else {
            panic!("not one condition: {config}")
        };
        assert_eq!(only["type"], condition);
        assert_eq!(config["rules"].as_array().map(Vec::len), Some(1));
        let rule = &config["rules"][0];
        // The detector refuses a longer one at start-up.
        assert!(seconds(&rule["timeout"]) <= seconds(&plugin["timeout"]));
        assert_eq!((&rule["type"], &rule["condition"]), (&json!("permanent"), &json!(condition)));
        assert_eq!(rule["args"], json!([stage]));
        assert_eq!(rule["path"], "/usr/lib/bedplate/bedplate-condition");
        // The plugin ends by itself before it is killed.
        let script = text("kubernetes/bedplate-condition");
        let own: u32 = script
            .split("timeout ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .and_then(|word| word.parse().ok())
            .expect("seconds");
        assert!(own < seconds(&rule["timeout"]));
    }
}

pub(super) fn detector(stage: &str) -> Value {
    let file = format!("kubernetes/node-problem-detector-{stage}.json");
    serde_json::from_str(&text(&file)).expect("JSON")
}

/// The rules match the controller's CRD, and use the conditions that the detector sets. The CRD requires the prefix of
/// the taint by an expression, which is not in the schema.
#[test]
fn readiness_rules_use_the_detectors_conditions() {
    let rules = documents(&text("kubernetes/node-readiness-rules.yaml"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/nodereadinessrule.json");
    let schema = fixtures::document(&std::fs::read_to_string(path).expect("ours"));
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for rule in &rules {
        let errors: Vec<String> = validator.iter_errors(rule).map(|one| one.to_string()).collect();
        assert_eq!(errors, [""; 0], "{rule}");
        assert_eq!(fixtures::unknown_fields(&schema, &schema, rule), [""; 0], "{rule}");
        let key = rule["spec"]["taint"]["key"].as_str().expect("a key");
        assert!(key.starts_with("readiness.k8s.io/"), "{key}");
    }
    let rule = |(stage, condition, taint): (&str, &str, &str)| {
        let spec = json!({
            "conditions": [{"type": condition, "requiredStatus": "False"}],
            "taint": {"key": taint, "effect": "NoSchedule", "value": "pending"},
            "enforcementMode": "continuous",
            "nodeSelector": {"matchLabels": {"feature.node.kubernetes.io/pci-10de.present": "true"}},
        });
        json!({
            "apiVersion": "readiness.node.x-k8s.io/v1alpha1",
            "kind": "NodeReadinessRule",
            "metadata": {"name": format!("bedplate-{stage}")},
            "spec": spec,
        })
    };
    assert_eq!(rules, STAGES.map(rule));
}

/// The driver waits for the host stage only: its pods tolerate the taint of the other stage, which waits for the
/// driver.
#[test]
fn gpu_operator_waits_only_for_the_host_stage() {
    let values = yaml("kubernetes/gpu-operator-values.yaml");
    let tolerations = values["daemonsets"]["tolerations"].as_array().expect("tolerations");
    let [(_, _, host), (_, _, gpudirect)] = STAGES;
    let tolerates = |key: &str| tolerations.iter().any(|one| one["key"] == key);
    assert!(tolerates(gpudirect) && tolerates("nvidia.com/gpu") && !tolerates(host), "{values}");
    assert!(tolerations.iter().all(|one| one["key"].is_string()), "{values}");
    // The label that selects GPU nodes comes before both stages.
    let discovery = &values["node-feature-discovery"]["worker"]["tolerations"];
    assert_eq!(discovery, &json!([{"operator": "Exists"}]));
}

/// kured looks for the file that bedplate writes.
#[test]
fn kured_sentinel_is_the_written_marker() {
    let values = yaml("kubernetes/kured-values.yaml");
    assert_eq!(
        values["configuration"]["rebootSentinel"],
        bedplate_daemon::reboot_required::REQUIRED
    );
}

/// The drop-in is the one in the documentation.
#[test]
fn kubelet_waits_for_the_target() {
    let drop_in = text("kubernetes/kubelet.conf");
    for line in ["[Unit]", "Wants=bedplate-host-ready.target", "After=bedplate-host-ready.target"] {
        assert!(drop_in.lines().any(|own| own == line), "{line}");
    }
}
