//! What a rule has at hand when it checks a value of one file. Everything that is wrong is collected; a value that is
//! wrong is left out of the layer.

use std::ops::Range;

use super::{Leaf, Spanned};
use crate::section::{Diagnostic, Place, Sources};

/// The file that is being checked, and what is wrong in it.
pub(crate) struct Checker<'a> {
    sources: &'a Sources,
    file: usize,
    out: &'a mut Vec<Diagnostic>,
}

/// A reason beside a value: `why` and `source`.
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

impl<'a> Checker<'a> {
    /// Checks the file with this index; what is wrong goes to `out`.
    pub(crate) fn new(sources: &'a Sources, file: usize, out: &'a mut Vec<Diagnostic>) -> Self {
        Checker { sources, file, out }
    }

    /// The place of some bytes of the file.
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        Place::new(self.file, span)
    }

    /// A value without a reason of its own.
    pub(crate) fn bare<T>(&self, at: Spanned<T>) -> Leaf<T> {
        Leaf::bare(at.value, self.place(at.span))
    }

    /// A value with the reason beside it.
    pub(crate) fn reasoned<T>(&self, value: T, place: Place, reason: Reason) -> Leaf<T> {
        Leaf {
            value,
            place,
            why: reason.why.map(|why| why.value),
            source: reason.source.map(|s| s.value),
        }
    }

    /// A section's value with the section's reason; a reason without the value (`given`) explains nothing.
    pub(crate) fn explained<T>(
        &mut self,
        section: &str,
        key: &str,
        given: bool,
        leaf: Option<Leaf<T>>,
        reason: Reason,
    ) -> Option<Leaf<T>> {
        if given {
            return leaf.map(|leaf| self.reasoned(leaf.value, leaf.place, reason));
        }
        for lonely in [reason.why, reason.source].into_iter().flatten() {
            let message = format!("this reason in `[{section}]` has nothing to explain");
            let help = format!("give `{key}` in the same file, or drop the reason");
            let label = format!("no `{key}` here");
            self.error(self.place(lonely.span), "lonely-reason", message, label, Some(help));
        }
        None
    }

    /// Reports an error.
    pub(crate) fn error(
        &mut self,
        place: Place,
        id: &'static str,
        message: impl Into<String>,
        label: impl Into<String>,
        help: Option<String>,
    ) {
        let finding =
            Diagnostic::error(self.sources, place, id, message).label(label).maybe_help(help);
        self.out.push(finding);
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
        let finding = Diagnostic::error(self.sources, at.0, id, message)
            .label(at.1)
            .also(self.sources, with.0, with.1)
            .maybe_help(help.map(str::to_owned));
        self.out.push(finding);
    }

    /// How many errors there are so far, in all files.
    pub(crate) fn errors(&self) -> usize {
        self.out.len()
    }

    /// Parses a text; what is wrong with it is said, and `None` comes back.
    pub(crate) fn parse<T>(&mut self, text: &str, span: Range<usize>, id: &'static str) -> Option<T>
    where
        T: std::str::FromStr<Err = bedplate_base::value::NotAValue>,
    {
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let place = self.place(span);
                let label = format!("expected {}", error.expected);
                self.error(place, id, error.to_string(), label, None);
                None
            }
        }
    }
}
