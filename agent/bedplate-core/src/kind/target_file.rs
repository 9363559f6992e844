//! A host file that a resource type writes, completely or in part.

use super::{Context, dropped};
use crate::plan::{Action, Change, Effect, FileContent, Item, KindId, KindPlan};
use bedplate_base::{OptionalRead as _, ReadError};

/// A file before it is written.
pub(crate) struct TargetFile<'p> {
    kind: KindId,
    path: &'p str,
    /// Current content, if the file exists.
    pub(crate) before: Option<Vec<u8>>,
}

impl<'p> TargetFile<'p> {
    /// Reads the file, if it is readable; otherwise adds an unknown to `out`. For a snapshot without a record of the file,
    /// adds it only if something in the file `is_wanted`.
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

    /// Returns the change that sets the content to `after`, or removes the file without one. It takes effect at once.
    pub(crate) fn change(self, after: Option<impl Into<Vec<u8>>>, items: Vec<Item>) -> Change {
        let (kind, path) = (self.kind, self.path);
        kind.change(path, path, items, Effect::Now, vec![self.action(after)])
    }

    /// Returns the action of [`TargetFile::change`].
    pub(crate) fn action(self, after: Option<impl Into<Vec<u8>>>) -> Action {
        Action::ReplaceFile {
            path: self.path.to_owned(),
            before: self.before.map(FileContent::new),
            after: after.map(|content| FileContent::new(content.into())),
        }
    }
}

/// Returns the item for a removed line: bedplate wrote it, and the profile no longer requests it.
pub(crate) fn removed(subject: impl Into<String>, before: impl Into<String>) -> Item {
    Item { subject: subject.into(), before: Some(before.into()), after: None, why: vec![dropped()] }
}
