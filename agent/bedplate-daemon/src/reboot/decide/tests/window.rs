//! Windows and the clock.

use super::*;

#[test]
fn time_is_after_the_delay_and_inside_the_window() {
    let record = Record::default();
    let mut settings = settings(RebootPolicy::Schedule, &["02:00-05:00 UTC"]);
    let at = |text: &str| RebootState::Scheduling { at: text.parse().unwrap() };
    assert_eq!(decide(&free(&settings, &record)), at("2026-03-03T03:05:00Z"));
    // More jitter than fits into the window: the delay alone.
    settings.jitter_s = 86_400 * 365;
    assert_eq!(decide(&free(&settings, &record)), at("2026-03-03T03:05:00Z"));
    settings.jitter_s = 600;
    let [jittered, other] = [BOOT, "b-other"].map(|boot_id| {
        match decide(&Situation { boot_id, ..free(&settings, &record) }) {
            RebootState::Scheduling { at } => at,
            state => panic!("{state:?}"),
        }
    });
    let late = |time: Timestamp| time.duration_since(now()).as_secs();
    assert!((300..=900).contains(&late(jittered)) && jittered != other, "{jittered} {other}");
    // Not even the delay fits.
    let late =
        Situation { now: "2026-03-03T04:58:00Z".parse().unwrap(), ..free(&settings, &record) };
    assert!(matches!(decide(&late), RebootState::Waiting { until: None, .. }));
}

#[test]
fn closed_window_reports_the_next_opening() {
    let record = Record::default();
    let settings =
        settings(RebootPolicy::Schedule, &["Sun 02:00-05:00 UTC", "Fri 02:00-05:00 UTC"]);
    let RebootState::Waiting { why, until, .. } = decide(&free(&settings, &record)) else {
        panic!()
    };
    assert_eq!(why, [Veto::new(WaitsFor::Window, "window `Fri 02:00-05:00 UTC` is closed")]);
    assert_eq!(until, Some("2026-03-06T02:00:00Z".parse().unwrap()));
}

/// The clock is set to another day while a reboot is scheduled: it would now be outside the window.
#[test]
fn clock_jump_cancels_the_reboot() {
    let record = Record::default();
    let settings = settings(RebootPolicy::Schedule, &["Tue 02:00-05:00 UTC"]);
    let ours = Situation {
        scheduled: ScheduledShutdown::Ours { at: now(), request: None },
        ..free(&settings, &record)
    };
    assert!(matches!(decide(&ours), RebootState::Scheduled { .. }));
    let jumped = Situation { now: "2027-01-01T03:00:00Z".parse().unwrap(), ..ours };
    assert!(matches!(decide(&jumped), RebootState::Cancelling { .. }));
}
