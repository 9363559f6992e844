//! What a server says, as it may stand in a log.

use bedplate_base::terminal::is_control;

/// How many characters of a server's words are kept: they go into one line of a log.
const VALUE: usize = 200;

/// Bytes from the network as one short line: blanks are single spaces, characters that steer a terminal are left out.
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
