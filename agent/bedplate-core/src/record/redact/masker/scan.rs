//! Scans and masks a text word by word.

use super::{Masker, Style, is_variable};
use bedplate_base::{lossless_text, mask};
use bedplate_cmdline::boot::completeness::SECTION_MARKS;

pub(super) struct Scan<'a, 'w> {
    pub(super) words: &'w mut Masker,
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) out: String,
    /// Name of the value that follows.
    pub(super) name: Option<String>,
    pub(super) quote: Option<char>,
    pub(super) style: Style,
}

fn separates(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "'\"`$(){}[]<>|&;!#=\\,/".contains(c)
}

impl Scan<'_, '_> {
    pub(super) fn run(mut self) -> String {
        while let Some(c) = self.text[self.at..].chars().next() {
            if self.comment(c) {
                continue;
            }
            let value = self.name.is_some() && "/,!#".contains(c) && self.is_value();
            if separates(c) && !lossless_text::is_raw(c) && !value {
                self.separator(c);
            } else {
                self.word();
            }
        }
        self.out
    }

    /// Skips a comment; only its mark stays, and that of a section by grub-mkconfig: the plan depends on it.
    fn comment(&mut self, c: char) -> bool {
        let before = &self.text[..self.at];
        // Searches back over blanks only: a line may be long.
        let blank = |c: char| c.is_whitespace() && c != '\n';
        let first =
            || matches!(before.trim_end_matches(blank).chars().next_back(), None | Some('\n'));
        let begins = match self.style {
            Style::Line => false,
            Style::Script => {
                c == '#' && self.quote.is_none() && (before.ends_with([' ', '\t', ';']) || first())
            }
            Style::Entry => c == '#' && first(),
            Style::Setting => matches!(c, '#' | ';') && first(),
        };
        if begins {
            let rest = &self.text[self.at..];
            match SECTION_MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => self.out.push_str(mark),
                None => self.out.push(c),
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
        begins
    }

    fn separator(&mut self, c: char) {
        let escaped = self.text[..self.at].ends_with('\\');
        if matches!(c, '"' | '\'') && !escaped {
            self.quote = match self.quote {
                None => Some(c),
                Some(open) if open == c => None,
                open => open,
            };
        }
        let keeps =
            matches!(c, '=' | '"' | '\'' | '\\') || (self.style == Style::Setting && c != '\n');
        if !keeps {
            self.name = None;
        }
        self.out.push(c);
        self.at += c.len_utf8();
    }

    fn word(&mut self) {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| separates(c) && !lossless_text::is_raw(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        if self.out.ends_with('$') || self.out.ends_with("${") {
            return self.variable(word);
        }
        if let Some(name) = self.name.clone().filter(|_| self.is_value()) {
            let holds_arguments = name.bytes().all(|c| c.is_ascii_uppercase() || c == b'_')
                || ["kernelopts", "tuned_params", "options", "kargs", "--args", "extra_cmdline"]
                    .contains(&name.as_str());
            if !(holds_arguments && self.out.ends_with(['"', '\'']) && self.is_name(word)) {
                return self.put_value(&name);
            }
        }
        if self.is_name(word) {
            self.out.push_str(word);
            self.name = Some(word.trim_end_matches('+').to_owned());
        } else if self.style == Style::Script
            && rest[end..].starts_with("()")
            && mask::is_name(word)
        {
            // A function; its calls stay too.
            self.words.names.insert(word.to_owned());
            self.out.push_str(word);
        } else if self.is_of_drop_in_loop(word, &rest[end..]) {
            self.out.push_str(word);
        } else if self.words.is_shown(word)
            || (self.style == Style::Setting && mask::is_numeric(word))
        {
            self.out.push_str(word);
            self.name = None;
        } else {
            let mask = self.words.mask_of_length(word);
            self.out.push_str(&mask);
            self.name = None;
        }
        self.at += end;
    }

    /// Whether the next word is the value of the preceding name.
    fn is_value(&self) -> bool {
        let before = self.out.trim_end_matches(['"', '\'', '\\']);
        let spaced = self.style == Style::Setting;
        let before = if spaced { before.trim_end_matches([' ', '\t']) } else { before };
        before.ends_with('=') || (spaced && self.name.is_some()) || before.is_empty()
    }

    fn variable(&mut self, word: &str) {
        let end =
            word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
        let (name, _) = word.split_at(end.max(word.chars().next().map_or(0, char::len_utf8)));
        match mask::is_name(name) {
            true => self.out.push_str(name),
            false => {
                let mask = self.words.mask_of_length(name);
                self.out.push_str(&mask);
            }
        }
        self.at += name.len();
    }

    /// Whether a word is the variable of a loop over GRUB's drop-ins, whose uses stay too.
    fn is_of_drop_in_loop(&self, word: &str, rest: &str) -> bool {
        self.style == Style::Script
            && self.quote.is_none()
            && self.out.ends_with("for ")
            && rest.starts_with(" in /etc/default/grub.d/")
            && mask::is_name(word)
    }

    /// Whether a word is a name with a value, and not the end of Base64 data.
    fn is_name(&self, word: &str) -> bool {
        let after = &self.text[self.at + word.len()..];
        let after = if self.style == Style::Setting {
            after.trim_start_matches([' ', '\t'])
        } else {
            after
        };
        let Some(value) = after.strip_prefix('=') else { return false };
        // `+=` is bash syntax.
        let shape = mask::is_name(word.strip_suffix('+').unwrap_or(word));
        if self.style == Style::Setting {
            return shape;
        }
        let variable = is_variable(word);
        let next = value.chars().next();
        let padding = next.is_none_or(|c| c.is_whitespace() || c == '=')
            || (next == self.quote && self.quote.is_some());
        shape && (!padding || (variable && next != Some('=')))
    }

    /// Appends a value. Next to a known name it may contain any characters of a list.
    fn put_value(&mut self, name: &str) {
        let rest = &self.text[self.at..];
        let ends = |stops: &'static str| {
            rest.find(move |c: char| c.is_whitespace() || c.is_control() || stops.contains(c))
                .unwrap_or(rest.len())
        };
        let (wide, narrow) = (&rest[..ends("'\"`$\\")], &rest[..ends("'\"`$\\;&|<>(){}")]);
        self.name = None;
        if self.words.is_harmless(name, wide, self.style) {
            // `pci=config_acs="…"`: the quoted list belongs to `pci`.
            self.name = wide.ends_with('=').then(|| name.to_owned());
            self.out.push_str(wide);
            self.at += wide.len();
            return;
        }
        let shown = self.words.is_harmless(name, narrow, self.style);
        // This prefix identifies installers and live systems.
        let live = narrow.strip_prefix("live:").filter(|_| name == "root" && !shown);
        let text = match (shown, live) {
            (true, _) => narrow.to_owned(),
            (false, Some(rest)) => format!("live:{}", self.words.mask_of_length(rest)),
            (false, None) if mask::sounds_secret(name) => self.words.mask_of_length(narrow),
            (false, None) => self.parts(narrow),
        };
        self.out.push_str(&text);
        self.at += narrow.len();
    }

    /// Masks a value word by word, like single words.
    fn parts(&mut self, value: &str) -> String {
        let mut clean = String::with_capacity(value.len());
        for part in value.split_inclusive(separates) {
            let word = part.trim_end_matches(separates);
            let shown = word.is_empty() || self.words.is_shown(word);
            clean.push_str(&if shown { word.to_owned() } else { self.words.mask_of_length(word) });
            clean.push_str(&part[word.len()..]);
        }
        clean
    }
}
