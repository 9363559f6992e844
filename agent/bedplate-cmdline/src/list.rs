//! Taking out, replacing and adding single options of a list parameter, and merging its occurrences.
//! Arguments in which nothing changes are never rewritten.

use super::error::{ApplyError, unwritable};
use super::lex::Token;
use super::line::CommandLine;
use super::occurrences::Occurrence;
use super::shape::OptionList;

/// Where the arguments of a (folded) list parameter stand that have a value.
pub(super) fn list_positions(line: &CommandLine, param: &str) -> Vec<usize> {
    let valued =
        |(_, token): &(usize, &Token)| token.folded_name() == param && token.value().is_some();
    line.tokens().enumerate().filter(valued).map(|(at, _)| at).collect()
}

/// Takes a speaker off the line. When that leaves nothing of its argument, `instead` takes the argument's place.
/// Says whether it did.
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

/// Writes another option where the speaker stands.
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

/// Adds an option to the argument at `at`, or as an argument of its own at the end.
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

/// Rewrites the value of the argument at `at`, its name as spelled; without parts the argument goes.
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

/// Makes one argument of all occurrences of a list parameter, at the place of the first, options in order.
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
