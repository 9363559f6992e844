//! Texts that boot loaders read, interpreted by their own rules: text in, values and text out, no I/O, no execution.
//!
//! These modules only carry kernel arguments through the layers of quoting of each format; [`crate`] knows their
//! meaning. Every reader is conservative: it never guesses, but returns a [`NotUnderstood`] with the place.

pub mod bls;
pub mod completeness;
pub mod grub_bls;
pub mod grub_cfg;
pub mod grub_default;
mod grub_device;
pub mod grub_files;
pub mod grub_quote;
mod grub_run;
mod grub_script;
mod grub_test;
mod grub_vars;
pub mod grubenv;
pub mod kernel_cmdline;
pub mod shell;
pub mod uki;
pub mod version;

#[cfg(test)]
mod tests;

/// A place in a text that cannot be followed, and the reason. Does not quote the text: the reason is shown to users who
/// may not read the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("line {line}, column {column}: {why}")]
pub struct NotUnderstood {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Reason and fix.
    pub why: String,
}

impl NotUnderstood {
    /// Creates the error for a byte offset of a text.
    pub fn at(text: &str, offset: usize, why: impl Into<String>) -> NotUnderstood {
        let before = text.get(..offset).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        NotUnderstood {
            line: before.matches('\n').count() + 1,
            column: before.get(start..).map_or(0, |part| part.chars().count()) + 1,
            why: why.into(),
        }
    }
}
