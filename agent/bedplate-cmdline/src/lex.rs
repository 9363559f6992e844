//! Splits a command line into arguments, and an argument into name and value, as the kernel does.
//!
//! The rules are those of `next_arg` and `parse_args` (kernel `lib/cmdline.c`, `kernel/params.c`; handbook §1.1). This
//! module knows no parameter's meaning.

use std::borrow::{Borrow, Cow};
use std::fmt;

use serde::Serialize;

/// Whether the kernel ends an argument at this character outside double quotes.
///
/// The kernel's `isspace` works on bytes and also accepts 0xA0, which in UTF-8 is always part of a longer character;
/// [`super::CommandLine::check`] refuses lines that hold one.
pub fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

/// The only non-ASCII byte that the kernel's `isspace` accepts (`lib/ctype.c`).
pub(super) const LATIN1_NO_BREAK_SPACE: u8 = 0xA0;

/// Folds a parameter name, so that two names are equal exactly when the kernel treats them as equal: `-` and `_` are
/// the same, everything else differs, including case (`kernel/params.c`, `parameq`).
pub fn fold_name(name: &str) -> String {
    name.replace('-', "_")
}

/// One kernel argument, exactly as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Token {
    raw: String,
}

/// Reason why a text is not one kernel argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text has a blank outside double quotes, so the kernel would see several arguments.
    #[error(
        "`{0}` is several kernel arguments; put double quotes around the value to keep its spaces"
    )]
    SeveralArguments(String),
    /// Not an argument in any spelling. Holds the complete message.
    #[error("{0}")]
    Unfit(String),
    /// Not an argument as spelled; quotes may help. Holds the complete message.
    #[error("{0}")]
    Spelling(String),
}

impl Token {
    /// Creates an argument from a text that must be exactly one argument, valid on any line.
    ///
    /// # Errors
    /// [`TokenError`] if the text is not one self-contained argument.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        if text.is_empty() {
            return Err(TokenError::Spelling("a kernel argument cannot be empty".to_owned()));
        }
        // Boot loaders and the kernel do not pass these on unchanged.
        if text.bytes().any(|b| b.is_ascii_control() || b == LATIN1_NO_BREAK_SPACE) {
            return Err(TokenError::Unfit(format!(
                "`{text}` has a control character or non-ASCII blank, which does not reach the kernel unchanged"
            )));
        }
        if token_end(text) != text.len() {
            return Err(TokenError::SeveralArguments(text.to_owned()));
        }
        let token = Token { raw: text.to_owned() };
        // An open quote would make the rest of the line part of this argument.
        if token.has_open_quote() {
            let why = "has an unclosed double quote";
            return Err(TokenError::Spelling(format!("`{text}` {why}")));
        }
        if token.ends_kernel_part() {
            let why = "`--` ends the kernel arguments and is not one itself";
            return Err(TokenError::Spelling(why.to_owned()));
        }
        if token.name().is_empty() {
            let why = "has no parameter name before its value";
            return Err(TokenError::Unfit(format!("`{text}` {why}")));
        }
        Ok(token)
    }

    /// Creates an argument from a constant.
    ///
    /// # Panics
    /// When the text is not one argument. Tests must cover each constant.
    #[expect(clippy::expect_used, reason = "the text is a constant")]
    pub fn from_static(text: &'static str) -> Token {
        Token::new(text).expect("a kernel argument")
    }

    /// Creates the argument that gives the kernel exactly this name and value, quoted only if necessary.
    ///
    /// # Errors
    /// [`TokenError`] if no spelling does.
    pub fn from_parts(name: &str, value: Option<&str>) -> Result<Token, TokenError> {
        let Some(value) = value else {
            return Token::new(name);
        };
        let spellings = [format!("{name}={value}"), format!("{name}=\"{value}\"")];
        for spelling in spellings {
            match Token::new(&spelling) {
                Ok(token) if token.name() == name && token.value().as_deref() == Some(value) => {
                    return Ok(token);
                }
                Err(error @ TokenError::Unfit(_)) => return Err(error),
                _ => {}
            }
        }
        Err(TokenError::Unfit(format!(
            "cannot quote the value `{value}` for `{name}`: the kernel has no escape for a double quote"
        )))
    }

    /// Returns the argument as written.
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// Returns the parameter name as the kernel sees it, without folding.
    pub fn name(&self) -> Cow<'_, str> {
        split_argument(&self.raw).0
    }

    /// Returns the parameter name with `-` and `_` folded, for comparison.
    pub fn folded_name(&self) -> String {
        fold_name(&self.name())
    }

    /// Returns the value as the kernel sees it, without the quotes that it strips. `None` without an `=`.
    pub fn value(&self) -> Option<Cow<'_, str>> {
        split_argument(&self.raw).1
    }

    /// Whether the kernel sees the same parameter and value in both.
    pub fn same_for_kernel(&self, other: &Token) -> bool {
        self.folded_name() == other.folded_name() && self.value() == other.value()
    }

    /// Whether this is the `--` after which all arguments belong to init (`kernel/params.c`, `parse_args`).
    pub(super) fn ends_kernel_part(&self) -> bool {
        let (name, value) = split_argument(&self.raw);
        value.is_none() && name == "--"
    }

    /// Whether a double quote in the argument is never closed.
    pub(super) fn has_open_quote(&self) -> bool {
        self.raw.matches('"').count() % 2 == 1
    }

    /// Wraps a text that the lexer cut out of a line.
    pub(super) fn lexed(raw: &str) -> Token {
        Token { raw: raw.to_owned() }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

impl AsRef<Token> for Token {
    fn as_ref(&self) -> &Token {
        self
    }
}

/// Equality, order and hash are those of the text.
impl Borrow<str> for Token {
    fn borrow(&self) -> &str {
        &self.raw
    }
}

impl PartialEq<&str> for Token {
    fn eq(&self, other: &&str) -> bool {
        self.raw == *other
    }
}

/// Returns the byte length of the argument at the start of `text`: up to the first blank outside double quotes.
pub(super) fn token_end(text: &str) -> usize {
    let mut in_quote = false;
    for (at, c) in text.char_indices() {
        if c == '"' {
            in_quote = !in_quote;
        } else if is_blank(c) && !in_quote {
            return at;
        }
    }
    text.len()
}

/// Returns name and value of one argument, as `next_arg` leaves them.
///
/// An `=` at index 0 is not a separator (the kernel uses index 0 for "not found"). A quote is stripped from the front
/// of the value or of the whole argument, and then one from the end. Quotes elsewhere reach the parameter's own parser.
fn split_argument(raw: &str) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let whole_quoted = raw.starts_with('"');
    let body = if whole_quoted { &raw[1..] } else { raw };
    let equals = body.bytes().enumerate().skip(1).find(|(_, b)| *b == b'=').map(|(at, _)| at);
    let ends_quoted = body.ends_with('"');
    let Some(equals) = equals else {
        let name = if whole_quoted && ends_quoted { &body[..body.len() - 1] } else { body };
        return (Cow::Borrowed(name), None);
    };
    let name = &body[..equals];
    let value = &body[equals + 1..];
    let value = match value.strip_prefix('"') {
        // The opening quote may itself be the last character; then no closing quote is left to strip.
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None if whole_quoted => value.strip_suffix('"').unwrap_or(value),
        None => value,
    };
    (Cow::Borrowed(name), Some(Cow::Borrowed(value)))
}
