//! Parameters that occur more than once on a line, and the result.

use serde::Serialize;

use bedplate_base::Arch;

use super::lex::Token;
use super::line::CommandLine;
use super::shape::{Shape, shape_of};

/// A parameter given more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedParameter {
    /// Its arguments, in line order.
    pub arguments: Vec<String>,
    /// Their combined effect.
    pub result: String,
}

/// Returns every repeated parameter, in line order.
pub fn repeated(line: &CommandLine, arch: Arch) -> Vec<RepeatedParameter> {
    let mut all: Vec<(String, Vec<&Token>)> = Vec::new();
    for token in line.tokens() {
        let name = token.folded_name();
        match all.iter_mut().find(|(own, _)| *own == name) {
            Some((_, tokens)) => tokens.push(token),
            None => all.push((name, vec![token])),
        }
    }
    all.retain(|(_, tokens)| tokens.len() > 1);
    all.into_iter()
        .map(|(name, tokens)| RepeatedParameter {
            result: result(&name, &tokens, arch),
            arguments: tokens.iter().map(|token| token.as_str().to_owned()).collect(),
        })
        .collect()
}

fn result(name: &str, tokens: &[&Token], arch: Arch) -> String {
    let last = tokens.last().map_or("", |token| token.as_str());
    match shape_of(name, arch) {
        Shape::Options(_) => {
            "their options are combined; the last of conflicting options applies".to_owned()
        }
        Shape::Items(list) if list.last_wins => format!("the last one applies: `{last}`"),
        Shape::Items(_) => "all of them apply".to_owned(),
        Shape::Sequence(sequence) => format!("all of them are read: {}", sequence.rule),
        Shape::Bool | Shape::Scalar => format!("the last one applies: `{last}`"),
    }
}
