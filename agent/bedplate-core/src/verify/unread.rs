//! Outcomes of checks without evidence: a value that could not be read, or an empty list.

use std::fmt::Display;

use super::Outcome;
use bedplate_base::{Cause, Reading, Reason};

/// Access to a reading that a check requires.
pub(crate) trait OrUnread<T> {
    /// Returns the value, or `None` if it is known to be absent.
    ///
    /// # Errors
    /// The outcome that reports the value as unreadable.
    fn or_unread(self, what: impl Display) -> Result<Option<T>, Outcome>;
}

impl<'a, T> OrUnread<&'a T> for &'a Reading<T> {
    fn or_unread(self, what: impl Display) -> Result<Option<&'a T>, Outcome> {
        self.optional().map_err(|why| unread(what, why))
    }
}

impl<'a, T> OrUnread<&'a T> for Option<&'a Reading<T>> {
    fn or_unread(self, what: impl Display) -> Result<Option<&'a T>, Outcome> {
        self.map_or(Ok(None), |reading| reading.or_unread(what))
    }
}

/// Requires a list that is not empty.
///
/// # Errors
/// A not-applicable outcome, if the list is empty.
pub(crate) fn some<T>(list: Vec<T>, none: &str) -> Result<Vec<T>, Outcome> {
    if list.is_empty() { Err(Outcome::not_applicable(none)) } else { Ok(list) }
}

/// Returns the outcome that reports a value as unreadable.
pub(crate) fn unread(what: impl Display, why: &Reason) -> Outcome {
    let fix = fix(why.cause).map(str::to_owned);
    Outcome { fix, ..Outcome::unknown(format!("{what}: {why}")) }
}

/// Returns the fix for an unknown value, if there is one.
pub(crate) fn fix(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Denied | Cause::ShortConfig => Some("run `bedplate verify` as root"),
        Cause::NotRecorded => Some("record the host again with this version of bedplate"),
        Cause::NoAnswer => Some("see pcie.answer"),
        Cause::Hidden => {
            Some("give the container what the reason names, then run `bedplate verify` again")
        }
        Cause::NotReadable => {
            Some("look for the cause in `dmesg`, then run `bedplate verify` again")
        }
        Cause::NotUnderstood | Cause::NotAsked => None,
    }
}
