//! Checks after regeneration that the default boot entry has the planned arguments.

use super::arch;
use bedplate_cmdline::{CommandLine, Edit, EditError, Finding, Status, Token, TokenError};
use bedplate_facts::Facts;
use bedplate_facts::kernel_defaults::kernel_defaults;
use bedplate_host::Reader;

/// Error of a line that does not match the plan after regeneration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrongLine {
    /// A recorded text cannot be an argument.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The arguments contradict each other.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Arguments that are missing or not removed.
    #[error("{}", .0.iter().map(differs).collect::<Vec<_>>().join("; "))]
    Differs(Vec<Finding>),
}

fn differs(finding: &Finding) -> String {
    match &finding.status {
        Status::Lingering { found } => format!("{found} is still present"),
        Status::Other { found } => {
            format!("{} is missing (found {found})", finding.entries.join(" "))
        }
        Status::Reordered { found, .. } => {
            format!("{} is in another order ({found})", finding.entries.join(" "))
        }
        _ => format!("{} is missing", finding.entries.join(" ")),
    }
}

/// Same as [`check_line`], for texts from a plan or the ledger.
///
/// # Errors
/// [`WrongLine`] if a text is not an argument or the line does not match.
pub(crate) fn check_texts(
    reader: &dyn Reader,
    facts: &Facts,
    line: &CommandLine,
    present: &[String],
    absent: &[String],
) -> Result<(), WrongLine> {
    let tokens = |texts: &[String]| -> Result<Vec<Token>, TokenError> {
        texts.iter().map(|text| Token::new(text)).collect()
    };
    check_line(reader, facts, line, tokens(present)?, tokens(absent)?)
}

/// Checks that a line has all arguments of `present` and no argument of `absent`. A bare key in `absent` matches any
/// value.
///
/// # Errors
/// [`WrongLine`] if the arguments contradict each other or the line does not match.
pub(crate) fn check_line<T: AsRef<Token>>(
    reader: &dyn Reader,
    facts: &Facts,
    line: &CommandLine,
    present: impl IntoIterator<Item = T>,
    absent: impl IntoIterator<Item = T>,
) -> Result<(), WrongLine> {
    let edit = Edit::new(arch(facts), present)?.without(absent)?;
    let defaults = kernel_defaults(reader, facts);
    let mut wrong = edit.satisfied_for_all(line, &defaults);
    wrong.retain(|finding| !finding.status.is_satisfied());
    if wrong.is_empty() { Ok(()) } else { Err(WrongLine::Differs(wrong)) }
}
