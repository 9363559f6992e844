//! Cause of the last boot: bedplate's scheduled reboot, by its method or another, or an unrelated one. Pure: derived from the
//! scheduled reboot, the start time of the kernel and the BMC's answer. If these do not determine it, the cause is unknown: a
//! power cycle is never claimed without confirmation by the BMC.

use bedplate_core::reboot_record::last_boot::{LastBoot, RebootOrigin};
use jiff::{SignedDuration, Timestamp};

use super::method::ipmi::RestartCause;
use super::method::row;
use bedplate_base::format_utc;
use bedplate_core::profile::model::RebootMethod;
use bedplate_core::reboot_record::attempt::Attempt;

/// Clocks may be set between scheduling and boot: only a boot that is earlier by more than this is too early.
const EARLY: SignedDuration = SignedDuration::from_mins(2);
/// Long enough for an orderly shutdown, a machine that is off until its clock wakes it, and the self-test of a large server.
/// A later boot may have another cause.
const LATE: SignedDuration = SignedDuration::from_hours(2);
/// Hint where the end of the previous boot is visible.
const LOOK: &str = "`journalctl -b -1 -e` shows how the previous boot ended";

/// Restart cause by the BMC, or the reason for its absence.
pub(crate) type BmcAnswer = Result<RestartCause, String>;

/// Classifies the boot `boot_id`, whose kernel started at `began`. `scheduled`: reboot that bedplate scheduled in the
/// previous boot. `waited`: a change was pending. Returns `None` if nothing was scheduled and no change was pending.
pub(crate) fn classify(
    boot_id: &str,
    scheduled: Option<&Attempt>,
    waited: bool,
    began: Option<Timestamp>,
    bmc: &BmcAnswer,
) -> Option<LastBoot> {
    let (by, summary) = match scheduled {
        Some(scheduled) => of_scheduled(scheduled, began, bmc),
        None if waited => (
            RebootOrigin::External,
            format!(
                "not by bedplate: a change was pending, but bedplate had scheduled no reboot; {LOOK}"
            ),
        ),
        None => return None,
    };
    Some(LastBoot {
        boot_id: boot_id.to_owned(),
        by,
        method: scheduled.map(|scheduled| scheduled.method),
        scheduled_for: scheduled.and_then(|scheduled| scheduled.due),
        summary,
    })
}

fn of_scheduled(
    scheduled: &Attempt,
    began: Option<Timestamp>,
    bmc: &BmcAnswer,
) -> (RebootOrigin, String) {
    let what = row(scheduled.method).subject;
    let Some((due, began)) = scheduled.due.zip(began) else {
        return (
            RebootOrigin::Unknown,
            format!("bedplate had scheduled {what}; the start time of this boot is unknown"),
        );
    };
    let late = began.duration_since(due);
    let time = format_utc(due);
    if late < -EARLY {
        return (
            RebootOrigin::External,
            format!(
                "not by bedplate: it had scheduled {what} for {time}, but this boot started earlier, at {}: an \
                 operator, another program, a crash or a power failure; {LOOK}",
                format_utc(began)
            ),
        );
    }
    if late > LATE {
        let hours = late.as_hours();
        return (
            RebootOrigin::Unknown,
            format!(
                "bedplate had scheduled {what} for {time}; this boot started {hours} h later and may have another \
                 cause; {LOOK}"
            ),
        );
    }
    let as_scheduled = format!("{what}, scheduled by bedplate for {time}");
    match scheduled.method {
        RebootMethod::Bmc => of_bmc(&as_scheduled, &time, bmc),
        method => (RebootOrigin::Scheduled(method), as_scheduled),
    }
}

/// Classifies the boot after a power cycle that was scheduled with the BMC. Only the BMC can confirm it: the hook at the
/// end of the shutdown has no place to store a result.
fn of_bmc(as_scheduled: &str, time: &str, bmc: &BmcAnswer) -> (RebootOrigin, String) {
    let unknown = |why: &str| {
        let text = format!("bedplate had scheduled a power cycle by the BMC for {time}");
        (RebootOrigin::Unknown, format!("{text}; unknown whether the BMC did it: {why}"))
    };
    match bmc {
        Ok(RestartCause::CHASSIS_CONTROL) => (
            RebootOrigin::Scheduled(RebootMethod::Bmc),
            format!("{as_scheduled}; confirmed by the BMC"),
        ),
        Ok(RestartCause::SOFT_RESET) => (
            RebootOrigin::OrdinaryWithoutBmc,
            format!(
                "an ordinary reboot: bedplate had scheduled a power cycle by the BMC for {time}, but the BMC did not \
                 do it (restart cause: {}); the console at the end of the shutdown shows why",
                RestartCause::SOFT_RESET
            ),
        ),
        Ok(cause) if cause.is_unknown() => unknown(&format!("restart cause: {cause}")),
        Ok(cause) => (
            RebootOrigin::External,
            format!(
                "not by bedplate: it had scheduled a power cycle by the BMC for {time}, but the BMC reports another \
                 restart cause: {cause}; {LOOK}"
            ),
        ),
        Err(why) => unknown(why),
    }
}

/// Returns the start time of this boot's kernel, from the text of /proc/stat.
pub(crate) fn began(stat: &str) -> Option<Timestamp> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(seconds.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests;
