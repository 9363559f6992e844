//! Differences between two lines, for reports and for back ends that can only append.

use std::collections::BTreeMap;

use serde::Serialize;

use super::edit::Edit;
use super::key::{Form, Key, WantedArgument};
use super::lex::Token;
use super::line::CommandLine;

/// Arguments that are on only one of two lines, each list in the order of its line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineDiff {
    /// Arguments only on the old line.
    pub removed: Vec<Token>,
    /// Arguments only on the new line.
    pub added: Vec<Token>,
}

impl LineDiff {
    /// Compares two lines argument by argument, as written. Ignores arguments that only moved.
    pub fn between(old: &CommandLine, new: &CommandLine) -> LineDiff {
        LineDiff { removed: without(old, new), added: without(new, old) }
    }

    /// Whether both lines have the same arguments.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

impl Edit {
    /// Returns the arguments to remove from `old` and to append, so that the result means the same as `new`. A sequence
    /// is replaced whole if a new member must precede one that stays, because appending cannot put it first.
    pub fn difference(&self, old: &CommandLine, new: &CommandLine) -> LineDiff {
        let moved: Vec<&Key> = self
            .sequences()
            .filter(|key| {
                !extends(&members(key, old), &members(key, new)) || key.is_overtaken(old, self.arch)
            })
            .collect();
        let stays = |token: &&Token| !moved.iter().any(|key| key.is_in_sequence(token));
        let rest =
            |line: &CommandLine| CommandLine::from_tokens(line.tokens().filter(stays).cloned());
        LineDiff { removed: without(old, &rest(new)), added: without(new, &rest(old)) }
    }

    /// Returns the sequences whose order differs between the lines, in the order of `new`.
    pub fn reordered(&self, old: &CommandLine, new: &CommandLine) -> Vec<Vec<Token>> {
        let sequences = self
            .sequences()
            .filter(|key| !key.is_overtaken(old, self.arch))
            .map(|key| (members(key, old), members(key, new)));
        let sorted = |tokens: &[Token]| {
            let mut tokens = tokens.to_vec();
            tokens.sort();
            tokens
        };
        sequences
            .filter(|(old, new)| old != new && sorted(old) == sorted(new))
            .map(|(_, new)| new)
            .collect()
    }

    /// Returns the keys of parameters that are read in order.
    fn sequences(&self) -> impl Iterator<Item = &Key> {
        let is_sequence = |wanted: &&WantedArgument| matches!(wanted.form, Form::Tokens(_));
        self.wanted().iter().filter(is_sequence).map(|wanted| &wanted.key)
    }
}

fn members(key: &Key, line: &CommandLine) -> Vec<Token> {
    line.tokens().filter(|token| key.is_in_sequence(token)).cloned().collect()
}

/// Whether `new` starts with the members it shares with `old`, in their old order.
fn extends(old: &[Token], new: &[Token]) -> bool {
    let mut there = new.to_vec();
    let stays = old.iter().filter(|token| {
        let at = there.iter().position(|own| own == *token);
        at.map(|at| there.remove(at)).is_some()
    });
    let stays: Vec<&Token> = stays.collect();
    new.iter().zip(&stays).filter(|(new, stays)| new == *stays).count() == stays.len()
}

/// Returns the arguments of `one` that `other` lacks, counting repetitions.
fn without(one: &CommandLine, other: &CommandLine) -> Vec<Token> {
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for token in other.tokens() {
        *there.entry(token.as_str()).or_default() += 1;
    }
    let missing = |token: &&Token| match there.get_mut(token.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    one.tokens().filter(missing).cloned().collect()
}
