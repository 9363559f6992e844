//! Kubernetes integration: the plugin is run, the other files are checked against the shape in their documentation and
//! types.

use std::process::Command;

use serde_json::{Value, json};

use super::{fake, shipped, text, yaml};

/// Exit status and stdout of the plugin for this output of bedplate.
fn condition(says: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let bedplate = fake(directory.path(), "bedplate", says);
    let done = Command::new(shipped("kubernetes/bedplate-condition"))
        .env("BEDPLATE", bedplate)
        .output()
        .expect("it starts");
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn plugin_reports_the_verdict_in_one_line() {
    for (says, status, line) in [
        ("echo 'ready: all of it'; echo '  profile p'", 0, "ready: all of it"),
        ("echo 'not ready: iommu=pt and 2 more'; exit 3", 1, "not ready: iommu=pt and 2 more"),
        ("echo 'unknown: 1 unknown'; exit 4", 2, "unknown: 1 unknown"),
        ("echo already: no; exit 0", 2, "bedplate does not answer"),
        ("exit 1", 2, "bedplate does not answer"),
    ] {
        assert_eq!(condition(says), (Some(status), format!("{line}\n")), "{says}");
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
fn detector_configuration_is_valid() {
    let config: Value =
        serde_json::from_str(&text("kubernetes/node-problem-detector.json")).expect("JSON");
    assert_eq!(config["plugin"], "custom");
    let seconds = |at: &Value| -> u32 {
        let text = at.as_str().expect("a length of time");
        text.strip_suffix('s').expect("seconds").parse().expect("a number")
    };
    let plugin = &config["pluginConfig"];
    assert!(seconds(&plugin["timeout"]) < seconds(&plugin["invoke_interval"]));
    let rule = &config["rules"][0];
    // The detector refuses a longer one at start-up.
    assert!(seconds(&rule["timeout"]) <= seconds(&plugin["timeout"]));
    assert_eq!(rule["type"], "permanent");
    assert_eq!(rule["condition"], config["conditions"][0]["type"]);
    let path = rule["path"].as_str().expect("a path");
    let file = path.strip_prefix("/usr/lib/bedplate/").expect("where it is installed");
    let file = format!("kubernetes/{file}");
    assert!(shipped(&file).exists(), "{path}");
    // The plugin ends by itself before it is killed.
    let script = text(&file);
    let own: u32 = script
        .split("timeout ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|word| word.parse().ok())
        .expect("seconds");
    assert!(own < seconds(&rule["timeout"]));
}

/// readiness.node.x-k8s.io/v1alpha1: exactly these fields, and the condition that the detector sets.
#[test]
fn readiness_rule_uses_the_detectors_condition() {
    let rule = yaml("kubernetes/node-readiness-rule.yaml");
    let detector: Value =
        serde_json::from_str(&text("kubernetes/node-problem-detector.json")).expect("JSON");
    let spec = json!({
        "conditions": [{"type": detector["conditions"][0]["type"], "requiredStatus": "False"}],
        "taint": {"key": "readiness.k8s.io/gpudirect", "effect": "NoSchedule", "value": "pending"},
        "enforcementMode": "continuous",
        "nodeSelector": {"matchLabels": {"feature.node.kubernetes.io/pci-10de.present": "true"}},
    });
    assert_eq!(
        rule,
        json!({
            "apiVersion": "readiness.node.x-k8s.io/v1alpha1",
            "kind": "NodeReadinessRule",
            "metadata": {"name": "bedplate-gpudirect"},
            "spec": spec,
        })
    );
}

#[test]
fn daemon_set_only_reads() {
    let all = text("kubernetes/daemonset.yaml");
    let (profile, set) = all.split_once("\n---\n").expect("two documents");
    let [profile, set]: [Value; 2] =
        [profile, set].map(|text| serde_saphyr::from_str(text).expect("YAML"));
    assert_eq!((&set["apiVersion"], &set["kind"]), (&json!("apps/v1"), &json!("DaemonSet")));
    let spec = &set["spec"];
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    for name in ["hostPID", "hostNetwork", "hostIPC"] {
        assert!(pod[name].is_null(), "{name}");
    }
    let plan = &pod["initContainers"][0];
    let words: Vec<&str> =
        plan["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["plan", "--root", "/host", "--profile", "/profile/profile.toml"]);
    // The command works with the mounted profile on another root directory.
    let root = tempfile::tempdir().expect("a directory");
    let file = root.path().join("profile.toml");
    std::fs::write(&file, profile["data"]["profile.toml"].as_str().expect("a profile"))
        .expect("ours");
    let (root, file) = (root.path().display().to_string(), file.display().to_string());
    let planned = bedplate_tests::program::stdout(&["plan", "--root", &root, "--profile", &file]);
    assert!(planned.contains("deferred until "), "{planned}");
    assert_eq!(plan["volumeMounts"][1]["name"], pod["volumes"][1]["name"]);
    assert_eq!(profile["metadata"]["name"], pod["volumes"][1]["configMap"]["name"]);
    let mount = &plan["volumeMounts"][0];
    assert_eq!((&mount["mountPath"], &mount["readOnly"]), (&json!("/host"), &json!(true)));
    assert_eq!(mount["name"], pod["volumes"][0]["name"]);
    for container in [plan, &pod["containers"][0]] {
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert!(security["privileged"].is_null() && container["image"].is_string());
    }
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
