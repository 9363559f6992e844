//! Every method with every time and every answer of the BMC.

use super::*;

fn due() -> Timestamp {
    "2026-03-03T03:00:00Z".parse().unwrap()
}

fn scheduled(method: RebootMethod) -> Attempt {
    Attempt {
        plan: "p".into(),
        boot_id: "b-1".into(),
        at: due() - SignedDuration::from_mins(15),
        due: Some(due()),
        method,
        dry_run: false,
        passthrough: false,
        followed: true,
        subject: String::new(),
    }
}

/// Result if the boot starts this many seconds after the scheduled time.
fn after(method: RebootMethod, seconds: i64, bmc: &BmcAnswer) -> LastBoot {
    let began = due() + SignedDuration::from_secs(seconds);
    classify("b-2", Some(&scheduled(method)), true, Some(began), bmc).unwrap()
}

fn bmc_answers() -> Vec<BmcAnswer> {
    let causes = (0..=15).map(|byte| Ok(RestartCause::from_byte(byte)));
    causes.chain([Err("it did not answer".into())]).collect()
}

#[test]
fn unscheduled_boot_matters_only_with_pending_change() {
    for bmc in bmc_answers() {
        assert_eq!(classify("b-2", None, false, Some(due()), &bmc), None);
        let last_boot = classify("b-2", None, true, Some(due()), &bmc).unwrap();
        let found = (last_boot.by, last_boot.method, last_boot.scheduled_for);
        assert_eq!(found, (RebootOrigin::External, None, None));
        let words = "not by bedplate: a change was pending";
        assert!(last_boot.summary.starts_with(words), "{}", last_boot.summary);
    }
}

#[test]
fn boot_on_time_is_the_scheduled_reboot() {
    for (method, words) in [
        (RebootMethod::Ordinary, "an ordinary reboot, scheduled by bedplate for 2026-03-03 03:00"),
        (RebootMethod::Firmware, "a reset by the firmware, scheduled by bedplate for 2026-03-03"),
        (
            RebootMethod::Rtc,
            "a power-off with wake-up by the real-time clock, scheduled by bedplate for",
        ),
        (RebootMethod::Command, "a power cycle by the profile's command, scheduled by bedplate"),
    ] {
        let by = RebootOrigin::Scheduled(method);
        let kept = serde_json::to_string(&by).unwrap();
        assert_eq!(kept, format!("\"{method}\""));
        assert_eq!(serde_json::from_str::<RebootOrigin>(&kept).unwrap(), by);
        // The clock may have been set; shutdowns and self-tests take time.
        for seconds in [-120, -1, 0, 40, 7200] {
            for bmc in bmc_answers() {
                let last_boot = after(method, seconds, &bmc);
                assert_eq!((last_boot.by, last_boot.method), (by, Some(method)));
                assert_eq!(
                    (last_boot.scheduled_for, last_boot.boot_id.as_str()),
                    (Some(due()), "b-2")
                );
                assert!(last_boot.summary.starts_with(words), "{}", last_boot.summary);
            }
        }
    }
}

#[test]
fn bmc_power_cycle_needs_confirmation_by_the_bmc() {
    for bmc in bmc_answers() {
        let last_boot = after(RebootMethod::Bmc, 40, &bmc);
        let (by, words) = match &bmc {
            Ok(RestartCause::CHASSIS_CONTROL) => (
                RebootOrigin::Scheduled(RebootMethod::Bmc),
                "a power cycle by the BMC, scheduled by bedplate for",
            ),
            Ok(RestartCause::SOFT_RESET) => {
                (RebootOrigin::OrdinaryWithoutBmc, "an ordinary reboot: bedplate had scheduled")
            }
            Ok(cause)
                if ![0x0, 0x5, 0xC, 0xD, 0xE, 0xF].map(RestartCause::from_byte).contains(cause) =>
            {
                (
                    RebootOrigin::External,
                    "not by bedplate: it had scheduled a power cycle by the BMC",
                )
            }
            Ok(_) | Err(_) => (
                RebootOrigin::Unknown,
                "bedplate had scheduled a power cycle by the BMC for 2026-03-03 03:00:00 UTC",
            ),
        };
        assert_eq!(last_boot.by, by, "{bmc:?}");
        assert!(last_boot.summary.starts_with(words), "{bmc:?}: {}", last_boot.summary);
        assert_eq!(last_boot.method, Some(RebootMethod::Bmc));
    }
    for (bmc, words) in [
        (Err("it did not answer".into()), "unknown whether the BMC did it: it did not answer"),
        (Ok(RestartCause::from_byte(4)), "another restart cause: an expired watchdog"),
    ] {
        let last_boot = after(RebootMethod::Bmc, 40, &bmc);
        assert!(last_boot.summary.contains(words), "{}", last_boot.summary);
    }
}

#[test]
fn early_boot_is_not_attributed_to_bedplate() {
    for method in RebootMethod::ALL {
        for bmc in bmc_answers() {
            let last_boot = after(method, -121, &bmc);
            assert_eq!((last_boot.by, last_boot.method), (RebootOrigin::External, Some(method)));
            let words = "earlier, at 2026-03-03 02:57:59 UTC";
            assert!(last_boot.summary.contains(words), "{}", last_boot.summary);
        }
    }
}

#[test]
fn boot_hours_late_or_without_time_is_unknown() {
    let unheard = Err("the BMC was not asked".into());
    for method in RebootMethod::ALL {
        let known = scheduled(method);
        // From a record of a version that did not store the time.
        let old = Attempt { due: None, ..scheduled(method) };
        let no_time = "the start time of this boot is unknown";
        for (attempt, began, words) in [
            (&known, Some(due() + SignedDuration::from_hours(3)), "this boot started 3 h later"),
            (&known, None, no_time),
            (&old, Some(due()), no_time),
        ] {
            let last_boot = classify("b-2", Some(attempt), false, began, &unheard).unwrap();
            assert_eq!(last_boot.by, RebootOrigin::Unknown);
            assert!(last_boot.summary.contains(words), "{}", last_boot.summary);
        }
    }
}

#[test]
fn kernel_start_is_read_from_proc_stat() {
    let stat = "cpu  1 2 3\nintr 5\nctxt 7\nbtime 1772506800\nprocesses 9\n";
    assert_eq!(began(stat), Some(due()));
    for nothing in ["", "btime\n", "btime x\n", "cpu 1 btime 7\n", "btime 99999999999999\n"] {
        assert_eq!(began(nothing), None, "{nothing}");
    }
}
