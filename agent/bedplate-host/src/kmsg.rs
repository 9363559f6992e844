//! The kernel's log by /dev/kmsg, which gives one record a read (Linux Documentation/ABI/testing/dev-kmsg; handbook §4). It is
//! a ring: what was said early in a long boot may be gone.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use serde::{Deserialize, Serialize};

use bedplate_base::ReadError;

/// Where it is.
pub const PATH: &str = "/dev/kmsg";
/// The largest record (kernel/printk/printk.c, PRINTKRB_RECORD_MAX).
const RECORD: usize = 8192;
/// Records that one look passes over: a log that grows faster than it is read must not hold it for ever.
const MOST_RECORDS: usize = 1 << 20;
/// Lines that are kept: as many of the first as of the last.
const MOST_LINES: usize = 2048;

/// What is to be kept of a line; `None`: nothing.
pub type LineFilter = fn(&str) -> Option<String>;

/// What was kept of the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLog {
    /// Whether nothing is missing since the kernel started. If not, a line that is not there proves nothing.
    pub whole: bool,
    /// Lines that were asked for, oldest first.
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
    /// Keeps of what is there only what `keep` leaves.
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

/// Lines of which those in the middle go where there are too many: a flood hides neither the start nor the end.
#[derive(Debug, Default)]
struct Bounded {
    first: Vec<Line>,
    last: VecDeque<Line>,
    lost: bool,
}

impl Bounded {
    /// Takes the next line.
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

    /// The kept lines, oldest first.
    fn lines(self) -> Vec<Line> {
        self.first.into_iter().chain(self.last).collect()
    }

    /// Whether some went.
    fn is_lost(&self) -> bool {
        self.lost
    }
}

/// What `keep` leaves of the log, and how many system calls it took.
///
/// # Errors
/// It cannot be opened: `kernel.dmesg_restrict`, or a container without it.
pub fn read(keep: LineFilter) -> Result<(KernelLog, u64), ReadError> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(PATH);
    let mut kmsg = opened.map_err(|error| refused(&error))?;
    let (mut whole, mut kept) = (true, Bounded::default());
    let mut record = [0; RECORD];
    let mut first = true;
    for calls in 1..MOST_RECORDS as u64 {
        match kmsg.read(&mut record) {
            Ok(length) if length > 0 => {
                let Some((number, line)) = parse(&record[..length]) else { continue };
                // The ring has lost what came before.
                whole &= !first || number == 0;
                first = false;
                if let Some(text) = keep(&line.text) {
                    kept.push(Line { text, ..line });
                }
            }
            // EPIPE: records were overwritten meanwhile; the next read goes on behind them.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => whole = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more for now.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let whole = whole && !kept.is_lost();
                return Ok((KernelLog { whole, lines: kept.lines() }, calls + 2));
            }
            // Opening it was allowed and reading is not: a security module.
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

/// `priority,number,microseconds,flags;text`, then lines of metadata that begin with a blank. `None`: not a record, or one
/// that a program wrote: the kernel's own have facility 0, which it gives to no other.
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
    fn a_record_is_its_number_time_and_first_line() {
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
    fn a_flood_hides_neither_start_nor_end() {
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
    fn it_is_read_to_its_end_or_refused() {
        match read(|_| None) {
            Ok((log, _)) => assert_eq!(log.lines, []),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
