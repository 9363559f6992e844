//! Arguments of lists, part by part: what of one stays where it stands, and what of one has to be added, when its
//! options end up in different places.

use super::edit::Edit;
use super::lex::Token;
use super::line::CommandLine;
use super::shape::{OptionList, Shape, shape_of};

impl Edit {
    /// What of a list's argument is on the new line as well. `None`: nothing, or it is no list.
    pub fn staying(&self, token: &Token, new: &CommandLine) -> Option<Token> {
        let parts = self.parts(token)?;
        let there = self.parts_of(&token.folded_name(), new);
        let stay: Vec<String> = parts.iter().filter(|part| there.contains(part)).cloned().collect();
        self.with_parts(token, &parts, &stay)
    }

    /// What of an argument is to be added to a line on which, of a list, some options stand already, in the same order.
    pub fn missing(&self, token: &Token, line: &CommandLine) -> Option<Token> {
        let Some(parts) = self.parts(token) else { return Some(token.clone()) };
        // Where only the last argument counts, it has to hold everything.
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

    /// Whether what is wanted of this parameter is written as a single argument.
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
