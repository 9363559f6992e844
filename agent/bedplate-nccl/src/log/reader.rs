//! Splits logs, in pieces of any length, into lines.

use super::{Log, Place};
use crate::perf::TableReader;

/// Maximum bytes read of a line. NCCL's lines are shorter (src/debug.cc), except for lists of many devices.
const LONGEST_LINE: usize = 16 << 10;

/// Maximum number of messages read of a line; the start of the next one counts as lost.
const MOST_GLUED: usize = 16;

/// Incremental reader of logs.
#[derive(Default)]
pub struct Reader {
    log: Log,
    /// Result tables of the current file.
    tables: TableReader,
    file: usize,
    line: u64,
    /// Start of an incomplete line.
    rest: Vec<u8>,
}

impl Reader {
    /// Reads the next piece, of any length.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        // A progress bar in the same stream ends its lines with only a carriage return.
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            self.part(&bytes[at..end], true);
            if bytes[end] == b'\n' {
                self.line += 1;
                self.log.lines += 1;
            }
            at = end + 1;
        }
        let left = &bytes[at..];
        let room = LONGEST_LINE.saturating_sub(self.rest.len()).min(left.len());
        self.rest.extend_from_slice(&left[..room]);
    }

    /// Completes a line with `bytes`, after its start from earlier pieces.
    fn part(&mut self, bytes: &[u8], is_whole: bool) {
        if self.rest.is_empty() {
            return self.take(bytes, is_whole);
        }
        let room = LONGEST_LINE.saturating_sub(self.rest.len()).min(bytes.len());
        let mut line = std::mem::take(&mut self.rest);
        line.extend_from_slice(&bytes[..room]);
        self.take(&line, is_whole);
        line.clear();
        self.rest = line;
    }

    /// Ends the current file; the next piece belongs to another one.
    pub fn end_file(&mut self) {
        if !self.rest.is_empty() {
            self.part(&[], false);
            self.log.is_cut_off = true;
            self.log.lines += 1;
        }
        self.log.results.push(self.tables.end_file());
        self.file += 1;
        self.line = 0;
    }

    /// Returns the log.
    pub fn finish(mut self) -> Log {
        self.end_file();
        self.log.split_glued_names();
        self.log.merge_versions();
        self.log
    }

    fn take(&mut self, line: &[u8], is_whole: bool) {
        let place = Place { file: self.file, line: self.line + 1 };
        let mut rest = &line[..line.len().min(LONGEST_LINE)];
        let before = self.log.said;
        // Concurrent writers may omit the line end between messages.
        for _ in 0..MOST_GLUED {
            match self.log.take(rest, place, is_whole) {
                Some(glued) => rest = glued,
                None => break,
            }
        }
        if self.log.said == before {
            self.log.is_binary |= memchr::memchr(0, rest).is_some();
            self.tables.line(rest, self.line + 1);
        }
    }
}
