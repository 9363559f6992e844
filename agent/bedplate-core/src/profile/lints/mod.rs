//! Lints: values that are never or seldom right. Each has a reason, the source of that reason, and a fix. Values in
//! *absent* lists are never a finding.

mod find;
mod running;
mod running_table;
mod table;

use std::collections::BTreeMap;

use super::root::Profile;
use crate::kind::cmdline::section;
use crate::kind::modules::section::option_key;
use crate::section::{Diagnostic, Origin, Place, Severity, Sources};
use bedplate_cmdline::Token;

/// A lint.
struct Lint {
    /// Stable id.
    id: &'static str,
    /// Error if the value is never right, else warning.
    severity: Severity,
    /// Finds the places where the lint applies.
    find: fn(&View<'_>) -> Vec<LintMatch>,
    /// Description of the fault; follows the quoted subject.
    reason: &'static str,
    /// Source of the fact.
    source: &'static str,
    /// Fix.
    fix: &'static str,
}

/// A place where a lint applies.
struct LintMatch {
    place: Place,
    /// Quotation from the profile for the message.
    subject: String,
}

impl Lint {
    fn diagnostic(&self, sources: &Sources, hit: &LintMatch) -> Diagnostic {
        let message = format!("`{}` {}", hit.subject, self.reason);
        let mut finding = Diagnostic::error(sources, hit.place, self.id, message)
            .help(self.fix)
            .help(format!("see {}", self.source));
        finding.severity = self.severity;
        finding
    }
}

/// Returns all lints, in the order in which they get a place.
fn all() -> impl Iterator<Item = &'static Lint> {
    running_table::LINTS.iter().chain(table::LINTS)
}

/// Returns the findings of all lints in a merged profile, in the order of the files. Each place has one finding, of the
/// first lint that matches it.
pub(super) fn lint(
    sources: &Sources,
    profile: &Profile,
    origins: &BTreeMap<String, Origin>,
) -> Vec<Diagnostic> {
    let view = View::new(profile, origins);
    let mut found: Vec<(Place, Diagnostic)> = Vec::new();
    for lint in all() {
        for hit in (lint.find)(&view) {
            if !found.iter().any(|(place, _)| *place == hit.place) {
                found.push((hit.place, lint.diagnostic(sources, &hit)));
            }
        }
    }
    found.sort_by_key(|(_, finding)| finding.order());
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns whether a lint only reminds of something still to be filled in.
pub fn is_reminder(id: &str) -> bool {
    table::REMINDERS.contains(&id)
}

/// Returns the ids of all lints.
pub fn lint_ids() -> Vec<&'static str> {
    all().map(|lint| lint.id).collect()
}

/// A kernel argument, split into name and value.
struct Arg {
    place: Place,
    /// Text in the profile (one option of a list).
    text: String,
    /// Normalized name.
    name: String,
    /// Value without the quotes that the kernel strips; empty if there is no value.
    value: String,
}

/// A module parameter, from `[modules.options]` or from the command line.
struct Parameter {
    place: Place,
    module: String,
    name: String,
    /// Text in the profile.
    text: String,
    on_cmdline: bool,
}

/// Input of the lints.
struct View<'a> {
    profile: &'a Profile,
    origins: &'a BTreeMap<String, Origin>,
    args: Vec<Arg>,
    parameters: Vec<Parameter>,
}

impl<'a> View<'a> {
    fn new(profile: &'a Profile, origins: &'a BTreeMap<String, Origin>) -> Self {
        let mut view = View { profile, origins, args: Vec::new(), parameters: Vec::new() };
        let tokens = || profile.cmdline.args.iter().map(|arg| &arg.token);
        let keys = section::keys(section::ARGS, tokens());
        view.args = tokens().zip(&keys).filter_map(|(token, key)| view.arg(token, key)).collect();
        let on_cmdline = view.args.iter().filter_map(|arg| {
            let (module, name) = arg.name.split_once('.')?;
            let (module, name) = (module.to_owned(), name.to_owned());
            let text = arg.text.clone();
            Some(Parameter { place: arg.place, module, name, text, on_cmdline: true })
        });
        let in_options = profile.modules.options.iter().filter_map(|option| {
            let (module, name) = (option.module.to_string(), option.parameter.clone());
            let place = view.place(&option_key(&option.module, &name))?;
            let text = format!("{module}.{name}");
            Some(Parameter { place, module, name, text, on_cmdline: false })
        });
        view.parameters = on_cmdline.chain(in_options).collect();
        view
    }

    fn arg(&self, token: &Token, key: &str) -> Option<Arg> {
        let value = token.value().map(|value| value.into_owned()).unwrap_or_default();
        let place = self.place(key)?;
        Some(Arg { place, text: token.to_string(), name: token.folded_name(), value })
    }

    /// Returns the place of a dotted key, if a file sets it.
    fn place(&self, key: &str) -> Option<Place> {
        self.origins.get(key).map(|origin| origin.place)
    }

    /// Returns a match at a key, if a file sets it.
    fn hit(&self, key: &str, subject: impl Into<String>) -> Option<LintMatch> {
        Some(LintMatch { place: self.place(key)?, subject: subject.into() })
    }
}

#[cfg(test)]
mod tests;
