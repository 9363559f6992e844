//! Just enough of a POSIX shell to know what a configuration file that is sourced as a script assigns, without running
//! it. What is not a plain assignment at the top level is noticed and named, not followed.

mod command;
mod word;

use std::ops::Range;

/// A stretch of a word after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// `$NAME`, `${NAME}`.
    Var {
        name: String,
        at: usize,
    },
    /// `${NAME:-word}` and its kin.
    Choice {
        name: String,
        operator: String,
        word: Vec<Piece>,
        at: usize,
    },
    /// Something whose value is not known without running it.
    Opaque {
        at: usize,
        why: &'static str,
    },
}

impl Piece {
    /// Whether a command has to be run for its value, or another variable is set by it.
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

/// How a value is written.
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
    /// `+=`, which bash alone knows.
    pub appends: bool,
    /// Why it is not simply carried out once, if so.
    pub doubtful: Option<&'static str>,
}

/// Which shell reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shell {
    /// Any of them (dash on Debian): what they differ in is not followed.
    #[default]
    Posix,
    /// bash, by whatever name.
    Bash,
}

/// Something that matters to the value of variables, in file order.
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
    /// A function is defined: what happens when it is called.
    Function {
        name: String,
        body: Vec<Event>,
    },
    /// A command that is a function if one of that name was defined, in this file or in one before it.
    Call {
        name: String,
        at: usize,
    },
    /// From here on nothing is known.
    Lost {
        at: usize,
        why: &'static str,
    },
}

/// Why a value is not read that holds bytes of another encoding.
pub const NOT_UTF8: &str = "a byte that is not UTF-8 is part of the value";

const NEVER_CLOSED: &str = "this quote or bracket is never closed";

/// Expansions inside expansions that are followed: a file with thousands would take the whole stack.
const DEEPEST: usize = 64;

/// What a script assigns.
pub(super) fn scan(text: &str) -> Vec<Event> {
    if let Some(at) = text.find('\0') {
        return vec![Event::Lost { at, why: "shells differ in what they make of a NUL byte" }];
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

/// A result, or the place and reason where the text cannot be followed any further.
type ScanResult<T> = Result<T, (usize, &'static str)>;

/// A word of a command.
#[derive(Debug, Clone)]
struct Word {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
    pub quote: Quote,
}

/// A compound command that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenCommand {
    by: OpenedBy,
    /// The function whose body this is, and the number of events before it.
    function: Option<(String, usize)>,
}

/// What opened a compound command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenedBy {
    Keyword,
    Parenthesis,
}

/// A place in a script, and what was found before it.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// What is open around the place.
    open: Vec<OpenCommand>,
    /// The function whose body comes next.
    defined: Option<String>,
    /// The next command follows `&&`, `||` or `|`.
    after_operator: bool,
    /// Expansions that are open around the place.
    depth: usize,
    events: Vec<Event>,
}

/// Whether a character can be part of a variable's name.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
