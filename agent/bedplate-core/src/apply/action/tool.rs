//! Runs the host's own tools. Files that a tool may rewrite are saved first.

use super::made_files::{self, Listing};
use super::{Operation, StepError, Store, Task, Undo, UndoList, expect, file, program};
use crate::kind::cmdline;
use crate::ledger::{Author, FileState, Generator, Ledger, REVERT, Sha, UndoTool, Unfinished};
use crate::plan::{Action, KindId, ToolUndo};
use bedplate_cmdline::boot::completeness::is_whole;
use bedplate_host::child::STANDARD;
use bedplate_host::{HostKind, package_lock};

/// [`Action::RunTool`].
pub(super) struct RunTool<'a> {
    pub argv: &'a [String],
    pub purpose: &'a str,
    pub touches: &'a [String],
    pub undo: &'a ToolUndo,
    pub limit_s: u32,
}

impl Operation for RunTool<'_> {
    fn describe(&self) -> String {
        format!("run {}", self.argv.join(" "))
    }

    fn diff(&self) -> String {
        format!("# run: {}\n", self.argv.join(" "))
    }

    fn plan_line(&self, _subject: &str) -> Option<String> {
        Some(self.describe())
    }

    /// Whether the tool is not pending and the files that it reads are as bedplate left them at its last
    /// success. Equal files alone prove nothing: another program may have written them without running the tool.
    /// Without files, the change's checks decide; in an image they miss arguments that an earlier profile left in the
    /// entry.
    fn is_done(&self, store: &Store, task: Task) -> bool {
        let Task { change, .. } = task;
        if store.ledger.owes(change.kind, self.argv) {
            return false;
        }
        let settled = |path: &str, content: Option<Sha>| {
            store
                .ledger
                .files
                .get(path)
                .is_some_and(|record| record.unfinished.is_none() && record.ours == [content])
        };
        let mut files = change.actions.iter().filter_map(|action| match action {
            Action::ReplaceFile { path, after, .. } => {
                Some(settled(path, after.as_ref().map(|after| Sha::digest(&after.bytes))))
            }
            _ => None,
        });
        match files.next() {
            Some(first) => first && files.all(|settled| settled),
            None => {
                let is_check = |action: &Action| matches!(action, Action::Verify(_));
                store.reader.kind() != HostKind::Image && change.actions.iter().any(is_check)
            }
        }
    }

    /// Rejects, before any write, a tool that an image lacks (on a running host the plan has checked), and any tool
    /// while a package manager runs.
    fn record(
        &self,
        store: &mut Store,
        _ledger: &mut Ledger,
        _task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        wait_for_packages(store)?;
        let Some(program) = self.argv.first().filter(|name| !name.contains('/')) else {
            return Ok(());
        };
        let is_in = |directory: &str| {
            // A directory that cannot be read may contain the program.
            store.reader.exists(&format!("{directory}/{program}")) != Ok(false)
        };
        let runs_in_image = store.reader.kind() == HostKind::Image && store.writer.runs_tools();
        match runs_in_image && !STANDARD.iter().any(|directory| is_in(directory)) {
            true => Err(StepError::new(format!(
                "{program} is missing in the image: install its package, or apply without --chroot-tools and run \
                 {program} in the image build"
            ))),
            false => Ok(()),
        }
    }

    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError> {
        let generator = (*self.undo == ToolUndo::Repeat).then(|| self.generator());
        let author = Author { kind: task.change.kind, change: &task.change.id };
        let before = Listing::read(store, self.touches)?;
        save_touched(store, author, &before.files, generator.as_ref())?;
        let ToolUndo::Run { argv: back } = self.undo else {
            let ended = run_touching(store, self.argv, self.limit_s, &before.files);
            let made = made_files::note(store, task, self.touches, &self.generator(), &before);
            return ended.and(made.map(|images| undo.extend(images)));
        };
        let record = UndoTool {
            kind: task.change.kind,
            argv: back.clone(),
            purpose: self.purpose.to_owned(),
            limit_s: self.limit_s,
        };
        // Must precede the run: an interrupted run may have done its work.
        store.update_ledger(|ledger| ledger.begin_undo(record.clone()))?;
        run_touching(store, self.argv, self.limit_s, &before.files)
            .inspect_err(|_| store.ledger.drop_undo(&record))?;
        undo.push(Box::new(RunUndoTool { record }));
        Ok(())
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        // Files matched by a pattern are in the ledger, which settles them at the end of the change.
        let mut files = self.touches.iter().filter(|path| !path.contains('*'));
        files.try_for_each(|path| file::record_result(store, ledger, path))
    }
}

impl RunTool<'_> {
    fn generator(&self) -> Generator {
        Generator {
            argv: self.argv.to_vec(),
            purpose: self.purpose.to_owned(),
            limit_s: self.limit_s,
        }
    }
}

/// Runs the tool that undoes another.
struct RunUndoTool {
    record: UndoTool,
}

impl Undo for RunUndoTool {
    fn subject(&self) -> String {
        self.record.purpose.clone()
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        program::run(store, &self.record.argv, self.record.limit_s)?;
        store.ledger.drop_undo(&self.record);
        Ok(())
    }
}

