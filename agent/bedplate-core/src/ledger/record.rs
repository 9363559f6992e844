//! How records come and go: what is written down before something is changed, and what is left of it afterwards.
//! Pure: the caller says what is there now.

use std::collections::BTreeMap;

use super::{FileRecord, FileState, Generator, Ledger, PendingTool, Sha, UndoTool, Unfinished};
use crate::kind_id::KindId;

/// Who is about to write something.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// The kind.
    pub kind: KindId,
    /// The change's id.
    pub change: &'a str,
}

impl FileRecord {
    /// Whether this content is bedplate's work or what it found.
    pub fn knows(&self, content: Option<&Sha>) -> bool {
        self.original.sha() == content || self.ours.iter().any(|ours| ours.as_ref() == content)
    }

    /// A whole file that a tool makes is worth more than what was there before an earlier run that was cut short: packages
    /// have made it since, and the kernels of the other may be gone.
    fn forget_cut_run(&mut self, author: Author, now: &FileState) {
        let sha = now.sha().cloned();
        let is_generated = self.generator.is_some();
        self.unfinished.take_if(|cut| {
            let is_of_this_run = cut.change == author.change && cut.wrote.contains(&sha);
            is_generated && !is_of_this_run
        });
    }
}

impl Ledger {
    /// A file is about to become `to`; `now` is what is there, and `readers` the tools that make others from it.
    pub fn begin_file(
        &mut self,
        path: &str,
        author: Author,
        now: &FileState,
        to: Option<Sha>,
        readers: &[Generator],
    ) {
        let record = self.begin(path, author, now);
        for tool in readers {
            // The same tool, with what this version gives it: time and purpose.
            match record.readers.iter_mut().find(|known| *known == tool) {
                Some(known) => known.clone_from(tool),
                None => record.readers.push(tool.clone()),
            }
        }
        // Written directly: from here on it is not (only) a tool's product.
        record.generator = None;
        if !record.ours.contains(&to) {
            record.ours.push(to.clone());
        }
        record.unfinished.iter_mut().for_each(|cut| cut.wrote.push(to.clone()));
    }

    /// A tool is about to rewrite a file; `now` is what is there, `generator` set if the tool makes it from others. Where the
    /// file is not whole, what was there before the run that left it is kept.
    pub fn begin_tool_file(
        &mut self,
        path: &str,
        author: Author,
        (now, is_whole): (&FileState, bool),
        generator: Option<Generator>,
    ) {
        let fresh = !self.files.contains_key(path);
        if is_whole && let Some(record) = self.files.get_mut(path) {
            record.forget_cut_run(author, now);
        }
        let record = self.begin(path, author, now);
        if fresh || record.generator.is_some() {
            record.generator = generator;
        }
    }

    fn begin(&mut self, path: &str, author: Author, now: &FileState) -> &mut FileRecord {
        let record = self.files.entry(path.to_owned()).or_insert_with(|| FileRecord {
            kind: author.kind,
            original: now.clone(),
            ours: Vec::new(),
            unfinished: None,
            edited: false,
            generator: None,
            readers: Vec::new(),
        });
        let known = record.knows(now.sha());
        // A tool's product may have been made again by anybody: that is no edit.
        record.edited |= !known && record.generator.is_none();
        // A change that was cut short keeps what was there before it, unless the file has been changed since. What a tool
        // that was cut short has left may be half a file.
        let sha = now.sha().cloned();
        record.unfinished = Some(match record.unfinished.take() {
            Some(earlier)
                if earlier.wrote.contains(&sha)
                    || earlier.before.sha() == now.sha()
                    || record.generator.is_some() =>
            {
                Unfinished { change: author.change.to_owned(), ..earlier }
            }
            _ => Unfinished::new(author.change, now.clone()),
        });
        record
    }

    /// A file of bedplate's that the ledger did not know is taken over: before it there was none.
    pub fn adopt(&mut self, path: &str, kind: KindId, content: Sha, reader: Option<Generator>) {
        let record = FileRecord {
            kind,
            original: FileState::Absent,
            ours: vec![Some(content)],
            unfinished: None,
            edited: false,
            generator: None,
            readers: reader.into_iter().collect(),
        };
        self.files.entry(path.to_owned()).or_insert(record);
    }

    /// A tool of a change has ended, whatever came of it; `now` is what it left in a file that it may rewrite.
    pub fn tool_left(&mut self, path: &str, now: Option<Sha>) {
        let Some(record) = self.files.get_mut(path) else { return };
        record.unfinished.iter_mut().for_each(|cut| cut.wrote.push(now.clone()));
        if !record.ours.contains(&now) {
            record.ours.push(now);
        }
    }

    /// The change of a file is done; `now` is what is there. What bedplate did not write is an edit, which `revert` leaves
    /// alone, unless a tool makes the file from others: that may have run again.
    pub fn settle_file(&mut self, path: &str, now: &FileState) {
        let Some(record) = self.files.get_mut(path) else { return };
        if record.original == *now {
            self.files.remove(path);
            return;
        }
        let wrote = record.unfinished.take().map(|unfinished| unfinished.wrote).unwrap_or_default();
        let sha = now.sha().cloned();
        if record.generator.is_some() || wrote.contains(&sha) || record.ours.contains(&sha) {
            record.ours = vec![sha];
        } else {
            record.edited = true;
            record.ours = wrote.last().or(record.ours.last()).cloned().into_iter().collect();
        }
    }

