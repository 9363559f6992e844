//! Why an edit makes no sense, or cannot be applied to a line.

use super::lex::{Token, TokenError};
use super::line::LineError;

/// Why what a profile wants makes no sense as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A list parameter without any option says nothing.
    #[error("`{text}` names no option; write `{text}` with the option after a `=`")]
    NoOption {
        /// The entry.
        text: String,
    },
    /// The kernel would refuse the value.
    #[error("the kernel reads a truth value in `{text}`; write `=1` or `=0`")]
    NoTruthValue {
        /// The entry.
        text: String,
    },
    /// Two entries of `set` decide the same thing differently.
    #[error("`{}` and `{}` contradict each other; keep one", .first.join(" "), .second.join(" "))]
    Contradiction {
        /// The earlier entries, which decide it alike.
        first: Vec<Token>,
        /// The later entry.
        second: Vec<Token>,
    },
    /// An entry of `absent` would take away what an entry of `set` puts there.
    #[error("`{}` is wanted and `{unwanted}` is to be absent; keep one", .wanted.join(" "))]
    WantedAndAbsent {
        /// The entries of `set`: several where they only make sense together.
        wanted: Vec<Token>,
        /// The entry of `absent`.
        unwanted: Token,
    },
}

/// Why an edit could not be applied to a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The line cannot be edited, or would become unfit.
    #[error("the kernel command line cannot be changed")]
    Line(#[from] LineError),
    /// What is left of a list parameter cannot be written.
    #[error("the arguments of `{param}` cannot be rewritten; correct them by hand")]
    Unwritable {
        /// Folded parameter name.
        param: String,
        /// Why not.
        source: TokenError,
    },
}

/// The error for a list parameter that cannot be written.
pub(super) fn unwritable(param: &str, source: TokenError) -> ApplyError {
    ApplyError::Unwritable { param: param.to_owned(), source }
}
