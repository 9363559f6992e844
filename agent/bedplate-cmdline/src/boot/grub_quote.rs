//! Passes a line of arguments through GRUB: how GRUB turns the words of a `linux …` line into the kernel's line, and
//! how to write a kernel argument so that the kernel gets it unchanged.
//!
//! Two steps (handbook §10.1): the script lexer removes quotes (`grub-core/script/yylex.l`), then
//! `grub_create_loader_cmdline` (`grub-core/lib/cmdline.c`) joins the arguments. It puts double quotes round an
//! argument with a space, and a backslash before every `\`, `'` and `"`. The kernel does not remove those backslashes,
//! so GRUB cannot carry these three characters.

use bedplate_base::{DiffTag, diff_operations};

use super::NotUnderstood;
use super::grub_script::{Part, Word, split_words};
use crate::{ApplyError, CommandLine, Edit, Token};

/// Reason why GRUB cannot pass a kernel argument to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrubQuoteError {
    /// An argument that GRUB would change, or a word that is not one argument after GRUB. Holds the complete message.
    #[error("{0}")]
    Argument(String),
    /// The configuration text cannot be read.
    #[error("cannot parse the text like GRUB")]
    Text(#[from] NotUnderstood),
    /// The edit failed.
    #[error("cannot edit the kernel arguments in the GRUB text")]
    Edit(#[from] ApplyError),
}

/// One word of a GRUB line and the kernel's text for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrubWord {
    /// As written.
    pub raw: String,
    /// Blanks before it.
    pub gap: String,
    /// The kernel's text, with variables as `$name`.
    pub kernel: String,
    /// The variables in it, which only GRUB can expand.
    pub variables: Vec<String>,
}

/// Splits a line of GRUB arguments into words.
///
/// # Errors
/// [`NotUnderstood`] if GRUB would end the command or the quoting is broken.
pub fn split(text: &str) -> Result<Vec<GrubWord>, NotUnderstood> {
    let mut end = 0;
    let mut all = Vec::new();
    for word in split_words(text)? {
        let gap = text[end..word.start].to_owned();
        let raw = text[word.start..word.end].to_owned();
        let (argument, variables) = literal(&word);
        end = word.end;
        all.push(GrubWord { raw, gap, kernel: join_argument(&argument), variables });
    }
    Ok(all)
}

/// Returns the line that the kernel gets from a line of GRUB arguments, as joined by `grub_create_loader_cmdline`.
/// Variables stay as `$name`.
///
/// # Errors
/// As [`split`].
pub fn kernel_line(text: &str) -> Result<String, NotUnderstood> {
    Ok(split(text)?.iter().map(|word| word.kernel.as_str()).collect::<Vec<_>>().join(" "))
}

/// Quotes a kernel argument for a GRUB script (`grub.cfg`, `GRUB_CMDLINE_LINUX*`, a BLS entry that GRUB reads), so that
/// the kernel gets it unchanged.
///
/// # Errors
/// [`GrubQuoteError`] for a character that GRUB passes on with a backslash in front.
pub fn grub_token(token: &Token) -> Result<String, GrubQuoteError> {
    let name = token.name();
    // GRUB puts quotes round an argument with spaces, and the kernel removes them.
    let argument = match token.value() {
        Some(value) => format!("{name}={value}"),
        None => name.into_owned(),
    };
    if let Some(character) = argument.chars().find(|c| matches!(c, '\\' | '\'' | '"')) {
        return Err(GrubQuoteError::Argument(format!(
            "GRUB adds a backslash before the `{character}` in `{token}`, so the kernel would get a different value"
        )));
    }
    Ok(quote_argument(&argument))
}

