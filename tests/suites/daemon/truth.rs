//! Guarantees to the operator: nothing is enforced on a guess, `ready` is never stale, published files do not outlive the
//! daemon, and a cancelled reboot stays cancelled.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use bedplate_core::plan::RebootNeed;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Verdict};
use serde_json::{Value, json};

use super::rig::{Rig, drifted, fixed, right, until, waiting, with_devices};

fn scheduled(rig: &Rig) -> bool {
    rig.status().is_some_and(|status| matches!(status.reboot.state, RebootState::Scheduled { .. }))
}

fn schedules(rig: &Rig) -> usize {
    rig.asked_of_logind().iter().filter(|call| call.starts_with("schedule")).count()
}

fn shutdown_c(rig: &Rig) {
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
}

fn applied(rig: &Rig) -> usize {
    rig.calls().iter().filter(|call| call.contains("--only")).count()
}

fn schedule(rig: &Rig) -> String {
    let said =
        rig.runtime.block_on(async { rig.agent().await?.schedule_reboot("an operator", 0).await });
    said.expect("root may").0
}

// ---- no profile ------------------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn missing_profile_stops_enforcement_and_reboots() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.write("no-profile", "");
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    std::fs::remove_file(rig.path("etc/bedplate/profile.toml")).expect("ours");
    let status = rig.until("no profile", |status| status.state == State::NoProfile);
    assert_eq!((status.verdict, status.reboot.need), (Verdict::NotReady, None));
    assert_eq!(
        rig.login.lock().expect("not poisoned").scheduled,
        None,
        "the announcement is called off"
    );
    assert!(rig.logged("there is no profile"));
    assert_eq!(applied(&rig), 0);
    let (code, said) = rig.run(&["status"]);
    assert!(
        code == Some(4) && said.contains("no-profile") && said.contains("no profile to enforce"),
        "{said}"
    );
    let (code, said) = rig.run(&["reboot", "schedule"]);
    assert!(code == Some(1) && said.contains("request discarded: there is no profile"), "{said}");
    assert_eq!(
        rig.read("var/lib/bedplate/daemon/reboot.json").matches("\"asked\": null").count(),
        1
    );
    // The profile is restored.
    std::fs::remove_file(rig.path("no-profile")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(applied(&rig), 1);
}

/// Some tools replace a file by `rm` and `cp`: the moment without a profile is not reported.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn profile_replaced_by_remove_and_write_does_not_flap() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.write("no-profile", "");
    std::fs::remove_file(rig.path("etc/bedplate/profile.toml")).expect("ours");
    let looks = rig.calls().len();
    until("it has looked", || rig.calls().len() > looks);
    // The observation itself also counts as work.
    rig.until("waits", |status| {
        status.state == State::Working && status.reason.contains("waiting for its return")
    });
    std::fs::remove_file(rig.path("no-profile")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
    assert!(!rig.logged("there is no profile"), "{}", rig.read("log"));
}

