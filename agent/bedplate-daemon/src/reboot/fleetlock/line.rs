//! Server messages made safe for a log.

use bedplate_base::terminal::is_control;

/// Longest server message in characters: it is part of one log line.
const VALUE: usize = 200;

/// Converts bytes from the network to one short line: single spaces, no control characters.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String =
        text.chars().filter(|&c| c.is_ascii_whitespace() || !is_control(c)).collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no explanation".to_owned(),
        None => line,
    }
}
