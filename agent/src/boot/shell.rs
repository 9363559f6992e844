//! Just enough of a POSIX shell to know what a configuration file that is sourced as a script assigns, without running
//! it. What is not a plain assignment at the top level is noticed and named, not followed.

use std::ops::Range;

use super::shell_word::is_name;

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
    /// Why it is not simply carried out once, if so.
    pub doubtful: Option<&'static str>,
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
    /// A command that may change any variable.
    Anything {
        at: usize,
        why: &'static str,
    },
    /// From here on nothing is known.
    Lost {
        at: usize,
        why: &'static str,
    },
}

const CONDITIONAL: &str = "it is set under a condition, in a function or in a subshell";
pub(super) const NEVER_CLOSED: &str = "this quote or bracket is never closed";

/// What a script assigns.
pub(super) fn scan(text: &str) -> Vec<Event> {
    let mut scanner =
        Scanner { text, at: 0, open: Vec::new(), after_operator: false, events: Vec::new() };
    if let Err((at, why)) = scanner.script() {
        scanner.events.push(Event::Lost { at, why });
    }
    scanner.events
}

/// A result, or the place and reason where the text cannot be followed any further.
pub(super) type Scanned<T> = Result<T, (usize, &'static str)>;

/// A word of a command.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
    pub quote: Quote,
}

impl Word {
    /// The text, if nothing is quoted or expanded in it.
    fn bare(&self, text: &str) -> Option<String> {
        match self.pieces.as_slice() {
            [Piece::Text(own)]
                if self.quote == Quote::None && text[self.range.clone()] == **own =>
            {
                Some(own.clone())
            }
            _ => None,
        }
    }
}

/// A compound command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Keyword,
    Parenthesis,
}

/// A place in a script, and what was found before it.
pub(super) struct Scanner<'a> {
    pub text: &'a str,
    pub at: usize,
    /// What is open around the place.
    open: Vec<Open>,
    /// The next command follows `&&`, `||` or `|`.
    after_operator: bool,
    pub events: Vec<Event>,
}

