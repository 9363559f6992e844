//! A converged host is ready only if the checks of `bedplate verify` allow it. Everything that the daemon publishes follows
//! from that.

use bedplate_core::verify::CHECKS;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status, Verdict};
use serde_json::{Value, json};

use super::node::Node;
use super::rig::{Rig, drifted, right, until, with_check};

const PORT: &str = "rdma.port-state";
const DOWN: &str = "port mlx5_0/1 is DOWN";
const FEATURES: &str = "etc/kubernetes/node-feature-discovery/features.d";

fn metrics(rig: &Rig) -> String {
    rig.read("run/bedplate/bedplate.prom")
}

fn on_the_bus(rig: &Rig) -> Vec<(String, String, String)> {
    rig.runtime.block_on(async { rig.agent().await?.checks().await }).expect("a property")
}

fn not_ready(rig: &Rig) -> Status {
    rig.until("not ready", |status| {
        status.state == State::Converged && status.verdict == Verdict::NotReady
    })
}

fn times_logged(rig: &Rig, text: &str) -> usize {
    rig.read("log").matches(text).count()
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failing_check_clears_ready_in_every_output() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path(FEATURES)).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    let ready = rig.until("ready", |status| status.verdict == Verdict::Ready);
    assert!(metrics(&rig).contains("bedplate_check{id=\"acs.path\",outcome=\"pass\"} 1\n"));

    rig.look(&with_check(right(&rig), PORT, "fail", DOWN));
    rig.touch();
    let status = not_ready(&rig);
    assert_eq!(status.reason, format!("{DOWN} ({PORT})"));
    assert!(status.last_converged >= ready.last_converged, "the profile is in effect all the same");
    assert_eq!(status.reboot.state, RebootState::Idle, "no reboot helps");
    let text = metrics(&rig);
    for line in [
        "bedplate_ready 0",
        "bedplate_state{state=\"converged\"} 1",
        "bedplate_check{id=\"rdma.port-state\",outcome=\"fail\"} 1",
        "bedplate_check{id=\"rdma.port-state\",outcome=\"pass\"} 0",
        "bedplate_check{id=\"acs.path\",outcome=\"pass\"} 1",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
    }
    let labels = rig.read(&format!("{FEATURES}/bedplate"));
    for line in [
        "bedplate.ready=false",
        "bedplate.failed-checks=1",
        "bedplate.failed-check=rdma.port-state",
    ] {
        assert!(labels.lines().any(|own| own == line), "{line} is not in\n{labels}");
    }
    let bus = on_the_bus(&rig);
    assert_eq!(bus.len(), 2);
    assert_eq!(bus[1], (PORT.to_owned(), "fail".to_owned(), DOWN.to_owned()));
    let file: Value = serde_json::from_str(&rig.read("run/bedplate/status.json")).expect("JSON");
    assert_eq!(file["checks"][1]["outcome"], "fail");
    let (code, text) = rig.run(&["status"]);
    assert_eq!(code, Some(4), "{text}");
    for part in [
        "not ready: port mlx5_0/1 is DOWN (rdma.port-state)",
        "state    converged",
        "checks   1 failed, 1 passed",
        "(details: `bedplate verify`)",
        "failed checks\n  rdma.port-state: port mlx5_0/1 is DOWN\n      fix: look at it",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }

    rig.look(&right(&rig));
    rig.touch();
    rig.until("ready", |status| status.verdict == Verdict::Ready);
    assert!(metrics(&rig).contains("bedplate_ready 1\n"));
    assert!(rig.read(&format!("{FEATURES}/bedplate")).contains("bedplate.failed-checks=0\n"));
}

