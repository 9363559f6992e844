//! The assignments that together make the value of a variable: the text that each adds, and its replacement.

use std::ops::Range;

use super::super::NotUnderstood;
use super::super::shell::{Assignment, Event, Piece};
use super::variables::Variables;
use super::{GrubDefault, REMEDY, escaped, written};

/// One assignment and the text that it adds to the value before it.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    assignment: &'a Assignment,
    /// Its reference to the value before it, as written; `None` if it overwrites the variable.
    head: Option<String>,
    /// Whether its text is literal, so that other text can replace it.
    is_plain: bool,
    /// Whether its first or last word continues in another part.
    is_glued: bool,
    /// The text in front of that reference.
    pub front: String,
    /// The value of that reference.
    base: String,
    /// The text that follows it.
    pub text: String,
}

impl Part<'_> {
    /// Whether this assignment ignores the value before it.
    pub fn is_first(&self) -> bool {
        self.head.is_none() && !self.assignment.appends
    }

    /// Strips `front` and the referenced value from the start of `value`. Fails if it does not start with them.
    pub(super) fn text_after<'v>(
        &self,
        value: &'v str,
        file: &str,
    ) -> Result<&'v str, NotUnderstood> {
        let rest = value.strip_prefix(self.front.as_str());
        rest.and_then(|rest| rest.strip_prefix(self.base.as_str()))
            .ok_or_else(|| self.put_together(file))
    }

    fn put_together(&self, file: &str) -> NotUnderstood {
        let why = format!("the value is put together from other variables; {REMEDY}");
        NotUnderstood::at(file, self.assignment.value.start, why)
    }
}

impl GrubDefault {
    /// Returns the assignments that make the value of a variable after this file; `inherited` is the value before it.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the place that the value depends on and that cannot be followed.
    pub fn parts(
        &self,
        name: &str,
        inherited: Option<&str>,
    ) -> Result<Vec<Part<'_>>, NotUnderstood> {
        self.value(name, inherited)?;
        let mut variables = Variables::inheriting(name, inherited);
        let mut parts: Vec<Part<'_>> = Vec::new();
        for event in &self.events {
            let was = variables.get(name).ok().flatten();
            variables.apply_event(0, self, event);
            let Event::Assign(assignment) = event else { continue };
            if assignment.name != name {
                continue;
            }
            let value = variables.get(name).ok().flatten().unwrap_or_default();
            let part = self.part(assignment, was.as_deref(), &value);
            if part.is_first() {
                parts.clear();
            }
            if let Some(before) = parts.last_mut().filter(|_| part.is_glued) {
                before.is_glued = true;
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn part<'a>(&self, assignment: &'a Assignment, was: Option<&str>, value: &str) -> Part<'a> {
        let pieces = assignment.pieces.as_slice();
        let in_front = pieces.iter().take_while(|piece| matches!(piece, Piece::Text(_))).count();
        let (front, rest) = pieces.split_at(in_front);
        let head = rest
            .first()
            .filter(|_| !assignment.appends)
            .and_then(|piece| self.head(piece, &assignment.name, was));
        let (front, rest) = match &head {
            Some(_) => (texts(front), rest.get(1..).unwrap_or_default()),
            None => (String::new(), pieces),
        };
        let is_plain = rest.iter().all(|piece| matches!(piece, Piece::Text(_)));
        let (head, base) = match head {
            Some((head, base)) => (Some(head), base),
            None if assignment.appends => (None, was.unwrap_or_default().to_owned()),
            None => (None, String::new()),
        };
        let behind = value.strip_prefix(front.as_str()).unwrap_or(value);
        let text = behind.strip_prefix(base.as_str()).unwrap_or(behind).to_owned();
        let is_glued = is_glued(&[&front, &base, &text]);
        Part { assignment, head, is_plain, is_glued, front, base, text }
    }