/// Applies an edit to a line of GRUB arguments. Unchanged words keep every byte.
///
/// # Errors
/// [`GrubQuoteError`] if the text cannot be read, edited or written safely.
pub fn edit_text(text: &str, edit: &Edit) -> Result<String, GrubQuoteError> {
    let old = split(text)?;
    let line = old.iter().map(|word| word.kernel.as_str()).collect::<Vec<_>>().join(" ");
    for word in old.iter().take_while(|word| word.kernel != "--") {
        let alone = CommandLine::parse(&word.kernel);
        if alone.len() != 1
            || alone.to_string() != alone.tokens().map(Token::as_str).collect::<String>()
        {
            // The kernel would split the line elsewhere than GRUB, so single arguments cannot be identified.
            let why = "is not one kernel argument after GRUB; write it as one";
            return Err(GrubQuoteError::Argument(format!("`{}` {why}", word.raw)));
        }
    }
    let new = edit.apply(&CommandLine::parse(&line))?;
    rewrite(text, &old, &new)
}

/// Merges unchanged words of the old text and new words, in the order of the new line.
fn rewrite(text: &str, old: &[GrubWord], new: &CommandLine) -> Result<String, GrubQuoteError> {
    let tail = old.iter().position(|word| word.kernel == "--").unwrap_or(old.len());
    let before: Vec<&str> = old[..tail].iter().map(|word| word.kernel.as_str()).collect();
    let after: Vec<&Token> = new.tokens().collect();
    let texts: Vec<&str> = after.iter().map(|token| token.as_str()).collect();
    let mut out = String::new();
    let mut push = |gap: &str, word: &str| {
        let gap = if gap.is_empty() && !out.is_empty() { " " } else { gap };
        out.push_str(gap);
        out.push_str(word);
    };
    let first_gap = old.first().map_or("", |word| word.gap.as_str());
    let mut first = true;
    for op in diff_operations(&before, &texts) {
        let (tag, was, is) = op.as_tag_tuple();
        let gap_at = |offset: usize, first: bool| match old[was.clone()].get(offset) {
            _ if first => first_gap,
            Some(word) => word.gap.as_str(),
            None => " ",
        };
        for (offset, at) in is.enumerate() {
            match tag {
                DiffTag::Equal => push(gap_at(offset, first), &old[was.start + offset].raw),
                _ => push(gap_at(offset, first), &grub_token(after[at])?),
            }
            first = false;
        }
    }
    for word in &old[tail..] {
        push(if first { first_gap } else { &word.gap }, &word.raw);
        first = false;
    }
    let end = text.trim_end_matches([' ', '\t']).len();
    out.push_str(&text[end..]);
    Ok(out)
}

/// Returns the argument's text, with variables as `$name`.
fn literal(word: &Word) -> (String, Vec<String>) {
    let mut variables = Vec::new();
    let mut out = String::new();
    for part in &word.parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Var { name, .. } => {
                out.push('$');
                out.push_str(name);
                variables.push(name.clone());
            }
        }
    }
    (out, variables)
}

/// Joins one argument like `grub_create_loader_cmdline`.
pub(super) fn join_argument(argument: &str) -> String {
    let mut out = String::new();
    for c in argument.chars() {
        if matches!(c, '\\' | '\'' | '"') {
            out.push('\\');
        }
        out.push(c);
    }
    if argument.contains(' ') { format!("\"{out}\"") } else { out }
}

/// Quotes text that GRUB's lexer would not read as plain (`yylex.l`, `CHAR`), and the characters of its wildcards. The
/// quotes start after the last `=` before that text, so that `pci=config_acs="a;b"` stays readable.
fn quote_argument(argument: &str) -> String {
    let special =
        |c: char| !(c.is_ascii_alphanumeric() || "_-+.,:=/@%".contains(c) || !c.is_ascii());
    let Some(first) = argument.find(special) else {
        return argument.to_owned();
    };
    let from = argument[..first].rfind('=').map_or(0, |at| at + 1);
    let (plain, quoted) = argument.split_at(from);
    let quoted = quoted.replace('$', "\\$");
    format!("{plain}\"{quoted}\"")
}
