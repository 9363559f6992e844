//! `[modules]`.

use super::{Checker, Reason};
use crate::profile::diagnostic::Diagnostic;
use crate::profile::fragment::{Entry, ModuleEntry, ModulesFragment, OptionEntry, Scalar};
use crate::profile::layer::{Keyed, Leaf, Loading, ModuleLayer, ModulesLayer, Options};
use crate::profile::model::ModuleLoad;
use crate::profile::source::Place;
use crate::value::ModuleName;

/// One entry of a module list.
struct Listed {
    name: String,
    load: Option<(ModuleLoad, Place)>,
    leaf: Leaf<()>,
}

impl Checker<'_> {
    pub(super) fn modules(&mut self, section: ModulesFragment) -> ModulesLayer {
        let load = self.module_list("load", section.load);
        let blacklist = self.module_list("blacklist", section.blacklist);
        let unload = self.module_list("unload", section.unload);
        for entry in blacklist.iter().chain(&unload) {
            if let Some((_, place)) = entry.load {
                let message =
                    format!("`load` means nothing for {}, which is not to be loaded", entry.name);
                self.error(place, "load-without-load", message, "drop this", None);
            }
            if let Some(wanted) = load.iter().find(|wanted| wanted.name == entry.name) {
                let message = format!("module {} is to be loaded and to be kept out", entry.name);
                let finding =
                    Diagnostic::error(self.sources, entry.leaf.place, "contradiction", message)
                        .label("kept out here")
                        .also(self.sources, wanted.leaf.place, "loaded here");
                self.out.push(finding);
            }
        }
        let mut options = Options::default();
        for (module, parameters) in section.options.into_iter().flatten() {
            let Some(name) =
                self.parse::<ModuleName>(&module.value, module.span, "bad-module-name")
            else {
                continue;
            };
            for (parameter, entry) in parameters {
                let place = self.place(parameter.span);
                if let Some(value) = self.option(&parameter.value, place, entry) {
                    options.0.insert((name.clone(), parameter.value), value);
                }
            }
        }
        ModulesLayer {
            load_default: self.bare(section.load_default),
            gpudirect: self.bare(section.gpudirect),
            names: names(&load, &blacklist, &unload),
            options,
        }
    }

    fn module_list(&mut self, list: &str, entries: Option<Vec<ModuleEntry>>) -> Vec<Listed> {
        let mut out: Vec<Listed> = Vec::new();
        for entry in entries.into_iter().flatten() {
            let (text, span, load, reason) = match entry.value {
                Entry::Short(text) => {
                    (text.0, entry.span, None, Reason { why: None, source: None })
                }
                Entry::Long(table) => {
                    let reason = Reason { why: table.why, source: table.source };
                    (table.name.value.0, table.name.span, table.load, reason)
                }
            };
            let Some(name) = self.parse::<ModuleName>(&text, span.clone(), "bad-module-name")
            else {
                continue;
            };
            let name = name.to_string();
            let place = self.place(span);
            if let Some(first) = out.iter().find(|listed| listed.name == name) {
                let message = format!("module {name} is twice in `modules.{list}`");
                let finding = Diagnostic::error(self.sources, place, "duplicate", message)
                    .label("again here")
                    .also(self.sources, first.leaf.place, "first here");
                self.out.push(finding);
                continue;
            }
            let load = load.map(|at| (at.value, self.place(at.span)));
            out.push(Listed { name, load, leaf: self.reasoned((), place, reason) });
        }
        out
    }

    fn option(
        &mut self,
        parameter: &str,
        place: Place,
        entry: OptionEntry,
    ) -> Option<Leaf<String>> {
        let (value, reason) = match entry.value {
            Entry::Short(value) => (value, Reason { why: None, source: None }),
            Entry::Long(table) => (table.value, Reason { why: table.why, source: table.source }),
        };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if parameter.is_empty() || !parameter.chars().all(good) {
            let message = format!("`{parameter}` cannot be the name of a module parameter");
            self.error(place, "bad-parameter", message, "expected letters, digits and `_`", None);
            return None;
        }
        if let Scalar::Text(text) = &value
            && text.chars().any(char::is_control)
        {
            let message = format!("the value of `{parameter}` holds a control character");
            let help = "modprobe.d has one line for each option, and no escape for a line break";
            self.error(self.place(entry.span), "bad-parameter", message, "", Some(help.to_owned()));
            return None;
        }
        Some(self.reasoned(value.to_string(), place, reason))
    }
}

/// By name: being loaded is not being kept out, and the other way round, so that a later layer undoes an earlier one.
fn names(load: &[Listed], blacklist: &[Listed], unload: &[Listed]) -> Keyed<ModuleLayer> {
    fn with<T>(leaf: &Leaf<()>, value: T) -> Option<Leaf<T>> {
        Some(Leaf { value, place: leaf.place, why: leaf.why.clone(), source: leaf.source.clone() })
    }
    let mut out: Keyed<ModuleLayer> = Keyed::default();
    for Listed { name, load, leaf } in load {
        *out.entry(name) = ModuleLayer {
            load: with(leaf, Some(Loading(load.map(|(load, _)| load)))),
            blacklist: with(leaf, false),
            unload: with(leaf, false),
        };
    }
    for Listed { name, leaf, .. } in blacklist {
        let module = out.entry(name);
        module.load = with(leaf, None);
        module.blacklist = with(leaf, true);
    }
    for Listed { name, leaf, .. } in unload {
        let module = out.entry(name);
        module.load = with(leaf, None);
        module.unload = with(leaf, true);
    }
    out
}
