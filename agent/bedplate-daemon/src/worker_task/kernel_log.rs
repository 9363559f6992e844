//! This boot's kernel log. The worker's unit has no /dev/kmsg (ProtectKernelLogs=), but the journal's copy.

use std::time::Duration;

use bedplate_base::Reading;
use bedplate_cmdline::rejected_argument;
use bedplate_facts::kernel_log::redacted_line;
use bedplate_host::KernelLog;
use bedplate_host::child::{self, KeptOutput};
use bedplate_host::kmsg::{self, Line};

/// What a kernel says first (init/version-timestamp.c, linux_banner): where it is there, nothing before it is missing.
const FIRST: &str = "Linux version ";

/// What this boot's kernel log complains of, as much as is kept: why an argument is not in effect.
pub(crate) fn rejected_arguments() -> Option<String> {
    const LIMIT: Duration = Duration::from_secs(30);
    let rejections = |line: &str| rejected_argument::parse(line).map(|_| line.to_owned());
    match kmsg::read(rejections) {
        Ok((log, _)) => Some(log.lines.iter().map(|line| format!("{}\n", line.text)).collect()),
        // The oldest lines first, which are those of the start; a log full of later troubles is not read to its end.
        Err(_) => journal(LIMIT, KeptOutput::Head(MOST)).map(|output| messages(&output).collect()),
    }
}

/// Evidence for checks.
pub(crate) fn of_checks() -> Reading<KernelLog> {
    const LIMIT: Duration = Duration::from_secs(10);
    match kmsg::read(redacted_line) {
        Ok((log, _)) => Reading::Known(log),
        // The newest lines: a GPU falls off the bus days after the start.
        Err(error) => {
            match journal(LIMIT, KeptOutput::Tail(MOST)).filter(|text| !text.is_empty()) {
                Some(output) => Reading::Known(parse(&output)),
                None => Reading::unknown(format!("{error}, and journalctl shows no copy of it")),
            }
        }
    }
}

/// The lines that mean something. Times are left out: nobody is told them.
fn parse(output: &str) -> KernelLog {
    let mut log = KernelLog { whole: false, lines: Vec::new() };
    for (number, text) in messages(output).enumerate() {
        log.whole |= number == 0 && text.starts_with(FIRST);
        log.lines.push(Line { ms: 0, text });
    }
    log.keep(redacted_line);
    log
}

/// The first line of each of the kernel's own records (facility 0, which it gives to no other), with a newline. journald keeps a
/// newline in a file's name as it is, and a user can choose the text after it.
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

/// Bytes of the journal's copy that are taken.
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
    fn a_copy_without_its_first_line_proves_nothing_by_what_it_lacks() {
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
