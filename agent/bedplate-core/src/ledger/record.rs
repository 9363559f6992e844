//! Maintenance of records: recording before a change, settling after it. Pure: the caller passes the current state.

use std::collections::BTreeMap;

use super::{FileRecord, FileState, Generator, Ledger, PendingTool, Sha, UndoTool, Unfinished};
use crate::kind_id::KindId;

/// Origin of a write.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// Resource type.
    pub kind: KindId,
    /// Id of the change.
    pub change: &'a str,
}

impl FileRecord {
    /// Whether this content is bedplate's work or the original.
    pub fn knows(&self, content: Option<&Sha>) -> bool {
        self.original.sha() == content || self.ours.iter().any(|ours| ours.as_ref() == content)
    }

    /// Drops the state from before an earlier, interrupted run if the tool's file is complete. Packages have generated
    /// the file since, and the kernels in the earlier state may have been removed.
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
    /// Records that a file is about to be set to `to`. `now` is the current state; `readers` generate other files from
    /// it.
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
            // The same tool may have another time limit and purpose in this version.
            match record.readers.iter_mut().find(|known| *known == tool) {
                Some(known) => known.clone_from(tool),
                None => record.readers.push(tool.clone()),
            }
        }
        // Written directly: from here on the file is not only a tool's product.
        record.generator = None;
        if !record.ours.contains(&to) {
            record.ours.push(to.clone());
        }
        record.unfinished.iter_mut().for_each(|cut| cut.wrote.push(to.clone()));
    }

    /// Records that a file is about to be written again with its own content. `readers` are the tools of the change: until
    /// they have run, the file waits for them.
    pub fn begin_renewal(
        &mut self,
        path: &str,
        author: Author,
        now: &FileState,
        readers: &[Generator],
    ) {
        self.begin_file(path, author, now, now.sha().cloned(), readers);
    }

    /// Records that a tool is about to rewrite a file. `now` is the current state; `generator` is set if the tool
    /// generates the file from others. If the file is incomplete, keeps the state from before the run that left it.
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
        // A file of another resource type keeps its generator.
        if fresh || (record.generator.is_some() && record.kind == author.kind) {
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
        // Any program may have generated a tool's product again, so a difference is not an edit.
        record.edited |= !known && record.generator.is_none();
        // An interrupted change keeps its previous state, unless the file has been edited since. An interrupted tool
        // may have left an incomplete file.
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

    /// Takes over a file of bedplate's that was not in the ledger. Its original state is absent.
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

    /// Records that a tool has ended, successfully or not; `now` is the content of a file that it may rewrite.
    pub fn tool_left(&mut self, path: &str, now: Option<Sha>) {
        let Some(record) = self.files.get_mut(path) else { return };
        record.unfinished.iter_mut().for_each(|cut| cut.wrote.push(now.clone()));
        if !record.ours.contains(&now) {
            record.ours.push(now);
        }
    }

    /// Records that the change of a file is done; `now` is the current state. Content that bedplate did not write is an
    /// edit, which `revert` leaves alone, unless the file is generated: the tool may have run again.
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

    /// Drops the files that the tools of a resource type have generated and that a revert does not have to restore.
    pub fn forget_products(&mut self, kind: KindId) {
        self.files.retain(|_, record| record.kind != kind || record.generator.is_none());
    }

    /// Records that the change of a file is rolled back, and the file has its previous content. `earlier` is the record
    /// that the ledger had before the change.
    pub fn reset_file(&mut self, path: &str, earlier: Option<&FileRecord>) {
        let Some(record) = self.files.get_mut(path) else { return };
        match earlier {
            None => _ = self.files.remove(path),
            Some(earlier) if earlier.unfinished.is_none() => record.clone_from(earlier),
            // The interrupted run is rolled back, too.
            Some(_) => match record.unfinished.take() {
                Some(Unfinished { before, .. }) if before == record.original => {
                    self.files.remove(path);
                }
                Some(Unfinished { before, .. }) => record.ours = vec![before.sha().cloned()],
                None => {}
            },
        }
    }

    /// Records that the change of a file failed and another program has edited the file since: its content stays.
    pub fn leave_file(&mut self, path: &str) {
        let Some(record) = self.files.get_mut(path) else { return };
        record.unfinished = None;
        record.edited |= record.generator.is_none();
    }

    /// Returns the files with a change that has begun and is not known to be finished.
    pub fn unfinished(&self) -> impl Iterator<Item = &str> {
        let cut_short = self.files.iter().filter(|(_, record)| record.unfinished.is_some());
        cut_short.map(|(path, _)| path.as_str())
    }

    /// Whether a change was interrupted. A change that waits for pending tools was not.
    pub fn was_cut_short(&self) -> bool {
        self.cut_short().next().is_some()
    }

    /// Returns the files of interrupted changes, without those that wait for pending tools.
    pub fn cut_short(&self) -> impl Iterator<Item = &str> {
        let waits = |kind: KindId| self.owed.iter().any(|tool| tool.kind == kind);
        let is_cut_short =
            move |record: &FileRecord| record.unfinished.is_some() && !waits(record.kind);
        let cut_short = self.files.iter().filter(move |(_, record)| is_cut_short(record));
        cut_short.map(|(path, _)| path.as_str())
    }

    /// Returns the files that this change has begun to write and not finished.
    pub fn unfinished_of(&self, change: &str) -> Vec<String> {
        let of = |record: &FileRecord| {
            record.unfinished.as_ref().is_some_and(|unfinished| unfinished.change == change)
        };
        self.files.iter().filter(|(_, record)| of(record)).map(|(path, _)| path.clone()).collect()
    }

    /// Returns the files that this change has begun to write, and which this command generates.
    pub(crate) fn unfinished_products(&self, change: &str, argv: &[String]) -> Vec<String> {
        let is_made =
            |record: &FileRecord| record.generator.as_ref().is_some_and(|tool| tool.argv == argv);
        let mut paths = self.unfinished_of(change);
        paths.retain(|path| self.files.get(path).is_some_and(is_made));
        paths
    }

    /// Records that a tool must run.
    pub fn owe(&mut self, tool: PendingTool) {
        if !self.owes(tool.kind, &tool.argv) {
            self.owed.push(tool);
        }
    }

    /// Records new contents of the output files of pending tools, before a file is written that the tools read.
    pub fn owe_anew(&mut self, kind: KindId, outputs: &BTreeMap<String, Sha>) {
        let owed = self.owed.iter_mut().filter(|owed| owed.kind == kind);
        owed.for_each(|owed| owed.outputs.clone_from(outputs));
    }

    /// Whether this tool is pending for this resource type.
    pub fn owes(&self, kind: KindId, argv: &[String]) -> bool {
        self.owed.iter().any(|owed| owed.kind == kind && owed.argv == argv)
    }

    /// Records that bedplate is about to run a tool, if it is pending.
    pub fn begin_tool(&mut self, kind: KindId, argv: &[String]) {
        let owed = self.owed.iter_mut().filter(|owed| owed.kind == kind && owed.argv == argv);
        owed.for_each(|owed| owed.begun = true);
    }

    /// Records that a tool has run.
    pub fn remove_pending_tool(&mut self, kind: KindId, argv: &[String]) {
        self.owed.retain(|owed| owed.kind != kind || owed.argv != argv);
    }

    /// Records `tool` as the undo command of a tool that is about to run.
    pub fn begin_undo(&mut self, tool: UndoTool) {
        // An interrupted run that is repeated needs one undo.
        if !self.undo.last().is_some_and(|last| last.undoes_as(&tool)) {
            self.undo.push(tool);
        }
    }

    /// Drops an undo command whose tool did not run, or has been undone.
    pub fn drop_undo(&mut self, tool: &UndoTool) {
        if self.undo.last().is_some_and(|last| last.undoes_as(tool)) {
            self.undo.pop();
        }
    }

    /// Records that a change is about to set the resource type's list to `owns`. Until it is done, both lists are
    /// bedplate's.
    pub fn begin_owning(&mut self, kind: KindId, owns: &[String]) {
        let list = self.owned.entry(kind).or_default();
        for token in owns {
            if !list.contains(token) {
                list.push(token.clone());
            }
        }
    }

    /// Sets the resource type's list.
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
    fn product_of_another_kind_keeps_its_generator() {
        let mut ledger = Ledger::default();
        let absent = (&FileState::Absent, true);
        let mut run = |kind, paths: &[&str], tool: &str| {
            let argv = vec!["sdbootutil".to_owned(), tool.to_owned()];
            let generator = Generator { argv, purpose: String::new(), limit_s: 60 };
            for path in paths {
                let author = Author { kind, change: "x" };
                ledger.begin_tool_file(path, author, absent, Some(generator.clone()));
            }
        };
        run(KindId::Cmdline, &["/a.conf"], "update-all-entries");
        run(KindId::Modules, &["/a.conf", "/b.conf"], "mkinitrd");
        ledger.forget_products(KindId::Modules);
        let tools = ledger.files.values().filter_map(|record| record.generator.as_ref());
        let tools: Vec<&str> = tools.map(|tool| tool.argv[1].as_str()).collect();
        assert_eq!((ledger.files.len(), tools), (1, vec!["update-all-entries"]));
    }

    #[test]
    fn repeated_tool_gets_new_time_limit() {
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