impl Scanner<'_> {
    pub fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub fn starts_with(&self, prefix: &str) -> bool {
        self.text[self.at..].starts_with(prefix)
    }

    fn script(&mut self) -> Scanned<()> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' => self.at += 1,
                '\r' => {
                    return Err((
                        self.at,
                        "the shell takes this carriage return for a command; save the file with Unix line ends",
                    ));
                }
                '#' => self.comment(),
                '\\' if self.starts_with("\\\n") => self.at += 2,
                '(' => {
                    self.open.push(Open::Parenthesis);
                    self.at += 1;
                }
                ')' => {
                    // Behind a pattern in `case` it closes nothing.
                    self.open.pop_if(|open| *open == Open::Parenthesis);
                    self.at += 1;
                }
                '&' | '|' => {
                    self.after_operator = true;
                    self.at += 1;
                }
                _ => self.command()?,
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err((self.text.len(), NEVER_CLOSED)) }
    }

    fn comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    /// A command: its words up to an operator or the end of the line.
    fn command(&mut self) -> Scanned<()> {
        let start = self.at;
        let mut words: Vec<Word> = Vec::new();
        let conditional_before = std::mem::take(&mut self.after_operator) || !self.open.is_empty();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('#') => break,
                Some('(') => {
                    self.parenthesis(&mut words)?;
                    if words.is_empty() {
                        return Ok(());
                    }
                }
                Some('<') if self.starts_with("<<") => {
                    return Err((self.at, "a here-document is not followed"));
                }
                Some('<' | '>') => self.redirection()?,
                Some(_) => {
                    let word = self.word()?;
                    let keyword = words.is_empty().then(|| word.bare(self.text)).flatten();
                    if let Some(keyword) = keyword
                        && self.keyword(&keyword)
                    {
                        return Ok(());
                    }
                    words.push(word);
                }
            }
        }
        let piped = match self.peek() {
            Some('|') => !self.starts_with("||"),
            Some('&') => !self.starts_with("&&"),
            _ => false,
        };
        let doubtful = (conditional_before || piped).then_some(CONDITIONAL);
        self.simple(&words, start, doubtful);
        Ok(())
    }

    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.starts_with("\\\n") => self.at += 2,
                _ => return,
            }
        }
    }

    /// A parenthesis behind words: an array, or a function definition.
    fn parenthesis(&mut self, words: &mut Vec<Word>) -> Scanned<()> {
        let at = self.at;
        if self.starts_with("()") {
            // The body follows as a compound of its own.
            self.at += 2;
            words.clear();
            return Ok(());
        }
        self.skip_brackets(')')?;
        if let Some(word) = words.last_mut().filter(|word| word.range.end == at) {
            word.range.end = self.at;
            word.quote = Quote::Mixed;
            word.pieces.push(Piece::Opaque { at, why: "an array is not followed" });
        }
        Ok(())
    }

    fn redirection(&mut self) -> Scanned<()> {
        while matches!(self.peek(), Some('<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        self.blanks();
        if !matches!(self.peek(), None | Some('\n' | ';' | ')' | '(')) {
            self.word()?;
        }
        Ok(())
    }

    /// Keywords that open or close compounds. Says whether the rest of the line is a command of its own.
    fn keyword(&mut self, word: &str) -> bool {
        match word {
            "if" | "while" | "until" | "{" => self.open.push(Open::Keyword),
            "for" | "case" | "select" => {
                // Words follow, not a command; they are passed over as one.
                self.open.push(Open::Keyword);
                return false;
            }
            "fi" | "done" | "esac" | "}" => {
                self.open.pop();
            }
            "then" | "else" | "elif" | "do" | "!" => {}
            _ => return false,
        }
        true
    }

    fn simple(&mut self, words: &[Word], start: usize, doubtful: Option<&'static str>) {
        let assignments: Vec<&Word> =
            words.iter().take_while(|word| self.assigned(word).is_some()).collect();
        let rest = &words[assignments.len()..];
        let name = rest.first().and_then(|word| word.bare(self.text));
        let before_command = "an assignment before a command is not followed";
        let doubtful_here = if rest.is_empty() { doubtful } else { Some(before_command) };
        for word in assignments {
            self.assign(word, doubtful_here);
        }
        match name.as_deref() {
            Some("export" | "readonly") => {
                for word in &rest[1..] {
                    self.assign(word, doubtful);
                }
            }
            Some("eval" | "." | "source") => {
                self.events.push(Event::Anything { at: start, why: "this may set anything" });
            }
            Some("exit" | "return" | "exec") => {
                self.events.push(Event::Lost { at: start, why: "the script may end here" });
            }
            Some(
                "unset" | "read" | "declare" | "typeset" | "local" | "getopts" | "printf" | "let"
                | "for" | "select",
            ) => {
                for word in &rest[1..] {
                    let text = &self.text[word.range.clone()];
                    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
                    let name = text[..end].to_owned();
                    self.events.push(Event::Touch {
                        name,
                        at: start,
                        why: "this command may set it",
                    });
                }
            }
            _ => {}
        }
    }

    /// Name of the variable that a word assigns, the offset of its value, and whether it appends.
    fn assigned(&self, word: &Word) -> Option<(String, usize, bool)> {
        let text = &self.text[word.range.clone()];
        let end = text.find(|c: char| !is_name(c))?;
        let (name, rest) = text.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let start = word.range.start + end;
        if rest.starts_with('=') {
            Some((name.to_owned(), start + 1, false))
        } else if rest.starts_with("+=") {
            Some((name.to_owned(), start + 2, true))
        } else {
            None
        }
    }

    fn assign(&mut self, word: &Word, doubtful: Option<&'static str>) {
        let Some((name, value_at, appends)) = self.assigned(word) else { return };
        let mut pieces = word.pieces.clone();
        if let Some(Piece::Text(first)) = pieces.first_mut() {
            first.drain(..(value_at - word.range.start).min(first.len()));
            if first.is_empty() {
                pieces.remove(0);
            }
        }
        let doubtful = if appends {
            Some("`+=` does not work in every shell that reads this file")
        } else {
            doubtful
        };
        let value = value_at..word.range.end;
        if self.text[value.clone()].starts_with('~') {
            pieces
                .insert(0, Piece::Opaque { at: value_at, why: "`~` stands for a home directory" });
        }
        let quote = self.quote_of(&value, word.quote);
        let at = word.range.start;
        self.events.push(Event::Assign(Assignment { name, at, value, pieces, quote, doubtful }));
    }

    /// How the value alone is quoted: one pair of quotes round all of it, none, or anything else.
    fn quote_of(&self, value: &Range<usize>, word: Quote) -> Quote {
        let raw = &self.text[value.clone()];
        let inside = |quote: char| {
            raw.len() >= 2 && raw.starts_with(quote) && raw.ends_with(quote) && word != Quote::Mixed
        };
        match word {
            Quote::None => Quote::None,
            _ if inside('\'') && raw.matches('\'').count() == 2 => Quote::Single,
            _ if inside('"') => Quote::Double,
            _ => Quote::Mixed,
        }
    }
}
