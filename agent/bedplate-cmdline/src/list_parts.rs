//! Compares list arguments option by option, for callers that write the options to different places.

use super::edit::Edit;
use super::lex::Token;
use super::line::CommandLine;
use super::shape::{OptionList, Shape, shape_of};

impl Edit {
    /// Returns the argument with only those options or items that are also on the new line. Returns nothing if all are
    /// gone, or if it is not a list.
    pub fn staying(&self, token: &Token, new: &CommandLine) -> Option<Token> {
        let parts = self.parts(token)?;
        let there = self.parts_of(&token.folded_name(), new);
        let stay: Vec<String> = parts.iter().filter(|part| there.contains(part)).cloned().collect();
        self.with_parts(token, &parts, &stay)
    }

    /// Returns the argument without those options that the line already has in the same order; `None` if the line has
    /// all.
    pub fn missing(&self, token: &Token, line: &CommandLine) -> Option<Token> {
        let Some(parts) = self.parts(token) else { return Some(token.clone()) };
        // If only the last argument takes effect, it must hold every item.
        if matches!(self.shape(token), Shape::Items(list) if list.last_wins) {
            return Some(token.clone());
        }
        let there = self.parts_of(&token.folded_name(), line);
        let mut rest = there.as_slice();
        let mut missing = Vec::new();
        for part in &parts {
            match rest.iter().position(|own| own == part) {
                Some(at) => rest = &rest[at + 1..],
                None => missing.push(part.clone()),
            }
        }
        self.with_parts(token, &parts, &missing)
    }

    /// Whether all required options of this parameter are written as one argument.
    pub fn is_merged(&self, token: &Token) -> bool {
        match self.shape(token) {
            Shape::Options(list) => list.one_argument,
            Shape::Items(list) => list.last_wins,
            _ => false,
        }
    }

    fn shape(&self, token: &Token) -> Shape {
        shape_of(&token.folded_name(), self.arch)
    }

    fn parts(&self, token: &Token) -> Option<Vec<String>> {
        let value = token.value()?;
        match self.shape(token) {
            Shape::Options(_) => Some(OptionList::options(&value).map(str::to_owned).collect()),
            Shape::Items(list) => Some(list.items(&value).into_iter().map(str::to_owned).collect()),
            _ => None,
        }
    }

    fn parts_of(&self, name: &str, line: &CommandLine) -> Vec<String> {
        line.named(name).filter_map(|token| self.parts(token)).flatten().collect()
    }

    fn with_parts(&self, token: &Token, all: &[String], some: &[String]) -> Option<Token> {
        match some {
            [] => None,
            _ if some == all => Some(token.clone()),
            _ => Token::from_parts(&token.name(), Some(&some.join(","))).ok(),
        }
    }
}
