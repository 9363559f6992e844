//! Removes, replaces and adds single options of a list parameter, and merges its occurrences. Never rewrites an
//! argument in which nothing changes.

use super::error::{ApplyError, unwritable};
use super::lex::Token;
use super::line::CommandLine;
use super::occurrences::Occurrence;
use super::shape::OptionList;

/// Returns the positions of a (folded) list parameter's arguments that have a value.
pub(super) fn list_positions(line: &CommandLine, param: &str) -> Vec<usize> {
    let valued =
        |(_, token): &(usize, &Token)| token.folded_name() == param && token.value().is_some();
    line.tokens().enumerate().filter(valued).map(|(at, _)| at).collect()
}

/// Removes an occurrence from the line. If its argument is then empty, puts `instead` in its place and returns true.
pub(super) fn take_out(
    line: &mut CommandLine,
    speaker: &Occurrence,
    instead: Option<&Token>,
) -> Result<bool, ApplyError> {
    let mut left = parts_at(line, speaker.token);
    match speaker.part {
        Some(part) if left.len() > 1 && part < left.len() => {
            left.remove(part);
            write_parts(line, speaker.token, &left)?;
            Ok(false)
        }
        _ => {
            match instead {
                Some(token) => line.replace(speaker.token, token.clone()),
                None => line.remove(speaker.token),
            }
            Ok(instead.is_some())
        }
    }
}

/// Writes another option in place of an occurrence.
pub(super) fn replace_part(
    line: &mut CommandLine,
    speaker: &Occurrence,
    text: &str,
) -> Result<(), ApplyError> {
    let mut parts = parts_at(line, speaker.token);
    if let Some(part) = speaker.part.and_then(|part| parts.get_mut(part)) {
        if part == text {
            return Ok(());
        }
        text.clone_into(part);
    }
    write_parts(line, speaker.token, &parts)
}

/// Adds an option to the argument at `at`, or as a new argument at the end.
pub(super) fn push_part(
    line: &mut CommandLine,
    at: Option<usize>,
    param: &str,
    text: &str,
) -> Result<(), ApplyError> {
    let Some(at) = at else {
        let token =
            Token::from_parts(param, Some(text)).map_err(|source| unwritable(param, source))?;
        line.push(token);
        return Ok(());
    };
    let mut parts = parts_at(line, at);
    parts.push(text.to_owned());
    write_parts(line, at, &parts)
}

/// Rewrites the value of the argument at `at` and keeps the spelling of its name. Without parts, removes the argument.
pub(super) fn write_parts(
    line: &mut CommandLine,
    at: usize,
    parts: &[String],
) -> Result<(), ApplyError> {
    let Some(old) = line.token(at) else { return Ok(()) };
    if parts.is_empty() {
        line.remove(at);
        return Ok(());
    }
    let token = Token::from_parts(&old.name(), Some(&parts.join(",")))
        .map_err(|source| unwritable(&old.folded_name(), source))?;
    line.replace(at, token);
    Ok(())
}

/// Merges all occurrences of a list parameter into the first, options in order.
pub(super) fn merge_arguments(line: &mut CommandLine, param: &str) -> Result<(), ApplyError> {
    let positions = list_positions(line, param);
    let [first, others @ ..] = positions.as_slice() else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    let parts: Vec<String> = positions.iter().flat_map(|at| parts_at(line, *at)).collect();
    for at in others.iter().rev() {
        line.remove(*at);
    }
    write_parts(line, *first, &parts)
}

fn parts_at(line: &CommandLine, at: usize) -> Vec<String> {
    let value = line.token(at).and_then(|token| token.value());
    value.map_or_else(Vec::new, |value| OptionList::options(&value).map(str::to_owned).collect())
}
