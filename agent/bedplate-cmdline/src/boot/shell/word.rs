//! Words of a POSIX shell: splits quotes, escapes and expansions without executing anything.

use bedplate_base::lossless_text::is_raw;

use super::{
    DEEPEST, Event, NEVER_CLOSED, NOT_UTF8, Piece, Quote, ScanResult, Scanner, Word, is_name,
};

impl Scanner<'_> {
    /// Parses the word that starts here.
    pub(super) fn word(&mut self) -> ScanResult<Word> {
        let start = self.at;
        let mut pieces = Vec::new();
        let mut quotes = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    quotes.push(Quote::Single);
                    self.single_quoted(&mut pieces)?;
                }
                '"' => {
                    quotes.push(Quote::Double);
                    self.double_quoted(&mut pieces)?;
                }
                '\\' => {
                    if !self.starts_with("\\\n") {
                        quotes.push(Quote::Mixed);
                    }
                    self.escaped(&mut pieces)?;
                }
                '$' => self.dollar(&mut pieces, false)?,
                '`' => self.backticks(&mut pieces)?,
                '\r' => {
                    let why = "the carriage return becomes part of the value; save the file with Unix line endings";
                    pieces.push(Piece::Opaque { at: self.at, why });
                    self.at += 1;
                }
                _ => self.plain(c, &mut pieces),
            }
        }
        let quote = match quotes.as_slice() {
            [] => Quote::None,
            [only] => *only,
            _ => Quote::Mixed,
        };
        Ok(Word { range: start..self.at, pieces, quote })
    }

    fn plain(&mut self, c: char, pieces: &mut Vec<Piece>) {
        if is_raw(c) {
            pieces.push(Piece::Opaque { at: self.at, why: NOT_UTF8 });
            self.at += c.len_utf8();
            return;
        }
        push_text(pieces, c.encode_utf8(&mut [0; 4]));
        self.at += c.len_utf8();
    }

    /// Adds a character inside quotes. A line end there would break the generated configuration.
    fn quoted(&mut self, c: char, pieces: &mut Vec<Piece>) {
        if matches!(c, '\n' | '\r') {
            let why = "the value has a line end, which would break grub.cfg";
            pieces.push(Piece::Opaque { at: self.at, why });
        }
        self.plain(c, pieces);
    }

    fn single_quoted(&mut self, pieces: &mut Vec<Piece>) -> ScanResult<()> {
        let start = self.at;
        self.at += 1;
        push_text(pieces, "");
        while let Some(c) = self.peek() {
            if c == '\'' {
                self.at += 1;
                return Ok(());
            }
            self.quoted(c, pieces);
        }
        Err((start, NEVER_CLOSED))
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>) -> ScanResult<()> {
        let start = self.at;
        self.at += 1;
        push_text(pieces, "");
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '$' => self.dollar(pieces, true)?,
                '`' => self.backticks(pieces)?,
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(c @ ('$' | '`' | '"' | '\\')) => self.plain(c, pieces),
                        _ => push_text(pieces, "\\"),
                    }
                }
                _ => self.quoted(c, pieces),
            }
        }
        Err((start, NEVER_CLOSED))
    }

    fn escaped(&mut self, pieces: &mut Vec<Piece>) -> ScanResult<()> {
        self.at += 1;
        match self.peek() {
            Some('\n') => self.at += 1,
            Some(c) => self.plain(c, pieces),
            None => return Err((self.at - 1, "a backslash ends the file")),
        }
        Ok(())
    }

    fn backticks(&mut self, pieces: &mut Vec<Piece>) -> ScanResult<()> {
        let start = self.at;
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '`' => {
                    let why = "the value needs a command, which is not run here";
                    pieces.push(Piece::Opaque { at: start, why });
                    return Ok(());
                }
                '\\' => self.at += self.peek().map_or(0, char::len_utf8),
                _ => {}
            }
        }
        Err((start, NEVER_CLOSED))
    }

    /// Parses an expansion. `quoted` is true between double quotes.
    fn dollar(&mut self, pieces: &mut Vec<Piece>, quoted: bool) -> ScanResult<()> {
        let start = self.at;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err((start, "this is nested too deeply to be followed"));
        }
        self.at += 1;
        self.continuations();
        let opaque = |why| Piece::Opaque { at: start, why };
        match self.peek() {
            Some('(') => {
                self.substitution()?;
                pieces.push(opaque("the value needs a command, which is not run here"));
            }
            Some('{') => {
                self.at += 1;
                let piece = self.braces(start)?;
                pieces.push(piece);
            }
            Some(c) if is_name(c) && !c.is_ascii_digit() => {
                let name = self.name();
                pieces.push(Piece::Var { name, at: start });
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 1;
                pieces.push(opaque("this is known only when the script runs"));
            }
            Some('\'' | '"') if !quoted => {
                pieces.push(opaque("shells differ in what `$` means here"))
            }
            _ => push_text(pieces, "$"),
        }
        self.depth -= 1;
        Ok(())
    }

    /// Parses `$(command)` or `$((arithmetic))`, from its first bracket on.
    fn substitution(&mut self) -> ScanResult<()> {
        let start = self.at;
        self.skip_brackets(')')?;
        let inside = &self.text[start..self.at];
        if inside.split(|c: char| !is_name(c)).any(|word| word == "case") {
            // The brackets of its patterns close nothing, so the end of the substitution is unknown.
            return Err((start, "a `case` in a command substitution is not followed"));
        }
        if inside.starts_with("((")
            && (inside.contains('=') || inside.contains("++") || inside.contains("--"))
        {
            self.events
                .push(Event::Anything { at: start, why: "this arithmetic may set a variable" });
        }
        Ok(())
    }

    /// Parses the text after `${`, including the closing brace.
    fn braces(&mut self, start: usize) -> ScanResult<Piece> {
        let name = self.name();
        let operator =
            [":-", ":+", ":=", "-", "+", "="].into_iter().find(|op| self.starts_with(op));
        if self.starts_with("}") && !name.is_empty() {
            self.at += 1;
            return Ok(Piece::Var { name, at: start });
        }
        let Some(operator) = operator.filter(|_| !name.is_empty()) else {
            self.at = start + 1;
            self.skip_brackets('}')?;
            return Ok(Piece::Opaque { at: start, why: "this expansion is not followed" });
        };
        self.at += operator.len();
        let mut word = Vec::new();
        loop {
            match self.peek() {
                None => return Err((start, NEVER_CLOSED)),
                Some('}') => break,
                Some('"') => self.double_quoted(&mut word)?,
                Some('$') => self.dollar(&mut word, true)?,
                Some('`') => self.backticks(&mut word)?,
                Some('\\') => self.escaped(&mut word)?,
                // A single quote is literal inside double quotes, but quotes outside them.
                Some('\'') => {
                    word.push(Piece::Opaque { at: self.at, why: "this expansion is not followed" });
                    self.at += 1;
                }
                Some(c) => self.quoted(c, &mut word),
            }
        }
        self.at += 1;
        if operator.ends_with('=') {
            let why = "this expansion may set it";
            self.events.push(Event::Touch { name: name.clone(), at: start, why });
        }
        Ok(Piece::Choice { name, operator: operator.to_owned(), word, at: start })
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        loop {
            self.continuations();
            match self.peek().filter(|c| is_name(*c)) {
                Some(c) => name.push(c),
                None => return name,
            }
            self.at += 1;
        }
    }

    /// Skips backslashes before line ends, which the shell drops before it reads names.
    pub(super) fn continuations(&mut self) {
        while self.starts_with("\\\n") {
            self.at += 2;
        }
    }

    /// Skips a bracketed stretch, starting at its opening bracket.
    pub(super) fn skip_brackets(&mut self, close: char) -> ScanResult<()> {
        let start = self.at;
        let open = if close == ')' { '(' } else { '{' };
        let mut depth = 0;
        let mut ignored = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                '\'' => {
                    self.single_quoted(&mut ignored)?;
                    continue;
                }
                '"' => {
                    self.double_quoted(&mut ignored)?;
                    continue;
                }
                '#' if self.text[..self.at].ends_with([' ', '\t', '\n', ';', '(']) => {
                    self.comment();
                    continue;
                }
                '\\' => self.at += 1,
                _ if c == open => depth += 1,
                _ if c == close => depth -= 1,
                _ => {}
            }
            self.at += self.peek().map_or(0, char::len_utf8);
            if depth == 0 {
                return Ok(());
            }
        }
        Err((start, NEVER_CLOSED))
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}
