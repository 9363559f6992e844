//! Escaping of characters that could control a terminal. Text of hosts and profiles may hold anything: an escape
//! sequence in `/proc/cmdline` could recolour, hide or overwrite bedplate's output. Pure.

/// Whether a character controls a terminal or its line: controls (C0, DEL, C1), line separators, and the marks that
/// reorder text (Unicode UAX #9). Includes line ends and tabs.
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text with control characters shown as codes (`\u{1b}`), except line ends and tabs.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push(&mut out, character));
    out
}

/// Like [`visible`], for text on one line: line ends and tabs are also shown as codes.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Like [`one_line`], truncated after `most` characters. For text that one user writes and another reads.
pub fn brief(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Escapes control characters in JSON text as `\u001b`: programs read the same values, and a terminal is not affected.
/// Line ends and tabs of the layout stay; strings contain none.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_control(character) && !matches!(character, '\n' | '\t') {
            // All control characters are in the basic plane.
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
}

/// Appends one character as [`visible`] shows it.
pub fn push(out: &mut String, character: char) {
    match character {
        '\n' | '\t' => out.push(character),
        _ if is_control(character) => out.extend(character.escape_unicode()),
        _ => out.push(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_unchanged() {
        let text = "a → b\n\tc é 日本 😀\n";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn control_characters_are_shown_as_codes() {
        let evil = "quiet\x1b]0;own\x07 \u{9b}2J \r \u{202e}tp=ummoi \x7f \u{2028}";
        assert_eq!(
            visible(evil),
            "quiet\\u{1b}]0;own\\u{7} \\u{9b}2J \\u{d} \\u{202e}tp=ummoi \\u{7f} \\u{2028}"
        );
        assert_eq!(one_line("a\nb\x1b\tc"), "a\\nb\\u{1b}\\tc");
        assert_eq!(brief("a\nb", 4), "a\\nb");
        assert_eq!(brief("äöü\u{202e}", 2), "äö…");
    }

    #[test]
    fn escaped_json_has_same_values_and_no_controls() {
        let evil = "quiet\x1b]0;own\x07 \u{9b}2J \r\n\t \u{202e}tp \x7f \u{2028} \\ \" é 日本";
        let shown = json(&serde_json::to_string_pretty(&[evil, "plain"]).unwrap());
        assert!(!shown.contains(|c| is_control(c) && c != '\n'), "{shown:?}");
        let back: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(back, [evil, "plain"]);
    }
}
