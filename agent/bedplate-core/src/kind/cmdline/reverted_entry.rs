//! Checks the default boot entry across a revert. Tools make entries from more than bedplate reverts. Arguments that
//! the entry had and that are still configured must survive, and so must its root and its initrd.

use super::boot_entry::{self, BootEntry};
use super::entry_before::{self, is_of_the_root};
use super::only_in_entry::{OF_THE_ENTRY, has};
use super::{backend, next_kernel, root_device, soundness};
use crate::plan::EntryBefore;
use bedplate_base::Reading;
use bedplate_cmdline::{CommandLine, Token};
use bedplate_facts::Facts;
use bedplate_host::Reader;

/// State of the entry before the revert.
pub(crate) struct RevertedEntry {
    entry: Option<BootEntry>,
    faults: Vec<String>,
}

/// Faults of the entry after a revert.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryFaults {
    /// Faults that the revert caused.
    pub new: Vec<String>,
    /// Faults that the entry had before.
    pub old: Vec<String>,
}

impl RevertedEntry {
    /// Reads the entry.
    pub(crate) fn read(reader: &dyn Reader, facts: &Facts) -> Self {
        let entry = boot_entry::default(reader, facts).known().cloned();
        RevertedEntry { entry, faults: faults(reader, facts) }
    }

    /// Reads the entry again and returns its faults. `owned` are the arguments that bedplate owned.
    pub(crate) fn compare(
        &self,
        reader: &dyn Reader,
        facts: &Facts,
        owned: &[Token],
    ) -> EntryFaults {
        // Tools may have made another kernel the default.
        let mut facts = facts.clone();
        facts.os.next_kernel = next_kernel(reader, &facts);
        let mut new = match (&self.entry, boot_entry::default(reader, &facts)) {
            (None, _) => Vec::new(),
            (Some(_), Reading::Absent) => vec!["no boot entry to read back".to_owned()],
            (Some(_), Reading::Unknown(why)) => vec![format!("entry unreadable: {why}")],
            (Some(old), Reading::Known(entry)) => entry_before::lost_arguments(
                reader,
                &entry,
                &entry_to_keep(reader, &facts, old, owned),
            ),
        };
        let (old, more): (Vec<String>, Vec<String>) =
            faults(reader, &facts).into_iter().partition(|fault| self.faults.contains(fault));
        new.extend(more);
        EntryFaults { new, old }
    }
}

fn faults(reader: &dyn Reader, facts: &Facts) -> Vec<String> {
    soundness(reader, facts).faults.into_iter().map(|fault| fault.reason).collect()
}

/// Returns the parts that the entry must keep: arguments that are configured after the revert, and those that find its
/// root.
fn entry_to_keep(
    reader: &dyn Reader,
    facts: &Facts,
    entry: &BootEntry,
    owned: &[Token],
) -> EntryBefore {
    let configured = backend(&facts.boot).ok().map(|one| (one.observe)(reader, facts).configured);
    let configured = configured.as_ref().and_then(Reading::known);
    let owned = CommandLine::from_tokens(owned.iter().cloned());
    let stays = |token: &&Token| {
        let name = token.folded_name();
        let is_configured = configured.is_some_and(|line| has(line, token));
        let is_needed = is_of_the_root(token) && !has(&owned, token);
        name != "root" && !OF_THE_ENTRY.contains(&name.as_str()) && (is_configured || is_needed)
    };
    EntryBefore {
        arguments: entry.line.tokens().filter(stays).map(Token::to_string).collect(),
        root: root_device::root(&entry.line),
        initrd: entry_before::has_initrd(entry),
    }
}