// ---- reboots called off ----------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn shutdown_c_also_cancels_an_operators_request() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(schedule(&rig), "scheduled");
    shutdown_c(&rig);
    let status = rig.until("called off", |status| status.reboot.cancelled_by.is_some());
    assert_eq!(status.reboot.state, RebootState::Idle);
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains("cancelled   through logind, as by `shutdown -c`"), "{said}");
    assert!(said.contains("`bedplate reboot schedule` requests it again"), "{said}");
    rig.touch();
    rig.settle();
    rig.kill();
    rig.start();
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"asked\": null"));
    // Requested again, the reboot is scheduled again; then it is cancelled by its command.
    assert_eq!(schedule(&rig), "scheduled");
    let (code, said) = rig.run(&["reboot", "cancel"]);
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains("with `bedplate reboot cancel`, at 20"), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn request_during_a_hold_is_kept_and_reported() {
    let mut rig = Rig::new();
    rig.write(
        "var/lib/bedplate/hold.json",
        "{\"version\":1,\"until\":null,\"why\":\"a demo\",\"by\":\"ops\"}",
    );
    rig.look(&right(&rig));
    rig.start();
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "0"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("a demo") && said.contains("The request stays valid for this boot"),
        "{said}"
    );
    assert_eq!(schedules(&rig), 0);
    // After the release the reboot is not due at the old time, but after the whole delay, here an hour.
    std::fs::remove_file(rig.path("var/lib/bedplate/hold.json")).expect("ours");
    until("scheduled", || scheduled(&rig));
    let scheduled = rig.login.lock().expect("not poisoned").scheduled.clone().expect("something");
    let left = bedplate_daemon::logind::time(scheduled.1).duration_since(jiff::Timestamp::now());
    assert!(left.as_secs() > 3000, "{left}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn now_and_zero_are_valid_times() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    for time in ["0", "now", "30s"] {
        let (code, said) = rig.run(&["reboot", "schedule", "--in", time]);
        assert!(code == Some(0) && said.starts_with("scheduled for"), "{time}: {said}");
        let (code, said) = rig.run(&["reboot", "cancel"]);
        assert!(code == Some(0) || said.contains("already going down"), "{time}: {said}");
        rig.login.lock().expect("not poisoned").scheduled = None;
        rig.reboot(&format!("after-{time}"));
    }
}

// ---- ready is never older than what is going on ------------------------------------------------------------------------

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn running_tool_is_named_and_blocks_ready() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.after(&fixed(&rig));
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.write("at", "at update-grub\n");
    rig.look(&drifted(&rig));
    rig.write("watched/x", "1");
    let status = rig.until("at work", |status| {
        status.work.as_ref().is_some_and(|work| work.what == "update-grub")
    });
    assert_eq!((status.state, status.verdict), (State::Working, Verdict::NotReady));
    let (code, said) = rig.run(&["status"]);
    assert!(code == Some(4) && said.contains("running  update-grub ("), "{said}");
    assert!(rig.read("run/bedplate/bedplate.prom").contains("bedplate_ready 0\n"));
    std::fs::remove_file(rig.path("at")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}

/// An event clears `ready` before the next observation starts.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn event_clears_ready_until_the_observation() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.write("slow", "2");
    rig.write("watched/x", "1");
    let status = rig.until("looking", |status| status.state == State::Working);
    assert_eq!(status.verdict, Verdict::NotReady);
    std::fs::remove_file(rig.path("slow")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}

// ---- before the first observation, off the bus, after the end ----------------------------------------------------------

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_need_is_unknown_before_the_first_observation() {
    let mut rig = Rig::new();
    // Left by an earlier daemon.
    rig.write("run/bedplate/bedplate.prom", "bedplate_ready 1\n");
    rig.look(&right(&rig));
    rig.write("slow", "3");
    rig.start_blindly();
    let status = rig.until("on the bus", |_| true);
    assert_eq!((status.state, status.reboot.need), (State::Starting, None));
    assert!(rig.read("run/bedplate/bedplate.prom").contains("bedplate_ready 0\n"));
    let (code, said) = rig.run(&["reboot", "status"]);
    assert!(
        code == Some(5) && said.contains("not yet known") && !said.contains("not needed"),
        "{said}"
    );
    rig.until("looked", |status| status.reboot.need == Some(RebootNeed::None));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn stopped_daemon_publishes_not_ready() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("etc/kubernetes/node-feature-discovery/features.d"))
        .expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let features = || rig.read("etc/kubernetes/node-feature-discovery/features.d/bedplate");
    let labels = features();
    let (expiry, rest) = labels.split_once('\n').expect("lines");
    let until: jiff::Timestamp =
        expiry.strip_prefix("# +expiry-time=").expect(expiry).parse().expect("RFC 3339");
    let left = until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((1700..=1800).contains(&left), "twice the interval of 900 s: {left}");
    assert!(rest.contains("bedplate.ready=true\n"), "{rest}");
    for file in ["run/bedplate/status.json", "run/bedplate/bedplate.prom"] {
        let mode = rig.path(file).metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{file}");
    }
    rig.stop();
    let file: Value = serde_json::from_str(&rig.read("run/bedplate/status.json")).expect("JSON");
    assert_eq!((&file["state"], &file["verdict"]), (&json!("stopped"), &json!("not-ready")));
    assert!(rig.read("run/bedplate/bedplate.prom").contains("bedplate_ready 0\n"));
    assert!(
        rig.read("etc/kubernetes/node-feature-discovery/features.d/bedplate")
            .contains("bedplate.ready=false\n")
    );
}

