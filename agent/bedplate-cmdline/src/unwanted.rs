//! Matches and removes unwanted arguments, options and items.

use bedplate_base::Arch;

use super::error::ApplyError;
use super::key::{
    ListScope, Meaning, UnwantedArgument, UnwantedPattern, bool_meaning, names_option,
};
use super::lex::Token;
use super::line::CommandLine;
use super::list::write_parts;
use super::shape::{OptionList, Shape, shape_of};

/// Removes everything unwanted from the line.
pub(super) fn remove_unwanted(
    line: &mut CommandLine,
    unwanted: &UnwantedArgument,
    arch: Arch,
) -> Result<(), ApplyError> {
    for at in (0..line.len()).rev() {
        let Some(token) = line.token(at).cloned() else { continue };
        match unwanted_in(&token, unwanted, arch) {
            UnwantedPart::None => {}
            UnwantedPart::Whole => line.remove(at),
            UnwantedPart::Leaves(parts) => write_parts(line, at, &parts)?,
        }
    }
    Ok(())
}

/// The unwanted part of an argument.
enum UnwantedPart {
    None,
    Whole,
    /// Only a part of its value; these parts may stay.
    Leaves(Vec<String>),
}

fn unwanted_in(token: &Token, unwanted: &UnwantedArgument, arch: Arch) -> UnwantedPart {
    let name = token.folded_name();
    let value = token.value();
    let whole = |hit: bool| if hit { UnwantedPart::Whole } else { UnwantedPart::None };
    match &unwanted.form {
        UnwantedPattern::Name(unwanted) => whole(name == *unwanted),
        UnwantedPattern::Value { name: unwanted, meaning } => {
            let own = match shape_of(&name, arch) {
                Shape::Bool => bool_meaning(value.as_deref()),
                _ => Meaning::Text(value.map(|value| value.into_owned())),
            };
            whole(name == *unwanted && own == *meaning)
        }
        UnwantedPattern::Within { param, what } if name == *param => {
            let Some(value) = value else { return UnwantedPart::None };
            let (count, stay) = match shape_of(&name, arch) {
                Shape::Options(list) => {
                    split_parts(OptionList::options(&value), |part| !names_option(what, list, part))
                }
                Shape::Items(list) => split_parts(list.items(&value).into_iter(), |part| {
                    *what != ListScope::Meaning(list.meaning(part))
                }),
                _ => return UnwantedPart::None,
            };
            if stay.len() == count { UnwantedPart::None } else { UnwantedPart::Leaves(stay) }
        }
        UnwantedPattern::Within { .. } => UnwantedPart::None,
    }
}

/// Returns the number of parts, and those that may stay.
fn split_parts<'a>(
    parts: impl Iterator<Item = &'a str>,
    stays: impl Fn(&str) -> bool,
) -> (usize, Vec<String>) {
    let all: Vec<&str> = parts.collect();
    let stay = all.iter().filter(|part| stays(part)).map(|part| (*part).to_owned()).collect();
    (all.len(), stay)
}

/// Returns the first argument on the line that contains something unwanted.
pub(super) fn first_unwanted(
    line: &CommandLine,
    unwanted: &UnwantedArgument,
    arch: Arch,
) -> Option<String> {
    let hit = |token: &&Token| !matches!(unwanted_in(token, unwanted, arch), UnwantedPart::None);
    line.tokens().find(hit).map(|token| token.as_str().to_owned())
}
