//! What a rule has at hand when it checks a value of a file. Everything that is wrong is collected; a value that is wrong
//! is left out of the profile. Where each value stands is noted.

use std::collections::BTreeMap;

use super::{Diagnostic, Place, ProfileErrors, SourceFile, Sources, Spanned};
use crate::plan::Rationale;

/// Where a value of the merged profile was said, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file, as it was named to `load`; `shipped:NAME.toml` for a shipped profile.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The value's bytes.
    pub(crate) place: Place,
    /// The profile's reason for it.
    pub(super) why: Option<String>,
    /// The profile's source for the reason.
    pub(super) source: Option<String>,
}

/// What a value is there for when the profile gives no reason.
const ASKED: &str = "asked for by the profile";

/// A reason beside a value: `why` and `source`.
#[derive(Debug, Clone)]
pub(crate) struct Reason {
    /// The profile's reason.
    pub why: Option<Spanned<String>>,
    /// Where the fact stands.
    pub source: Option<Spanned<String>>,
}

impl Reason {
    /// None is given.
    pub(crate) const NONE: Reason = Reason { why: None, source: None };
}

/// The texts that are being checked, what is wrong in them, and where they give which key.
pub(crate) struct Checker<'a> {
    sources: Sources,
    /// Ids of the checks of `bedplate verify`: the profile names them.
    pub checks: &'a [&'static str],
    errors: Vec<Diagnostic>,
    origins: BTreeMap<String, Origin>,
}

impl<'a> Checker<'a> {
    /// `checks` are the ids of the checks of `bedplate verify`.
    pub(crate) fn new(checks: &'a [&'static str]) -> Self {
        let sources = Sources::default();
        Checker { sources, checks, errors: Vec::new(), origins: BTreeMap::new() }
    }

    /// Takes a text in. Returns it with blanks in place of the texts before it, so that spans in it are places, and where it
    /// starts.
    pub(crate) fn add(&mut self, file: SourceFile) -> (String, usize) {
        let text = file.text().to_owned();
        let start = self.sources.add(file);
        (" ".repeat(start) + &text, start)
    }

    /// The texts, and the origin of each value by its dotted key.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the files.
    pub(crate) fn finish(mut self) -> Result<(Sources, BTreeMap<String, Origin>), ProfileErrors> {
        if self.errors.is_empty() {
            return Ok((self.sources, self.origins));
        }
        self.errors.sort_by_key(Diagnostic::order);
        Err(ProfileErrors(self.errors))
    }

    /// Notes that a value stands here. Returns the reason for it: the profile's, or that the profile asks for it, with the
    /// line. A later file's place and reason replace those of an earlier one.
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

    /// The reason for a section's value: `given` has, for each file, the place of the value and the section's reason. A
    /// reason without the value explains nothing.
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
                let message = format!("this reason in `[{section}]` has nothing to explain");
                let help = format!("give `{key}` in the same file, or drop the reason");
                let label = format!("no `{key}` here");
                self.error(lonely.place, "lonely-reason", message, label, Some(&help));
            }
        }
        reasons
    }

    /// Where a key was said, by its dotted key.
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

    /// Reports an error that has to do with a second place: both come with what stands below them.
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

    /// How many errors there are so far, in all files.
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
