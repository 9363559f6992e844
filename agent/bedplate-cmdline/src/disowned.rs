//! Parts of an earlier profile's arguments that an edit no longer owns. Only these are removed from the line.

use super::edit::Edit;
use super::key::{Key, WantedArgument};
use super::lex::Token;

impl Edit {
    /// Returns the parts of `tokens` (written by an earlier edit) that this edit does not own, as entries for `absent`.
    /// A sequence is owned only if all of its members are: `hugepagesz=1G` alone owns less than `default_hugepagesz=1G
    /// hugepagesz=1G hugepages=16`. Skips invalid tokens, because no edit could have written them.
    pub fn disowned(&self, tokens: &[Token]) -> Vec<Token> {
        let parts = tokens
            .iter()
            .flat_map(|token| Edit::new(self.arch, [token]).map(|one| one.set).unwrap_or_default());
        let decides =
            |old: &WantedArgument| self.set.iter().any(|wanted| wanted.key.decides(&old.key));
        parts.filter(|old| !decides(old)).flat_map(|old| old.rendered()).collect()
    }
}

impl Key {
    /// Whether an edit that owns `self` owns all of `other`.
    fn decides(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Sequence(params), Key::Param(name)) => params.contains(name),
            (Key::Sequence(params), Key::Sequence(others)) => {
                others.iter().all(|name| params.contains(name))
            }
            // The old value excluded its other units but did not own them.
            (Key::Units { param, units }, Key::Units { param: other, units: old }) => {
                param == other && old.first().is_some_and(|unit| units.contains(unit))
            }
            _ => self == other,
        }
    }
}
