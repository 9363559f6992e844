//! A whole kernel command line: ordered arguments with the blanks between them, lossless.

use std::fmt;

use bedplate_base::lossless_text;

use super::lex::{LATIN1_NO_BREAK_SPACE, Token, fold_name, is_blank, token_end};

/// Longest line that x86-64 and arm64 kernels accept, in bytes: `COMMAND_LINE_SIZE` (2048) minus the final NUL
/// (`arch/x86/include/asm/setup.h`, `arch/arm64/include/uapi/asm/setup.h`; handbook §1.1).
pub const MAX_LINE_BYTES: usize = 2047;

/// Reason why a line must not be edited or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The kernel would truncate the line.
    #[error(
        "kernel command line too long: {bytes} bytes, limit {MAX_LINE_BYTES}; shorten it or move module options to modprobe.d"
    )]
    TooLong {
        /// Length of the line in bytes.
        bytes: usize,
    },
    /// A character that the kernel or boot loader would misread. Holds the complete message.
    #[error("{0}")]
    Characters(String),
}

/// One argument and the blanks in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    gap: String,
    token: Token,
}

/// A kernel command line. [`fmt::Display`] of an unedited line returns the text it was parsed from, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    pieces: Vec<Piece>,
    /// Text after the last kernel argument: trailing blanks, or `--` with the blanks before it and all text after it.
    tail: String,
    /// Alternative lines that the kernel may get instead of this one.
    others: Vec<CommandLine>,
}

impl CommandLine {
    /// Splits a line into arguments as the kernel does. Accepts any text; see [`CommandLine::check`].
    pub fn parse(text: &str) -> CommandLine {
        let mut pieces = Vec::new();
        let mut rest = text;
        loop {
            let gap_len = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
            let (gap, after_gap) = rest.split_at(gap_len);
            let (raw, after) = after_gap.split_at(token_end(after_gap));
            let token = Token::lexed(raw);
            if raw.is_empty() || token.ends_kernel_part() {
                return CommandLine { pieces, tail: rest.to_owned(), others: Vec::new() };
            }
            pieces.push(Piece { gap: gap.to_owned(), token });
            rest = after;
        }
    }

    /// Joins arguments with single spaces.
    pub fn from_tokens(tokens: impl IntoIterator<Item = Token>) -> CommandLine {
        let mut line = CommandLine::default();
        for token in tokens {
            line.push(token);
        }
        line
    }

    /// Adds lines that the machine may boot with instead of this one.
    pub fn or(mut self, others: impl IntoIterator<Item = CommandLine>) -> CommandLine {
        self.others.extend(others);
        self
    }

    /// Returns every line that the kernel may get: this one and those passed to [`CommandLine::or`].
    pub fn possible_lines(&self) -> impl Iterator<Item = &CommandLine> {
        std::iter::once(self).chain(&self.others)
    }

    /// Changes every line that the kernel may get.
    pub(super) fn try_map<E>(
        &self,
        change: impl Fn(CommandLine) -> Result<CommandLine, E>,
    ) -> Result<CommandLine, E> {
        let mut alone = self.clone();
        let others = std::mem::take(&mut alone.others);
        let others = others.into_iter().map(&change).collect::<Result<Vec<_>, E>>()?;
        Ok(change(alone)?.or(others))
    }

    /// Returns the kernel's arguments in order, without those after a bare `--`.
    pub fn tokens(&self) -> impl DoubleEndedIterator<Item = &Token> + ExactSizeIterator {
        self.pieces.iter().map(|piece| &piece.token)
    }

    /// Returns the arguments of one parameter, in order. `-` and `_` in the name are the same.
    pub fn named<'a>(&'a self, name: &str) -> impl DoubleEndedIterator<Item = &'a Token> {
        let name = fold_name(name);
        self.tokens().filter(move |token| token.folded_name() == name)
    }

    /// Returns the text that the kernel passes to init, after a bare `--`. `None` without one.
    pub fn init_arguments(&self) -> Option<&str> {
        let tail = self.tail.trim_start_matches(is_blank);
        (!tail.is_empty()).then(|| tail[token_end(tail)..].trim_matches(is_blank))
    }

    /// Returns the number of kernel arguments.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether the line has no kernel argument.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Checks that the line can be edited and passed to a boot loader.
    ///
    /// # Errors
    /// [`LineError`] names the faulty argument and the fix.
    pub fn check(&self) -> Result<(), LineError> {
        let text = self.to_string();
        let bytes = text.trim_matches(is_blank).len();
        if bytes > MAX_LINE_BYTES {
            return Err(LineError::TooLong { bytes });
        }
        self.check_characters()
    }

    /// [`CommandLine::check`] without the length check.
    pub(super) fn check_characters(&self) -> Result<(), LineError> {
        let unfit = |why: String| Err(LineError::Characters(why));
        if self.to_string().contains('\0') {
            return unfit(
                "the kernel command line has a NUL character, where it would end; remove it".into(),
            );
        }
        for token in self.tokens() {
            // Report only the name: the value may be a secret, and more users see this message than the file.
            let name = lossless_text::printable(&token.name());
            if lossless_text::has_raw(token.as_str()) {
                return unfit(format!("`{name}` has bytes that are not UTF-8; write it in ASCII"));
            }
            // The rest of the line is one argument, so any edit would change unmanaged text.
            if token.has_open_quote() {
                return unfit(format!("unclosed double quote in `{name}`; close it first"));
            }
            if token.as_str().as_bytes().contains(&LATIN1_NO_BREAK_SPACE) {
                return unfit(format!(
                    "`{name}` has a non-ASCII character with byte 0xA0, where the kernel splits the argument; write it in ASCII"
                ));
            }
        }
        Ok(())
    }

    /// Appends an argument after the last one and before `--`.
    pub(super) fn push(&mut self, token: Token) {
        let at = self.pieces.len();
        self.insert(at, token);
    }

    /// Inserts an argument in front of the one at `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, token: Token) {
        let gap = match self.pieces.get_mut(at) {
            // The new argument takes the old one's place, with its leading blanks.
            Some(next) if at == 0 => std::mem::replace(&mut next.gap, " ".to_owned()),
            _ if at == 0 => String::new(),
            _ => " ".to_owned(),
        };
        self.pieces.insert(at, Piece { gap, token });
        if !self.tail.is_empty() && !self.tail.starts_with(is_blank) {
            self.tail.insert(0, ' ');
        }
    }

    /// Replaces the argument at `at`.
    pub(super) fn replace(&mut self, at: usize, token: Token) {
        if let Some(piece) = self.pieces.get_mut(at) {
            piece.token = token;
        }
    }

    /// Removes the argument at `at`, with the blanks in front of it.
    pub(super) fn remove(&mut self, at: usize) {
        if at >= self.pieces.len() {
            return;
        }
        let gone = self.pieces.remove(at);
        match self.pieces.first_mut() {
            Some(first) if at == 0 => first.gap = gone.gap,
            _ => {}
        }
    }

    /// Returns the argument at `at`.
    pub(super) fn token(&self, at: usize) -> Option<&Token> {
        self.pieces.get(at).map(|piece| &piece.token)
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            f.write_str(&piece.gap)?;
            f.write_str(piece.token.as_str())?;
        }
        f.write_str(&self.tail)
    }
}