    /// The change of a file is taken back, and the file holds what it held before it; `earlier` is the record that the
    /// ledger had before the change.
    pub fn reset_file(&mut self, path: &str, earlier: Option<&FileRecord>) {
        let Some(record) = self.files.get_mut(path) else { return };
        match earlier {
            None => _ = self.files.remove(path),
            Some(earlier) if earlier.unfinished.is_none() => record.clone_from(earlier),
            // The run that was cut short is taken back, too.
            Some(_) => match record.unfinished.take() {
                Some(Unfinished { before, .. }) if before == record.original => {
                    self.files.remove(path);
                }
                Some(Unfinished { before, .. }) => record.ours = vec![before.sha().cloned()],
                None => {}
            },
        }
    }

    /// The change of a file failed, and another program has edited the file since: what is there stays.
    pub fn leave_file(&mut self, path: &str) {
        let Some(record) = self.files.get_mut(path) else { return };
        record.unfinished = None;
        record.edited |= record.generator.is_none();
    }

    /// Files of which a change has begun and was not finished, as far as is known.
    pub fn unfinished(&self) -> impl Iterator<Item = &str> {
        let cut_short = self.files.iter().filter(|(_, record)| record.unfinished.is_some());
        cut_short.map(|(path, _)| path.as_str())
    }

    /// Whether a change was cut short. Where tools are owed it waits for them.
    pub fn was_cut_short(&self) -> bool {
        self.cut_short().next().is_some()
    }

    /// Files of changes that were cut short, not of those that wait for owed tools.
    pub fn cut_short(&self) -> impl Iterator<Item = &str> {
        let waits = |kind: KindId| self.owed.iter().any(|tool| tool.kind == kind);
        let is_cut_short =
            move |record: &FileRecord| record.unfinished.is_some() && !waits(record.kind);
        let cut_short = self.files.iter().filter(move |(_, record)| is_cut_short(record));
        cut_short.map(|(path, _)| path.as_str())
    }

    /// Files that this change has begun to write and has not finished with.
    pub fn unfinished_of(&self, change: &str) -> Vec<String> {
        let of = |record: &FileRecord| {
            record.unfinished.as_ref().is_some_and(|unfinished| unfinished.change == change)
        };
        self.files.iter().filter(|(_, record)| of(record)).map(|(path, _)| path.clone()).collect()
    }

    /// A tool has to run, come what may.
    pub fn owe(&mut self, tool: PendingTool) {
        if !self.owes(tool.kind, &tool.argv) {
            self.owed.push(tool);
        }
    }

    /// A file that owed tools read is about to be written: `outputs` are the present contents of the files that they make.
    pub fn owe_anew(&mut self, kind: KindId, outputs: &BTreeMap<String, Sha>) {
        let owed = self.owed.iter_mut().filter(|owed| owed.kind == kind);
        owed.for_each(|owed| owed.outputs.clone_from(outputs));
    }

    /// Whether this tool has still to run for this kind.
    pub fn owes(&self, kind: KindId, argv: &[String]) -> bool {
        self.owed.iter().any(|owed| owed.kind == kind && owed.argv == argv)
    }

    /// bedplate is about to run a tool that may be owed.
    pub fn begin_tool(&mut self, kind: KindId, argv: &[String]) {
        let owed = self.owed.iter_mut().filter(|owed| owed.kind == kind && owed.argv == argv);
        owed.for_each(|owed| owed.begun = true);
    }

    /// A tool has run.
    pub fn remove_pending_tool(&mut self, kind: KindId, argv: &[String]) {
        self.owed.retain(|owed| owed.kind != kind || owed.argv != argv);
    }

    /// A tool is about to run that this one undoes.
    pub fn begin_undo(&mut self, tool: UndoTool) {
        // A run that was cut short and is done again is undone once.
        if !self.undo.last().is_some_and(|last| last.undoes_as(&tool)) {
            self.undo.push(tool);
        }
    }

    /// That tool has not run after all, or has been undone.
    pub fn drop_undo(&mut self, tool: &UndoTool) {
        if self.undo.last().is_some_and(|last| last.undoes_as(tool)) {
            self.undo.pop();
        }
    }

    /// A change is about to make `owns` the kind's list: until it is done, both are bedplate's own.
    pub fn begin_owning(&mut self, kind: KindId, owns: &[String]) {
        let list = self.owned.entry(kind).or_default();
        for token in owns {
            if !list.contains(token) {
                list.push(token.clone());
            }
        }
    }

    /// The kind's list is this now.
    pub fn settle_owning(&mut self, kind: KindId, owns: &[String]) {
        if owns.is_empty() {
            self.owned.remove(&kind);
        } else {
            self.owned.insert(kind, owns.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_gets_the_time_that_this_version_gives_it() {
        let mut ledger = Ledger::default();
        let author = Author { kind: KindId::Cmdline, change: "cmdline/x" };
        for limit_s in [60, 300] {
            let argv = vec!["update-grub".to_owned()];
            let tool = Generator { argv, purpose: "make grub.cfg".to_owned(), limit_s };
            ledger.begin_file("/x", author, &FileState::Absent, None, &[tool]);
        }
        let limits: Vec<u32> = ledger.files["/x"].readers.iter().map(|tool| tool.limit_s).collect();
        assert_eq!(limits, [300]);
    }
}
