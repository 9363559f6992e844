//! Writer of SVG and HTML elements. Closes every opened element and escapes every text and value. Text of hosts may
//! hold anything, but cannot become an element, end an attribute, or reorder adjacent text. Pure.

use std::fmt::{Display, Write as _};

use bedplate_base::terminal::one_line;

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

/// A document under construction.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    text: String,
    open: Vec<&'static str>,
}

impl Markup {
    /// Starts an HTML page.
    pub(super) fn page() -> Self {
        Markup { text: "<!DOCTYPE html>".to_owned(), open: Vec::new() }
    }

    /// Opens an element.
    pub(super) fn open(&mut self, name: &'static str, attributes: Attributes) {
        self.text.push('\n');
        self.open_inline(name, attributes);
    }

    /// Opens an element without white space before it: a part of a sentence.
    pub(super) fn open_inline(&mut self, name: &'static str, attributes: Attributes) {
        self.tag(name, attributes);
        self.text.push('>');
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            let _ = write!(self.text, "</{name}>");
        }
    }

    /// Adds an element without content. In HTML, valid only for void elements (`meta`).
    pub(super) fn empty(&mut self, name: &'static str, attributes: Attributes) {
        self.text.push('\n');
        self.tag(name, attributes);
        self.text.push_str("/>");
    }

    /// Adds an element that contains a text.
    pub(super) fn element(&mut self, name: &'static str, attributes: Attributes, text: &str) {
        self.open(name, attributes);
        self.text(text);
        self.close();
    }

    /// Adds an element that contains a text and is a part of a sentence.
    pub(super) fn inline(&mut self, name: &'static str, attributes: Attributes, text: &str) {
        self.open_inline(name, attributes);
        self.text(text);
        self.close();
    }

    /// Adds an element that contains a text with code between backticks.
    pub(super) fn prose_element(&mut self, name: &'static str, attributes: Attributes, text: &str) {
        self.open(name, attributes);
        self.prose(text);
        self.close();
    }

    /// Adds a text in one line. Each part between backticks becomes a `code` element; an unpaired backtick stays.
    pub(super) fn prose(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, code, after)) = split_code(rest) {
            self.text(before);
            self.inline("code", &[], code);
            rest = after;
        }
        self.text(rest);
    }

    /// Adds a text in one line.
    pub(super) fn text(&mut self, text: &str) {
        escape(&one_line(text), &mut self.text);
    }

    /// Adds a text of several lines.
    pub(super) fn lines<'t>(&mut self, lines: impl IntoIterator<Item = &'t str>) {
        for (nth, line) in lines.into_iter().enumerate() {
            if nth > 0 {
                self.text.push('\n');
            }
            self.text(line);
        }
    }

    /// Adds bedplate's own style rules, which need no escaping: they contain no text of a host.
    pub(super) fn style(&mut self, rules: &'static str) {
        self.open("style", &[]);
        self.text.push_str(rules);
        self.close();
    }

    /// Returns the document with all open elements closed and a final newline.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text + "\n"
    }

    fn tag(&mut self, name: &str, attributes: Attributes) {
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"");
            escape(&one_line(&value.to_string()), &mut self.text);
            self.text.push('"');
        }
    }
}

/// Splits a text at its first code: text before, code, text after. `None`: the text has no code.
fn split_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    (!code.is_empty()).then_some((before, code, after))
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Invalid in XML, even escaped (XML 1.0, 2.2).
            '\u{fffe}' | '\u{ffff}' => out.extend(character.escape_unicode()),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup_or_control_output() {
        let evil = "</text><script>alert(1)</script>\" onload='x' \u{202e}&\u{1b}[31m\u{ffff}\n";
        let mut markup = Markup::default();
        markup.open("svg", &[("class", &evil), ("width", &7)]);
        markup.element("text", &[], evil);
        markup.lines(["a", evil]);
        markup.empty("rect", &[]);
        markup.prose_element("desc", &[], &format!("`{evil}`{evil}"));
        let text = markup.finish();
        let document = roxmltree::Document::parse(&text).unwrap();
        let shown = one_line(evil).replace('\u{ffff}', "\\u{ffff}");
        let root = document.root_element();
        assert_eq!(root.attribute("class"), Some(shown.as_str()));
        assert_eq!(root.first_element_child().and_then(|text| text.text()), Some(shown.as_str()));
        assert_eq!(root.children().filter(|child| child.is_element()).count(), 3);
        let code = root.last_element_child().and_then(|desc| desc.first_element_child());
        assert_eq!(code.and_then(|code| code.text()), Some(shown.as_str()));
        assert!(!text.contains(|c| bedplate_base::terminal::is_control(c) && c != '\n'), "{text}");
    }

    #[test]
    fn code_between_backticks_becomes_elements() {
        let prose = |text: &str| {
            let mut markup = Markup::default();
            markup.prose_element("p", &[], text);
            markup.finish()
        };
        assert_eq!(
            prose("run `bedplate apply` (`-v`: more), reboot"),
            "\n<p>run <code>bedplate apply</code> (<code>-v</code>: more), reboot</p>\n"
        );
        assert_eq!(prose("`a <b>` and ` alone"), "\n<p><code>a &lt;b&gt;</code> and ` alone</p>\n");
        assert_eq!(prose("`` empty"), "\n<p>`` empty</p>\n");
    }
}
