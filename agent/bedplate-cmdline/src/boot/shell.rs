//! A minimal POSIX shell parser: finds the assignments of a configuration file that is sourced as a script, without
//! running it. Reports everything but plain top-level assignments as an event instead of following it.

mod command;
mod drop_in_loop;
mod word;

use std::ops::Range;

/// A piece of a word after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// `$NAME`, `${NAME}`.
    Var {
        name: String,
        at: usize,
    },
    /// `${NAME:-word}` and its variants.
    Choice {
        name: String,
        operator: String,
        word: Vec<Piece>,
        at: usize,
    },
    /// A piece whose value is unknown without running it.
    Opaque {
        at: usize,
        why: &'static str,
    },
}

impl Piece {
    /// Whether its value requires running a command, or setting another variable.
    pub(super) fn is_opaque(&self) -> bool {
        match self {
            Piece::Text(_) | Piece::Var { .. } => false,
            Piece::Choice { operator, word, .. } => {
                operator.contains('=') || word.iter().any(Piece::is_opaque)
            }
            Piece::Opaque { .. } => true,
        }
    }
}

/// Quotes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Single,
    Double,
    Mixed,
}

/// `NAME=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub name: String,
    pub at: usize,
    /// Byte range of the value as written.
    pub value: Range<usize>,
    pub pieces: Vec<Piece>,
    pub quote: Quote,
    /// Whether it uses `+=`, which only bash supports.
    pub appends: bool,
    /// Reason why it may not be executed exactly once.
    pub doubtful: Option<&'static str>,
}

/// The shell that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shell {
    /// Any shell (dash on Debian); syntax on which shells differ is not supported.
    #[default]
    Posix,
    /// bash, under any name.
    Bash,
}

/// An event that affects the values of variables, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Assign(Assignment),
    /// A command that may change this variable.
    Touch {
        name: String,
        at: usize,
        why: &'static str,
    },
    /// From here on, an assignment to this variable ends the script.
    ReadOnly {
        name: String,
        at: usize,
    },
    /// A command that may change any variable.
    Anything {
        at: usize,
        why: &'static str,
    },
    /// Loop that sources all drop-ins, as the last command. Drop-ins may change any variable.
    DropIns {
        at: usize,
        why: &'static str,
    },
    /// A function definition, with the events of a call.
    Function {
        name: String,
        body: Vec<Event>,
    },
    /// A command that may be a function defined in this file or an earlier one.
    Call {
        name: String,
        at: usize,
    },
    /// Nothing is known from here on.
    Lost {
        at: usize,
        why: &'static str,
    },
}

/// Reason for rejecting a value with bytes of another encoding.
pub const NOT_UTF8: &str = "the value has a byte that is not UTF-8";

const NEVER_CLOSED: &str = "this quote or bracket is never closed";

/// Limit for nested expansions: a file with thousands would overflow the stack.
const DEEPEST: usize = 64;

/// Returns the events of a script.
pub(super) fn scan(text: &str) -> Vec<Event> {
    if let Some(at) = text.find('\0') {
        return vec![Event::Lost { at, why: "shells differ on NUL bytes" }];
    }
    let mut scanner = Scanner {
        text,
        at: 0,
        open: Vec::new(),
        defined: None,
        after_operator: false,
        depth: 0,
        events: Vec::new(),
    };
    if let Err((at, why)) = scanner.script() {
        scanner.events.push(Event::Lost { at, why });
    }
    scanner.events
}

/// A result, or the place and reason where parsing cannot continue.
type ScanResult<T> = Result<T, (usize, &'static str)>;

/// A word of a command.
#[derive(Debug, Clone)]
struct Word {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
    pub quote: Quote,
}

/// An open compound command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenCommand {
    by: OpenedBy,
    /// The function whose body this is, and the number of events before it.
    function: Option<(String, usize)>,
}

/// Token that opened a compound command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenedBy {
    Keyword,
    Parenthesis,
}

/// Position in a script, and the events before it.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Compound commands that are open here.
    open: Vec<OpenCommand>,
    /// The function whose body follows.
    defined: Option<String>,
    /// Whether the next command follows `&&`, `||` or `|`.
    after_operator: bool,
    /// Number of open expansions.
    depth: usize,
    events: Vec<Event>,
}

/// Whether a character can be part of a variable's name.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
