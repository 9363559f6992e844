//! Revert of kernel-install. The tool of each kernel generates its entries; a removed kernel needs neither. If the file
//! with its kernel arguments is removed, kernel-install would use /proc/cmdline with bedplate's arguments, so entries
//! are restored from the ledger instead.

use std::collections::{BTreeMap, BTreeSet};

use super::RevertPlan;
use crate::kind::cmdline::{
    self, KERNEL_CMDLINE, VENDOR_CMDLINE, installed_release, is_kernel_gone, release_of_entry,
};
use crate::ledger::{FileState, Generator, Ledger};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Tools with their output files.
pub(super) type Tools = BTreeMap<Generator, BTreeSet<String>>;

/// Source of kernel-install's kernel arguments after the revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file, as before.
    File,
    /// No file: it was bedplate's own. Entries are restored from the ledger.
    Lost,
    /// No file either, but images or entries outside the ledger were generated from it.
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
        let facts = facts();
        match facts.boot {
            // Each entry of GRUB has its own line, and the host had no such file before.
            BootLoader::GrubBls => Source::Lost,
            BootLoader::SystemdBoot { uki: true } => Source::Needed,
            _ if has_later_entries(reader, ledger, facts) => Source::Needed,
            _ => Source::Lost,
        }
    }

    /// Whether the tool generates its files as before.
    pub(super) fn makes(self, tool: &Generator) -> bool {
        self == Source::File || installed_release(&tool.argv).is_none()
    }

    /// Whether the file has the only copy of the kernel arguments.
    pub(super) fn is_needed(self, path: &str) -> bool {
        self == Source::Needed && path == KERNEL_CMDLINE
    }
}

/// Whether packages may have generated entries with bedplate's arguments since.
fn has_later_entries(reader: &dyn Reader, ledger: &Ledger, facts: &Facts) -> bool {
    let Some(paths) = cmdline::entries(reader) else { return true };
    let owned = cmdline::owned(ledger);
    let carries = |path: &String| {
        let line = cmdline::file_line(reader, path, facts);
        line.is_none_or(|line| !cmdline::carried(&line, &owned, facts).is_empty())
    };
    let is_entry = |path: &&String| path.ends_with(".conf") && !ledger.files.contains_key(*path);
    paths.iter().filter(is_entry).any(carries)
}

/// Assigns to each kernel-install tool the entries of its kernel (in the ledger all belong to the one that ran last),
/// and drops those of removed kernels.
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
            plan.notes.push(format!("Linux {release} was removed with its boot entry: skipped"));
            continue;
        }
        let is_own = |path: &&String| release_of_entry(path, &releases) == Some(release.as_str());
        assigned.insert(tool, entries.iter().filter(is_own).cloned().collect());
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Author;
    use bedplate_facts::{Depth, observe};
    use bedplate_testhosts::HostSpec;

    /// Returns the source on a host where bedplate has created the file with the argument `own`. A package has since
    /// made an entry with these options.
    fn source(loader: &str, own: &str, options: &str) -> Source {
        let entry = format!("version 6.99.0\noptions {options}\nlinux /x\n");
        let host = format!(
            "machine = 'plain'\nloader = '{loader}'\n[files]\n\
             '/boot/loader/entries/0123-6.99.0.conf' = '''\n{entry}'''\n"
        );
        let host = HostSpec::from_toml(&host).unwrap().build();
        let facts = observe(&host, Depth::Plan);
        let owned = [(cmdline::NAME, vec![own.to_owned()])].into();
        let mut ledger = Ledger { owned, ..Ledger::default() };
        let author = Author { kind: cmdline::NAME, change: "cmdline/x" };
        ledger.begin_file(KERNEL_CMDLINE, author, &FileState::Absent, None, &[]);
        Source::find(&host, &ledger, || &facts)
    }

    #[test]
    fn later_entry_with_the_argument_needs_the_file() {
        for (own, options, expected) in [
            ("iommu=pt", "root=/dev/r ro iommu=pt", Source::Needed),
            ("iommu=pt", "root=/dev/r ro", Source::Lost),
            // As part of a list.
            ("pci=realloc", "root=/dev/r ro pci=noats,realloc", Source::Needed),
            ("pci=realloc", "root=/dev/r ro pci=noats", Source::Lost),
        ] {
            assert_eq!(source("systemd-boot", own, options), expected, "{own}: {options}");
        }
    }

    #[test]
    fn later_entry_of_grub_does_not_need_the_file() {
        assert_eq!(source("rhel9", "iommu=pt", "root=/dev/r ro iommu=pt"), Source::Lost);
    }
}
