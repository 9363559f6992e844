//! Wrapping of report lines to the width of a terminal. A continuation line aligns with the text of its first line,
//! after the mark, label or indentation. Pure; colors (SGR sequences) take no columns.

use textwrap::core::{Word, display_width};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Width if the actual width is unknown: a pipe, a file.
pub(crate) const DEFAULT: usize = 80;
/// Minimum usable width; a smaller value is ignored.
pub(crate) const LEAST: usize = 20;

/// Maximum length of an unsplit word. Longer words are lists (kernel arguments) and may be split after `;` and `,`.
const LIST: usize = 40;
/// Maximum length of a label such as `profile  `.
const LABEL: usize = 14;
/// Marks at the start of a line. Continuation lines align with the text after them.
const SIGNS: [char; 10] = ['·', '+', '-', '~', '✗', '✓', '?', '…', '!', '↶'];

/// Wraps every line of `text` to at most `width` columns, as far as its words permit.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    if display_width(line) <= width {
        return line.to_owned();
    }
    let plain = anstream::adapter::strip_str(line).to_string();
    let hang = " ".repeat(hanging_indent(&plain).min(width / 2));
    let options = Options::new(width)
        .subsequent_indent(&hang)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .word_separator(WordSeparator::Custom(split_words))
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(line, options).join("\n")
}

/// Splits a line into words at blanks, and long lists after their separators.
fn split_words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    Box::new(WordSeparator::AsciiSpace.find_words(line).flat_map(|word| {
        if display_width(word.word) <= LIST || !word.word.contains([';', ',']) {
            return vec![word];
        }
        let mut parts: Vec<Word<'_>> =
            word.word.split_inclusive([';', ',']).map(Word::from).collect();
        if let Some(last) = parts.last_mut() {
            last.whitespace = word.whitespace;
        }
        parts
    }))
}

/// Returns the column at which the text of a line starts.
fn hanging_indent(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = &line[indent..];
    if rest.starts_with(SIGNS) && rest.chars().nth(1) == Some(' ') {
        return indent + 2;
    }
    // `profile  hgx-h100`: a label and its value.
    if let Some((label, value)) = rest.split_once("  ")
        && label.chars().count() <= LABEL
    {
        let gap = value.len() - value.trim_start_matches(' ').len();
        return indent + label.chars().count() + 2 + gap;
    }
    indent + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fitting_lines_are_unchanged() {
        for text in ["", "\n", "a\n\n  b  c\n", "  · short\n"] {
            assert_eq!(wrap(text, 20), text);
        }
    }

    #[test]
    fn continuation_lines_align_with_text() {
        assert_eq!(wrap("  · one two three four five\n", 20), "  · one two three\n    four five\n");
        assert_eq!(
            wrap("  profile  one two three four", 22),
            "  profile  one two\n           three four"
        );
        assert_eq!(wrap("    one two three four", 20), "    one two three\n      four");
    }

    #[test]
    fn long_lists_break_only_after_separators() {
        let list = "pci=disable_acs_redir=0000:15:01.0;0000:17:00.0;0000:17:01.0";
        assert_eq!(
            wrap(&format!("+ {list}"), 40),
            "+ \n  pci=disable_acs_redir=0000:15:01.0;\n  0000:17:00.0;0000:17:01.0"
                .replace("+ \n  ", "+ ")
        );
        let path = "x".repeat(60);
        assert_eq!(wrap(&path, 40), path);
    }

    #[test]
    fn colors_take_no_columns_and_continue() {
        let line = "\x1b[2m  · one two three four five\x1b[0m";
        let wrapped = wrap(line, 20);
        assert_eq!(
            anstream::adapter::strip_str(&wrapped).to_string(),
            "  · one two three\n    four five"
        );
        assert!(wrapped.starts_with("\x1b[2m") && wrapped.ends_with("\x1b[0m"));
    }

    proptest! {
        /// Only blanks are lost, and every line that is too long cannot be split.
        #[test]
        fn wrapping_keeps_all_text(text in "( {0,6}[·✓a-z]{1,12}( {1,2}[a-z日:;,]{1,18}){0,12}\n){0,4}", width in 20usize..100) {
            let wrapped = wrap(&text, width);
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&wrapped), letters(&text));
            for line in wrapped.lines() {
                prop_assert!(display_width(line) <= width || line.split_whitespace().count() <= 2, "{line:?}");
            }
        }
    }
}
