//! One [`Fragment`] → one [`Layer`]: texts become values, and a file is checked for what only its own author can mend.
//! Everything that is wrong is collected; a value that is wrong is left out of the layer.

mod cmdline;
mod host;
mod kinds;
mod modules;

use std::ops::Range;

use super::diagnostic::Diagnostic;
use super::fragment::{At, Entry, Fragment, MatchWord};
use super::layer::{Layer, Leaf, MatchLayer};
use super::source::{Place, Sources};

/// What a file's text came to, beside its layer.
pub(super) struct Checked {
    /// The layer.
    pub layer: Layer,
    /// `extends`, and where it stands.
    pub extends: Option<(String, Place)>,
}

/// Checks one file.
pub(super) fn check(
    sources: &Sources,
    file: usize,
    fragment: Fragment,
    out: &mut Vec<Diagnostic>,
) -> Checked {
    let mut checker = Checker { sources, file, out };
    let mut layer = Layer {
        name: checker.bare(fragment.name),
        description: checker.bare(fragment.description),
        ..Layer::default()
    };
    if let Some(name) = layer.name.as_ref().filter(|name| name.value.trim().is_empty()) {
        checker.error(name.place, "bad-name", "a profile's name cannot be empty", "", None);
    }
    layer.matching = match fragment.matching {
        Some(Entry::Long(section)) => checker.matching(section),
        // Which profile it is laid over is chosen where profiles are read.
        Some(Entry::Short(MatchWord::Auto)) | None => MatchLayer::default(),
    };
    layer.iommu = fragment.iommu.and_then(|section| checker.iommu(section));
    layer.cmdline = fragment.cmdline.map(|section| checker.cmdline(section)).unwrap_or_default();
    layer.modules = fragment.modules.map(|section| checker.modules(section)).unwrap_or_default();
    layer.acs = fragment.acs.map(|section| checker.acs(section)).unwrap_or_default();
    layer.sriov = fragment.sriov.map(|section| checker.sriov(section)).unwrap_or_default();
    layer.reboot = fragment.reboot.map(|section| checker.reboot(section)).unwrap_or_default();
    layer.agent = fragment.agent.map(|section| checker.agent(section)).unwrap_or_default();
    let extends = fragment.extends.map(|name| (name.value, Place::new(file, name.span)));
    Checked { layer, extends }
}

struct Checker<'a> {
    sources: &'a Sources,
    file: usize,
    out: &'a mut Vec<Diagnostic>,
}

/// A reason beside a value: `why` and `source`.
struct Reason {
    why: Option<At<String>>,
    source: Option<At<String>>,
}

impl Checker<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        Place::new(self.file, span)
    }

    fn bare<T>(&self, value: Option<At<T>>) -> Option<Leaf<T>> {
        value.map(|at| Leaf::bare(at.value, self.place(at.span)))
    }

    fn reasoned<T>(&self, value: T, place: Place, reason: Reason) -> Leaf<T> {
        Leaf {
            value,
            place,
            why: reason.why.map(|why| why.value),
            source: reason.source.map(|s| s.value),
        }
    }

    /// A section's value with the section's reason; a reason without the value explains nothing.
    fn section_value<T>(
        &mut self,
        section: &str,
        key: &str,
        value: Option<At<T>>,
        reason: Reason,
    ) -> Option<Leaf<T>> {
        if let Some(at) = value {
            let place = self.place(at.span);
            return Some(self.reasoned(at.value, place, reason));
        }
        for lonely in [reason.why, reason.source].into_iter().flatten() {
            let message = format!("this reason in `[{section}]` has nothing to explain");
            let help = format!("give `{key}` in the same file, or drop the reason");
            self.error(
                self.place(lonely.span),
                "lonely-reason",
                message,
                format!("no `{key}` here"),
                Some(help),
            );
        }
        None
    }

    fn error(
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

    /// Parses a text; what is wrong with it is said, and `None` comes back.
    fn parse<T>(&mut self, text: &str, span: Range<usize>, id: &'static str) -> Option<T>
    where
        T: std::str::FromStr<Err = crate::value::NotAValue>,
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

    /// A shell pattern that can be matched with.
    fn pattern(&mut self, value: Option<At<String>>) -> Option<Leaf<String>> {
        let at = value?;
        let place = self.place(at.span);
        if let Err(error) = glob::Pattern::new(&at.value) {
            let message = format!("`{}` is not a shell pattern", at.value);
            let help = "a `[` opens a set of characters; write `[[]` for the bracket itself";
            self.error(place, "bad-pattern", message, error.msg, Some(help.to_owned()));
            return None;
        }
        Some(Leaf::bare(at.value, place))
    }
}
