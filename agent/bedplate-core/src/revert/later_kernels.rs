//! Boot entries that would keep arguments which the revert removes elsewhere: packages have made them from bedplate's
//! files, for kernels that were installed after `bedplate apply`. The newest of them usually boots by default.

use std::collections::BTreeSet;
use std::slice;

use super::kernels::{Source, Tools};
use super::{RevertPlan, Step};
use crate::apply::saved_content;
use crate::kind::cmdline::{self, KERNEL_CMDLINE, VENDOR_CMDLINE};
use crate::ledger::{FileRecord, FileState, Ledger};
use bedplate_base::Reading;
use bedplate_cmdline::{CommandLine, Token};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Plans kernel-install for each installed kernel outside `tools` whose entry or image would keep an argument, and
/// returns these tools. Reports the entries that kernel-install does not make from the restored files.
pub(super) fn plan<'f>(
    plan: &mut RevertPlan,
    (reader, ledger): (&dyn Reader, &Ledger),
    (source, tools): (Source, &Tools),
    facts: &dyn Fn() -> &'f Facts,
) -> Tools {
    let mut later = Tools::new();
    if cmdline::owned(ledger).is_empty() {
        return later;
    }
    let search = Search { reader, ledger, facts: facts() };
    let removed = search.removed(plan);
    if removed.is_empty() {
        return later;
    }
    let Some(paths) = search.paths() else {
        let words = cmdline::named(&removed);
        // After a repair another revert may find no record of the arguments.
        let fix = format!(
            "make these directories readable, then remove `{words}` by hand from each entry that has it; make unified \
             kernel images with it again"
        );
        plan.refuse("arguments of boot entries", UNREAD, fix);
        return later;
    };
    let ran: BTreeSet<&str> =
        tools.keys().filter_map(|tool| cmdline::installed_release(&tool.argv)).collect();
    for path in paths {
        let kept = search.kept(plan, &path, &removed);
        if kept.is_empty() {
            continue;
        }
        if search.facts.boot == BootLoader::GrubBls {
            search.report_entry(plan, &path, &kept);
            continue;
        }
        let release = cmdline::release_of_entry(&path, &search.facts.os.installed_kernels);
        let Some(release) = release.filter(|release| !ran.contains(release)) else { continue };
        let tool = cmdline::entry_generator(reader, release);
        if source != Source::File {
            let words = cmdline::named(kept);
            let fix = format!(
                "write the whole line, without `{words}`, to {KERNEL_CMDLINE}, then run `{}`",
                tool.argv.join(" ")
            );
            plan.refuse(subject(&path), format!("keeps `{words}`: {NO_LINE}"), fix);
            continue;
        }
        let makes = later.entry(tool).or_default();
        // Unified kernel images are too large to save.
        if path.ends_with(".conf") {
            makes.insert(path);
        }
    }
    later
}

const NO_LINE: &str =
    "without /etc/kernel/cmdline, kernel-install uses those of the running kernel";
const UNREAD: &str = "the directories of boot entries cannot be listed, and entries of later kernels may keep bedplate's arguments";
const NEWER: &str = "newer than bedplate's change, so the ledger has no previous content";
const RECORDED: &str = "as before bedplate's first change of this file; to remove it";

/// Subject of a refusal. Must differ from the path, whose record would otherwise stay in the ledger.
fn subject(path: &str) -> String {
    format!("arguments of {path}")
}

/// Whether a file has the whole line of one or all kernels.
fn is_line_file(path: &str) -> bool {
    path == KERNEL_CMDLINE || cmdline::is_entry_file(path)
}

/// Search for entries that keep arguments.
struct Search<'a> {
    reader: &'a dyn Reader,
    ledger: &'a Ledger,
    facts: &'a Facts,
}

