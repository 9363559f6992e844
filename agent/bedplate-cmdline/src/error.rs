//! Errors of edits: an inconsistent edit, or one that cannot be applied to a line.

use super::lex::{Token, TokenError};
use super::line::LineError;

/// Reason for rejecting the arguments of a profile as inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A list parameter without any option.
    #[error("`{text}` has no option; write `{text}=OPTION`")]
    NoOption {
        /// The entry.
        text: String,
    },
    /// A value that the kernel would refuse.
    #[error("`{text}` needs a boolean value; write `=1` or `=0`")]
    NoTruthValue {
        /// The entry.
        text: String,
    },
    /// Two entries of `set` that set the same key differently.
    #[error("`{}` and `{}` contradict each other; keep one", .first.join(" "), .second.join(" "))]
    Contradiction {
        /// The earlier entries, which agree with each other.
        first: Vec<Token>,
        /// The later entry.
        second: Vec<Token>,
    },
    /// An entry of `absent` that would remove one of `set`.
    #[error("`{}` is required, but `{unwanted}` must be absent; keep one", .wanted.join(" "))]
    WantedAndAbsent {
        /// The entries of `set`: several if they form one unit.
        wanted: Vec<Token>,
        /// The entry of `absent`.
        unwanted: Token,
    },
}

/// Reason why an edit could not be applied to a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The line cannot be edited, or the result would be invalid.
    #[error("cannot edit the kernel command line")]
    Line(#[from] LineError),
    /// The rest of a list parameter cannot be written.
    #[error("cannot rewrite the arguments of `{param}`; correct them by hand")]
    Unwritable {
        /// Folded parameter name.
        param: String,
        /// The cause.
        source: TokenError,
    },
}

/// Creates the error for a list parameter that cannot be written.
pub(super) fn unwritable(param: &str, source: TokenError) -> ApplyError {
    ApplyError::Unwritable { param: param.to_owned(), source }
}
