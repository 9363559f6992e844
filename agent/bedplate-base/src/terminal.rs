//! What in a text could steer a terminal, and how it is shown instead. Texts of hosts and profiles may hold anything:
//! an escape sequence in `/proc/cmdline` could recolour, hide or overwrite what bedplate says. Pure.

/// Whether a character does something to a terminal or to the line it stands in, besides being seen: controls (C0, DEL,
/// C1), line separators, and the marks that reorder text (Unicode UAX #9). Line ends and tabs are among them.
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with what steers shown as its code (`\u{1b}`); line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push(&mut out, character));
    out
}

/// The same for a text that is to be one line: its line ends and tabs are shown as their codes, too.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The same, cut after so many characters: what people wrote, where it is shown to others.
pub fn brief(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// JSON text with what steers as `\u001b`: the same values for programs, and nothing that moves a reader's cursor.
/// Line ends and tabs of the layout stay; inside of strings there are none.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_control(character) && !matches!(character, '\n' | '\t') {
            // All of them are in the basic plane.
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
    fn plain_text_stays() {
        let text = "a → b\n\tc é 日本 😀\n";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn what_steers_is_shown_as_its_code() {
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
    fn json_means_the_same_and_steers_nothing() {
        let evil = "quiet\x1b]0;own\x07 \u{9b}2J \r\n\t \u{202e}tp \x7f \u{2028} \\ \" é 日本";
        let shown = json(&serde_json::to_string_pretty(&[evil, "plain"]).unwrap());
        assert!(!shown.contains(|c| is_control(c) && c != '\n'), "{shown:?}");
        let back: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(back, [evil, "plain"]);
    }
}
