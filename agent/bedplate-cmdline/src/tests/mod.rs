//! Tests of the command-line semantics, with hand-made lines and an independent implementation of the kernel's rules
//! (`kernel.rs`).

mod edit;
mod edit_units;
mod kernel;
mod lex;
mod props;
mod status;

use bedplate_base::Arch;

use super::{CommandLine, Edit, EditError, Token};

pub(crate) fn tokens<S: AsRef<str>>(texts: &[S]) -> Vec<Token> {
    texts.iter().map(|text| Token::new(text.as_ref()).expect("an argument")).collect()
}

/// Creates an edit for x86-64.
pub(crate) fn edit_of<S: AsRef<str>>(set: &[S], absent: &[S]) -> Result<Edit, EditError> {
    Edit::new(Arch::X86_64, tokens(set))?.without(tokens(absent))
}

/// Parses a table: one row per line, cells separated by `|`. Lines that start with `#` are comments.
pub(crate) fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines =
        table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("not {N} cells: {cells:?}"))
    })
}

/// Applies `set` and `absent` to a line on x86-64.
fn edited(line: &str, set: &[&str], absent: &[&str]) -> String {
    edited_on(Arch::X86_64, line, set, absent)
}

fn edited_on(arch: Arch, line: &str, set: &[&str], absent: &[&str]) -> String {
    let edit = Edit::new(arch, tokens(set)).and_then(|edit| edit.without(tokens(absent)));
    let edit = edit.expect("a sensible edit");
    let once = edit.apply(&CommandLine::parse(line)).expect("an editable line");
    let twice = edit.apply(&once).expect("still editable");
    assert_eq!(once.to_string(), twice.to_string(), "a second application must change nothing");
    once.to_string()
}
