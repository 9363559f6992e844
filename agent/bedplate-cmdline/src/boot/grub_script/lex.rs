//! Words and separators of GRUB's script language (`grub-core/script/yylex.l`).

use super::{NotUnderstood, Part, Token, Word};

/// Limit for words and separators of one script. A menu of two hundred kernels has about forty thousand.
const MOST_TOKENS: usize = 200_000;

pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, NotUnderstood> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        let single = |token| (token, at + 1);
        let (token, next) = match c {
            ' ' | '\t' => {
                at += 1;
                continue;
            }
            '\\' if text[at..].starts_with("\\\n") => {
                at += 2;
                continue;
            }
            '#' => {
                at = text[at..].find('\n').map_or(text.len(), |end| at + end);
                continue;
            }
            '\n' | ';' if text[at..].starts_with(";;") => (Token::Other(";;"), at + 2),
            '\n' | ';' => single(Token::End),
            '{' => single(Token::Open),
            '}' => single(Token::Close),
            '|' => single(Token::Other("|")),
            '&' => single(Token::Other("&")),
            '<' => single(Token::Other("<")),
            '>' => single(Token::Other(">")),
            _ => {
                let word = word(text, at)?;
                let end = word.end;
                (Token::Word(word), end)
            }
        };
        if all.len() >= MOST_TOKENS {
            let why = "this script has too many words to be followed";
            return Err(NotUnderstood::at(text, at, why));
        }
        all.push((at, token));
        at = next;
    }
    Ok(all)
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

/// Builds one word from text and variables.
struct WordBuilder {
    parts: Vec<Part>,
    quoted: bool,
}

impl WordBuilder {
    /// Whether the text so far could start a device or path, in which GRUB expands wildcards
    /// (`grub-core/commands/wildcard.c`).
    fn may_be_path(&self) -> bool {
        match self.parts.first() {
            Some(Part::Text(text)) => text.is_empty() || text.starts_with(['/', '(']),
            _ => true,
        }
    }

    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

fn word(text: &str, start: usize) -> Result<Word, NotUnderstood> {
    let mut builder = WordBuilder { parts: Vec::new(), quoted: false };
    let mut at = start;
    while let Some(c) = char_at(text, at) {
        match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '|' | '&' | '<' | '>' => break,
            '\'' => at = single_quoted(text, at, &mut builder)?,
            '"' => at = double_quoted(text, at, &mut builder)?,
            '$' => at = variable(text, at, false, &mut builder)?,
            '\\' => at = escape(text, at, &mut builder)?,
            '*' | '?' if builder.may_be_path() => {
                return Err(NotUnderstood::at(
                    text,
                    at,
                    "GRUB expands this as a file name pattern; quote it",
                ));
            }
            _ => {
                builder.text(c.encode_utf8(&mut [0; 4]));
                at += c.len_utf8();
            }
        }
    }
    if matches!(&text[start..at], "[[" | "]]") {
        return Err(NotUnderstood::at(text, start, "GRUB reserves this word; quote it"));
    }
    Ok(Word { parts: builder.parts, start, end: at, quoted: builder.quoted })
}

fn escape(text: &str, at: usize, builder: &mut WordBuilder) -> Result<usize, NotUnderstood> {
    let rest = &text[at + 1..];
    let mut bytes = rest.bytes();
    // Some builds of GRUB keep `\x41` as written, others drop the backslash.
    let hex = bytes.next() == Some(b'x')
        && bytes.by_ref().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    match rest.chars().next() {
        None => Err(NotUnderstood::at(text, at, "a backslash at the end escapes nothing")),
        Some(_) if hex => Err(NotUnderstood::at(text, at, "builds of GRUB differ on `\\x`")),
        Some('\n') => Ok(at + 2),
        Some(c) => {
            builder.quoted = true;
            builder.text(c.encode_utf8(&mut [0; 4]));
            Ok(at + 1 + c.len_utf8())
        }
    }
}

fn single_quoted(text: &str, at: usize, builder: &mut WordBuilder) -> Result<usize, NotUnderstood> {
    let inside = &text[at + 1..];
    let end = inside
        .find('\'')
        .ok_or_else(|| NotUnderstood::at(text, at, "this quote is never closed"))?;
    builder.quoted = true;
    builder.text(&inside[..end]);
    Ok(at + end + 2)
}

fn double_quoted(
    text: &str,
    start: usize,
    builder: &mut WordBuilder,
) -> Result<usize, NotUnderstood> {
    builder.quoted = true;
    builder.text("");
    let mut at = start + 1;
    while let Some(c) = char_at(text, at) {
        match c {
            '"' => return Ok(at + 1),
            '$' => at = variable(text, at, true, builder)?,
            '\\' => match char_at(text, at + 1) {
                Some('\n') => at += 2,
                Some(c @ ('$' | '\\' | '"')) => {
                    builder.text(c.encode_utf8(&mut [0; 4]));
                    at += 2;
                }
                _ => {
                    builder.text("\\");
                    at += 1;
                }
            },
            _ => {
                builder.text(c.encode_utf8(&mut [0; 4]));
                at += c.len_utf8();
            }
        }
    }
    Err(NotUnderstood::at(text, start, "this quote is never closed"))
}

fn variable(
    text: &str,
    at: usize,
    quoted: bool,
    builder: &mut WordBuilder,
) -> Result<usize, NotUnderstood> {
    let rest = &text[at + 1..];
    let (inside, braces) = match rest.strip_prefix('{') {
        Some(inside) => (inside, 2),
        None => (rest, 0),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digits = inside.starts_with(|c: char| c.is_ascii_digit());
    let belongs = |c: char| if digits { c.is_ascii_digit() } else { is_name(c) };
    let len = match inside.find(|c| !belongs(c)).unwrap_or(inside.len()) {
        0 if inside.starts_with(['?', '#', '*', '@']) => 1,
        len => len,
    };
    let closed = braces == 0 || inside[len..].starts_with('}');
    if len == 0 || !closed {
        return Err(NotUnderstood::at(
            text,
            at,
            "GRUB reads `$` as a variable, and this is not one",
        ));
    }
    builder.parts.push(Part::Var { name: inside[..len].to_owned(), quoted });
    Ok(at + 1 + len + braces)
}
