//! The `rtc` method: power off with an alarm set, so that the real-time clock turns the machine on again. Whether the
//! firmware obeys the alarm from S5 is not readable (handbook §2.3), so the operator must confirm it in the profile.

use std::ops::RangeInclusive;

use super::{Env, MethodError, Next, Row, Undo, Unusable, attribute, under, unusable};
use bedplate_base::chain;

const CLOCK: &str = "/sys/class/rtc/rtc0";
const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
/// No alarm.
const NONE: &str = "0";
const WAKES: &str = "/sys/class/rtc/rtc0/device/power/wakeup";
const SINCE_EPOCH: &str = "/sys/class/rtc/rtc0/since_epoch";

/// Allowed seconds until the alarm. An alarm that rings before the power is off has no effect, and the host stays off. Units
/// have 90 s to stop by default and the last killing another 90 s (`DefaultTimeoutStopSec=`, systemd-shutdown), so five
/// minutes is the least. A clock whose alarm has no date accepts at most a day (`drivers/rtc/rtc-cmos.c`).
pub(crate) const AFTER_S: RangeInclusive<u32> = 300..=86_399;

/// Registry entry.
pub(super) const ROW: Row = Row {
    subject: "a power-off with wake-up by the real-time clock",
    next: Next::LogindPoweroff,
    probe,
    find_undo: |_| Ok(find_undo()),
    prepare,
    undoes,
    survives_boot: true,
};

/// Checks that the method can be used.
fn probe(env: &Env<'_>) -> Result<String, Unusable> {
    if !env.rtc_wakes {
        return unusable(
            "the profile does not confirm that the firmware wakes the machine by its clock (`rtc_wakes` in [reboot]); \
             without that the host would stay off",
        );
    }
    let after_s = env.rtc_after_s;
    if !AFTER_S.contains(&after_s) {
        let (least, most) = AFTER_S.into_inner();
        let asked = format!("the alarm would ring {after_s} s after the power-off request");
        return unusable(format!("{asked}; allowed are {least} to {most} s"));
    }
    if !under(env.root, CLOCK).exists() {
        let why = "Linux has no real-time clock on this machine";
        return unusable(format!("{CLOCK} is missing: {why}"));
    }
    if !under(env.root, ALARM).exists() {
        let why = "the clock or its driver has no alarm";
        return unusable(format!("{ALARM} is missing: {why}"));
    }
    let asleep = match attribute::read(env.root, WAKES) {
        Ok(wakes) if wakes == "enabled" => None,
        Ok(found) => Some(format!("{WAKES} reads `{found}`, not `enabled`")),
        Err(error) => Some(chain(&error)),
    };
    if let Some(why) = asleep {
        return unusable(format!("the clock may not wake the machine: {why}"));
    }
    attribute::writable(env.root, ALARM)?;
    now(env)?;
    let alarm = attribute::read(env.root, ALARM)?;
    // Other tools may rely on it, and undo could not distinguish it from bedplate's.
    if !alarm.is_empty() && alarm != NONE {
        return unusable(format!(
            "an alarm is already set ({ALARM} reads `{alarm}`); clear it with `echo 0 > {ALARM}` if unused"
        ));
    }
    Ok(format!(
        "powers off; the real-time clock wakes the machine {after_s} s after the shutdown starts"
    ))
}

/// Returns the step that clears the alarm. There was no alarm before, or the method could not be used.
fn find_undo() -> Vec<Undo> {
    vec![Undo::Write { path: ALARM.into(), value: NONE.into() }]
}

/// Sets the alarm. Call it only when the shutdown starts: the alarm time counts from here.
fn prepare(env: &Env<'_>) -> Result<(), MethodError> {
    let at = now(env)?.saturating_add(env.rtc_after_s.into());
    // The kernel rejects a new alarm over an active one with EBUSY (`drivers/rtc/sysfs.c`).
    attribute::write(env.root, ALARM, NONE)?;
    attribute::write_and_check(env.root, ALARM, &at.to_string())
}

/// Whether this step clears the alarm.
fn undoes(step: &Undo) -> bool {
    matches!(step, Undo::Write { path, value } if path == ALARM && value == NONE)
}

/// Returns the clock's own time in seconds. Not the system's: a clock in local time differs by hours, and the alarm is
/// compared with the clock.
fn now(env: &Env<'_>) -> Result<u64, MethodError> {
    let text = attribute::read(env.root, SINCE_EPOCH)?;
    let invalid = |error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    text.parse().map_err(|error| MethodError::read(SINCE_EPOCH, invalid(error)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Tree, cannot, works};
    use super::super::{Method, prepare, undo};
    use super::*;

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.put(ALARM, "");
        tree.put(WAKES, "enabled\n");
        tree.put(SINCE_EPOCH, "1795205246\n");
        tree
    }

    #[test]
    fn alarm_uses_the_clocks_own_time_and_undo_clears_it() {
        let tree = tree();
        let env = Env { rtc_wakes: true, ..tree.env() };
        works(Method::Rtc, &env);
        assert_eq!(tree.get(ALARM), "", "probing wrote");
        let prepared = prepare(Method::Rtc, &env).unwrap();
        assert_eq!(prepared.next, Next::LogindPoweroff);
        assert_eq!(tree.get(ALARM), "1795205846");
        undo(&prepared, &tree.0).unwrap();
        assert_eq!(tree.get(ALARM), "0");
    }

    #[test]
    fn method_requires_the_operators_confirmation() {
        let tree = tree();
        assert!(cannot(Method::Rtc, &tree.env()).contains("profile"));
        assert!(prepare(Method::Rtc, &tree.env()).is_err());
        assert_eq!(tree.get(ALARM), "");
    }

    #[test]
    fn conditions_that_leave_the_host_off_are_refused() {
        let said = |spoil: &dyn Fn(&Tree)| {
            let tree = tree();
            spoil(&tree);
            cannot(Method::Rtc, &Env { rtc_wakes: true, ..tree.env() })
        };
        let gone = |path: &'static str| {
            move |tree: &Tree| std::fs::remove_file(under(&tree.0, path)).unwrap()
        };
        assert!(
            said(&|tree| std::fs::remove_dir_all(under(&tree.0, CLOCK)).unwrap()).contains(CLOCK)
        );
        assert!(said(&gone(ALARM)).contains("no alarm"));
        assert!(said(&gone(WAKES)).contains("may not wake"));
        assert!(said(&|tree| tree.put(WAKES, "disabled\n")).contains("`disabled`"));
        assert!(said(&gone(SINCE_EPOCH)).contains(SINCE_EPOCH));
        assert!(said(&|tree| tree.put(SINCE_EPOCH, "soon")).contains(SINCE_EPOCH));
        assert!(said(&|tree| tree.put(ALARM, "1795209999\n")).contains("1795209999"));
        assert!(said(&|tree| tree.chmod(ALARM, 0o444)).contains("read-only"));
        let tree = tree();
        for after_s in [0, 299, 86_400] {
            let env = Env { rtc_wakes: true, rtc_after_s: after_s, ..tree.env() };
            assert!(cannot(Method::Rtc, &env).contains("300 to 86399"));
        }
    }
}
