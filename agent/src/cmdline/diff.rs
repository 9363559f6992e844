//! What changed between two lines, for reports and for back ends that can only add.

use std::collections::BTreeMap;

use serde::Serialize;

use super::lex::Token;
use super::line::CommandLine;

/// Arguments that one line has and the other has not, each in the order of its line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineDiff {
    /// Only on the old line.
    pub removed: Vec<String>,
    /// Only on the new line.
    pub added: Vec<String>,
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

/// The arguments that `new` has after all of `old`; `None` when `new` is not `old` with something appended.
pub fn appended(old: &CommandLine, new: &CommandLine) -> Option<Vec<Token>> {
    let mut rest = new.tokens();
    for token in old.tokens() {
        if rest.next() != Some(token) {
            return None;
        }
    }
    Some(rest.cloned().collect())
}

/// The arguments of `one` that `other` has not, counting repetitions.
fn without(one: &CommandLine, other: &CommandLine) -> Vec<String> {
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
    one.tokens().filter(missing).map(|token| token.as_str().to_owned()).collect()
}
