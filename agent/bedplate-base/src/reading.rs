//! A value that may have stayed unread, and why: a cause, on which decisions rest, and words for people.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// Why a path could not be read. "Not there" is an answer; everything else is *unknown*, never "fine".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing at this path.
    #[error("{path} is not there")]
    NotFound {
        /// Path inside the host.
        path: String,
    },
    /// The kernel wants more privilege.
    #[error("{path} cannot be read without more privilege")]
    Denied {
        /// Path inside the host.
        path: String,
    },
    /// A snapshot that did not record this path.
    #[error("{path} was not recorded in this snapshot")]
    NotRecorded {
        /// Path inside the host.
        path: String,
    },
    /// Others could have written it, and it decides what is done as root.
    #[error("{path} is not trusted: {why}")]
    Untrusted {
        /// Path on the machine that bedplate runs on.
        path: String,
        /// Why not, and the command that helps.
        why: String,
    },
    /// Anything else the system said (a directory where a file should be, EINVAL of an empty GID, EIO …).
    #[error("{path} cannot be read: {reason}")]
    Failed {
        /// Path inside the host.
        path: String,
        /// The system's words.
        reason: String,
    },
}

impl ReadError {
    /// Whether it is known that there is nothing there.
    pub fn is_absent(&self) -> bool {
        matches!(self, ReadError::NotFound { .. })
    }
}

/// A read of something that need not be there.
pub trait OptionalRead<T> {
    /// The value; `None`: there is nothing at the path.
    ///
    /// # Errors
    /// It is there, or may be, and cannot be read.
    fn optional(self) -> Result<Option<T>, ReadError>;
}

impl<T> OptionalRead<T> for Result<T, ReadError> {
    fn optional(self) -> Result<Option<T>, ReadError> {
        match self {
            Err(error) if error.is_absent() => Ok(None),
            read => read.map(Some),
        }
    }
}

/// A value that may have stayed unread.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", content = "value", rename_all = "kebab-case")]
pub enum Reading<T> {
    /// Read.
    Known(T),
    /// Known not to be there.
    Absent,
    /// Could not be read, or not understood.
    Unknown(Reason),
}

impl<T> Reading<T> {
    /// From a read, with "not there" kept apart from "not readable".
    pub fn from_result(result: Result<T, ReadError>) -> Self {
        match result {
            Ok(value) => Reading::Known(value),
            Err(error) if error.is_absent() => Reading::Absent,
            Err(error) => Reading::unknown(error),
        }
    }

    /// From a value that was read; `None`: known not to be there.
    pub fn from_option(value: Option<T>) -> Self {
        value.map_or(Reading::Absent, Reading::Known)
    }

    /// Not known, and why.
    pub fn unknown(why: impl Into<Reason>) -> Self {
        Reading::Unknown(why.into())
    }

    /// The value, if read.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Absent | Reading::Unknown(_) => None,
        }
    }

    /// The value; `None`: it is known not to be there.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn optional(&self) -> Result<Option<&T>, &Reason> {
        match self {
            Reading::Known(value) => Ok(Some(value)),
            Reading::Absent => Ok(None),
            Reading::Unknown(why) => Err(why),
        }
    }

    /// The reading that `f` makes of the value; the same state without one.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Known(value) => f(value),
            Reading::Absent => Reading::Absent,
            Reading::Unknown(why) => Reading::Unknown(why),
        }
    }

    /// The same state of a mapped value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Known(f(value)))
    }
}

/// What kept a value from being known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The snapshot did not record it.
    NotRecorded,
    /// The kernel shows it to root only.
    Denied,
    /// An unprivileged reader gets 64 bytes of config space, and it is beyond them. The words say to run as root.
    ShortConfig,
    /// The device that holds it answers no read: powered down, hung or gone.
    NoAnswer,
    /// Reading failed in another way.
    NotReadable,
    /// It was read, or there was nothing to read, and its meaning is not known.
    NotUnderstood,
    /// Nothing that was asked for needs it.
    NotAsked,
}

/// Why a value is not known. The words are for people only: what has to be decided is decided by the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What kept the value from being known.
    pub cause: Cause,
    words: Cow<'static, str>,
}

impl Reason {
    /// A cause in words.
    pub fn new(cause: Cause, words: impl fmt::Display) -> Self {
        Reason { cause, words: Cow::Owned(words.to_string()) }
    }

    /// That nothing needs it: said of thousands of functions, so the words are not copied.
    pub const fn not_asked(words: &'static str) -> Self {
        Reason { cause: Cause::NotAsked, words: Cow::Borrowed(words) }
    }

    /// The same cause, with what it is about in front: `its driver is not known: …`.
    #[must_use]
    pub fn about(self, what: impl fmt::Display) -> Self {
        Reason { words: Cow::Owned(format!("{what}: {}", self.words)), ..self }
    }
}

impl From<&ReadError> for Reason {
    fn from(error: &ReadError) -> Self {
        let cause = match error {
            ReadError::NotRecorded { .. } => Cause::NotRecorded,
            ReadError::Denied { .. } => Cause::Denied,
            ReadError::NotFound { .. } | ReadError::Untrusted { .. } | ReadError::Failed { .. } => {
                Cause::NotReadable
            }
        };
        Reason::new(cause, error)
    }
}

impl From<ReadError> for Reason {
    fn from(error: ReadError) -> Self {
        Reason::from(&error)
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        Reason { cause: Cause::NotUnderstood, words: Cow::Owned(words) }
    }
}

impl From<&str> for Reason {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.words
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> String {
        reason.words.into_owned()
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words)
    }
}
