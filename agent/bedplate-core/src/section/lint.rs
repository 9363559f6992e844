//! Lints: what can never be right, and what is seldom meant. Each is a row with its reason, the source of that reason, and
//! what to write instead. What a profile wants *absent* is never a finding.

use super::{Diagnostic, Place, Severity, Sources};

/// One lint; `F` finds where it applies.
pub(crate) struct Lint<F> {
    /// Stable word for it.
    pub id: &'static str,
    /// An error when it can never be right, else a warning.
    pub severity: Severity,
    /// Where it applies.
    pub find: F,
    /// What is the matter, after the quoted subject.
    pub reason: &'static str,
    /// Where the fact stands.
    pub source: &'static str,
    /// Remedy.
    pub remedy: &'static str,
}

/// A lint of one section: it needs to know nothing of the others.
pub(crate) type SectionLint<L, M> = Lint<fn(&L, &M) -> Vec<LintMatch>>;

impl<F> Lint<F> {
    fn diagnostic(&self, sources: &Sources, hit: &LintMatch) -> Diagnostic {
        let message = format!("`{}` {}", hit.subject, self.reason);
        let mut finding = Diagnostic::error(sources, hit.place, self.id, message)
            .help(self.remedy)
            .help(format!("see {}", self.source));
        finding.severity = self.severity;
        finding
    }
}

/// One place where a lint applies.
pub(crate) struct LintMatch {
    place: Place,
    /// What, in the profile's words.
    subject: String,
}

impl LintMatch {
    /// `subject` is what the message quotes.
    pub(crate) fn new(place: Place, subject: impl Into<String>) -> Self {
        LintMatch { place, subject: subject.into() }
    }
}

/// Runs lints over a merged profile. A place has one finding: the first lint that finds it has it.
pub(crate) struct Linter<'a> {
    sources: &'a Sources,
    found: Vec<(Place, Diagnostic)>,
}

impl<'a> Linter<'a> {
    /// For a profile merged of these texts.
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Linter { sources, found: Vec::new() }
    }

    /// Runs these; `hits` calls a lint's function with what it looks at.
    pub(crate) fn run<F>(&mut self, lints: &[Lint<F>], hits: impl Fn(&F) -> Vec<LintMatch>) {
        for lint in lints {
            for hit in hits(&lint.find) {
                if !self.found.iter().any(|(place, _)| *place == hit.place) {
                    self.found.push((hit.place, lint.diagnostic(self.sources, &hit)));
                }
            }
        }
    }

    /// What was found, in the order of the files.
    pub(crate) fn into_findings(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|(_, finding)| finding.order());
        self.found.into_iter().map(|(_, finding)| finding).collect()
    }
}
