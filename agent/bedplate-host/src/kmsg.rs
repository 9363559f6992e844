//! Reads the kernel's log from /dev/kmsg, one record per read (Linux Documentation/ABI/testing/dev-kmsg; handbook §4).
//! The log is a ring: early messages of a long boot may be lost.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use serde::{Deserialize, Serialize};

use bedplate_base::ReadError;

/// Path of the log.
pub const PATH: &str = "/dev/kmsg";
/// The largest record (kernel/printk/printk.c, PRINTKRB_RECORD_MAX).
const RECORD: usize = 8192;
/// Limit for records per read: a log that grows faster than it is read must not block the reader forever.
const MOST_RECORDS: usize = 1 << 20;
/// Limit for retained lines: half from the start, half from the end.
const MOST_LINES: usize = 2048;

/// Returns the part of a line to keep, or `None` to drop the line.
pub type LineFilter = fn(&str) -> Option<String>;

/// The filtered log of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLog {
    /// Whether the log is complete since the kernel started. If not, a missing line proves nothing.
    pub whole: bool,
    /// The retained lines, oldest first.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the kernel started.
    pub ms: u64,
    /// Its text, without continuation lines.
    pub text: String,
}

impl KernelLog {
    /// Applies `keep` to all lines.
    pub fn keep(&mut self, keep: LineFilter) {
        let mut kept = Bounded::default();
        for line in std::mem::take(&mut self.lines) {
            if let Some(text) = keep(&line.text) {
                kept.push(Line { text, ..line });
            }
        }
        *self = KernelLog { whole: self.whole && !kept.lost, lines: kept.lines() };
    }
}

/// A bounded list of lines that drops the middle: a flood hides neither the start nor the end.
#[derive(Debug, Default)]
struct Bounded {
    first: Vec<Line>,
    last: VecDeque<Line>,
    lost: bool,
}

impl Bounded {
    /// Adds the next line.
    fn push(&mut self, line: Line) {
        if self.first.len() < MOST_LINES / 2 {
            self.first.push(line);
            return;
        }
        if self.last.len() == MOST_LINES / 2 {
            self.last.pop_front();
            self.lost = true;
        }
        self.last.push_back(line);
    }

    /// Returns the retained lines, oldest first.
    fn lines(self) -> Vec<Line> {
        self.first.into_iter().chain(self.last).collect()
    }

    /// Whether lines were dropped.
    fn is_lost(&self) -> bool {
        self.lost
    }
}

/// Returns the part of the log that `keep` accepts, and the number of system calls.
///
/// # Errors
/// The log cannot be opened: `kernel.dmesg_restrict`, or a container without it.
pub fn read(keep: LineFilter) -> Result<(KernelLog, u64), ReadError> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(PATH);
    read_from(opened.map_err(|error| refused(&error))?, keep)
}

/// [`read`] for a log that is open, without blocking.
pub(crate) fn read_from(mut kmsg: File, keep: LineFilter) -> Result<(KernelLog, u64), ReadError> {
    let (mut whole, mut kept) = (true, Bounded::default());
    let mut record = [0; RECORD];
    let mut first = true;
    for calls in 1..MOST_RECORDS as u64 {
        match kmsg.read(&mut record) {
            Ok(length) if length > 0 => {
                let Some((number, line)) = parse(&record[..length]) else { continue };
                // The ring has lost earlier records.
                whole &= !first || number == 0;
                first = false;
                if let Some(text) = keep(&line.text) {
                    kept.push(Line { text, ..line });
                }
            }
            // EPIPE: records were overwritten during the read; the next read continues after them.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => whole = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // No more records for now.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let whole = whole && !kept.is_lost();
                return Ok((KernelLog { whole, lines: kept.lines() }, calls + 2));
            }
            // The open was allowed but the read is not: a security module.
            Err(error) if first => return Err(refused(&error)),
            Ok(_) | Err(_) => break,
        }
    }
    Ok((KernelLog { whole: false, lines: kept.lines() }, MOST_RECORDS as u64))
}

fn refused(error: &std::io::Error) -> ReadError {
    let path = PATH.to_owned();
    match error.kind() {
        ErrorKind::NotFound => ReadError::NotFound { path },
        ErrorKind::PermissionDenied => ReadError::Denied { path },
        _ => ReadError::Failed { path, reason: error.to_string() },
    }
}

/// Parses `priority,number,microseconds,flags;text`, followed by metadata lines that start with a blank. Returns `None`
/// for other text, and for records of programs: only the kernel itself uses facility 0.
fn parse(record: &[u8]) -> Option<(u64, Line)> {
    let text = String::from_utf8_lossy(record);
    let (head, text) = text.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let number = fields.next()?.parse().ok()?;
    let ms = fields.next()?.parse::<u64>().ok()? / 1000;
    Some((number, Line { ms, text: text.lines().next().unwrap_or_default().to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_number_time_and_first_line() {
        let record = b"6,339,5140900,-,caller=T1;DMAR: IOMMU enabled; really\n SUBSYSTEM=pci\n";
        let line = Line { ms: 5140, text: "DMAR: IOMMU enabled; really".into() };
        assert_eq!(parse(record), Some((339, line)));
        for broken in [
            &b""[..],
            b"6,1",
            b"6;x",
            b"6,a,b,-;x",
            b"\xff\xfe;",
            b"12,339,5140900,-;DMAR: IOMMU enabled",
        ] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn full_log_keeps_start_and_end() {
        let line = |ms: u64| Line { ms, text: "x".into() };
        let mut log = KernelLog { whole: true, lines: (0..5000).map(line).collect() };
        log.keep(|text| Some(text.to_owned()));
        assert_eq!(log.lines.len(), MOST_LINES);
        assert_eq!(
            (log.lines[1023].ms, log.lines[1024].ms, log.lines[2047].ms),
            (1023, 3976, 4999)
        );
        assert!(!log.whole);
        let mut small = KernelLog { whole: true, lines: (0..3).map(line).collect() };
        small.keep(|text| Some(text.to_owned()));
        assert!(small.whole && small.lines.len() == 3);
    }

    #[test]
    fn log_is_read_to_its_end_or_rejected() {
        match read(|_| None) {
            Ok((log, _)) => assert_eq!(log.lines, []),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