/// The re-check refreshes the published status, whether or not anything has changed.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn re_check_updates_the_heartbeat() {
    let mut rig = Rig::new();
    let mut seen = right(&rig);
    seen["agent"]["interval_s"] = json!(2);
    rig.look(&seen);
    rig.start();
    let first = rig.until("converged", |status| status.state == State::Converged).heartbeat;
    let beat = || rig.read("run/bedplate/bedplate.prom");
    let text = beat();
    rig.until("a later one", |status| status.heartbeat > first);
    until("in the metrics", || beat() != text);
    assert!(beat().contains("bedplate_heartbeat_timestamp_seconds 1"), "{}", beat());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn daemon_returns_after_a_bus_restart() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.restart_bus(|rig| {
        until("noticed", || rig.logged("system bus lost"));
        let root = rig.dir.path().display().to_string();
        let (code, said) = rig.run(&["status", "--state-root", &root]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("the daemon is running without the system bus"), "{said}");
        assert!(said.contains("pending reboot: iommu=pt"), "{said}");
    });
    until("back on the bus", || rig.status().is_some());
    until("still scheduled", || scheduled(&rig));
    rig.inhibit(&["backup"]);
    until("logind is heard again", || !scheduled(&rig));
    assert_eq!(schedules(&rig), 1);
}

/// A profile that others can write is refused, and the fix is `chmod`: both mode changes are noticed at once.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn profile_mode_change_is_noticed() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let set = |path: &str, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(rig.path(path), mode).expect("ours");
    };
    for (path, wrong, good) in
        [("etc/bedplate/profile.toml", 0o666, 0o644), ("etc/bedplate", 0o777, 0o755)]
    {
        let begun = Instant::now();
        rig.write("fails", "it may be written by others");
        set(path, wrong);
        rig.until("error", |status| status.state == State::Error);
        let (code, said) = rig.run(&["status"]);
        assert_eq!(code, Some(5), "{said}");
        std::fs::remove_file(rig.path("fails")).expect("ours");
        set(path, good);
        rig.until("converged", |status| status.state == State::Converged);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

// ---- devices ------------------------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn missing_nic_is_not_ready() {
    let mut rig = Rig::new();
    let all =
        ["GPU 10de:2330 0000:18:00.0", "NIC 15b3:1021 0000:19:00.0", "NIC 15b3:1021 0000:1a:00.0"];
    rig.look(&with_devices(right(&rig), &all));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.look(&with_devices(right(&rig), &all[..2]));
    rig.touch();
    let status = rig.until("missed", |status| status.state == State::Blocked);
    assert_eq!(status.verdict, Verdict::NotReady);
    assert!(status.reason.contains("NIC 15b3:1021 at 0000:1a:00.0"), "{}", status.reason);
    // The next daemon and the next boot miss the device as well.
    rig.kill();
    rig.start();
    rig.until("missed", |status| status.state == State::Blocked);
    rig.reboot("boot-2");
    rig.until("missed", |status| status.state == State::Blocked);
    let (code, said) = rig.run(&["reconcile", "--forget-missing"]);
    assert!(
        code == Some(0) && said.contains("no longer expected: NIC 15b3:1021 at 0000:1a:00.0"),
        "{said}"
    );
    rig.reboot("boot-3");
    rig.until("converged", |status| status.state == State::Converged);
    // The device returns, and another one is missing.
    rig.look(&with_devices(right(&rig), &all));
    rig.touch();
    std::thread::sleep(Duration::from_millis(800));
    rig.look(&with_devices(right(&rig), &all[1..]));
    rig.touch();
    let status = rig.until("missed", |status| status.state == State::Blocked);
    assert!(status.reason.contains("GPU 10de:2330"), "{}", status.reason);
}
