//! Values that may be unknown, with a reason: a cause for decisions and a text for display.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// Reason why a path could not be read. "Not there" is an answer; every other variant means *unknown*, never "fine".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing exists at this path.
    #[error("{path} is not there")]
    NotFound {
        /// Path inside the host.
        path: String,
    },
    /// The kernel requires more privilege.
    #[error("{path} cannot be read without more privilege")]
    Denied {
        /// Path inside the host.
        path: String,
    },
    /// The snapshot does not contain this path.
    #[error("{path} was not recorded in this snapshot")]
    NotRecorded {
        /// Path inside the host.
        path: String,
    },
    /// Other users could have written the file, and it controls what bedplate does as root.
    #[error("{path} is not trusted: {why}")]
    Untrusted {
        /// Path on the machine that bedplate runs on.
        path: String,
        /// Reason, and the command that fixes it.
        why: String,
    },
    /// A container that reads the host through a mount would not read the host's value.
    #[error("{path} of the host is not visible: {why}")]
    Hidden {
        /// Path inside the host.
        path: String,
        /// Reason, and the fix.
        why: String,
    },
    /// Any other error of the system (a directory instead of a file, EINVAL of an empty GID, EIO …).
    #[error("{path} cannot be read: {reason}")]
    Failed {
        /// Path inside the host.
        path: String,
        /// Message of the system.
        reason: String,
    },
}

impl ReadError {
    /// Whether the path is known to be absent.
    pub fn is_absent(&self) -> bool {
        matches!(self, ReadError::NotFound { .. })
    }
}

/// A read of something that may be absent.
pub trait OptionalRead<T> {
    /// Returns the value, or `None` if the path does not exist.
    ///
    /// # Errors
    /// If the path exists, or may exist, and cannot be read.
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

/// A value that may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", content = "value", rename_all = "kebab-case")]
pub enum Reading<T> {
    /// The value that was read.
    Known(T),
    /// Known to be absent.
    Absent,
    /// Could not be read or understood.
    Unknown(Reason),
}

impl<T> Reading<T> {
    /// Converts the result of a read; "not there" stays distinct from "not readable".
    pub fn from_result(result: Result<T, ReadError>) -> Self {
        match result {
            Ok(value) => Reading::Known(value),
            Err(error) if error.is_absent() => Reading::Absent,
            Err(error) => Reading::unknown(error),
        }
    }

    /// Converts a value that was read; `None` means known to be absent.
    pub fn from_option(value: Option<T>) -> Self {
        value.map_or(Reading::Absent, Reading::Known)
    }

    /// Returns an unknown reading with its reason.
    pub fn unknown(why: impl Into<Reason>) -> Self {
        Reading::Unknown(why.into())
    }

    /// Returns the value if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Absent | Reading::Unknown(_) => None,
        }
    }

    /// Returns the value, or `None` if it is known to be absent.
    ///
    /// # Errors
    /// If the value is unknown; returns the reason.
    pub fn optional(&self) -> Result<Option<&T>, &Reason> {
        match self {
            Reading::Known(value) => Ok(Some(value)),
            Reading::Absent => Ok(None),
            Reading::Unknown(why) => Err(why),
        }
    }

    /// Applies `f` to a known value; keeps the state otherwise.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Known(value) => f(value),
            Reading::Absent => Reading::Absent,
            Reading::Unknown(why) => Reading::Unknown(why),
        }
    }

    /// Maps a known value; keeps the state otherwise.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Known(f(value)))
    }
}

/// Cause of an unknown value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The snapshot does not contain it.
    NotRecorded,
    /// The kernel shows it to root only.
    Denied,
    /// An unprivileged reader gets only the first 64 bytes of config space. The text says to run as root.
    ShortConfig,
    /// The device that has the value does not answer reads: powered down, hung or gone.
    NoAnswer,
    /// The container that reads lacks a right or a namespace of the host. The text names it.
    Hidden,
    /// Reading failed for another reason.
    NotReadable,
    /// Its meaning is unknown, whether it was read or there was nothing to read.
    NotUnderstood,
    /// No requested item needs it.
    NotAsked,
}

/// Reason why a value is unknown. The text is for display only; decisions depend on the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Cause of the unknown value.
    pub cause: Cause,
    words: Cow<'static, str>,
}

impl Reason {
    /// Creates a reason from a cause and its text.
    pub fn new(cause: Cause, words: impl fmt::Display) -> Self {
        Reason { cause, words: Cow::Owned(words.to_string()) }
    }

    /// Creates the reason for a value that nothing needs. Borrows the text, because thousands of functions share it.
    pub const fn not_asked(words: &'static str) -> Self {
        Reason { cause: Cause::NotAsked, words: Cow::Borrowed(words) }
    }

    /// Prefixes the text with its subject (`its driver is not known: …`); the cause is unchanged.
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
            ReadError::Hidden { .. } => Cause::Hidden,
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
