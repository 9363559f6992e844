//! A reboot that is left to people is easily forgotten: once a day it is said that it is still due. Pure; the clock is an
//! argument.

use std::time::{Duration, Instant};

use super::status::Status;
use bedplate_core::profile::NEVER;
use bedplate_core::profile::model::{Reboot, RebootPolicy};

/// Between two reminders, and between what was said when the need arose and the first.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Since when, and when it was last said.
#[derive(Debug)]
pub(crate) struct Reminder {
    every: Duration,
    since: Option<Instant>,
    said: Option<Instant>,
}

impl Reminder {
    /// One that speaks up this often: once a [`DAY`], but in tests of the loop.
    pub(crate) fn new(every: Duration) -> Self {
        Reminder { every, since: None, said: None }
    }

    /// What is to be said now, if it was last said long enough ago.
    pub(crate) fn due(
        &mut self,
        status: &Status,
        settings: &Reboot,
        now: Instant,
    ) -> Option<String> {
        let Some(why) = left_to_people(settings).filter(|_| status.reboot.is_needed()) else {
            *self = Reminder::new(self.every);
            return None;
        };
        let since = *self.since.get_or_insert(now);
        // What made it needed was said at once.
        let last = *self.said.get_or_insert(now);
        if now.saturating_duration_since(last) < self.every {
            return None;
        }
        self.said = Some(now);
        let days = now.saturating_duration_since(since).as_secs() / DAY.as_secs();
        let days = if days == 1 { "1 day".to_owned() } else { format!("{days} days") };
        let what: Vec<&str> =
            status.pending.iter().map(|pending| pending.subject.as_str()).collect();
        let what =
            if what.is_empty() { String::new() } else { format!(" for {}", what.join(", ")) };
        Some(format!(
            "this host has waited {days} for a reboot{what}, and bedplate does not reboot it by itself ({why}): \
             `bedplate reboot schedule` reboots this host"
        ))
    }
}

/// Why nobody but people will reboot this host, if that is so.
fn left_to_people(settings: &Reboot) -> Option<&'static str> {
    match settings.policy {
        RebootPolicy::Never => Some("policy `never` in [reboot] of its profile"),
        RebootPolicy::Schedule
            if !settings.windows.is_empty()
                && settings.windows.iter().all(|window| window == NEVER) =>
        {
            Some("`windows` in [reboot] of its profile is not filled in")
        }
        RebootPolicy::Schedule | RebootPolicy::Mark => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::tests::settings;

    fn waiting() -> Status {
        let mut status = Status::starting("b".into());
        status.reboot.need = Some(bedplate_core::plan::RebootNeed::Cold);
        status
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn once_a_day_for_as_long_as_it_is_due() {
        let (mut reminder, settings, status) =
            (Reminder::new(DAY), settings("policy = \"never\""), waiting());
        let begun = Instant::now();
        let said: Vec<u32> = (0..=73)
            .filter(|hour| reminder.due(&status, &settings, begun + HOUR * *hour).is_some())
            .collect();
        assert_eq!(said, [24, 48, 72]);
    }

    #[test]
    fn it_says_for_how_long_and_what_to_do() {
        let (mut reminder, settings, status) =
            (Reminder::new(DAY), settings("policy = \"never\""), waiting());
        let begun = Instant::now();
        assert_eq!(reminder.due(&status, &settings, begun), None);
        let said = reminder.due(&status, &settings, begun + HOUR * 49).unwrap();
        assert!(said.starts_with("this host has waited 2 days for a reboot"), "{said}");
        assert!(
            said.contains("policy `never`") && said.contains("`bedplate reboot schedule`"),
            "{said}"
        );
    }

    #[test]
    fn a_need_that_comes_again_is_counted_from_then() {
        let (mut reminder, settings) = (Reminder::new(DAY), settings("policy = \"never\""));
        let begun = Instant::now();
        assert_eq!(reminder.due(&waiting(), &settings, begun), None);
        assert_eq!(reminder.due(&Status::starting("b".into()), &settings, begun + HOUR * 23), None);
        assert_eq!(reminder.due(&waiting(), &settings, begun + HOUR * 25), None);
        assert!(reminder.due(&waiting(), &settings, begun + HOUR * 49).is_some());
    }

    #[test]
    fn no_reminder_where_another_tool_does_the_reboot() {
        let begun = Instant::now();
        for (reboot, reminds) in [
            ("policy = \"never\"", true),
            ("policy = \"schedule\"\nwindows = [\"never\"]", true),
            ("policy = \"schedule\"\nwindows = [\"Sun 02:00-05:00 UTC\"]", false),
            ("policy = \"schedule\"", false),
            ("policy = \"mark\"", false),
        ] {
            let (mut reminder, settings) = (Reminder::new(DAY), settings(reboot));
            reminder.due(&waiting(), &settings, begun);
            assert_eq!(
                reminder.due(&waiting(), &settings, begun + DAY).is_some(),
                reminds,
                "{reboot}"
            );
        }
    }
}
