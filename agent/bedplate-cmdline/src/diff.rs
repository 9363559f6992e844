//! What changed between two lines, for reports and for back ends that can only add.

use std::collections::BTreeMap;

use serde::Serialize;

use super::edit::Edit;
use super::key::{Form, Key, WantedArgument};
use super::lex::Token;
use super::line::CommandLine;

/// Arguments that one line has and the other has not, each in the order of its line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineDiff {
    /// Only on the old line.
    pub removed: Vec<Token>,
    /// Only on the new line.
    pub added: Vec<Token>,
}

impl LineDiff {
    /// Compares two lines argument by argument, as written. Arguments that only moved do not show.
    pub fn between(old: &CommandLine, new: &CommandLine) -> LineDiff {
        LineDiff { removed: without(old, new), added: without(new, old) }
    }

    /// Whether both have the same arguments.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

impl Edit {
    /// What to take off `old` and to put behind the rest, so that it says what `new` says. A sequence of which something
    /// has to come before what stays goes whole: what is put behind cannot come first.
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

    /// Sequences that `old` has in another order than `new`, as `new` has them.
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

    /// Keys of parameters that are read in order.
    fn sequences(&self) -> impl Iterator<Item = &Key> {
        let is_sequence = |wanted: &&WantedArgument| matches!(wanted.form, Form::Tokens(_));
        self.wanted().iter().filter(is_sequence).map(|wanted| &wanted.key)
    }
}

fn members(key: &Key, line: &CommandLine) -> Vec<Token> {
    line.tokens().filter(|token| key.is_in_sequence(token)).cloned().collect()
}

/// Whether `new` is what stays of `old` with the rest behind it.
fn extends(old: &[Token], new: &[Token]) -> bool {
    let mut there = new.to_vec();
    let stays = old.iter().filter(|token| {
        let at = there.iter().position(|own| own == *token);
        at.map(|at| there.remove(at)).is_some()
    });
    let stays: Vec<&Token> = stays.collect();
    new.iter().zip(&stays).filter(|(new, stays)| new == *stays).count() == stays.len()
}

/// The arguments of `one` that `other` has not, counting repetitions.
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
