//! This boot's kernel log, for why an argument is not in effect.

use std::time::Duration;

use crate::cmdline::complaint;
use crate::host::child::{self, Keep};
use crate::host::kmsg;

/// What this boot's kernel log complains of, as much as is kept. The unit has no /dev/kmsg (ProtectKernelLogs=), but the
/// journal's copy.
pub fn read() -> Option<String> {
    let complaints = |line: &str| complaint::parts(line).map(|_| line.to_owned());
    match kmsg::read(complaints) {
        Ok((log, _)) => Some(log.lines.iter().map(|line| format!("{}\n", line.text)).collect()),
        Err(_) => journal(),
    }
}

/// The oldest lines first, which are those of the start; a log full of later troubles is not read to its end.
fn journal() -> Option<String> {
    const MOST: Keep = Keep::Head(4 << 20);
    const LIMIT: Duration = Duration::from_secs(30);
    let arguments = ["--dmesg", "--boot", "--output=cat", "--quiet", "--no-pager"];
    let ran = child::run(&child::find("journalctl").ok()?, arguments, LIMIT, MOST).ok()?;
    Some(String::from_utf8_lossy(&ran.output).into_owned())
}
