//! Rebuilds of the initramfs that a revert must not run, and the files that they make.

use std::collections::BTreeSet;

use super::RevertPlan;
use crate::apply::find_file;
use crate::kind::cmdline::{self, Obstacle};
use crate::kind::modules::{is_mkinitrd, is_of_image};
use crate::ledger::{FileRecord, Generator, Ledger};
use bedplate_facts::Facts;
use bedplate_host::{HostKind, Reader, Writer};

const OF_THE_IMAGE: &str = "this host's initramfs belongs to its image, which alone can remove these module options \
                            from it";
const IN_THE_BUILD: &str =
    "remove the module options from the profile of the image build, then deploy the new image";

/// Refuses to restore files if the rebuild of the initramfs that follows is not possible on this host, or would change
/// more than the initramfs. Returns the files and the pending tools that the revert must leave as they are.
pub(super) fn refuse<'f>(
    plan: &mut RevertPlan,
    (reader, writer): (&dyn Reader, &dyn Writer),
    (ledger, force): (&Ledger, bool),
    facts: &dyn Fn() -> &'f Facts,
) -> BTreeSet<String> {
    let is_image = reader.kind() == HostKind::Image;
    let mut kept = BTreeSet::new();
    for (path, record) in files(ledger, is_of_image).filter(|_| !is_image) {
        // No refusal if a new image has already removed the file.
        let found = find_file(reader, writer, path);
        if !found.is_ok_and(|found| found.state == record.original) {
            plan.refuse(path, OF_THE_IMAGE, IN_THE_BUILD);
        }
        kept.insert(path.clone());
    }
    let read = files(ledger, is_mkinitrd).map(|(path, _)| path.clone());
    let owed = ledger.owed.iter().filter(|tool| is_mkinitrd(&tool.argv));
    let subjects: Vec<String> = read.chain(owed.map(|tool| tool.argv.join(" "))).collect();
    if !force
        && !subjects.is_empty()
        && let Err(Obstacle { reason, fix }) =
            cmdline::check_initramfs_revert(reader, facts(), ledger)
    {
        subjects.iter().for_each(|subject| plan.refuse(subject, &reason, &fix));
        kept.extend(subjects);
        // An interrupted rebuild has left boot entries in the ledger, which name it as their generator.
        let is_made = |tool: &Generator| is_mkinitrd(&tool.argv);
        let entries = ledger.files.iter();
        let entries = entries.filter(|(_, record)| record.generator.as_ref().is_some_and(is_made));
        kept.extend(entries.map(|(path, _)| path.clone()));
    }
    kept
}

/// Returns the files that a command makes: `recorded`, and for sdbootutil all boot entries, which each of its commands
/// makes again.
pub(super) fn made_by(
    argv: &[String],
    recorded: BTreeSet<String>,
    reader: &dyn Reader,
) -> Vec<String> {
    let mut made = recorded;
    if cmdline::makes_all_entries(argv) {
        let mut entries = cmdline::entries(reader).unwrap_or_default();
        entries.retain(|path| cmdline::is_entry_file(path));
        made.extend(entries);
    }
    made.into_iter().collect()
}

/// Returns the files that a command of this type reads.
fn files(
    ledger: &Ledger,
    is_such: fn(&[String]) -> bool,
) -> impl Iterator<Item = (&String, &FileRecord)> {
    let is_read = move |record: &FileRecord| record.readers.iter().any(|tool| is_such(&tool.argv));
    ledger.files.iter().filter(move |(_, record)| is_read(record))
}
