//! `/etc/default/grub` and its drop-ins: shell scripts that grub-mkconfig sources. Reads them without running them
//! (handbook §10.1): supports plain assignments, and rejects everything else that could matter, with its place.

mod parts;
mod variables;

use super::NotUnderstood;
use super::grub_quote::{self, GrubQuoteError};
use super::shell::{Assignment, Event, Piece, Quote, Shell, scan};
use crate::{Token, TokenError};

use variables::Variables;

/// Fix for a file that cannot be followed.
const REMEDY: &str = "write the literal value, or move the assignment to a separate drop-in";

/// The main file.
pub const MAIN: &str = "/etc/default/grub";
/// Directory of drop-ins.
pub const DROP_INS: &str = "/etc/default/grub.d";
/// Arguments of all Linux entries.
pub const CMDLINE: &str = "GRUB_CMDLINE_LINUX";
/// Arguments of ordinary entries, behind those of [`CMDLINE`]; recovery entries do not get them.
pub const CMDLINE_DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrubDefault {
    text: String,
    shell: Shell,
    /// Offset of the loop that sources the drop-ins, if that is the last command. `events` does not contain it.
    drop_ins_at: Option<usize>,
    events: Vec<Event>,
}

/// A place that cannot be followed in a series of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot follow file {} of the GRUB configuration", file + 1)]
pub struct EvaluateError {
    /// Index of the file, from 0.
    pub file: usize,
    /// The place.
    pub source: NotUnderstood,
}