    /// Returns a reference to the variable's own earlier value, as written, and its value.
    fn head(&self, piece: &Piece, own: &str, was: Option<&str>) -> Option<(String, String)> {
        let value = was.unwrap_or_default();
        match piece {
            Piece::Var { name, .. } if name == own => {
                Some((format!("${{{name}}}"), value.to_owned()))
            }
            Piece::Choice { name, operator, word, at } if name == own => {
                let is_set = was.is_some() && !(operator.starts_with(':') && value.is_empty());
                let base = match (operator.trim_start_matches(':'), is_set) {
                    ("+", true) | ("-", false) => of_own(word, own, value)?,
                    ("+", false) => String::new(),
                    ("-", true) => value.to_owned(),
                    _ => return None,
                };
                of_own(word, own, value)?;
                Some((self.text[*at..self.end_of_braces(*at)?].to_owned(), base))
            }
            _ => None,
        }
    }

    fn end_of_braces(&self, start: usize) -> Option<usize> {
        let mut depth = 0;
        for (at, c) in self.text.get(start..)?.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return Some(start + at + 1),
                '}' => depth -= 1,
                // Distributions and TuneD never write this, and its meaning depends on the surrounding quotes.
                '\\' | '\'' | '"' => return None,
                _ => {}
            }
        }
        None
    }

    /// Returns byte range and new text for an assignment that adds other words: `front` before the referenced value,
    /// `text` behind it.
    ///
    /// # Errors
    /// [`NotUnderstood`] if its text is not literal, or shares a word with another part.
    pub fn with_words(
        &self,
        part: &Part<'_>,
        front: &str,
        text: &str,
    ) -> Result<(Range<usize>, String), NotUnderstood> {
        match part.is_glued {
            true => Err(part.put_together(&self.text)),
            false => self.with_part(part, front, text),
        }
    }

    /// [`GrubDefault::with_words`] without the check for shared words.
    pub(super) fn with_part(
        &self,
        part: &Part<'_>,
        front: &str,
        text: &str,
    ) -> Result<(Range<usize>, String), NotUnderstood> {
        let value = &part.assignment.value;
        if [front, text].iter().any(|text| text.contains(['\n', '\r', '\0'])) {
            let why = format!("the new value of {} has a line end", part.assignment.name);
            return Err(NotUnderstood::at(&self.text, value.start, why));
        }
        if !part.is_plain {
            return Err(part.put_together(&self.text));
        }
        let new = match &part.head {
            None => written(text, part.assignment.quote),
            Some(head) => {
                // Keep the spelling of the reference if the text behind it allows.
                let name = &part.assignment.name;
                let bare = !self.text[value.clone()].contains("${")
                    && !text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let head = if bare { format!("${name}") } else { head.clone() };
                format!("\"{}{head}{}\"", escaped(front), escaped(text))
            }
        };
        Ok((value.clone(), new))
    }

    /// Applies changes made by `GrubDefault::with_part` to the text.
    pub fn with(&self, mut changes: Vec<(Range<usize>, String)>) -> String {
        changes.sort_by_key(|(range, _)| range.start);
        let mut text = self.text.clone();
        for (range, new) in changes.into_iter().rev() {
            text.replace_range(range, &new);
        }
        text
    }
}

/// Whether a text continues the last word of the one before it.
fn is_glued(texts: &[&String]) -> bool {
    let blank = |c: char| matches!(c, ' ' | '\t');
    let texts: Vec<&&String> = texts.iter().filter(|text| !text.is_empty()).collect();
    texts.windows(2).any(|pair| !pair[0].ends_with(blank) && !pair[1].starts_with(blank))
}

fn texts(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        _ => String::new(),
    };
    pieces.iter().map(text).collect()
}

/// Returns the value of a word that contains only text and the variable itself.
fn of_own(word: &[Piece], own: &str, value: &str) -> Option<String> {
    word.iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Var { name, .. } if name == own => Some(value),
            _ => None,
        })
        .collect()
}
