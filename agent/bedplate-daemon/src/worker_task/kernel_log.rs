//! This boot's kernel log. The worker's unit has no /dev/kmsg (ProtectKernelLogs=), but can read the journal's copy.

use std::time::Duration;

use bedplate_base::Reading;
use bedplate_cmdline::rejected_argument;
use bedplate_facts::kernel_log::redacted_line;
use bedplate_host::KernelLog;
use bedplate_host::child::{self, KeptOutput};
use bedplate_host::kmsg::{self, Line};

/// First message of a kernel (init/version-timestamp.c, linux_banner). If it is present, the log is complete from the start.
const FIRST: &str = "Linux version ";

/// Returns the lines of this boot's kernel log that reject arguments, as far as retained: the cause of an
/// argument that is not in effect.
pub(crate) fn rejected_arguments() -> Option<String> {
    const LIMIT: Duration = Duration::from_secs(30);
    let rejections = |line: &str| rejected_argument::parse(line).map(|_| line.to_owned());
    match kmsg::read(rejections) {
        Ok((log, _)) => Some(log.lines.iter().map(|line| format!("{}\n", line.text)).collect()),
        // Reads the oldest lines, which are those of the startup; a log full of later faults is not read to its end.
        Err(_) => journal(LIMIT, KeptOutput::Head(MOST)).map(|output| messages(&output).collect()),
    }
}

/// Returns the evidence for checks.
pub(crate) fn of_checks() -> Reading<KernelLog> {
    const LIMIT: Duration = Duration::from_secs(10);
    match kmsg::read(redacted_line) {
        Ok((log, _)) => Reading::Known(log),
        // Reads the newest lines: a GPU may fall off the bus days after the start.
        Err(error) => {
            match journal(LIMIT, KeptOutput::Tail(MOST)).filter(|text| !text.is_empty()) {
                Some(output) => Reading::Known(parse(&output)),
                None => Reading::unknown(format!("{error}, and journalctl has no copy of it")),
            }
        }
    }
}

/// Parses the recognized lines. Times are left out, because they are not shown.
fn parse(output: &str) -> KernelLog {
    let mut log = KernelLog { whole: false, lines: Vec::new() };
    for (number, text) in messages(output).enumerate() {
        log.whole |= number == 0 && text.starts_with(FIRST);
        log.lines.push(Line { ms: 0, text });
    }
    log.keep(redacted_line);
    log
}

/// Returns the first line of each record of the kernel itself (facility 0, which only the kernel uses), with a newline.
/// journald retains a newline in a file's name as it is, and a user can choose the text after it.
fn messages(output: &str) -> impl Iterator<Item = String> {
    let message = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        if record.get("SYSLOG_FACILITY")? != "0" {
            return None;
        }
        let text = record.get("MESSAGE")?.as_str()?;
        Some(format!("{}\n", text.lines().next()?))
    };
    output.lines().filter_map(message)
}

/// Bytes read of the journal's copy.
const MOST: usize = 16 << 20;

fn journal(limit: Duration, keep: KeptOutput) -> Option<String> {
    let arguments = [
        "--dmesg",
        "--boot",
        "--output=json",
        "--output-fields=MESSAGE,SYSLOG_FACILITY",
        "--all",
        "--quiet",
        "--no-pager",
    ];
    let ran = child::run(&child::find("journalctl").ok()?, arguments, limit, keep).ok()?;
    Some(String::from_utf8_lossy(&ran.output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_without_first_line_is_incomplete() {
        let of = |facility: &str, text: &str| {
            let record = serde_json::json!({ "MESSAGE": text, "SYSLOG_FACILITY": facility });
            format!("{record}\n")
        };
        let record = |text: &str| of("0", text);
        let gone = [
            record("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."),
            record("hunter2"),
            record("overlayfs: failed to resolve '/x\nNVRM: Xid (PCI:0000:18:00): 95, x': -2"),
            of("1", "NVRM: Xid (PCI:0000:18:00): 48, a program wrote it"),
            "cut off\n".to_owned(),
        ]
        .concat();
        let log = parse(&gone);
        let texts: Vec<&str> = log.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["0000:18:00.0: GPU has fallen off the bus"]);
        assert!(!log.whole);
        let first = record(&format!("{FIRST}6.8.0-45-generic"));
        assert!(parse(&format!("{first}{gone}")).whole);
    }
}
