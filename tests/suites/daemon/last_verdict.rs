//! `bedplate verify --since-boot` answers from the status file alone.

use bedplate_daemon::status::{State, Verdict};
use serde_json::{Value, json};

use super::rig::{Rig, drifted, right, until, with_check};

impl Rig {
    fn last(&self, args: &[&str]) -> (Option<i32>, String) {
        let root = self.dir.path().display().to_string();
        let args = [&["verify", "--since-boot", "--state-root", &root], args].concat();
        self.run(&args)
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn last_verdict_follows_the_daemon() {
    let mut rig = Rig::new();
    let (code, said) = rig.last(&["-q"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.starts_with("unknown: no daemon has published a verdict"), "{said}");
    rig.look(&right(&rig));
    rig.start();
    rig.until("ready", |status| status.verdict == Verdict::Ready && status.work.is_none());
    until("published", || rig.last(&["-q"]).0 == Some(0));
    let (_, said) = rig.last(&["-q"]);
    assert!(said.starts_with("ready: ") && said.lines().count() == 1, "{said}");
    let (_, text) = rig.last(&["--json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&json["answer"], &json["exit_status"]), (&json!("ready"), &json!(0)));
    for field in ["evaluated_at", "boot_id", "program_version"] {
        assert!(json[field].is_string(), "{field}: {text}");
    }

    rig.look(&with_check(right(&rig), "rdma.port-state", "fail", "port mlx5_0/1 is DOWN"));
    rig.touch();
    until("published", || rig.last(&["-q"]).0 == Some(4));
    assert_eq!(rig.last(&["-q", "--stage", "host"]).0, Some(0), "ports are not of the host stage");
    let json: Value = serde_json::from_str(&rig.last(&["--json"]).1).expect("JSON");
    assert_eq!(json["decided_by"], json!(["rdma.port-state"]));
    let bus = rig.runtime.block_on(async { rig.agent().await?.host_verdict().await });
    assert_eq!(bus.expect("a property"), "ready");

    let mut observes = drifted(&rig);
    observes["agent"]["mode"] = json!("observe");
    rig.look(&observes);
    rig.touch();
    rig.until("drifted", |status| status.state == State::Drifted);
    until("published", || rig.last(&["-q", "--stage", "host"]).0 == Some(4));
    let json: Value = serde_json::from_str(&rig.last(&["--json"]).1).expect("JSON");
    assert_eq!(json["decided_by"], json!(["profile.in-effect"]));

    rig.kill();
    let (code, said) = rig.last(&["-q"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("is not running"), "{said}");
}

/// Known since the daemon's first attempt, not unknown.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn host_without_profile_is_not_ready() {
    let mut rig = Rig::new();
    rig.write("no-profile", "");
    rig.start();
    rig.until("no profile", |status| status.state == State::NoProfile);
    until("published", || rig.last(&["-q"]).0 == Some(4));
    assert_eq!(rig.last(&["-q", "--stage", "host"]).0, Some(4));
}

#[test]
fn options_that_read_the_host_are_refused() {
    for other in [&["--check", "iommu"][..], &["--demo", "hgx"], &["-v"], &["--every", "1m"]] {
        let args = [&["verify", "--since-boot"], other].concat();
        let done = bedplate_tests::program::bedplate(&args).output().expect("it starts");
        assert_eq!(done.status.code(), Some(64), "{other:?}");
    }
    let done = bedplate_tests::program::bedplate(&["verify", "--max-age", "1m"]).output();
    assert_eq!(done.expect("it starts").status.code(), Some(64));
}
