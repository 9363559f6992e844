//! Replaces, creates, and removes files. The ledger holds the previous state, so it also shows the work of an earlier,
//! interrupted run of the same change.

use super::{
    FoundFile, Operation, StepError, Store, Task, UndoList, expect, expect_written, generators,
};
use crate::kind::cmdline::KERNEL_CMDLINE;
use crate::ledger::{Author, FileRecord, FileState, Ledger, Sha, Unfinished};
use crate::plan::FileContent;
use bedplate_base::unified_diff;
use bedplate_cmdline::boot::completeness::is_whole;
use bedplate_host::Expected;

/// Mode of a new file: configuration, readable by all users.
const NEW_FILE: u32 = 0o644;

/// [`crate::plan::Action::ReplaceFile`].
pub(super) struct ReplaceFile<'a> {
    pub path: &'a str,
    pub before: Option<&'a FileContent>,
    pub after: Option<&'a FileContent>,
}

impl Operation for ReplaceFile<'_> {
    fn describe(&self) -> String {
        format!("{} {}", if self.after.is_some() { "write" } else { "remove" }, self.path)
    }

    fn may_take_long(&self) -> bool {
        false
    }

    fn diff(&self) -> String {
        let text = |content: Option<&FileContent>| {
            content
                .map(|content| String::from_utf8_lossy(&content.bytes).into_owned())
                .unwrap_or_default()
        };
        let (old, new) = (text(self.before), text(self.after));
        let relative = self.path.trim_start_matches('/');
        let name = |prefix: &str, there: bool| {
            if there { format!("{prefix}/{relative}") } else { "/dev/null".to_owned() }
        };
        unified_diff(
            &old,
            &new,
            &name("a", self.before.is_some()),
            &name("b", self.after.is_some()),
        )
    }

    fn plan_line(&self, subject: &str) -> Option<String> {
        (self.path != subject).then(|| self.describe())
    }

    fn target(&self) -> Option<String> {
        Some(self.path.to_owned())
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        store.file(self.path).is_ok_and(|found| has_content(&found, self.after))
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        first: bool,
    ) -> Result<(), StepError> {
        let found = store.file(self.path)?;
        if has_content(&found, self.after) {
            return Ok(());
        }
        if first {
            let as_planned = has_content(&found, self.before);
            expect(as_planned, self.path, "other content")?;
        }
        store.save_content(&found)?;
        let to_be = self.after.map(|after| Sha::digest(&after.bytes));
        let author = Author { kind: task.change.kind, change: &task.change.id };
        let readers = generators(task.change);
        ledger.begin_file(self.path, author, &found.state, to_be, &readers);
        if let Some(now) = store.state_to_renew(self.path)? {
            ledger.begin_renewal(KERNEL_CMDLINE, author, &now, &readers);
        }
        if self.after.is_some() {
            ledger.directories.extend(store.missing_directories(self.path)?);
        }
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        _undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let now = store.file(self.path)?;
        if has_content(&now, self.after) {
            return Ok(());
        }
        expect(has_content(&now, self.before), self.path, "other content")?;
        store.written.insert(self.path.to_owned());
        let newer = store.kernel_cmdline_to_renew(self.path);
        let expected = Expected::Content(now.bytes.as_deref());
        match self.after {
            Some(content) => {
                store.writer.replace_expected(self.path, &content.bytes, NEW_FILE, expected)
            }
            None => store.writer.remove_expected(self.path, expected),
        }?;
        store.renew_kernel_cmdline(newer)?;
        let now = store.file(self.path)?;
        expect_written(has_content(&now, self.after), self.path)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        record_result(store, ledger, self.path)
    }
}

/// Whether a file has this content; `None`: absent.
fn has_content(file: &FoundFile, content: Option<&FileContent>) -> bool {
    file.bytes.as_ref() == content.map(|content| &content.bytes)
}

/// Records in `ledger` that the change of a file is finished.
pub(crate) fn record_result(
    store: &Store,
    ledger: &mut Ledger,
    path: &str,
) -> Result<(), StepError> {
    ledger.settle_file(path, &store.file(path)?.state);
    Ok(())
}

/// Result of rolling back a file.
pub(crate) enum UndoResult {
    /// The file still was in its previous state.
    Unchanged,
    /// The file was restored.
    Back,
    /// Another program has changed the file, and its content stays.
    Edited {
        /// Whether bedplate had written the file, so that its work is part of the content.
        written: bool,
    },
}

/// Restores a file that a failed change, or an interrupted run of it, began to write. Replaces only content that
/// bedplate wrote. `earlier` is the record that the ledger had before the change.
pub(crate) fn undo(
    store: &mut Store,
    path: &str,
    earlier: Option<&FileRecord>,
) -> Result<UndoResult, StepError> {
    let Some(record) = store.ledger.files.get(path) else { return Ok(UndoResult::Unchanged) };
    let is_generated = record.generator.is_some();
    let Some(Unfinished { before, wrote, .. }) = record.unfinished.clone() else {
        return Ok(UndoResult::Unchanged);
    };
    let found = store.file(path)?;
    // An interrupted generator may have left half a menu, and the machine must boot.
    let was_cut_short = is_generated && wrote.is_empty() && !is_whole(path, found.bytes.as_deref());
    let ours = was_cut_short || wrote.contains(&found.state.sha().cloned());
    if !ours && found.state.sha() != before.sha() {
        let written = store.written.contains(path)
            || earlier.is_some_and(|record| record.unfinished.is_some());
        match written {
            true => store.ledger.leave_file(path),
            false => store.ledger.reset_file(path, earlier),
        }
        return Ok(UndoResult::Edited { written });
    }
    let is_changed = ours && found.state != before;
    if is_changed {
        store.restore_file(path, &found, &before)?;
    }
    // Paths are sorted, so /etc/default/grub has been restored.
    if path == KERNEL_CMDLINE
        && let Some(why) = store.finish_renewal()
    {
        return Err(StepError::new(why));
    }
    store.ledger.reset_file(path, earlier);
    Ok(if is_changed { UndoResult::Back } else { UndoResult::Unchanged })
}

/// Restores a file that still holds `before`.
pub(crate) fn put_back(
    store: &mut Store,
    path: &str,
    before: Option<&FileContent>,
    to: &FileState,
) -> Result<(), StepError> {
    let found = store.file(path)?;
    expect(has_content(&found, before), path, "other content")?;
    store.restore_file(path, &found, to)
}
