//! Every method with every time and every word of the BMC.

use super::*;

const METHODS: [RebootMethod; 5] = [
    RebootMethod::Ordinary,
    RebootMethod::Firmware,
    RebootMethod::Bmc,
    RebootMethod::Rtc,
    RebootMethod::Command,
];

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

/// What comes of it when the boot begins so many seconds after the announced time.
fn after(method: RebootMethod, seconds: i64, bmc: &BmcAnswer) -> LastBoot {
    let began = due() + SignedDuration::from_secs(seconds);
    classify("b-2", Some(&announced(method)), true, Some(began), bmc).unwrap()
}

fn bmc_answers() -> Vec<BmcAnswer> {
    let causes = (0..=15).map(|byte| Ok(RestartCause::from_byte(byte)));
    causes.chain([Err("it did not answer".into())]).collect()
}

#[test]
fn a_boot_that_nothing_was_asked_for_is_no_news_unless_something_waited() {
    for bmc in bmc_answers() {
        assert_eq!(classify("b-2", None, false, Some(due()), &bmc), None);
        let came = classify("b-2", None, true, Some(due()), &bmc).unwrap();
        assert_eq!(
            (came.by, came.asked_for, came.announced_for),
            (RebootOrigin::Others, None, None)
        );
        assert!(
            came.summary.starts_with("not by bedplate: a change waited for a boot"),
            "{}",
            came.summary
        );
    }
}

#[test]
fn what_came_at_its_time_is_what_was_announced() {
    let expected = [
        (
            RebootMethod::Ordinary,
            RebootOrigin::Ordinary,
            "an ordinary reboot, announced by bedplate for 2026-03-03 03:00",
        ),
        (
            RebootMethod::Firmware,
            RebootOrigin::Firmware,
            "a reset by the firmware, announced by bedplate for 2026-03-03",
        ),
        (
            RebootMethod::Rtc,
            RebootOrigin::Rtc,
            "a power-off with wake-up by the real-time clock, announced by bedplate for",
        ),
        (
            RebootMethod::Command,
            RebootOrigin::Command,
            "a power cycle by the profile's command, announced by bedplate",
        ),
    ];
    for (method, by, words) in expected {
        // The clock may have been set, shutdowns and self-tests take their time.
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
fn whether_the_bmc_did_it_is_the_bmcs_word() {
    for bmc in bmc_answers() {
        let came = after(RebootMethod::Bmc, 40, &bmc);
        let (by, words) = match &bmc {
            Ok(RestartCause::ChassisControl) => {
                (RebootOrigin::Bmc, "a power cycle by the BMC, announced by bedplate for")
            }
            Ok(RestartCause::SoftReset) => {
                (RebootOrigin::OrdinaryWithoutBmc, "an ordinary reboot: bedplate had announced")
            }
            Ok(RestartCause::Unknown | RestartCause::Vendor | RestartCause::Reserved(_))
            | Err(_) => (
                RebootOrigin::Unknown,
                "bedplate had announced a power cycle by the BMC for 2026-03-03 03:00:00 UTC",
            ),
            Ok(_) => {
                (RebootOrigin::Others, "not by bedplate: it had announced a power cycle by the BMC")
            }
        };
        assert_eq!(came.by, by, "{bmc:?}");
        assert!(came.summary.starts_with(words), "{bmc:?}: {}", came.summary);
        assert_eq!(came.asked_for, Some(RebootMethod::Bmc));
    }
    let silent = after(RebootMethod::Bmc, 40, &Err("it did not answer".into()));
    assert!(
        silent.summary.ends_with("it is not known whether the BMC did it: it did not answer"),
        "{}",
        silent.summary
    );
    let watchdog = after(RebootMethod::Bmc, 40, &Ok(RestartCause::from_byte(4)));
    assert!(
        watchdog.summary.contains("another restart cause: a watchdog that ran out"),
        "{}",
        watchdog.summary
    );
}

#[test]
fn what_came_before_its_time_is_not_bedplates_whatever_the_bmc_says() {
    for method in METHODS {
        for bmc in bmc_answers() {
            let came = after(method, -121, &bmc);
            assert_eq!((came.by, came.asked_for), (RebootOrigin::Others, Some(method)));
            assert!(
                came.summary.contains("earlier, at 2026-03-03 02:57:59 UTC"),
                "{}",
                came.summary
            );
        }
    }
}

#[test]
fn what_came_hours_later_or_at_no_known_time_is_not_known() {
    let unheard = Err("it was not asked".into());
    for method in METHODS {
        let late = after(method, 3 * 3600, &unheard);
        assert_eq!(late.by, RebootOrigin::Unknown);
        assert!(late.summary.contains("this boot began 3 h later"), "{}", late.summary);
        let no_clock = classify("b-2", Some(&announced(method)), false, None, &unheard).unwrap();
        // From a record of a version that did not keep the time.
        let old = Attempt { due: None, ..announced(method) };
        let old = classify("b-2", Some(&old), false, Some(due()), &unheard).unwrap();
        for came in [no_clock, old] {
            assert_eq!(came.by, RebootOrigin::Unknown);
            assert!(
                came.summary.ends_with("the start of this boot is not known"),
                "{}",
                came.summary
            );
        }
    }
}

#[test]
fn the_start_of_the_kernel_is_read() {
    let stat = "cpu  1 2 3\nintr 5\nctxt 7\nbtime 1772506800\nprocesses 9\n";
    assert_eq!(began(stat), Some(due()));
    for nothing in ["", "btime\n", "btime x\n", "cpu 1 btime 7\n", "btime 99999999999999\n"] {
        assert_eq!(began(nothing), None, "{nothing}");
    }
}
