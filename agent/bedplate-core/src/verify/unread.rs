//! What a check says where it has nothing to judge by: a value that could not be read, or an empty list.

use std::fmt::Display;

use super::Outcome;
use bedplate_base::{Cause, Reading, Reason};

/// A reading that a check cannot do without.
pub(crate) trait OrUnread<T> {
    /// The value; `None`: it is known not to be there.
    ///
    /// # Errors
    /// The outcome that says that `what` could not be read.
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

/// A list that a check is about.
///
/// # Errors
/// Where it is empty the check does not apply, in the words of `none`.
pub(crate) fn some<T>(list: Vec<T>, none: &str) -> Result<Vec<T>, Outcome> {
    if list.is_empty() { Err(Outcome::not_applicable(none)) } else { Ok(list) }
}

/// The outcome that says that `what` could not be read.
pub(crate) fn unread(what: impl Display, why: &Reason) -> Outcome {
    let remedy = remedy(why.cause).map(str::to_owned);
    Outcome { remedy, ..Outcome::unknown(format!("{what}: {why}")) }
}

/// The remedy for a value that is not known.
pub(crate) fn remedy(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Denied | Cause::ShortConfig => Some("run `bedplate verify` as root"),
        Cause::NotRecorded => Some("record the host again, with this version of bedplate"),
        Cause::NoAnswer => Some("see pcie.answer"),
        Cause::NotReadable => Some(
            "`dmesg` may say why the kernel does not give it; then run `bedplate verify` again",
        ),
        Cause::NotUnderstood | Cause::NotAsked => None,
    }
}
