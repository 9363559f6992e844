//! `bedplate-is-ready.target` follows the verdict.

use std::time::{Duration, Instant};

use bedplate_daemon::ready_target::{MARKER, UNIT};
use bedplate_daemon::status::{State, Verdict};
use serde_json::{Value, json};

use super::rig::{Rig, drifted, right, until};

/// Maximum delay of the target after the verdict.
const BEHIND: Duration = Duration::from_secs(1);

impl Rig {
    fn target_is_active(&self) -> bool {
        self.login.lock().expect("not poisoned").active.iter().any(|unit| unit == UNIT)
    }

    fn target_jobs(&self) -> usize {
        self.login.lock().expect("not poisoned").jobs.len()
    }

    fn marker(&self) -> bool {
        self.path(MARKER.trim_start_matches('/')).exists()
    }

    /// Waits for this verdict, and checks that the target follows in time.
    fn target_follows(&self, verdict: Verdict) {
        self.until("the verdict", |status| status.verdict == verdict && status.work.is_none());
        let begun = Instant::now();
        until("the target follows", || self.target_is_active() == (verdict == Verdict::Ready));
        assert!(begun.elapsed() < BEHIND, "{:?}", begun.elapsed());
        assert_eq!(self.marker(), verdict == Verdict::Ready);
    }
}

fn observing(mut seen: Value) -> Value {
    seen["agent"]["mode"] = json!("observe");
    seen
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn target_follows_verdict_in_observe_mode() {
    let mut rig = Rig::new();
    rig.look(&observing(right(&rig)));
    rig.start();
    rig.target_follows(Verdict::Ready);
    rig.look(&observing(drifted(&rig)));
    rig.touch();
    rig.target_follows(Verdict::NotReady);
    rig.look(&observing(right(&rig)));
    rig.touch();
    rig.target_follows(Verdict::Ready);
    rig.write("fails", "the profile is broken");
    rig.touch();
    rig.target_follows(Verdict::CannotTell);
    std::fs::remove_file(rig.path("fails")).expect("ours");
    rig.touch();
    rig.target_follows(Verdict::Ready);
    rig.stop();
    assert!(!rig.marker() && !rig.target_is_active());
}

/// The target stops a second after the host stopped being known as ready, however long the observation takes.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn long_observation_stops_target_and_short_one_does_not() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.target_follows(Verdict::Ready);
    let jobs = rig.target_jobs();
    for _ in 0..3 {
        let looks = rig.calls().len();
        rig.touch();
        until("it has looked", || rig.calls().len() > looks);
        rig.target_follows(Verdict::Ready);
    }
    assert_eq!(rig.target_jobs(), jobs, "stopped in between");
    rig.write("wait", "");
    rig.touch();
    rig.until("looking", |status| status.state == State::Working);
    let begun = Instant::now();
    until("stopped", || !rig.target_is_active());
    assert!(begun.elapsed() < BEHIND, "{:?}", begun.elapsed());
    std::fs::remove_file(rig.path("wait")).expect("ours");
    rig.target_follows(Verdict::Ready);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn target_follows_after_dbus_restart() {
    let mut rig = Rig::new();
    rig.look(&observing(right(&rig)));
    rig.start();
    rig.target_follows(Verdict::Ready);
    rig.restart_bus(|rig| {
        until("noticed", || rig.logged("system bus lost"));
        rig.look(&observing(drifted(rig)));
        rig.touch();
        until("not ready", || !rig.marker());
    });
    until("the target follows", || !rig.target_is_active());
}
