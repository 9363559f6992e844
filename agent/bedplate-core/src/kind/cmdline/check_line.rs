//! The check after regeneration: does the default boot entry carry what the plan wants?

use super::arch;
use bedplate_cmdline::{CommandLine, Edit, EditError, Finding, Status, Token, TokenError};
use bedplate_facts::Facts;
use bedplate_facts::kernel_defaults::kernel_defaults;
use bedplate_host::Reader;

/// Why a line is wrong after regeneration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrongLine {
    /// A recorded text cannot be an argument.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The arguments contradict each other.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// What is missing or still there.
    #[error("{}", .0.iter().map(differs).collect::<Vec<_>>().join("; "))]
    Differs(Vec<Finding>),
}

fn differs(finding: &Finding) -> String {
    match &finding.status {
        Status::Lingering { found } => format!("{found} is still there"),
        Status::Other { found } => {
            format!("{} is not there ({found} is)", finding.entries.join(" "))
        }
        Status::Reordered { found, .. } => {
            format!("{} is there in another order ({found})", finding.entries.join(" "))
        }
        _ => format!("{} is not there", finding.entries.join(" ")),
    }
}

/// As [`check_line`], for the texts that a plan or the ledger holds.
///
/// # Errors
/// [`WrongLine`].
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

/// Checks that a line has the arguments of `present` and none of `absent`, in which a key stands for any value.
///
/// # Errors
/// [`WrongLine`].
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
