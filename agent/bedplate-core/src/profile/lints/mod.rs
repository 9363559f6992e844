//! Lints that look at several sections: what one says that another makes wrong or pointless, on the kernel command line
//! above all. A lint of one section stands with it.

mod find;
mod table;

use crate::kind::cmdline::section::ParamLayer;
use crate::section::{Diagnostic, Leaf, Lint, LintMatch, Linter, Place, Severity, Sources};

use super::root::{Layer, Profile};

/// Everything that any lint finds in a merged profile.
pub(super) fn lint(sources: &Sources, layer: &Layer, profile: &Profile) -> Vec<Diagnostic> {
    let view = View::new(layer, profile);
    let mut linter = Linter::new(sources);
    linter.run(table::LINTS, |find| find(&view));
    layer.lint(profile, &mut linter);
    linter.into_findings()
}

/// The ids of all lints.
pub fn lint_ids() -> Vec<&'static str> {
    table::LINTS.iter().map(|row| row.id).chain(Layer::lint_ids()).collect()
}

/// One lint.
type LintEntry = Lint<for<'a> fn(&View<'a>) -> Vec<LintMatch>>;

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
    fn hit(&self) -> LintMatch {
        LintMatch::new(self.place, &self.text)
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
    fn hit(&self) -> LintMatch {
        LintMatch::new(self.place, &self.text)
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
        self.layer.modules.lists.loaded()
    }
}

fn arg(leaf: &Leaf<String>) -> Option<Arg> {
    let token = bedplate_cmdline::Token::new(&leaf.value).ok()?;
    let value = token.value().map(|value| value.into_owned()).unwrap_or_default();
    Some(Arg { place: leaf.place, text: leaf.value.clone(), name: token.folded_name(), value })
}

#[cfg(test)]
mod tests;
