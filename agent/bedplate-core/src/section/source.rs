//! Profile texts and places in them. Nothing here knows what a profile means.

use std::ops::Range;
use std::sync::Arc;

/// One profile text, as it was handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    /// A text and the path that messages name it by. A byte order mark at its start is dropped: it means nothing.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// The path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The text, without a byte order mark.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file name without directories.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Line and column (in characters) of a byte offset, both from 1.
    pub(crate) fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        (line, before[start..].chars().count() + 1)
    }
}

/// A stretch of one of the [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Index of the file.
    pub file: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Place {
    /// A span of a file.
    pub(crate) fn new(file: usize, span: Range<usize>) -> Self {
        Place { file, start: span.start, end: span.end }
    }
}

/// All texts of one profile, in the order they are merged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sources(Vec<Arc<SourceFile>>);

impl Sources {
    /// Takes a file in and says its index.
    pub(crate) fn add(&mut self, file: SourceFile) -> usize {
        self.0.push(Arc::new(file));
        self.0.len() - 1
    }

    /// The file with this index; an index can only come from [`Sources::add`].
    pub(crate) fn file(&self, index: usize) -> Arc<SourceFile> {
        Arc::clone(&self.0[index])
    }

    /// `path:line` of a place.
    pub(crate) fn file_line(&self, place: Place) -> String {
        let file = self.file(place.file);
        format!("{}:{}", file.path(), file.line_column(place.start).0)
    }
}
