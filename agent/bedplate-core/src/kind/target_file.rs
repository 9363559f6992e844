//! A file of the host that a kind writes, as a whole or in part.

use super::{Context, dropped};
use crate::plan::{Action, Change, Effect, FileContent, Item, KindId, KindPlan};
use bedplate_base::{OptionalRead as _, ReadError};

/// A file before it is written.
pub(crate) struct TargetFile<'p> {
    kind: KindId,
    path: &'p str,
    /// What it holds now; `None`: it is not there.
    pub(crate) before: Option<Vec<u8>>,
}

impl<'p> TargetFile<'p> {
    /// Reads the file. `None`: it cannot be read, which `out` says; or nothing `is_wanted` in it, and it is in no snapshot made
    /// before its section was known.
    pub(crate) fn read(
        context: &Context,
        kind: KindId,
        path: &'p str,
        is_wanted: bool,
        out: &mut KindPlan,
    ) -> Option<Self> {
        match context.reader.read(path).optional() {
            Ok(before) => return Some(TargetFile { kind, path, before }),
            Err(ReadError::NotRecorded { .. }) if !is_wanted => {}
            Err(error) => out.unknowns.push(kind.unknown(path, error.to_string())),
        }
        None
    }

    /// The change that makes it hold `after`, at once; `None`: that removes it.
    pub(crate) fn change(self, after: Option<impl Into<Vec<u8>>>, items: Vec<Item>) -> Change {
        let action = Action::ReplaceFile {
            path: self.path.to_owned(),
            before: self.before.map(FileContent::new),
            after: after.map(|content| FileContent::new(content.into())),
        };
        self.kind.change(self.path, self.path, items, Effect::Now, vec![action])
    }
}

/// The item of a line that goes: bedplate wrote it, and the profile no longer asks for it.
pub(crate) fn removed(subject: impl Into<String>, before: impl Into<String>) -> Item {
    Item { subject: subject.into(), before: Some(before.into()), after: None, why: vec![dropped()] }
}
