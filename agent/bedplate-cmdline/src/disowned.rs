//! What of an earlier profile's arguments an edit no longer speaks of: that is taken back, and nothing else.

use bedplate_base::Arch;

use super::edit::Edit;
use super::key::{Key, WantedArgument};

impl Edit {
    /// The parts of `tokens` (arguments that an earlier edit put on the line) of which this one does not decide, as
    /// entries for `absent`. Of a sequence every member is decided: `hugepagesz=1G` alone owns less than
    /// `default_hugepagesz=1G hugepagesz=1G hugepages=16` together. What can no longer be read was never written.
    pub fn disowned<S: AsRef<str>>(&self, tokens: &[S]) -> Vec<String> {
        let parts = tokens.iter().flat_map(|token| parts(token.as_ref(), self.arch));
        let decides =
            |old: &WantedArgument| self.set.iter().any(|wanted| wanted.key.decides(&old.key));
        parts
            .filter(|old| !decides(old))
            .flat_map(|old| old.rendered())
            .map(|token| token.as_str().to_owned())
            .collect()
    }
}

/// What one argument alone is for.
fn parts(token: &str, arch: Arch) -> Vec<WantedArgument> {
    let nothing: [&str; 0] = [];
    Edit::new(arch, &[token], &nothing).map(|edit| edit.set).unwrap_or_default()
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
