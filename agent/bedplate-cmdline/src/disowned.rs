//! What of an earlier profile's arguments an edit no longer speaks of: that is taken back, and nothing else.

use super::edit::Edit;
use super::key::{Key, WantedArgument};
use super::lex::Token;

impl Edit {
    /// The parts of `tokens` (arguments that an earlier edit put on the line) of which this one does not decide, as
    /// entries for `absent`. Of a sequence every member is decided: `hugepagesz=1G` alone owns less than
    /// `default_hugepagesz=1G hugepagesz=1G hugepages=16` together. What says nothing was never written.
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
    /// Whether an edit that owns this leaves nothing of `other` open.
    fn decides(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Sequence(params), Key::Param(name)) => params.contains(name),
            (Key::Sequence(params), Key::Sequence(others)) => {
                others.iter().all(|name| params.contains(name))
            }
            // Units that an old value excluded were not its own.
            (Key::Units { param, units }, Key::Units { param: other, units: old }) => {
                param == other && old.first().is_some_and(|unit| units.contains(unit))
            }
            _ => self == other,
        }
    }
}
