//! Context of rules that check values of files. Collects all faults and omits faulty values from the profile; records
//! the place of each value.

use std::collections::BTreeMap;

use super::{Diagnostic, Place, ProfileErrors, SourceFile, Sources, Spanned};
use crate::plan::Rationale;

/// Place and reason of a value in the merged profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// File, as named to `load`; `shipped:NAME.toml` for a shipped profile.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The value's bytes.
    pub(crate) place: Place,
    /// Reason, if the profile gives one.
    pub(super) why: Option<String>,
    /// Source of the reason, if the profile gives one.
    pub(super) source: Option<String>,
}

/// Reason of a value for which the profile gives no reason.
const ASKED: &str = "requested by the profile";

/// Reason for a value: `why` and `source`.
#[derive(Debug, Clone)]
pub(crate) struct Reason {
    /// Reason, if the profile gives one.
    pub why: Option<Spanned<String>>,
    /// Source of the fact.
    pub source: Option<Spanned<String>>,
}

impl Reason {
    /// No reason.
    pub(crate) const NONE: Reason = Reason { why: None, source: None };
}

/// Texts under check, with their faults and the place of each key.
pub(crate) struct Checker<'a> {
    sources: Sources,
    /// Ids of the checks of `bedplate verify`, which a profile may refer to.
    pub checks: &'a [&'static str],
    errors: Vec<Diagnostic>,
    origins: BTreeMap<String, Origin>,
}

impl<'a> Checker<'a> {
    /// Creates a checker; `checks` are the ids of the checks of `bedplate verify`.
    pub(crate) fn new(checks: &'a [&'static str]) -> Self {
        let sources = Sources::default();
        Checker { sources, checks, errors: Vec::new(), origins: BTreeMap::new() }
    }

    /// Adds a text. Returns it with blanks in place of the preceding texts, so that spans in it are places, and its
    /// start.
    pub(crate) fn add(&mut self, file: SourceFile) -> (String, usize) {
        let text = file.text().to_owned();
        let start = self.sources.add(file);
        (" ".repeat(start) + &text, start)
    }

    /// Returns the texts, and the origin of each value by its dotted key.
    ///
    /// # Errors
    /// All faults, in the order of the files.
    pub(crate) fn finish(mut self) -> Result<(Sources, BTreeMap<String, Origin>), ProfileErrors> {
        if self.errors.is_empty() {
            return Ok((self.sources, self.origins));
        }
        self.errors.sort_by_key(Diagnostic::order);
        Err(ProfileErrors(self.errors))
    }

    /// Records the place of a value. Returns the profile's reason for it, or a default reason with the line. A later
    /// file's place and reason replace those of an earlier one.
    pub(crate) fn note(&mut self, key: &str, place: Place, reason: Reason) -> Vec<Rationale> {
        let (_, file, span) = self.sources.locate(place);
        let line = file.line_column(span.start).0;
        let (why, source) = (reason.why.map(|at| at.value), reason.source.map(|at| at.value));
        let sentence = why.clone().unwrap_or_else(|| ASKED.to_owned());
        let rationale = match &source {
            Some(source) => Rationale::new(sentence, source.clone()),
            None => Rationale::at(sentence, format!("{}:{line}", file.path())),
        };
        let origin = Origin { file: file.path().to_owned(), line, place, why, source };
        self.origins.insert(key.to_owned(), origin);
        vec![rationale]
    }

    /// Returns the reason for a section's value. `given` has, for each file, the place of the value and the section's
    /// reason. A reason without the value is an error.
    pub(crate) fn explained(
        &mut self,
        section: &str,
        key: &str,
        given: Vec<(Option<Place>, Reason)>,
    ) -> Vec<Rationale> {
        let mut reasons = Vec::new();
        for (place, reason) in given {
            if let Some(place) = place {
                reasons = self.note(&format!("{section}.{key}"), place, reason);
                continue;
            }
            for lonely in [reason.why, reason.source].into_iter().flatten() {
                let message = format!("`[{section}]` has a reason without a value");
                let help = format!("set `{key}` in the same file, or remove the reason");
                let label = format!("no `{key}` here");
                self.error(lonely.place, "lonely-reason", message, label, Some(&help));
            }
        }
        reasons
    }

    /// Returns the place of a dotted key.
    pub(crate) fn place(&self, key: &str) -> Option<Place> {
        self.origins.get(key).map(|origin| origin.place)
    }

    /// Reports an error.
    pub(crate) fn error(
        &mut self,
        place: impl Into<Place>,
        id: &'static str,
        message: impl Into<String>,
        label: impl Into<String>,
        help: Option<&str>,
    ) {
        let finding = Diagnostic::error(&self.sources, place.into(), id, message)
            .label(label)
            .maybe_help(help);
        self.errors.push(finding);
    }

    /// Reports an error that involves a second place; each has a label.
    pub(crate) fn clash(
        &mut self,
        id: &'static str,
        message: impl Into<String>,
        at: (Place, &str),
        with: (Place, &str),
        help: Option<&str>,
    ) {
        let finding = Diagnostic::error(&self.sources, at.0, id, message)
            .label(at.1)
            .also(&self.sources, with.0, with.1)
            .maybe_help(help);
        self.errors.push(finding);
    }

    /// Returns the number of errors so far, in all files.
    pub(crate) fn errors(&self) -> usize {
        self.errors.len()
    }

    /// Parses a text. On failure, records a diagnostic and returns `None`.
    pub(crate) fn parse<T>(&mut self, text: &Spanned<String>, id: &'static str) -> Option<T>
    where
        T: std::str::FromStr<Err = bedplate_base::value::NotAValue>,
    {
        match text.value.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let label = format!("expected {}", error.expected);
                self.error(text.place, id, error.to_string(), label, None);
                None
            }
        }
    }
}