impl Search<'_> {
    /// Returns the paths of the entries, or of the images if this host boots from images. `None` if some may be unread.
    fn paths(&self) -> Option<Vec<String>> {
        let ending = match self.facts.boot {
            BootLoader::SystemdBoot { uki: true } => ".efi",
            BootLoader::SystemdBoot { uki: false } | BootLoader::GrubBls => ".conf",
            _ => return Some(Vec::new()),
        };
        let mut paths = cmdline::entries(self.reader)?;
        paths.retain(|path| path.ends_with(ending));
        Some(paths)
    }

    /// Returns bedplate's own arguments that the revert removes from a file. An argument that all of these files had
    /// before bedplate stays.
    fn removed(&self, plan: &RevertPlan) -> Vec<Token> {
        let is_reverted = |path: &str, record: &FileRecord| {
            record.generator.is_none() && is_line_file(path) && !is_refused(plan, path)
        };
        let files = self.ledger.files.iter().filter(|(path, record)| is_reverted(path, record));
        let lines: Vec<CommandLine> =
            files.filter_map(|(path, record)| self.original(path, record)).collect();
        let lacks = |line: &CommandLine, own: &Token| {
            cmdline::carried(line, slice::from_ref(own), self.facts).is_empty()
        };
        let mut owned = cmdline::owned(self.ledger);
        owned.retain(|own| lines.iter().any(|line| lacks(line, own)));
        owned
    }

    /// Returns the line of a file before bedplate. `None` if the file was absent and future entries then do not get the
    /// line of another file, or if the line is unknown.
    fn original(&self, path: &str, record: &FileRecord) -> Option<CommandLine> {
        let content = match &record.original {
            FileState::File { sha256, .. } => saved_content(self.reader, sha256).ok()?,
            FileState::Absent if self.facts.boot == BootLoader::GrubBls => return None,
            FileState::Absent => self.reader.read(VENDOR_CMDLINE).unwrap_or_default(),
        };
        Some(cmdline::content_line(path, &content, self.facts))
    }

    /// Returns those of the removed arguments that an entry has after the planned steps; all if it cannot be read.
    fn kept<'t>(&self, plan: &RevertPlan, path: &str, removed: &'t [Token]) -> Vec<&'t Token> {
        if is_refused(plan, path) {
            return Vec::new();
        }
        let restored = plan.steps.iter().find_map(|step| match step {
            Step::File { path: one, after, .. } if one == path => Some(after),
            _ => None,
        });
        let line = match restored {
            Some(None) => return Vec::new(),
            Some(Some(content)) => Some(cmdline::content_line(path, &content.bytes, self.facts)),
            None => cmdline::file_line(self.reader, path, self.facts),
        };
        match line {
            Some(line) => cmdline::carried(&line, removed, self.facts),
            None => removed.iter().collect(),
        }
    }

    /// Reports an entry of GRUB. bedplate edits these entries itself, and cannot tell whether an argument in one without
    /// a record is its own or an operator's.
    fn report_entry(&self, plan: &mut RevertPlan, path: &str, kept: &[&Token]) {
        let content = self.reader.read(path).unwrap_or_default();
        let kernel = cmdline::entry_kernel(self.reader, path, &content);
        let is_recorded = self.ledger.files.contains_key(path);
        if kernel == Reading::Absent || !(is_recorded || self.is_later(path)) {
            return;
        }
        let words = cmdline::named(kept.iter().copied());
        let text = String::from_utf8_lossy(&content);
        let is_word = |token: &&Token| {
            is_plain(token.as_str()) && text.split_whitespace().any(|word| word == token.as_str())
        };
        let fix = match kernel {
            Reading::Known(image) if is_plain_path(&image) && kept.iter().all(is_word) => {
                format!("run `grubby --update-kernel={image} --remove-args=\"{words}\"`")
            }
            _ => format!("remove `{words}` from the `options` line of {path}"),
        };
        match is_recorded {
            true => plan.notes.push(format!("{path} keeps `{words}`, {RECORDED}, {fix}")),
            false => plan.refuse(subject(path), format!("keeps `{words}`: {NEWER}"), fix),
        }
    }

    /// Whether an entry may have been made since bedplate's change: it is not older than all files that bedplate wrote.
    fn is_later(&self, path: &str) -> bool {
        let written = self.ledger.files.keys().filter(|path| is_line_file(path));
        let first = written.filter_map(|path| self.reader.modified(path).ok()).min();
        let made = self.reader.modified(path).ok();
        first.zip(made).is_none_or(|(first, made)| made >= first)
    }
}

/// Whether a shell reads a text between double quotes unchanged. An image and its ledger may be hostile, and operators
/// run the command of a fix.
fn is_plain(text: &str) -> bool {
    !text.contains(['"', '$', '`', '\\', '!'])
}

/// Whether a shell reads a path without quotes unchanged.
fn is_plain_path(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || "/._+~-".contains(c))
}

fn is_refused(plan: &RevertPlan, path: &str) -> bool {
    plan.refused.iter().any(|refused| refused.subject == path)
}
