//! `/etc/kernel/cmdline`, from which kernel-install makes the command line of new kernels. Blanks of any kind separate
//! arguments and are collapsed; the file has no comments and no quotes of its own (handbook §10.3; kernel-install(8)).
//! If GRUB reads the resulting entries, the text is GRUB script in the end and needs GRUB's quotes.

use super::NotUnderstood;
use super::bls::Reader;
use super::grub_quote::{self, GrubQuoteError};
use crate::{CommandLine, Edit, is_blank};

/// Returns the command line of kernels installed from now on.
///
/// # Errors
/// [`NotUnderstood`] if GRUB would not read the line.
pub fn cmdline(text: &str, reader: Reader) -> Result<String, NotUnderstood> {
    let line = text.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match reader {
        Reader::SystemdBoot => Ok(line),
        Reader::Grub => grub_quote::kernel_line(&line),
    }
}

/// Applies an edit to the file. Unchanged text keeps its place and spelling. Changed text ends in a line end.
///
/// # Errors
/// [`GrubQuoteError`] if the text cannot be read, edited or written.
pub fn edited(text: &str, reader: Reader, edit: &Edit) -> Result<String, GrubQuoteError> {
    let new = match reader {
        Reader::SystemdBoot => edit.apply(&CommandLine::parse(text))?.to_string(),
        Reader::Grub => {
            // kernel-install treats line ends as blanks, but they would end a GRUB command.
            let body = text.trim_end_matches(is_blank);
            let one_line: String =
                body.chars().map(|c| if is_blank(c) { ' ' } else { c }).collect();
            let new = grub_quote::edit_text(&one_line, edit)?;
            if new == one_line { text.to_owned() } else { new + &text[body.len()..] }
        }
    };
    if new == text || new.ends_with('\n') { Ok(new) } else { Ok(new + "\n") }
}
