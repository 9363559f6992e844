//! This boot's kernel log.

use std::io::Read as _;
use std::time::Duration;

use crate::host::child::{self, Keep};

/// This boot's kernel log, as much as is kept. The unit has no /dev/kmsg (ProtectKernelLogs=), but the journal's copy.
pub fn read() -> Option<String> {
    kmsg().or_else(journal)
}

/// The oldest lines first, which are those of the start; a log full of later troubles is not read to its end.
fn journal() -> Option<String> {
    const MOST: Keep = Keep::Head(4 << 20);
    const LIMIT: Duration = Duration::from_secs(30);
    let arguments = ["--dmesg", "--boot", "--output=cat", "--quiet", "--no-pager"];
    let ran = child::run(&child::find("journalctl").ok()?, arguments, LIMIT, MOST).ok()?;
    Some(String::from_utf8_lossy(&ran.output).into_owned())
}

/// /dev/kmsg gives one record a read; without rights there is none.
fn kmsg() -> Option<String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut kmsg =
        std::fs::OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg").ok()?;
    let mut log = String::new();
    // The largest record (kernel/printk/printk.c, PRINTKRB_RECORD_MAX).
    let mut record = [0; 8192];
    loop {
        match kmsg.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]);
                // `priority,number,time,flags;text`, then lines of metadata.
                let text = text.split_once(';').map_or("", |(_, text)| text);
                log.push_str(text.lines().next().unwrap_or_default());
                log.push('\n');
            }
            // EPIPE: records were overwritten meanwhile; the next read goes on behind them.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            // Nothing more for now.
            Err(_) => break,
        }
    }
    Some(log)
}
