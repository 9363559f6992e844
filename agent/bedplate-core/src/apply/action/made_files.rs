//! Files that a tool may create in a directory of the boot partition: boot entries and unified kernel images. Images
//! are too large to save: a rollback has the tool generate them again from the restored files.

use std::collections::{BTreeMap, BTreeSet};

use super::{StepError, Store, Task, Undo, program};
use crate::ledger::{Author, FileState, Generator, Sha};
use crate::plan::Action;
use bedplate_cmdline::boot::uki;

/// File name suffix of unified kernel images.
const IMAGE: &str = ".efi";

/// Files that a tool may rewrite, read before it runs.
pub(super) struct Listing {
    /// Files to save.
    pub files: Vec<String>,
    /// Unified kernel images, each with a digest of its start, which holds its command line.
    images: BTreeMap<String, Option<Sha>>,
}

impl Listing {
    /// Lists files; `DIRECTORY/*ENDING` matches every file in the directory with that suffix.
    pub(super) fn read(store: &Store, touches: &[String]) -> Result<Listing, StepError> {
        let mut paths = BTreeSet::new();
        for touched in touches {
            match touched.split_once("/*") {
                Some((directory, ending)) => paths.extend(files_in(store, directory, ending)?),
                None => _ = paths.insert(touched.clone()),
            }
        }
        let (images, files): (Vec<String>, Vec<String>) =
            paths.into_iter().partition(|path| path.ends_with(IMAGE));
        let start = |path: String| {
            let start = store.reader.read_start(&path, uki::PREFIX_BYTES).ok();
            (path, start.map(|bytes| Sha::digest(&bytes)))
        };
        Ok(Listing { files, images: images.into_iter().map(start).collect() })
    }
}

fn files_in(store: &Store, directory: &str, ending: &str) -> Result<Vec<String>, StepError> {
    let names = match store.reader.list(directory) {
        Ok(names) => names,
        Err(error) if error.is_absent() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let paths = names.iter().filter(|name| name.ends_with(ending));
    let paths = paths.map(|name| format!("{directory}/{name}"));
    // A dangling link has nothing to save.
    Ok(paths.filter(|path| store.reader.exists(path) != Ok(false)).collect())
}

/// Records the files that the tool created, as absent before it.
pub(super) fn note_new(
    store: &mut Store,
    author: Author,
    tool: &Generator,
    (before, now): (&Listing, &Listing),
) -> Result<(), StepError> {
    // A tool that was not started, because a package manager runs, has created none of them.
    if !store.started.contains(&tool.argv) {
        return Ok(());
    }
    for path in now.files.iter().filter(|path| !before.files.contains(path)) {
        let left = store.file(path)?.state.sha().cloned();
        store.update_ledger(|ledger| {
            let absent = (&FileState::Absent, true);
            ledger.begin_tool_file(path, author, absent, Some(tool.clone()));
            ledger.tool_left(path, left);
        })?;
        store.written.insert(path.clone());
    }
    Ok(())
}

/// Records the files that the tool created. Returns the undo step for images, which must run after the files are
/// restored.
pub(super) fn note(
    store: &mut Store,
    task: Task,
    touches: &[String],
    tool: &Generator,
    before: &Listing,
) -> Result<Option<Box<dyn Undo>>, StepError> {
    let now = Listing::read(store, touches)?;
    let author = Author { kind: task.change.kind, change: &task.change.id };
    note_new(store, author, tool, (before, &now))?;
    let (there, new): (Vec<_>, Vec<_>) =
        now.images.into_iter().partition(|(path, _)| before.images.contains_key(path));
    let is_changed = |(path, start): &(String, Option<Sha>)| before.images.get(path) != Some(start);
    let lost = |path: &&String| !there.iter().any(|(now, _)| now == *path);
    let lost: Vec<String> = before.images.keys().filter(lost).cloned().collect();
    let rewritten: Vec<String> =
        there.iter().filter(|image| is_changed(image)).map(|(path, _)| path.clone()).collect();
    let images = MadeImages {
        argv: tool.argv.clone(),
        limit_s: tool.limit_s,
        new: new.into_iter().map(|(path, _)| path).collect(),
        rewritten: [rewritten, lost].concat(),
        absent_source: absent_source(task).map(str::to_owned),
    };
    let is_due = !images.new.is_empty() || !images.rewritten.is_empty();
    Ok(is_due.then(|| Box::new(images) as Box<dyn Undo>))
}

/// Returns a file that the change creates. After its removal the tool would read its configuration from elsewhere.
fn absent_source<'a>(task: Task<'a>) -> Option<&'a str> {
    task.change.actions.iter().find_map(|action| match action {
        Action::ReplaceFile { path, before: None, .. } => Some(path.as_str()),
        _ => None,
    })
}

/// Unified kernel images that a tool created or rewrote.
struct MadeImages {
    argv: Vec<String>,
    limit_s: u32,
    new: Vec<String>,
    rewritten: Vec<String>,
    absent_source: Option<String>,
}

impl Undo for MadeImages {
    fn subject(&self) -> String {
        [self.rewritten.as_slice(), &self.new].concat().join(", ")
    }

    fn needs_files(&self) -> bool {
        true
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let remade = self.remake(store);
        // The tool has created them again.
        for path in &self.new {
            store.writer.remove_file(path)?;
        }
        remade
    }
}

impl MadeImages {
    fn remake(&self, store: &mut Store) -> Result<(), StepError> {
        match &self.absent_source {
            _ if self.rewritten.is_empty() => Ok(()),
            Some(path) => Err(StepError::new(format!(
                "may contain the new arguments: cannot regenerate it, since {path} was absent before"
            ))),
            None => program::run(store, &self.argv, self.limit_s).map_err(|error| {
                StepError::because("may contain the new arguments: cannot regenerate it", error)
            }),
        }
    }
}
