//! Findings in a valid profile: what can never be right, and what is seldom meant. Each is a row of [`rows::ROWS`] with
//! its reason, the source of that reason, and what to write instead. What a profile wants *absent* is never a finding.

mod find;
mod rows;

use super::declare::Leaf;
use super::diagnostic::{Diagnostic, Severity};
use super::root::{Layer, Profile};
use super::sections::cmdline::ParamLayer;
use super::source::{Place, Sources};

/// Runs every row over a merged profile. A place has one finding: the first row that finds it has it.
pub(super) fn lint(sources: &Sources, layer: &Layer, profile: &Profile) -> Vec<Diagnostic> {
    let view = View::new(layer, profile);
    let mut found: Vec<(Place, Diagnostic)> = Vec::new();
    for row in rows::ROWS {
        for hit in (row.find)(&view) {
            if found.iter().any(|(place, _)| *place == hit.place) {
                continue;
            }
            found.push((hit.place, row.diagnostic(sources, &hit)));
        }
    }
    found.sort_by_key(|(_, finding)| finding.order());
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// One lint.
struct Row {
    /// Stable word for it.
    id: &'static str,
    /// How bad.
    severity: Severity,
    /// Where it applies.
    find: fn(&View<'_>) -> Vec<Hit>,
    /// What is the matter, after the quoted subject.
    reason: &'static str,
    /// Where the fact stands.
    source: &'static str,
    /// What to do instead.
    remedy: &'static str,
}

impl Row {
    fn diagnostic(&self, sources: &Sources, hit: &Hit) -> Diagnostic {
        let message = format!("`{}` {}", hit.subject, self.reason);
        let mut finding = Diagnostic::error(sources, hit.place, self.id, message)
            .help(self.remedy)
            .help(format!("see {}", self.source));
        finding.severity = self.severity;
        finding
    }
}

/// One place where a row applies.
struct Hit {
    /// Where.
    place: Place,
    /// What, in the profile's words.
    subject: String,
}

impl Hit {
    fn new(place: Place, subject: impl Into<String>) -> Self {
        Hit { place, subject: subject.into() }
    }
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

impl Arg {
    fn hit(&self) -> Hit {
        Hit::new(self.place, &self.text)
    }
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

impl Parameter {
    fn hit(&self) -> Hit {
        Hit::new(self.place, &self.text)
    }
}

/// What rows look at.
struct View<'a> {
    layer: &'a Layer,
    profile: &'a Profile,
    args: Vec<Arg>,
    parameters: Vec<Parameter>,
}

impl<'a> View<'a> {
    fn new(layer: &'a Layer, profile: &'a Profile) -> Self {
        let args: Vec<Arg> =
            layer.cmdline.params.values().flat_map(ParamLayer::set).filter_map(arg).collect();
        let on_cmdline = args.iter().filter_map(|arg| {
            let (module, name) = arg.name.split_once('.')?;
            let (module, name) = (module.to_owned(), name.to_owned());
            Some(Parameter {
                place: arg.place,
                module,
                name,
                text: arg.text.clone(),
                on_cmdline: true,
            })
        });
        let in_options =
            layer.modules.lists.options.0.iter().map(|((module, name), leaf)| Parameter {
                place: leaf.place,
                module: module.to_string(),
                name: name.clone(),
                text: format!("{module}.{name}"),
                on_cmdline: false,
            });
        let parameters = on_cmdline.chain(in_options).collect();
        View { layer, profile, args, parameters }
    }

    /// Modules wanted loaded, with their places.
    fn loaded(&self) -> impl Iterator<Item = (&str, Place)> {
        self.layer.modules.lists.names.0.iter().filter_map(|(name, module)| {
            let leaf = module.load.as_ref()?;
            leaf.value.is_some().then_some((name.as_str(), leaf.place))
        })
    }
}

fn arg(leaf: &Leaf<String>) -> Option<Arg> {
    let token = crate::cmdline::Token::new(&leaf.value).ok()?;
    let value = token.value().map(|value| value.into_owned()).unwrap_or_default();
    Some(Arg { place: leaf.place, text: leaf.value.clone(), name: token.folded_name(), value })
}

#[cfg(test)]
mod tests;
