//! Logs in pieces of any length → their lines.

use super::{Log, Place};

/// Bytes of a line that are looked at: NCCL's are shorter (src/debug.cc), but for lists of many devices.
const LONGEST_LINE: usize = 16 << 10;

/// Takes logs in pieces.
#[derive(Debug, Default)]
pub struct Reader {
    log: Log,
    file: usize,
    line: u64,
    /// A line without its end so far.
    rest: Vec<u8>,
}

impl Reader {
    /// The next piece, of any length.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        // A progress bar in the same stream ends its lines with a carriage return alone.
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            self.part(&bytes[at..end]);
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

    /// What stands before the end of a line, with what came of it in earlier pieces.
    fn part(&mut self, bytes: &[u8]) {
        if self.rest.is_empty() {
            return self.take(bytes);
        }
        let room = LONGEST_LINE.saturating_sub(self.rest.len()).min(bytes.len());
        let mut line = std::mem::take(&mut self.rest);
        line.extend_from_slice(&bytes[..room]);
        self.take(&line);
        line.clear();
        self.rest = line;
    }

    /// The file has ended; what follows is another one.
    pub fn end_file(&mut self) {
        if !self.rest.is_empty() {
            self.part(&[]);
            self.log.lines += 1;
        }
        self.file += 1;
        self.line = 0;
    }

    /// What was said.
    pub fn finish(mut self) -> Log {
        self.end_file();
        self.log
    }

    fn take(&mut self, line: &[u8]) {
        let place = Place { file: self.file, line: self.line + 1 };
        let mut rest = &line[..line.len().min(LONGEST_LINE)];
        // Processes that write at once may leave out the end of a line between two messages.
        while let Some(glued) = self.log.take(rest, place) {
            rest = glued;
        }
    }
}
