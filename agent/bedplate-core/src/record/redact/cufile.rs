//! Redacts the configuration of GPUDirect Storage's library. Names of checked settings, numbers, and switches stay;
//! mount points, addresses, and all other text are masked. Lines and types are preserved. Pure.

use super::masker::Masker;
use bedplate_facts::cufile::{known_name, quoted, without_comments};

/// Maximum length of a number that stays; no setting needs as many characters.
const LONGEST_NUMBER: usize = 40;

pub(super) fn redact(text: &str, words: &mut Masker) -> String {
    let plain = without_comments(text);
    let mut clean = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| !c.is_whitespace() && !"\"{}[]:,".contains(c);
        let length = match c {
            '"' => quoted(rest),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        let inner = part.trim_matches('"');
        let is_plain = ["true", "false", "null"].contains(&part)
            || part.len() <= LONGEST_NUMBER
                && serde_json::from_str::<serde_json::Number>(part).is_ok();
        if c == '"' && !(known_name(inner).is_some() || inner.is_empty()) {
            let ends = part.len() > 1 && part.ends_with('"');
            let end = if ends { "\"" } else { "" };
            // A string across lines is invalid; its number of lines is preserved.
            let lines = "\n".repeat(part.matches('\n').count());
            clean.push_str(&format!("\"{}{lines}{end}", words.mask(inner)));
        } else if is_word(c) && !is_plain {
            clean.push_str(&words.mask(part));
        } else {
            clean.push_str(part);
        }
        rest = after;
    }
    clean
}
