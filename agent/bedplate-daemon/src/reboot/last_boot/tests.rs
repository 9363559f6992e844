//! Every method with every time and every answer of the BMC.

use super::*;

fn due() -> Timestamp {
    "2026-03-03T03:00:00Z".parse().unwrap()
}

fn announced(method: RebootMethod) -> Attempt {
    Attempt {
        plan: "p".into(),
        boot_id: "b-1".into(),
        at: due() - SignedDuration::from_mins(15),
        due: Some(due()),
        method,
        rehearsal: false,
        passthrough: false,
        followed: true,
        subject: String::new(),
    }
}

/// Result if the boot starts this many seconds after the scheduled time.
fn after(method: RebootMethod, seconds: i64, bmc: &BmcAnswer) -> LastBoot {
    let began = due() + SignedDuration::from_secs(seconds);
    classify("b-2", Some(&announced(method)), true, Some(began), bmc).unwrap()
}

fn bmc_answers() -> Vec<BmcAnswer> {
    let causes = (0..=15).map(|byte| Ok(RestartCause::from_byte(byte)));
    causes.chain([Err("it did not answer".into())]).collect()
}

#[test]
fn unscheduled_boot_matters_only_with_pending_change() {
    for bmc in bmc_answers() {
        assert_eq!(classify("b-2", None, false, Some(due()), &bmc), None);
        let came = classify("b-2", None, true, Some(due()), &bmc).unwrap();
        let found = (came.by, came.asked_for, came.announced_for);
        assert_eq!(found, (RebootOrigin::Others, None, None));
        let words = "not by bedplate: a change was pending";
        assert!(came.summary.starts_with(words), "{}", came.summary);
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
        let by = RebootOrigin::Announced(method);
        let kept = serde_json::to_string(&by).unwrap();
        assert_eq!(kept, format!("\"{method}\""));
        assert_eq!(serde_json::from_str::<RebootOrigin>(&kept).unwrap(), by);
        // The clock may have been set; shutdowns and self-tests take time.
        for seconds in [-120, -1, 0, 40, 7200] {
            for bmc in bmc_answers() {
                let came = after(method, seconds, &bmc);
                assert_eq!((came.by, came.asked_for), (by, Some(method)));
                assert_eq!((came.announced_for, came.boot_id.as_str()), (Some(due()), "b-2"));
                assert!(came.summary.starts_with(words), "{}", came.summary);
            }
        }
    }
}

#[test]
fn bmc_power_cycle_needs_confirmation_by_the_bmc() {
    for bmc in bmc_answers() {
        let came = after(RebootMethod::Bmc, 40, &bmc);
        let (by, words) = match &bmc {
            Ok(RestartCause::CHASSIS_CONTROL) => (
                RebootOrigin::Announced(RebootMethod::Bmc),
                "a power cycle by the BMC, scheduled by bedplate for",
            ),
            Ok(RestartCause::SOFT_RESET) => {
                (RebootOrigin::OrdinaryWithoutBmc, "an ordinary reboot: bedplate had scheduled")
            }
            Ok(cause)
                if ![0x0, 0x5, 0xC, 0xD, 0xE, 0xF].map(RestartCause::from_byte).contains(cause) =>
            {
                (RebootOrigin::Others, "not by bedplate: it had scheduled a power cycle by the BMC")
            }
            Ok(_) | Err(_) => (
                RebootOrigin::Unknown,
                "bedplate had scheduled a power cycle by the BMC for 2026-03-03 03:00:00 UTC",
            ),
        };
        assert_eq!(came.by, by, "{bmc:?}");
        assert!(came.summary.starts_with(words), "{bmc:?}: {}", came.summary);
        assert_eq!(came.asked_for, Some(RebootMethod::Bmc));
    }
    for (bmc, words) in [
        (Err("it did not answer".into()), "unknown whether the BMC did it: it did not answer"),
        (Ok(RestartCause::from_byte(4)), "another restart cause: an expired watchdog"),
    ] {
        let came = after(RebootMethod::Bmc, 40, &bmc);
        assert!(came.summary.contains(words), "{}", came.summary);
    }
}

#[test]
fn early_boot_is_not_attributed_to_bedplate() {
    for method in RebootMethod::ALL {
        for bmc in bmc_answers() {
            let came = after(method, -121, &bmc);
            assert_eq!((came.by, came.asked_for), (RebootOrigin::Others, Some(method)));
            let words = "earlier, at 2026-03-03 02:57:59 UTC";
            assert!(came.summary.contains(words), "{}", came.summary);
        }
    }
}

#[test]
fn boot_hours_late_or_without_time_is_unknown() {
    let unheard = Err("the BMC was not asked".into());
    for method in RebootMethod::ALL {
        let known = announced(method);
        // From a record of a version that did not store the time.
        let old = Attempt { due: None, ..announced(method) };
        let no_time = "the start time of this boot is unknown";
        for (attempt, began, words) in [
            (&known, Some(due() + SignedDuration::from_hours(3)), "this boot started 3 h later"),
            (&known, None, no_time),
            (&old, Some(due()), no_time),
        ] {
            let came = classify("b-2", Some(attempt), false, began, &unheard).unwrap();
            assert_eq!(came.by, RebootOrigin::Unknown);
            assert!(came.summary.contains(words), "{}", came.summary);
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