/// Reason why a drop-in of bedplate cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DropInError {
    /// Not a file that bedplate writes.
    #[error("cannot read the drop-in")]
    Text(#[from] NotUnderstood),
    /// Contains text that is not a kernel argument.
    #[error("the drop-in has a value that is not a kernel argument")]
    Token(#[from] TokenError),
}

/// Parses a file. Accepts any text; unsupported code causes errors only when a value depends on it.
pub fn parse(text: &str) -> GrubDefault {
    parse_for(Shell::Posix, text)
}

/// Parses a file that a known shell reads.
pub fn parse_for(shell: Shell, text: &str) -> GrubDefault {
    GrubDefault { text: text.to_owned(), shell, drop_ins_at: None, events: scan(text) }
}

/// Parses the main file for a grub-mkconfig that reads no drop-ins. If the file ends with a loop that sources all of
/// [`DROP_INS`], the caller must read them after it ([`GrubDefault::sources_drop_ins`]).
pub fn parse_main(shell: Shell, text: &str) -> GrubDefault {
    let mut main = parse_for(shell, text);
    if let Some(Event::DropIns { at, .. }) = main.events.last() {
        main.drop_ins_at = Some(*at);
        main.events.pop();
    }
    main
}

/// Returns the value of a variable after sourcing the files in order: the main file, then drop-ins in the shell's glob
/// order. `None` if it is never set.
///
/// # Errors
/// [`EvaluateError`] with the file and place that the value depends on and that cannot be followed.
pub fn evaluate(files: &[&GrubDefault], name: &str) -> Result<Option<String>, EvaluateError> {
    let mut variables = Variables::default();
    for (file, default) in files.iter().enumerate() {
        variables.source(file, default);
    }
    variables.get(name).map_err(|unknown| EvaluateError {
        file: unknown.file,
        source: unknown.described(&files[unknown.file].text),
    })
}

impl GrubDefault {
    /// Returns the text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Creates the same file with another text.
    pub fn with_text(&self, text: &str) -> GrubDefault {
        match self.drop_ins_at {
            Some(_) => parse_main(self.shell, text),
            None => parse_for(self.shell, text),
        }
    }

    /// Whether this main file itself sources the drop-ins, as its last command.
    pub fn sources_drop_ins(&self) -> bool {
        self.drop_ins_at.is_some()
    }

    /// Returns the value of a variable after this file; `inherited` is the value before it. `None` if it is never set.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the place that the value depends on and that cannot be followed.
    pub fn value(
        &self,
        name: &str,
        inherited: Option<&str>,
    ) -> Result<Option<String>, NotUnderstood> {
        let mut variables = Variables::inheriting(name, inherited);
        variables.source(0, self);
        variables.get(name).map_err(|unknown| unknown.described(&self.text))
    }

    /// Returns the line, from 1, on which a variable is made read-only, also inside a function.
    pub fn read_only_at(&self, name: &str) -> Option<usize> {
        fn find(events: &[Event], name: &str) -> Option<usize> {
            events.iter().find_map(|event| match event {
                Event::ReadOnly { name: own, at } if own == name => Some(*at),
                Event::Function { body, .. } => find(body, name),
                _ => None,
            })
        }
        find(&self.events, name).map(|at| self.text[..at].matches('\n').count() + 1)
    }

    /// Returns the lines that do more than set these variables to fixed text. Skips blank lines and comments.
    pub fn other_lines(&self, is_variable: &dyn Fn(&str) -> bool) -> Vec<String> {
        let is_plain = |assignment: &&Assignment| {
            is_variable(&assignment.name)
                && assignment.doubtful.is_none()
                && !assignment.pieces.iter().any(Piece::is_opaque)
        };
        let assignments = self.events.iter().filter_map(|event| match event {
            Event::Assign(assignment) => Some(assignment),
            _ => None,
        });
        let (mut rest, mut at) = (String::new(), 0);
        for assignment in assignments.filter(is_plain) {
            rest.push_str(self.text.get(at..assignment.at).unwrap_or_default());
            at = assignment.value.end;
        }
        rest.push_str(self.text.get(at..).unwrap_or_default());
        // The shell does not treat other whitespace as blanks.
        let lines = rest.split('\n').map(|line| line.trim_matches([' ', '\t']));
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// Returns the lines, from 1, that assign one of these variables a word accepted by `is_meant`.
    pub fn lines_with(&self, variables: &[&str], is_meant: &dyn Fn(&str) -> bool) -> Vec<usize> {
        let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
        let given = |event: &Event| match event {
            Event::Assign(assignment) if variables.contains(&assignment.name.as_str()) => {
                let value = &self.text[assignment.value.clone()];
                value.split(ends_word).any(is_meant).then_some(assignment.at)
            }
            _ => None,
        };
        let line = |at: usize| self.text[..at].matches('\n').count() + 1;
        self.events.iter().filter_map(given).map(line).collect()
    }

    /// Returns the text with another value for a variable, every other byte kept. Changes the last assignment, or adds
    /// one behind all others. `inherited` is the value before this file.
    ///
    /// # Errors
    /// [`NotUnderstood`] if this file does not simply set the value.
    pub fn edited(
        &self,
        name: &str,
        value: &str,
        inherited: Option<&str>,
    ) -> Result<String, NotUnderstood> {
        if self.value(name, inherited)?.as_deref() == Some(value) {
            return Ok(self.text.clone());
        }
        let parts = self.parts(name, inherited)?;
        let Some(last) = parts.last() else {
            if value.contains(['\n', '\r', '\0']) {
                let why = format!("the new value of {name} has a line end");
                return Err(NotUnderstood::at(&self.text, 0, why));
            }
            let (own, rest) = self.text.split_at(self.drop_ins_at.unwrap_or(self.text.len()));
            let gap = if own.is_empty() || own.ends_with('\n') { "" } else { "\n" };
            return Ok(format!("{own}{gap}{name}={}\n{rest}", in_double_quotes(value)));
        };
        Ok(self.with(vec![self.with_part(
            last,
            &last.front,
            last.text_after(value, &self.text)?,
        )?]))
    }
}

/// Renders a drop-in that adds arguments to a variable. `note` is written as comment lines at the top.
///
/// # Errors
/// [`GrubQuoteError`] for an argument that GRUB cannot carry.
pub fn write_drop_in(
    variable: &str,
    tokens: &[Token],
    note: &str,
) -> Result<String, GrubQuoteError> {
    let words: Vec<String> = tokens.iter().map(grub_quote::grub_token).collect::<Result<_, _>>()?;
    let mut text: String = note.lines().map(|line| format!("# {line}\n")).collect();
    if !words.is_empty() {
        text.push_str(&format!("{variable}=\"${variable} {}\"\n", escaped(&words.join(" "))));
    }
    Ok(text)
}

/// Returns the arguments that a drop-in adds to a variable, as the kernel gets them.
///
/// # Errors
/// [`DropInError`] if the text is not a drop-in of bedplate.
pub fn parse_drop_in(text: &str, variable: &str) -> Result<Vec<Token>, DropInError> {
    let value = parse(text).value(variable, Some(""))?.unwrap_or_default();
    let words = grub_quote::split(&value)?;
    words.iter().map(|word| Token::new(&word.kernel).map_err(DropInError::from)).collect()
}

/// Writes a value in its previous quotes, or in double quotes if those cannot hold it.
fn written(value: &str, quote: Quote) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-+.,:=/@%".contains(c);
    match quote {
        Quote::Single if !value.contains('\'') => format!("'{value}'"),
        Quote::None if !value.is_empty() && value.chars().all(bare) => value.to_owned(),
        _ => in_double_quotes(value),
    }
}

fn in_double_quotes(value: &str) -> String {
    format!("\"{}\"", escaped(value))
}

/// Escapes characters that are special between the shell's double quotes.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if matches!(c, '\\' | '"' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
