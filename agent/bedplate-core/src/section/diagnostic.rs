//! Findings in a profile, with place and fix: rendered as text with the place underlined, or serialized.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Message, Renderer, Snippet};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Place, SourceFile, Sources};
use bedplate_base::terminal::{is_control, visible};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The value is never right.
    Error,
    /// The value is seldom intended.
    Warning,
}

/// A finding in a profile text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Stable id of the type of finding (`unknown-key`, `amd-iommu-on`).
    pub id: &'static str,
    /// Fault, in one sentence.
    pub message: String,
    /// Label below the underlined text.
    pub label: String,
    /// Fix and sources, one per line.
    pub help: Vec<String>,
    at: SourceSpan,
    context: Vec<(SourceSpan, String)>,
}

/// A span of one text, with the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceSpan {
    /// Index of the file in merge order.
    index: usize,
    file: Arc<SourceFile>,
    span: Range<usize>,
}

impl SourceSpan {
    fn new(sources: &Sources, place: Place) -> Self {
        let (index, file, span) = sources.locate(place);
        let end = span.end.min(file.text().len());
        // Underlines only the first line: a table's span may cover the whole section.
        let start = span.start.min(end);
        let line = file.text()[start..end].lines().next().unwrap_or_default();
        SourceSpan { index, span: start..start + line.len(), file }
    }
}

impl Diagnostic {
    pub(crate) fn error(
        sources: &Sources,
        place: Place,
        id: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic {
            severity: Severity::Error,
            id,
            message: message.into(),
            label: String::new(),
            help: Vec::new(),
            at: SourceSpan::new(sources, place),
            context: Vec::new(),
        }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<&str>) -> Self {
        self.help.extend(help.map(str::to_owned));
        self
    }

    pub(crate) fn also(
        mut self,
        sources: &Sources,
        place: Place,
        label: impl Into<String>,
    ) -> Self {
        self.context.push((SourceSpan::new(sources, place), label.into()));
        self
    }

    /// Returns the finding as a warning, with the reason that allows it.
    #[must_use]
    pub fn allowed(mut self, reason: &str) -> Self {
        self.severity = Severity::Warning;
        self.help.insert(0, format!("allowed: {reason}"));
        self
    }

    /// Returns the sort key in a list of findings: file in merge order, then place.
    pub fn order(&self) -> (usize, usize) {
        (self.at.index, self.at.span.start)
    }

    /// Returns the file as named to `load`.
    pub fn file(&self) -> &str {
        self.at.file.path()
    }

    /// Returns line and column in characters, from 1.
    pub fn line_column(&self) -> (usize, usize) {
        self.at.file.line_column(self.at.span.start)
    }

    /// Renders the finding with its place underlined; without colour as plain text.
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let message = visible(&self.message);
        let mut group =
            Group::with_title(level.primary_title(message).id(self.id)).element(self.snippet());
        for (spot, label) in self.context.iter().filter(|(spot, _)| spot.file != self.at.file) {
            group = group.element(snippet_of(spot).annotation(mark(
                AnnotationKind::Context,
                spot,
                label,
            )));
        }
        let messages =
            self.help.iter().map(|help| -> Message<'_> { Level::HELP.message(visible(help)) });
        let group = group.elements(messages);
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        // The renderer shows only C0 controls and DEL of quoted text visibly; the others must be replaced here.
        let quoted = |c: char| {
            if is_control(c) && !matches!(c, '\n' | '\t' | '\x1b') { '\u{fffd}' } else { c }
        };
        renderer.render(&[group]).chars().map(quoted).collect()
    }

    fn snippet(&self) -> Snippet<'_, Annotation<'_>> {
        let mut snippet =
            snippet_of(&self.at).annotation(mark(AnnotationKind::Primary, &self.at, &self.label));
        for (spot, label) in self.context.iter().filter(|(spot, _)| spot.file == self.at.file) {
            snippet = snippet.annotation(mark(AnnotationKind::Context, spot, label));
        }
        snippet
    }
}

fn snippet_of(spot: &SourceSpan) -> Snippet<'_, Annotation<'_>> {
    Snippet::source(spot.file.text()).path(visible(spot.file.path()))
}

fn mark<'a>(kind: AnnotationKind, spot: &SourceSpan, label: &'a str) -> Annotation<'a> {
    let annotation = kind.span(spot.span.clone());
    if label.is_empty() { annotation } else { annotation.label(visible(label)) }
}

impl fmt::Display for Diagnostic {
    /// Formats as `FILE:LINE:COLUMN: message`, which editors recognize.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}: {}", self.file(), self.message)
    }
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (line, column) = self.line_column();
        let mut out = serializer.serialize_struct("Diagnostic", 8)?;
        out.serialize_field("severity", &self.severity)?;
        out.serialize_field("id", self.id)?;
        out.serialize_field("message", &self.message)?;
        out.serialize_field("file", self.file())?;
        out.serialize_field("line", &line)?;
        out.serialize_field("column", &column)?;
        out.serialize_field("label", &self.label)?;
        out.serialize_field("help", &self.help)?;
        out.end()
    }
}

/// All faults that make a profile unusable, in file and line order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct ProfileErrors(pub Vec<Diagnostic>);

impl ProfileErrors {
    /// Renders all findings with their places underlined.
    pub fn render(&self, colour: bool) -> String {
        render_all(&self.0, colour)
    }
}

/// Renders findings, separated by empty lines.
pub fn render_all(findings: &[Diagnostic], colour: bool) -> String {
    let texts: Vec<String> = findings.iter().map(|finding| finding.render(colour)).collect();
    texts.join("\n\n")
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            let line_end = if number == 0 { "" } else { "\n" };
            write!(f, "{line_end}{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProfileErrors {}
