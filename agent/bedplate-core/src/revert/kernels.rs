//! kernel-install on the way back: the tool of each kernel makes the entries of that kernel, and a kernel that is gone needs
//! neither. Where the file that it takes the line from goes, it would take /proc/cmdline, which has bedplate's arguments:
//! the entries themselves are put back instead.

use std::collections::{BTreeMap, BTreeSet};

use super::RevertPlan;
use crate::kind::cmdline::{
    self, KERNEL_CMDLINE, VENDOR_CMDLINE, installed_release, is_kernel_gone, release_of_entry,
};
use crate::ledger::{FileState, Generator, Ledger};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Tools, each with the files that it makes.
pub(super) type Tools = BTreeMap<Generator, BTreeSet<String>>;

/// Where kernel-install has its line from after the revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file, as before.
    File,
    /// None: the file was bedplate's own. Entries are put back from the ledger.
    Lost,
    /// The same, and images or entries were made from it that the ledger does not have.
    Needed,
}

impl Source {
    pub(super) fn find<'f>(
        reader: &dyn Reader,
        ledger: &Ledger,
        facts: impl Fn() -> &'f Facts,
    ) -> Self {
        let record = ledger.files.get(KERNEL_CMDLINE);
        let goes = record.is_some_and(|record| record.original == FileState::Absent);
        if !goes || reader.exists(VENDOR_CMDLINE) == Ok(true) {
            return Source::File;
        }
        let is_image = matches!(facts().boot, BootLoader::SystemdBoot { uki: true });
        if is_image || has_later_entries(reader, ledger) { Source::Needed } else { Source::Lost }
    }

    /// Whether the tool makes its files as before.
    pub(super) fn makes(self, tool: &Generator) -> bool {
        self == Source::File || installed_release(&tool.argv).is_none()
    }

    /// Whether the file has the only copy of the line that boots.
    pub(super) fn is_needed(self, path: &str) -> bool {
        self == Source::Needed && path == KERNEL_CMDLINE
    }
}

/// Whether packages may have made entries with bedplate's arguments since.
fn has_later_entries(reader: &dyn Reader, ledger: &Ledger) -> bool {
    let Some(paths) = cmdline::entries(reader) else { return true };
    let owned = cmdline::owned(ledger);
    let carries = |path: &String| {
        let text = reader.text(path);
        text.map_or(true, |text| {
            text.split_whitespace().any(|word| owned.iter().any(|own| *own == word))
        })
    };
    let is_entry = |path: &&String| path.ends_with(".conf") && !ledger.files.contains_key(*path);
    paths.iter().filter(is_entry).any(carries)
}

/// Gives each tool of kernel-install the entries of its kernel (the ledger has all of them as made by the one that ran last),
/// and drops those of kernels that are gone.
pub(super) fn assign(plan: &mut RevertPlan, reader: &dyn Reader, tools: Tools) -> Tools {
    let release = |tool: &Generator| installed_release(&tool.argv).map(str::to_owned);
    let releases: Vec<String> = tools.keys().filter_map(release).collect();
    let entries: BTreeSet<String> = tools
        .iter()
        .filter(|(tool, _)| release(tool).is_some())
        .flat_map(|(_, makes)| makes.iter().cloned())
        .collect();
    let mut assigned = Tools::new();
    for (tool, makes) in tools {
        let Some(release) = release(&tool) else {
            assigned.insert(tool, makes);
            continue;
        };
        if is_kernel_gone(reader, &release) {
            plan.notes.push(format!(
                "Linux {release} is gone with its boot entry: nothing is made for it"
            ));
            continue;
        }
        let is_own = |path: &&String| release_of_entry(path, &releases) == Some(release.as_str());
        assigned.insert(tool, entries.iter().filter(is_own).cloned().collect());
    }
    assigned
}
