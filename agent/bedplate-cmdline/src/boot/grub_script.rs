//! Parses GRUB's script language into commands. `grub_run` runs them, `grub_quote` quotes single arguments.
//!
//! Source: `grub-core/script/yylex.l` (words), `parser.y` (commands). Does not support legal but rare syntax (`$"…"`,
//! case, select).

mod lex;

use std::rc::Rc;

use super::NotUnderstood;
use lex::tokens;

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text with its quoting removed.
    Text(String),
    /// A variable. Outside quotes its value is split at blanks.
    Var { name: String, quoted: bool },
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub parts: Vec<Part>,
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
    /// Whether any part is quoted, so that an empty word is still a word.
    pub quoted: bool,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Words, and an optional block (`menuentry … { … }`).
    Simple { words: Vec<Word>, block: Option<Rc<Vec<Command>>>, at: usize },
    /// `if`/`elif` conditions with their bodies, and the `else` body.
    If { arms: Vec<(Vec<Command>, Vec<Command>)>, otherwise: Vec<Command> },
    /// A function definition.
    Function { name: String, body: Rc<Function> },
    /// `while`, `until`, `for`: run an unknown number of times.
    Loop { body: Vec<Command>, variable: Option<String> },
}

/// The body of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub commands: Vec<Command>,
    /// Whether it may end early or count its arguments in a way that cannot be followed.
    pub leaves_early: bool,
}

impl Function {
    fn new(commands: Vec<Command>) -> Function {
        let leaves_early = leaves_early(&commands);
        Function { commands, leaves_early }
    }
}