/// One line per change of the outcome, no line per observation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn check_is_logged_when_its_outcome_changes() {
    let mut rig = Rig::new();
    rig.look(&with_check(right(&rig), PORT, "fail", DOWN));
    rig.start();
    not_ready(&rig);
    let looks = |rig: &Rig| rig.calls().len();
    for text in ["port mlx5_1/1 is DOWN", DOWN] {
        let before = looks(&rig);
        rig.look(&with_check(right(&rig), PORT, "fail", text));
        rig.touch();
        until("looked again", || looks(&rig) > before);
        rig.until("told", |status| status.reason.starts_with(text));
    }
    let line = format!("check {PORT} fails: {DOWN}; fix: look at it");
    assert_eq!(
        (times_logged(&rig, &line), times_logged(&rig, "check ")),
        (1, 1),
        "{}",
        rig.read("log")
    );
    rig.look(&with_check(right(&rig), PORT, "pass", ""));
    rig.touch();
    rig.until("ready", |status| status.verdict == Verdict::Ready);
    until("logged", || times_logged(&rig, &format!("check {PORT} passes again")) == 1);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unknown_check_blocks_ready_unless_warn_level() {
    let mut rig = Rig::new();
    rig.look(&with_check(right(&rig), "pcie.mps", "unknown", "no config space"));
    rig.start();
    let status = rig.until("cannot tell", |status| status.state == State::Converged);
    assert_eq!(status.verdict, Verdict::CannotTell);
    assert_eq!(status.reason, "no config space (pcie.mps)");
    assert!(metrics(&rig).contains("bedplate_check{id=\"pcie.mps\",outcome=\"unknown\"} 1\n"));
    let (code, text) = rig.run(&["status"]);
    assert!(code == Some(5) && text.contains("unknown checks\n  pcie.mps: "), "{text}");
    // A check that can only warn does not block ready, even if it is unknown.
    let mut seen = with_check(right(&rig), "pcie.log", "unknown", "no log");
    seen["checks"][1]["severity"] = json!("warn");
    rig.look(&seen);
    rig.touch();
    rig.until("ready", |status| status.verdict == Verdict::Ready);
}

/// Without results of checks the verdict is never ready, and no old result outlives the state that it was about.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn missing_check_results_block_ready() {
    let mut rig = Rig::new();
    let mut seen = right(&rig);
    seen["checks"] = json!(null);
    rig.look(&seen);
    rig.start();
    let status = rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(status.verdict, Verdict::CannotTell);
    assert!(status.reason.contains("were not run"), "{}", status.reason);
    rig.look(&right(&rig));
    rig.touch();
    rig.until("ready", |status| status.verdict == Verdict::Ready);
    let mut seen = drifted(&rig);
    seen["agent"]["mode"] = json!("observe");
    rig.look(&seen);
    rig.touch();
    rig.until("drifted", |status| status.state == State::Drifted);
    assert!(!metrics(&rig).contains("bedplate_check{"), "{}", metrics(&rig));
    assert_eq!(on_the_bus(&rig), []);
}

/// A change without an event is found by an observation outside the loop, which clears `ready` only after it has found
/// something.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failure_without_an_event_is_found_by_the_re_check() {
    let mut rig = Rig::new();
    let mut seen = right(&rig);
    seen["agent"]["interval_s"] = json!(11);
    rig.look(&seen);
    rig.start();
    rig.until("ready", |status| status.verdict == Verdict::Ready);
    let mut failing = with_check(right(&rig), PORT, "fail", DOWN);
    failing["agent"]["interval_s"] = json!(11);
    rig.write("look.json", &failing.to_string());
    not_ready(&rig);
}

/// Daemon, worker and machine are real, so the results of the checks are not predictable.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn worker_runs_all_checks_except_ignored_ones() {
    const PROFILE: &str = "etc/bedplate/profile.toml";
    let rig = Rig::new();
    let node = Node::new(&rig);
    let _daemon = node.daemon();
    let judged = |status: &Status| status.checks.as_ref().map(Vec::len);
    let status = rig.until("judged", |status| judged(status).is_some());
    let ids = status.checks.iter().flatten().map(|checked| checked.id.as_str());
    assert!(ids.eq(CHECKS.iter().map(|check| check.id)), "{status:#?}");
    let ignored = |id: &str| format!("\"{id}\" = {{ level = \"ignore\", reason = \"hunter2\" }}\n");
    let ignored: String = CHECKS[1..].iter().map(|check| ignored(check.id)).collect();
    rig.write(PROFILE, &format!("{}[verify.severity]\n{ignored}", rig.read(PROFILE)));
    let status = rig.until("judged by one", |status| judged(status) == Some(1));
    assert_eq!(status.checks.iter().flatten().next().expect("one").id, CHECKS[0].id);
    let text = rig.read("run/bedplate/status.json") + &rig.read("log");
    assert!(!text.contains("hunter2"), "{text}");
}
