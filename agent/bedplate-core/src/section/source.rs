//! Profile texts and places in them. Independent of the meaning of a profile.

use std::ops::Range;
use std::sync::Arc;

/// One profile text, as passed by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    /// Creates a text with its path for messages. Drops a byte order mark at its start, which has no meaning.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the text, without a byte order mark.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the file name without directories.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns line and column (in characters) of a byte offset, both from 1.
    pub(crate) fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        (line, before[start..].chars().count() + 1)
    }
}

/// A span of the [`Sources`] in bytes, counted from the start of the first text through all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl From<Range<usize>> for Place {
    fn from(span: Range<usize>) -> Self {
        Place { start: span.start, end: span.end }
    }
}

/// All texts of one profile, in reading order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sources(Vec<(usize, Arc<SourceFile>)>);

impl Sources {
    /// Adds a file. Returns the place of its first byte.
    pub(crate) fn add(&mut self, file: SourceFile) -> usize {
        // One byte between two texts: the end of one must differ from the start of the next.
        let start = self.0.last().map_or(0, |(start, last)| start + last.text().len() + 1);
        self.0.push((start, Arc::new(file)));
        start
    }

    /// Returns the index and the file of a place, and the bytes in it. There is always one: a place comes from an added
    /// text, and the first text starts at 0.
    pub(crate) fn locate(&self, place: Place) -> (usize, Arc<SourceFile>, Range<usize>) {
        let index = self.0.partition_point(|(start, _)| *start <= place.start) - 1;
        let (start, file) = &self.0[index];
        (index, Arc::clone(file), place.start - start..place.end - start)
    }
}
