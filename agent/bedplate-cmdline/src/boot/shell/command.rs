//! Commands of a POSIX shell: assignments, commands that may set a variable, and open compound commands.

use std::ops::Range;

use super::{
    Assignment, Event, NEVER_CLOSED, OpenCommand, OpenedBy, Piece, Quote, ScanResult, Scanner,
    Word, is_name,
};

const CONDITIONAL: &str = "it is set conditionally or in a subshell";

impl Word {
    /// Returns the text if no part of it is quoted or expanded, so that it can be a keyword.
    fn bare(&self) -> Option<&str> {
        self.fixed().filter(|_| self.quote == Quote::None)
    }

    /// Returns the text without its quotes, if no part of it needs expansion; used as the command name.
    fn fixed(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(own)] => Some(own),
            _ => None,
        }
    }
}

impl Scanner<'_> {
    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text[self.at..].starts_with(prefix)
    }

    /// Parses the whole text.
    pub(super) fn script(&mut self) -> ScanResult<()> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' => self.at += 1,
                '\r' => {
                    return Err((
                        self.at,
                        "the shell reads this carriage return as a command; save the file with Unix line endings",
                    ));
                }
                '#' => self.comment(),
                '\\' if self.starts_with("\\\n") => self.at += 2,
                '(' => {
                    if self.starts_with("((") {
                        let why = "shells differ in what `((` means";
                        self.events.push(Event::Anything { at: self.at, why });
                    }
                    self.open(OpenedBy::Parenthesis);
                    self.at += 1;
                }
                ')' => {
                    // After a pattern in `case` it closes nothing.
                    if self.open.last().is_some_and(|open| open.by == OpenedBy::Parenthesis) {
                        self.close();
                    }
                    self.at += 1;
                }
                '&' | '|' => {
                    self.after_operator = true;
                    self.at += 1;
                }
                'f' if self.drop_in_loop() => {}
                _ => self.command()?,
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err((self.text.len(), NEVER_CLOSED)) }
    }

    pub(super) fn comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn open(&mut self, by: OpenedBy) {
        let function = self.defined.take().map(|name| (name, self.events.len()));
        self.open.push(OpenCommand { by, function });
    }

    fn close(&mut self) {
        if let Some(OpenCommand { function: Some((name, first)), .. }) = self.open.pop() {
            let body = self.events.split_off(first);
            self.events.push(Event::Function { name, body });
        }
    }

    /// Parses a command: its words up to an operator or the end of the line.
    fn command(&mut self) -> ScanResult<()> {
        let start = self.at;
        let events_before = self.events.len();
        let mut words: Vec<Word> = Vec::new();
        let conditional_before = std::mem::take(&mut self.after_operator) || !self.open.is_empty();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')' | '#') => break,
                Some('(') => {
                    if self.parenthesis(&mut words)? {
                        return Ok(());
                    }
                }
                Some('<') if self.starts_with("<<") => {
                    return Err((self.at, "a here-document is not followed"));
                }
                Some('<' | '>') => self.redirection()?,
                Some(_) => {
                    let word = self.word()?;
                    let bare = word.bare();
                    if words.is_empty()
                        && let Some(keyword) = bare
                        && self.keyword(keyword)?
                    {
                        return Ok(());
                    }
                    // A descriptor number is part of the redirection, not a word.
                    let number = matches!(self.peek(), Some('<' | '>'))
                        .then_some(bare)
                        .flatten()
                        .filter(|bare| bare.bytes().all(|byte| byte.is_ascii_digit()));
                    let descriptor = match number.map(str::len) {
                        Some(0 | 1) => true,
                        Some(_) => {
                            return Err((
                                self.at,
                                "shells differ in whether this number is a descriptor",
                            ));
                        }
                        None => false,
                    };
                    if !descriptor {
                        words.push(word);
                    }
                }
            }
        }
        let piped = match self.peek() {
            Some('|') => !self.starts_with("||"),
            Some('&') => !self.starts_with("&&"),
            _ => false,
        };
        let doubtful = (conditional_before || piped).then_some(CONDITIONAL);
        // An expansion that sets a variable does so between the assignments of its line.
        let expansions = self.events[events_before..].to_vec();
        self.simple(&words, start, doubtful);
        self.events.extend(expansions);
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

    /// Parses a parenthesis after words: an array, or a function definition. Returns true for a definition, whose body
    /// follows as a separate compound command.
    fn parenthesis(&mut self, words: &mut [Word]) -> ScanResult<bool> {
        let at = self.at;
        self.at += 1;
        self.blanks();
        if self.peek() == Some(')') {
            self.at += 1;
            let name = words.first().and_then(Word::fixed);
            self.defined =
                Some(name.ok_or((at, "the name of this function is not known"))?.to_owned());
            return Ok(true);
        }
        self.at = at;
        self.skip_brackets(')')?;
        if let Some(word) = words.last_mut().filter(|word| word.range.end == at) {
            word.range.end = self.at;
            word.quote = Quote::Mixed;
            word.pieces.push(Piece::Opaque { at, why: "an array is not followed" });
        }
        Ok(false)
    }

    fn redirection(&mut self) -> ScanResult<()> {
        while matches!(self.peek(), Some('<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        self.blanks();
        match self.peek() {
            None | Some('\n' | ';' | ')' | '(') => Ok(()),
            Some('<' | '>') => Err((self.at, "this redirection is not followed")),
            Some(_) => self.word().map(drop),
        }
    }

    /// Handles keywords that open or close compounds. Returns whether the rest of the line is a separate command.
    fn keyword(&mut self, word: &str) -> ScanResult<bool> {
        match word {
            "if" | "while" | "until" | "{" => self.open(OpenedBy::Keyword),
            "for" | "case" | "select" => {
                // Words follow, not a command; they are skipped as one.
                self.open(OpenedBy::Keyword);
                return Ok(false);
            }
            "fi" | "done" | "esac" | "}" => self.close(),
            "then" | "else" | "elif" | "do" | "!" => {}
            // A keyword in some shells, a program in others.
            "time" => self.after_operator = true,
            "function" => {
                // In bash the same as `NAME()`; bash is `sh` on some distributions.
                self.blanks();
                let at = self.at;
                let word = self.word()?;
                let name = word.fixed().ok_or((at, "the name of this function is not known"))?;
                self.defined = Some(name.to_owned());
                self.blanks();
                if self.starts_with("()") {
                    self.at += 2;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn simple(&mut self, words: &[Word], start: usize, doubtful: Option<&'static str>) {
        let assignments: Vec<&Word> =
            words.iter().take_while(|word| self.assigned(word).is_some()).collect();
        let mut rest = &words[assignments.len()..];
        let before_command = "an assignment before a command is not followed";
        let doubtful_here = if rest.is_empty() { doubtful } else { Some(before_command) };
        for word in assignments {
            self.assign(word, doubtful_here);
        }
        // `command NAME` and `builtin NAME` run NAME.
        while let [first, more @ ..] = rest
            && matches!(first.fixed(), Some("command" | "builtin"))
        {
            let options =
                more.iter().take_while(|word| word.fixed().is_some_and(|own| own.starts_with('-')));
            rest = &more[options.count()..];
        }
        if let [first, arguments @ ..] = rest {
            self.run(first, arguments, start, doubtful);
        }
    }

    /// Handles a command that is not an assignment.
    fn run(&mut self, name: &Word, arguments: &[Word], at: usize, doubtful: Option<&'static str>) {
        let Some(name) = name.fixed() else {
            let why = "the command is known only when the script runs";
            return self.events.push(Event::Anything { at, why });
        };
        let in_function = self.open.iter().any(|open| open.function.is_some());
        match name {
            "export" | "readonly" => {
                let alone =
                    arguments.len() == 1 || arguments.iter().all(|word| word.fixed().is_some());
                let expanded_first =
                    "all of this line is expanded before the first variable is set";
                let doubtful = if alone { doubtful } else { doubtful.or(Some(expanded_first)) };
                for word in arguments {
                    match self.assigned(word) {
                        Some(_) => self.assign(word, doubtful),
                        // A name without a value is not changed.
                        None if word.bare().is_some() => {}
                        None => self.touch(word, at),
                    }
                }
                if name == "readonly" {
                    self.read_only(arguments, at);
                }
            }
            "eval" | "." | "source" => {
                self.events.push(Event::Anything { at, why: "this may set anything" });
            }
            "return" if in_function => {}
            "exit" | "return" | "exec" => {
                self.events.push(Event::Lost { at, why: "the script may end here" });
            }
            "alias" | "trap" => {
                let why = "from here on, commands may be redefined";
                self.events.push(Event::Lost { at, why });
            }
            "unset" | "read" | "declare" | "typeset" | "local" | "getopts" | "printf" | "let"
            | "mapfile" | "readarray" | "for" | "select" => {
                for word in arguments {
                    self.touch(word, at);
                }
                let makes_read_only = |word: &Word| {
                    word.fixed().is_some_and(|text| text.starts_with('-') && text.contains('r'))
                };
                if matches!(name, "declare" | "typeset") && arguments.iter().any(makes_read_only) {
                    self.read_only(arguments, at);
                }
            }
            _ => self.events.push(Event::Call { name: name.to_owned(), at }),
        }
    }

    /// Records variables that are read-only from here on.
    fn read_only(&mut self, arguments: &[Word], at: usize) {
        for word in arguments {
            let name = leading_name(&self.text[word.range.clone()]);
            self.events.extend(name.map(|name| Event::ReadOnly { name, at }));
        }
    }

    /// Records an argument that may name a variable set by the command.
    fn touch(&mut self, word: &Word, at: usize) {
        let Some(text) = word.fixed() else {
            let why = "the variable is known only when the script runs";
            return self.events.push(Event::Anything { at, why });
        };
        // `printf -vNAME`.
        let text = text.strip_prefix("-v").unwrap_or(text);
        let why = "this command may set it";
        self.events.extend(leading_name(text).map(|name| Event::Touch { name, at, why }));
    }

    /// Returns the name of the variable that a word assigns, the offset of its value, and whether it appends.
    fn assigned(&self, word: &Word) -> Option<(String, usize, bool)> {
        let mut rest = &self.text[word.range.clone()];
        let mut name = String::new();
        let joined = |text: &str| text.trim_start_matches("\\\n").len();
        loop {
            rest = &rest[rest.len() - joined(rest)..];
            match rest.chars().next().filter(|c| is_name(*c)) {
                Some(c) => name.push(c),
                None => break,
            }
            rest = &rest[1..];
        }
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let appended = rest.strip_prefix('+').map(|rest| &rest[rest.len() - joined(rest)..]);
        let value = appended.unwrap_or(rest).strip_prefix('=')?;
        Some((name, word.range.end - value.len(), appended.is_some()))
    }

    fn assign(&mut self, word: &Word, doubtful: Option<&'static str>) {
        let Some((name, value_at, appends)) = self.assigned(word) else { return };
        let mut pieces = word.pieces.clone();
        if let Some(Piece::Text(first)) = pieces.first_mut() {
            // The name and its `=` are unquoted and precede the value.
            first.drain(..(name.len() + 1 + usize::from(appends)).min(first.len()));
            if first.is_empty() {
                pieces.remove(0);
            }
        }
        let value = value_at..word.range.end;
        let quote = self.quote_of(&value, word.quote);
        let raw = &self.text[value.clone()];
        let home = raw.trim_start_matches("\\\n").starts_with('~')
            || (matches!(quote, Quote::None | Quote::Mixed)
                && raw.contains(':')
                && raw.contains('~'));
        if home {
            let why = "`~` may mean a home directory";
            pieces.insert(0, Piece::Opaque { at: value_at, why });
        }
        let at = word.range.start;
        let assignment = Assignment { name, at, value, pieces, quote, appends, doubtful };
        self.events.push(Event::Assign(assignment));
    }

    /// Quotes of the value alone: one pair of quotes round all of it, no quotes, or anything else.
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

/// Returns the name at the start of a text.
fn leading_name(text: &str) -> Option<String> {
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}
