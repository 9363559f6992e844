//! Daily log reminder of a reboot that an operator must do. Pure; time is an argument.

use std::time::{Duration, Instant};

use super::status::Status;
use bedplate_core::profile::NEVER;
use bedplate_core::profile::model::{Reboot, RebootPolicy};

/// Interval between reminders, and before the first one.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// State of the reminder: when the need arose, and when it was last logged.
#[derive(Debug)]
pub(crate) struct Reminder {
    every: Duration,
    since: Option<Instant>,
    said: Option<Instant>,
}

impl Reminder {
    /// Creates one with this interval: a [`DAY`], except in tests of the loop.
    pub(crate) fn new(every: Duration) -> Self {
        Reminder { every, since: None, said: None }
    }

    /// Returns the reminder to log now, or `None` if the last one is too recent or the reboot is not manual.
    pub(crate) fn due(
        &mut self,
        status: &Status,
        settings: &Reboot,
        now: Instant,
    ) -> Option<String> {
        let Some(why) = manual(settings).filter(|_| status.reboot.is_needed()) else {
            *self = Reminder::new(self.every);
            return None;
        };
        let since = *self.since.get_or_insert(now);
        // The need itself was logged when it arose.
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
            "this host has waited {days} for a reboot{what}, which needs an operator ({why}): run `bedplate reboot \
             schedule`"
        ))
    }
}

/// Returns why the reboot is manual, if neither bedplate nor another tool will do it.
fn manual(settings: &Reboot) -> Option<&'static str> {
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
    fn reminder_repeats_daily_while_due() {
        let (mut reminder, settings, status) =
            (Reminder::new(DAY), settings("policy = \"never\""), waiting());
        let begun = Instant::now();
        let said: Vec<u32> = (0..=73)
            .filter(|hour| reminder.due(&status, &settings, begun + HOUR * *hour).is_some())
            .collect();
        assert_eq!(said, [24, 48, 72]);
    }

    #[test]
    fn reminder_names_duration_and_command() {
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
    fn recurring_need_restarts_the_count() {
        let (mut reminder, settings) = (Reminder::new(DAY), settings("policy = \"never\""));
        let begun = Instant::now();
        assert_eq!(reminder.due(&waiting(), &settings, begun), None);
        assert_eq!(reminder.due(&Status::starting("b".into()), &settings, begun + HOUR * 23), None);
        assert_eq!(reminder.due(&waiting(), &settings, begun + HOUR * 25), None);
        assert!(reminder.due(&waiting(), &settings, begun + HOUR * 49).is_some());
    }

    #[test]
    fn no_reminder_if_a_tool_does_the_reboot() {
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
