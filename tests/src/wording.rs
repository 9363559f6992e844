//! Sentences that many expected files share, so that a new wording is one edit.
//!
//! `data/wording.txt` holds them as `id: text`, with `{}` for each part that varies. Expected files hold references, `«id»` or
//! `«id part | part»`. [`expand`] replaces them before the comparison, so it stays exact and differences show whole sentences.
//! Rendered files are compared the same way, byte for byte: their comments give the reasons that plans give.
//!
//! `BLESS=1 cargo test -p bedplate-tests --lib wording` puts a new sentence of the table into every expected file.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// Whether `path` is an expected file that refers to the table. Help pages do not: their sentences are unique, and the
/// argument parser repeats them. A command reads `input.txt`.
pub fn applies_to(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_text = name.ends_with(".txt") || name.ends_with(".diff");
    is_text && !name.starts_with("help") && name != "input.txt"
}

struct Sentence {
    id: &'static str,
    /// Fixed text around the parts that vary.
    fixed: Vec<&'static str>,
    longest: &'static str,
}

fn table() -> &'static [Sentence] {
    static TABLE: OnceLock<Vec<Sentence>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let text = std::fs::read_to_string(crate::data("wording.txt")).expect("the table");
        let lines = text.leak().lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sentence = |line: &'static str| {
            let (id, text) = line.split_once(": ").expect("`id: text`");
            let fixed: Vec<&str> = text.split("{}").collect();
            let longest = fixed.iter().max_by_key(|part| part.len()).expect("a part");
            Sentence { id, longest, fixed }
        };
        lines.map(sentence).collect()
    })
}

impl Sentence {
    /// Position of the sentence in `line`, and the parts that vary.
    fn find<'t>(&self, line: &'t str) -> Option<(Range<usize>, Vec<&'t str>)> {
        let start = line.contains(self.longest).then(|| line.find(self.fixed[0]))??;
        let (mut end, mut parts) = (start + self.fixed[0].len(), Vec::new());
        for fixed in &self.fixed[1..] {
            let length = line[end..].find(fixed)?;
            parts.push(&line[end..end + length]);
            end += length + fixed.len();
        }
        (!parts.iter().any(|part| part.contains(['|', '«', '»']))).then_some((start..end, parts))
    }
}

/// Replaces sentences of the table by references to them.
pub fn shorten(text: &str) -> String {
    text.split_inclusive('\n').map(shorten_line).collect()
}

fn shorten_line(line: &str) -> String {
    let found = table().iter().find_map(|sentence| Some((sentence.id, sentence.find(line)?)));
    let Some((id, (at, parts))) = found else { return line.to_owned() };
    let space = if parts.is_empty() { "" } else { " " };
    let reference = format!("«{id}{space}{}»", parts.join(" | "));
    shorten_line(&line[..at.start]) + &reference + &shorten_line(&line[at.end..])
}

/// Replaces references by the sentences of the table.
///
/// # Errors
/// A reference that the table does not have, or not with as many parts.
pub fn expand(text: &str) -> Result<String, String> {
    let mut pieces = text.split('«');
    let mut full = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (reference, rest) = piece.split_once('»').ok_or(format!("no » after «{piece}"))?;
        let (id, parts) = reference.split_once(' ').unzip();
        let parts: Vec<&str> =
            parts.map(|parts: &str| parts.split(" | ").collect()).unwrap_or_default();
        let is_meant = |one: &&Sentence| {
            one.id == id.unwrap_or(reference) && one.fixed.len() == parts.len() + 1
        };
        let sentence = table().iter().find(is_meant);
        let sentence = sentence.ok_or(format!("wording.txt has no «{reference}»"))?;
        full += sentence.fixed[0];
        for (part, fixed) in parts.iter().zip(&sentence.fixed[1..]) {
            full.extend([part, *fixed]);
        }
        full += rest;
    }
    Ok(full)
}

#[cfg(test)]
mod tests;
