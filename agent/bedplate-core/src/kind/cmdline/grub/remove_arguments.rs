//! Removes arguments from the files that contain them. Recovery entries get the general variable alone, so unmanaged
//! options stay in it, and words keep their places where possible.

use super::super::Obstacle;
use super::super::boot_files;
use super::sources::{SourcedFile, value};
use bedplate_cmdline::boot::grub_default::{self, CMDLINE, CMDLINE_DEFAULT};
use bedplate_cmdline::boot::grub_quote::{self, GrubQuoteError, GrubWord};
use bedplate_cmdline::{CommandLine, Edit, Token};

/// Arguments to remove, and their replacements.
pub(super) struct Removal<'a> {
    pub edit: &'a Edit,
    /// Variable that takes bedplate's arguments.
    pub variable: &'a str,
    /// Desired line.
    pub target: &'a CommandLine,
    /// Arguments to remove, once for each occurrence.
    pub removed: Vec<Token>,
    /// Sequences that are only reordered, each in its new order.
    pub reordered: Vec<Vec<Token>>,
}

impl Removal<'_> {
    /// Removes the arguments from the files and variables that contain them. Every other byte stays unchanged.
    pub(super) fn apply(mut self, sources: &[SourcedFile]) -> Result<Vec<SourcedFile>, Obstacle> {
        let mut result: Vec<SourcedFile> = Vec::new();
        for source in sources {
            let mut changes = Vec::new();
            let own = |error| boot_files::cannot(&source.path, &error);
            for variable in [CMDLINE, CMDLINE_DEFAULT] {
                // A value that cannot be evaluated here stays unchanged. A later file sets the variable again;
                // otherwise the whole line could not have been read.
                let Ok(before) = value(&result, variable) else { continue };
                let Ok(parts) = source.default.parts(variable, Some(&before)) else { continue };
                for part in &parts {
                    // The place of this error is relative to the value, not to the file.
                    let words = |text: &str| {
                        grub_quote::split(text).map_err(|error| {
                            boot_files::cannot(&source.path, &GrubQuoteError::from(error))
                        })
                    };
                    let front = self.remaining_words(&words(&part.front)?, variable, true)?;
                    let front = front.map(|left| separated(left, &part.front));
                    let text =
                        self.remaining_words(&words(&part.text)?, variable, part.is_first())?;
                    if front.is_some() || text.is_some() {
                        let front = front.as_ref().unwrap_or(&part.front);
                        let text = text.as_ref().unwrap_or(&part.text);
                        changes.push(source.default.with_words(part, front, text).map_err(own)?);
                    }
                }
            }
            let default = match changes.is_empty() {
                true => source.default.clone(),
                false => source.default.with_text(&source.default.with(changes)),
            };
            result.push(SourcedFile { path: source.path.clone(), default });
        }
        Ok(result)
    }

    /// Returns the remaining words, or `None` if no word changes.
    fn remaining_words(
        &mut self,
        words: &[GrubWord],
        variable: &str,
        first: bool,
    ) -> Result<Option<String>, Obstacle> {
        let mut left = String::new();
        let mut touched = false;
        let mut here = self.reordered_here(words);
        for word in words {
            let texts = match self.removed.iter().position(|gone| gone.as_str() == word.kernel) {
                None => vec![word.raw.clone()],
                Some(at) => {
                    self.removed.remove(at);
                    let instead = self.replacement(&word.kernel, variable, &mut here);
                    let written = instead.iter().map(|token| {
                        grub_quote::grub_token(token)
                            .map_err(|error| boot_files::cannot(grub_default::MAIN, &error))
                    });
                    let kept = instead.first().is_some_and(|only| only.as_str() == word.kernel);
                    match kept && instead.len() == 1 {
                        true => vec![word.raw.clone()],
                        false => {
                            touched = true;
                            written.collect::<Result<_, _>>()?
                        }
                    }
                }
            };
            for (nth, text) in texts.iter().enumerate() {
                let gap = match (left.is_empty() && first, nth) {
                    (true, _) => "",
                    (false, 0) => word.gap.as_str(),
                    _ => " ",
                };
                left.push_str(gap);
                left.push_str(text);
            }
        }
        Ok(touched.then_some(left))
    }

    /// Returns the sequences whose arguments are all among these words.
    fn reordered_here(&self, words: &[GrubWord]) -> Vec<Vec<Token>> {
        let count = |text: &str| words.iter().filter(|word| word.kernel == text).count();
        let all_here = |tokens: &&Vec<Token>| {
            let needed = |text: &str| tokens.iter().filter(|token| token.as_str() == text).count();
            tokens.iter().all(|token| count(token.as_str()) >= needed(token.as_str()))
        };
        self.reordered.iter().filter(all_here).cloned().collect()
    }

    /// Returns the replacement of a removed word.
    fn replacement(&self, word: &str, variable: &str, here: &mut [Vec<Token>]) -> Vec<Token> {
        let Ok(token) = Token::new(word) else { return Vec::new() };
        for sequence in here.iter_mut() {
            // Each member is replaced by the next one of the new order.
            if sequence.iter().any(|member| member.folded_name() == token.folded_name()) {
                return vec![sequence.remove(0)];
            }
        }
        match self.edit.is_merged(&token) && variable == self.variable {
            true => Vec::new(),
            false => self.edit.staying(&token, self.target).into_iter().collect(),
        }
    }
}

/// Appends the trailing blanks of `before` to the words. No words result in an empty text.
fn separated(left: String, before: &str) -> String {
    let gap = &before[before.trim_end_matches([' ', '\t']).len()..];
    if left.is_empty() { left } else { left + gap }
}