/// Saves the files that a tool may rewrite, and records in the ledger that it is about to.
fn save_touched(
    store: &mut Store,
    author: Author,
    touches: &[String],
    generator: Option<&Generator>,
) -> Result<(), StepError> {
    let mut before = Vec::new();
    for path in touches {
        let found = store.file(path)?;
        store.save_content(&found)?;
        let is_whole = is_whole(path, found.bytes.as_deref());
        before.push((path, found.state, is_whole));
    }
    store.update_ledger(|ledger| {
        for (path, state, is_whole) in &before {
            ledger.begin_tool_file(path, author, (state, *is_whole), generator.cloned());
        }
    })?;
    // An external edit that a tool merges into its output cannot be recognized afterwards. Generated files hold no
    // edits.
    for (path, state, _) in before.iter().filter(|_| generator.is_none()) {
        expect(store.file(path)?.state.sha() == state.sha(), path, "other content")?;
    }
    store.written.extend(touches.iter().cloned());
    Ok(())
}

/// Fails while a package manager runs: all of these tools write boot entries or the files that entries load, and so
/// does it.
pub(crate) fn wait_for_packages(store: &Store) -> Result<(), StepError> {
    match package_lock::held(store.reader) {
        Some(lock) => Err(StepError::new(package_lock::reason(lock))),
        None => Ok(()),
    }
}

/// Runs a tool, and records the resulting contents of the files that it may rewrite, even if it failed. Later contents
/// are attributed to other programs.
fn run_touching(
    store: &mut Store,
    argv: &[String],
    limit_s: u32,
    touches: &[String],
) -> Result<(), StepError> {
    wait_for_packages(store)?;
    let ended = program::run(store, argv, limit_s);
    for path in touches {
        // A file that cannot be read is not attributed to the tool.
        if let Ok(left) = store.file(path) {
            store.ledger.tool_left(path, left.state.sha().cloned());
        }
    }
    ended
}

/// Runs a tool again to generate the files `makes` from the restored files. Records the boot entries that it creates.
/// If it fails, restores the contents from right before the run, since half-written files must not stay. The contents
/// from before bedplate may name removed kernels.
pub(crate) fn repeat(
    store: &mut Store,
    kind: KindId,
    tool: &Generator,
    makes: &[String],
) -> Result<(), StepError> {
    let author = Author { kind, change: REVERT };
    // A tool that undoes another, such as rpm-ostree, manages its own entries.
    let is_undo = store.ledger.undo.iter().any(|undo| undo.argv == tool.argv);
    let entries = |store: &Store| match is_undo {
        true => Vec::new(),
        false => cmdline::written_entries(store.reader),
    };
    let before = Listing::read(store, &entries(store))?;
    save_touched(store, author, makes, Some(tool))?;
    // This tool may also rewrite what an earlier one of the revert has made.
    let touched: Vec<String> = store.written.iter().cloned().collect();
    let ended = run_touching(store, &tool.argv, tool.limit_s, &touched);
    let noted = Listing::read(store, &entries(store))
        .and_then(|now| made_files::note_new(store, author, tool, (&before, &now)));
    let Err(mut failure) = ended.and(noted) else {
        // Among all entries, those that existed before bedplate may be of other snapshots.
        return match cmdline::makes_all_entries(&tool.argv) {
            true => Ok(()),
            false => remove_surplus(store, makes),
        };
    };
    let new = store.ledger.unfinished_products(REVERT, &tool.argv);
    for path in makes.iter().chain(&new) {
        if let Err(why) = put_back(store, path) {
            failure = StepError::NotPutBack {
                tool: Box::new(failure),
                path: path.clone(),
                source: Box::new(why),
            };
        }
    }
    Err(failure)
}

/// Removes files that did not exist before bedplate, if another file in `made` still exists that did: the machine needs
/// the tool's output. A rollback may restore them.
fn remove_surplus(store: &mut Store, made: &[String]) -> Result<(), StepError> {
    let was_absent = |path: &&String| {
        store.ledger.files.get(*path).is_some_and(|record| record.original == FileState::Absent)
    };
    let (surplus, others): (Vec<&String>, Vec<&String>) = made.iter().partition(was_absent);
    if !others.iter().any(|path| store.reader.exists(path) == Ok(true)) {
        return Ok(());
    }
    for path in surplus {
        let found = store.file(path)?;
        store.restore_file(path, &found, &FileState::Absent)?;
        store.ledger.tool_left(path, None);
    }
    Ok(())
}

/// Restores a file that a failed tool has left. A file that another program has written since stays.
fn put_back(store: &mut Store, path: &str) -> Result<(), StepError> {
    let record = store.ledger.files.get(path);
    let Some(Unfinished { before, wrote, .. }) =
        record.and_then(|record| record.unfinished.clone())
    else {
        return Ok(());
    };
    let found = store.file(path)?;
    match wrote.contains(&found.state.sha().cloned()) {
        true => store.restore_file(path, &found, &before),
        false => Ok(()),
    }
}
