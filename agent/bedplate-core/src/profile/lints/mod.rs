//! Lints: what can never be right, and what is seldom meant. Each is a row with its reason, the source of that reason, and
//! what to write instead. What a profile wants *absent* is never a finding.

mod find;
mod table;

use std::collections::BTreeMap;

use super::root::Profile;
use crate::kind::cmdline::section;
use crate::kind::modules::section::option_key;
use crate::section::{Diagnostic, Origin, Place, Severity, Sources};
use bedplate_cmdline::Token;

/// One lint.
struct Lint {
    /// Stable word for it.
    id: &'static str,
    /// An error when it can never be right, else a warning.
    severity: Severity,
    /// Where it applies.
    find: fn(&View<'_>) -> Vec<LintMatch>,
    /// What is the matter, after the quoted subject.
    reason: &'static str,
    /// Where the fact stands.
    source: &'static str,
    /// Remedy.
    remedy: &'static str,
}

/// One place where a lint applies.
struct LintMatch {
    place: Place,
    /// What, in the profile's words: the message quotes it.
    subject: String,
}

impl Lint {
    fn diagnostic(&self, sources: &Sources, hit: &LintMatch) -> Diagnostic {
        let message = format!("`{}` {}", hit.subject, self.reason);
        let mut finding = Diagnostic::error(sources, hit.place, self.id, message)
            .help(self.remedy)
            .help(format!("see {}", self.source));
        finding.severity = self.severity;
        finding
    }
}

/// Everything that any lint finds in a merged profile, in the order of the files. A place has one finding: the first lint
/// that finds it has it.
pub(super) fn lint(
    sources: &Sources,
    profile: &Profile,
    origins: &BTreeMap<String, Origin>,
) -> Vec<Diagnostic> {
    let view = View::new(profile, origins);
    let mut found: Vec<(Place, Diagnostic)> = Vec::new();
    for lint in table::LINTS {
        for hit in (lint.find)(&view) {
            if !found.iter().any(|(place, _)| *place == hit.place) {
                found.push((hit.place, lint.diagnostic(sources, &hit)));
            }
        }
    }
    found.sort_by_key(|(_, finding)| finding.order());
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// The ids of all lints.
pub fn lint_ids() -> Vec<&'static str> {
    table::LINTS.iter().map(|lint| lint.id).collect()
}

/// A kernel argument, cut into name and value.
struct Arg {
    place: Place,
    /// As the profile has it (one option of a list).
    text: String,
    /// Folded name.
    name: String,
    /// Value without the quotes that the kernel strips; empty when there is none.
    value: String,
}

/// A module parameter, from `[modules.options]` or from the command line.
struct Parameter {
    place: Place,
    module: String,
    name: String,
    /// As the profile has it.
    text: String,
    on_cmdline: bool,
}

/// What rows look at.
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

    /// Where a file gives a key, by its dotted key.
    fn place(&self, key: &str) -> Option<Place> {
        self.origins.get(key).map(|origin| origin.place)
    }

    /// A finding at a key, if a file gives it.
    fn hit(&self, key: &str, subject: impl Into<String>) -> Option<LintMatch> {
        Some(LintMatch { place: self.place(key)?, subject: subject.into() })
    }
}

#[cfg(test)]
mod tests;
