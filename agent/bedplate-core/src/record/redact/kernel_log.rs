//! Redacts the kernel log.

use super::masker::{Masker, Style};
use bedplate_base::mask;
use bedplate_cmdline::rejected_argument::{self, Rejection};
use bedplate_facts::kernel_log;
use bedplate_host::KernelLog;

/// Keeps the relevant lines of the kernel log in the kernel's words; masks arguments as on the command line.
pub(super) fn redact(text: &str, words: &mut Masker) -> Option<String> {
    let mut log: KernelLog = serde_json::from_str(text).ok()?;
    log.keep(kernel_log::redacted_line);
    for line in &mut log.lines {
        if let Some(said) = rejected_argument::parse(&line.text) {
            line.text = format!("{}{}{}", said.head, masked(&said, words), said.tail);
        }
    }
    serde_json::to_string(&log).ok()
}

fn masked(said: &Rejection<'_>, words: &mut Masker) -> String {
    match said.parameter {
        Some(parameter) => words.value(parameter, said.arguments, Style::Line),
        None if mask::is_name(said.arguments) && said.is_name => said.arguments.to_owned(),
        None => words.text(said.arguments, Style::Line),
    }
}