fn leaves_early(commands: &[Command]) -> bool {
    const LEAVE: [&str; 5] = ["return", "break", "continue", "shift", "setparams"];
    commands.iter().any(|command| match command {
        Command::Simple { words, .. } => {
            words.first().is_some_and(|word| match word.parts.as_slice() {
                [Part::Text(name)] => LEAVE.contains(&name.as_str()),
                _ => false,
            })
        }
        Command::If { arms, otherwise } => {
            arms.iter().any(|(condition, body)| leaves_early(condition) || leaves_early(body))
                || leaves_early(otherwise)
        }
        Command::Loop { body, .. } => leaves_early(body),
        Command::Function { .. } => false,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// A newline or `;`.
    End,
    Open,
    Close,
    /// An unsupported operator.
    Other(&'static str),
}

/// Parses a script.
///
/// # Errors
/// [`NotUnderstood`] at the first unsupported place.
pub(super) fn parse(text: &str) -> Result<Vec<Command>, NotUnderstood> {
    parse_for(text, None)
}

/// Parses a script that another one reads. All its commands get the place `at` of that script.
///
/// # Errors
/// [`NotUnderstood`] at the first unsupported place of `text`.
pub(super) fn parse_included(text: &str, at: usize) -> Result<Vec<Command>, NotUnderstood> {
    parse_for(text, Some(at))
}

fn parse_for(text: &str, place: Option<usize>) -> Result<Vec<Command>, NotUnderstood> {
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, depth: 0, place };
    let commands = parser.commands(&[])?;
    match parser.peek() {
        None => Ok(commands),
        Some((at, _)) => Err(parser.confused(*at, "this closes nothing")),
    }
}

/// Splits a single line of arguments into words.
///
/// # Errors
/// [`NotUnderstood`] if the line contains more than words.
pub(super) fn split_words(text: &str) -> Result<Vec<Word>, NotUnderstood> {
    let all = tokens(text)?;
    let word = |(at, token)| match token {
        Token::Word(word) => Ok(word),
        _ => Err(NotUnderstood::at(text, at, "GRUB ends the arguments here; quote the value")),
    };
    all.into_iter().map(word).collect()
}

/// Limit for nested blocks, arms of one `if`, and negations of one command. grub-mkconfig writes at most four; a file
/// with thousands would overflow the stack.
pub(super) const DEEPEST: usize = 64;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    next: usize,
    /// Number of open blocks.
    depth: usize,
    /// The place of all commands, if it is in another text.
    place: Option<usize>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&(usize, Token)> {
        self.tokens.get(self.next)
    }

    fn confused(&self, at: usize, why: &str) -> NotUnderstood {
        NotUnderstood::at(self.text, at, why)
    }

    /// Returns the next word, if it is a single unquoted text.
    fn keyword(&self) -> Option<&str> {
        match self.peek() {
            Some((_, Token::Word(Word { parts, quoted: false, .. }))) => match parts.as_slice() {
                [Part::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn expect(&mut self, keyword: &str) -> Result<(), NotUnderstood> {
        let at = self.peek().map_or(self.text.len(), |(at, _)| *at);
        if self.keyword() != Some(keyword) {
            return Err(self.confused(at, &format!("a `{keyword}` is missing here")));
        }
        self.next += 1;
        Ok(())
    }

    /// Parses commands up to one of the closing words, a closing brace, or the end.
    fn commands(&mut self, closers: &[&str]) -> Result<Vec<Command>, NotUnderstood> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let at = self.peek().map_or(self.text.len(), |(at, _)| *at);
            return Err(self.confused(at, "this is nested too deeply to be followed"));
        }
        let commands = self.commands_here(closers);
        self.depth -= 1;
        commands
    }

    fn commands_here(&mut self, closers: &[&str]) -> Result<Vec<Command>, NotUnderstood> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                None | Some((_, Token::Close)) => return Ok(all),
                Some((_, Token::End)) => self.next += 1,
                Some((at, Token::Open | Token::Other(_))) => {
                    return Err(self.confused(*at, "this construct is not followed"));
                }
                Some((_, Token::Word(_))) => {
                    if self.keyword().is_some_and(|word| closers.contains(&word)) {
                        return Ok(all);
                    }
                    all.push(self.command()?);
                }
            }
        }
    }

    fn command(&mut self) -> Result<Command, NotUnderstood> {
        let at = self.peek().map_or(self.text.len(), |(at, _)| *at);
        match self.keyword() {
            Some("if") => self.conditional(),
            Some("while" | "until") => {
                self.next += 1;
                let mut body = self.commands(&["do"])?;
                body.extend(self.loop_body()?);
                Ok(Command::Loop { body, variable: None })
            }
            Some("for") => {
                self.next += 1;
                let variable = self.keyword().map(str::to_owned);
                let _list = self.simple(at)?;
                let _separators = self.commands(&["do"])?;
                Ok(Command::Loop { body: self.loop_body()?, variable })
            }
            Some("function") => {
                self.next += 1;
                let name = self.keyword().map(str::to_owned);
                let name = name.ok_or_else(|| self.confused(at, "this function has no name"))?;
                self.next += 1;
                self.skip_ends();
                Ok(Command::Function { name, body: Rc::new(Function::new(self.block(at)?)) })
            }
            Some("case" | "select" | "then" | "else" | "elif" | "fi" | "do" | "done" | "esac") => {
                Err(self.confused(at, "this construct is not followed"))
            }
            _ => self.simple(at),
        }
    }

    fn conditional(&mut self) -> Result<Command, NotUnderstood> {
        let mut arms = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            // `if` or `elif`.
            self.next += 1;
            let condition = self.commands(&["then"])?;
            self.expect("then")?;
            arms.push((condition, self.commands(&["elif", "else", "fi"])?));
            if self.keyword() != Some("elif") {
                break;
            }
            if arms.len() >= DEEPEST {
                let at = self.peek().map_or(self.text.len(), |(at, _)| *at);
                return Err(self.confused(at, "this `if` has too many arms to be followed"));
            }
        }
        if self.keyword() == Some("else") {
            self.next += 1;
            otherwise = self.commands(&["fi"])?;
        }
        self.expect("fi")?;
        Ok(Command::If { arms, otherwise })
    }

    fn loop_body(&mut self) -> Result<Vec<Command>, NotUnderstood> {
        self.expect("do")?;
        let body = self.commands(&["done"])?;
        self.expect("done")?;
        Ok(body)
    }

    fn skip_ends(&mut self) {
        while matches!(self.peek(), Some((_, Token::End))) {
            self.next += 1;
        }
    }

    fn block(&mut self, at: usize) -> Result<Vec<Command>, NotUnderstood> {
        match self.peek() {
            Some((_, Token::Open)) => self.next += 1,
            _ => return Err(self.confused(at, "a block is missing here")),
        }
        let body = self.commands(&[])?;
        match self.peek() {
            Some((_, Token::Close)) => self.next += 1,
            _ => return Err(self.confused(at, "the block of this command is never closed")),
        }
        Ok(body)
    }

    fn simple(&mut self, here: usize) -> Result<Command, NotUnderstood> {
        let mut words = Vec::new();
        let at = self.place.unwrap_or(here);
        loop {
            match self.peek() {
                Some((_, Token::Word(word))) => {
                    words.push(word.clone());
                    self.next += 1;
                }
                Some((_, Token::Open)) => {
                    let block = Some(Rc::new(self.block(here)?));
                    return Ok(Command::Simple { words, block, at });
                }
                Some((at, Token::Other(operator))) => {
                    return Err(
                        self.confused(*at, &format!("GRUB ends the command at this `{operator}`"))
                    );
                }
                _ => return Ok(Command::Simple { words, block: None, at }),
            }
        }
    }
}
