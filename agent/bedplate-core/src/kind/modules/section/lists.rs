//! The module lists and options: a module is in one list or in another, and a later layer moves it.

use std::collections::BTreeMap;

use super::{
    DEFAULT_LOAD, Module, ModuleEntry, ModuleOption, Modules, ModulesLayer, Parameters, Scalar,
    ScalarEntry,
};
use crate::desired::ModuleLoad;
use crate::section::{
    Checker, Entry, Finisher, Leaf, ListEntry, OrderedMap, Overlay, Place, Printer, Reason,
    Spanned, key_of, overlay_fields, quoted, toml_text,
};
use bedplate_base::value::ModuleName;

/// What is said of modules by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ListsLayer {
    /// By module: in one list or in another.
    pub names: OrderedMap<ModuleLayer>,
    /// Sorted by module and parameter.
    pub options: Options,
}
overlay_fields!(ListsLayer { names, options });

impl ListsLayer {
    /// Modules wanted loaded, with their places.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&str, Place)> {
        self.names.0.iter().filter_map(|(name, module)| {
            let leaf = module.load.as_ref()?;
            leaf.value.is_some().then_some((name.as_str(), leaf.place))
        })
    }
}

/// Parameters by module and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options(pub BTreeMap<(ModuleName, String), Leaf<String>>);

impl Overlay for Options {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

/// What is said of one module; `Leaf<None>` and `Leaf<false>`: a layer has said that it is not so.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModuleLayer {
    /// To be loaded.
    pub load: Option<Leaf<Option<Loading>>>,
    /// Kept from being loaded by alias.
    pub blacklist: Option<Leaf<bool>>,
    /// Unloaded now.
    pub unload: Option<Leaf<bool>>,
}
overlay_fields!(ModuleLayer { load, blacklist, unload });

/// A module is wanted loaded; `None`: when the section's default says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loading(pub Option<ModuleLoad>);

/// One entry of a module list.
struct ListedModule {
    name: String,
    load: Option<(ModuleLoad, Place)>,
    leaf: Leaf<()>,
}

/// The module lists and options of one file.
pub(super) fn read(
    checker: &mut Checker<'_>,
    load: Option<Vec<ModuleEntry>>,
    blacklist: Option<Vec<ModuleEntry>>,
    unload: Option<Vec<ModuleEntry>>,
    options: Option<BTreeMap<Spanned<String>, Parameters>>,
) -> ListsLayer {
    let load = module_list(checker, "load", load);
    let blacklist = module_list(checker, "blacklist", blacklist);
    let unload = module_list(checker, "unload", unload);
    for entry in blacklist.iter().chain(&unload) {
        if let Some((_, place)) = entry.load {
            let message =
                format!("`load` means nothing for {}, which is not to be loaded", entry.name);
            checker.error(place, "load-without-load", message, "drop this", None);
        }
        if let Some(wanted) = load.iter().find(|wanted| wanted.name == entry.name) {
            let message = format!("module {} is to be loaded and to be kept out", entry.name);
            let at = (entry.leaf.place, "kept out here");
            let with = (wanted.leaf.place, "loaded here");
            checker.clash("contradiction", message, at, with, None);
        }
    }
    let names = names(&load, &blacklist, &unload);
    ListsLayer { names, options: read_options(checker, options) }
}

fn read_options(
    checker: &mut Checker<'_>,
    given: Option<BTreeMap<Spanned<String>, Parameters>>,
) -> Options {
    let mut options = Options::default();
    for (module, parameters) in given.into_iter().flatten() {
        let Some(name) = checker.parse::<ModuleName>(&module.value, module.span, "bad-module-name")
        else {
            continue;
        };
        for (parameter, entry) in parameters {
            let place = checker.place(parameter.span);
            if let Some(value) = option(checker, &parameter.value, place, entry) {
                options.0.insert((name.clone(), parameter.value), value);
            }
        }
    }
    options
}

fn module_list(
    checker: &mut Checker<'_>,
    list: &str,
    entries: Option<Vec<ModuleEntry>>,
) -> Vec<ListedModule> {
    let mut out: Vec<ListedModule> = Vec::new();
    for entry in entries.into_iter().flatten() {
        let (text, span, load, reason) = match entry.value {
            Entry::Short(text) => (text.0, entry.span, None, Reason::NONE),
            Entry::Long(table) => {
                let reason = Reason { why: table.why, source: table.source };
                (table.name.value.0, table.name.span, table.load, reason)
            }
        };
        let Some(name) = checker.parse::<ModuleName>(&text, span.clone(), "bad-module-name") else {
            continue;
        };
        let name = name.to_string();
        let place = checker.place(span);
        if let Some(first) = out.iter().find(|listed| listed.name == name) {
            let message = format!("module {name} is twice in `modules.{list}`");
            let with = (first.leaf.place, "first here");
            checker.clash("duplicate", message, (place, "again here"), with, None);
            continue;
        }
        let load = load.map(|at| (at.value, checker.place(at.span)));
        out.push(ListedModule { name, load, leaf: checker.reasoned((), place, reason) });
    }
    out
}

fn option(
    checker: &mut Checker<'_>,
    parameter: &str,
    place: Place,
    entry: ScalarEntry,
) -> Option<Leaf<String>> {
    let (value, reason) = match entry.value {
        Entry::Short(value) => (value, Reason::NONE),
        Entry::Long(table) => (table.value, Reason { why: table.why, source: table.source }),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    if parameter.is_empty() || !parameter.chars().all(good) {
        let message = format!("`{parameter}` cannot be the name of a module parameter");
        checker.error(place, "bad-parameter", message, "expected letters, digits and `_`", None);
        return None;
    }
    if let Scalar::Text(text) = &value
        && text.chars().any(char::is_control)
    {
        let message = format!("the value of `{parameter}` holds a control character");
        let help = "modprobe.d has one line for each option, and no escape for a line break";
        checker.error(
            checker.place(entry.span),
            "bad-parameter",
            message,
            "",
            Some(help.to_owned()),
        );
        return None;
    }
    Some(checker.reasoned(value.to_string(), place, reason))
}

/// By name: being loaded is not being kept out, and the other way round, so that a later layer undoes an earlier one.
fn names(
    load: &[ListedModule],
    blacklist: &[ListedModule],
    unload: &[ListedModule],
) -> OrderedMap<ModuleLayer> {
    fn with<T>(leaf: &Leaf<()>, value: T) -> Option<Leaf<T>> {
        Some(Leaf { value, place: leaf.place, why: leaf.why.clone(), source: leaf.source.clone() })
    }
    let mut out: OrderedMap<ModuleLayer> = OrderedMap::default();
    for ListedModule { name, load, leaf } in load {
        *out.entry(name) = ModuleLayer {
            load: with(leaf, Some(Loading(load.map(|(load, _)| load)))),
            blacklist: with(leaf, false),
            unload: with(leaf, false),
        };
    }
    for ListedModule { name, leaf, .. } in blacklist {
        let module = out.entry(name);
        module.load = with(leaf, None);
        module.blacklist = with(leaf, true);
    }
    for ListedModule { name, leaf, .. } in unload {
        let module = out.entry(name);
        module.load = with(leaf, None);
        module.unload = with(leaf, true);
    }
    out
}

/// The modules wanted loaded.
pub(super) fn load(section: &ModulesLayer, finisher: &mut Finisher<'_>) -> Vec<Module> {
    let default = default_load(section);
    let wanted = |module: &ModuleLayer| {
        let Leaf { value, place, why, source } = module.load.clone()?;
        let Loading(load) = value?;
        Some(Leaf { value: load.unwrap_or(default), place, why, source })
    };
    listed(section, "modules.load", wanted, finisher)
}

/// The modules kept from being loaded by alias.
pub(super) fn blacklist(section: &ModulesLayer, finisher: &mut Finisher<'_>) -> Vec<Module> {
    let default = default_load(section);
    let kept_out = |module: &ModuleLayer| load_if_listed(module.blacklist.as_ref()?, default);
    listed(section, "modules.blacklist", kept_out, finisher)
}

/// The modules unloaded now.
pub(super) fn unload(section: &ModulesLayer, finisher: &mut Finisher<'_>) -> Vec<Module> {
    let default = default_load(section);
    let unloaded = |module: &ModuleLayer| load_if_listed(module.unload.as_ref()?, default);
    listed(section, "modules.unload", unloaded, finisher)
}

fn default_load(section: &ModulesLayer) -> ModuleLoad {
    section.load_default.as_ref().map_or(DEFAULT_LOAD, |leaf| leaf.value)
}

fn load_if_listed(leaf: &Leaf<bool>, default: ModuleLoad) -> Option<Leaf<ModuleLoad>> {
    let Leaf { place, why, source, .. } = leaf.clone();
    leaf.value.then_some(Leaf { value: default, place, why, source })
}

fn listed(
    section: &ModulesLayer,
    list: &str,
    in_list: impl Fn(&ModuleLayer) -> Option<Leaf<ModuleLoad>>,
    finisher: &mut Finisher<'_>,
) -> Vec<Module> {
    let mut out = Vec::new();
    for (name, module) in &section.lists.names.0 {
        let (Ok(name), Some(leaf)) = (name.parse::<ModuleName>(), in_list(module)) else {
            continue;
        };
        finisher.note(key_of(list, name.as_str()), &leaf);
        out.push(Module { name, load: leaf.value, why: finisher.reasons_of_leaf(&leaf) });
    }
    out
}

/// The module parameters.
pub(super) fn options(section: &ModulesLayer, finisher: &mut Finisher<'_>) -> Vec<ModuleOption> {
    let mut out = Vec::new();
    for ((module, parameter), leaf) in &section.lists.options.0 {
        finisher.note(option_key(module, parameter), leaf);
        out.push(ModuleOption {
            module: module.clone(),
            parameter: parameter.clone(),
            value: leaf.value.clone(),
            why: finisher.reasons_of_leaf(leaf),
        });
    }
    out
}

fn option_key(module: &ModuleName, parameter: &str) -> String {
    format!("modules.options.{module}.{}", quoted(parameter))
}

/// Lists and options as TOML.
pub(super) fn show(section: &ModulesLayer, _: &Modules, out: &mut Printer<'_>) {
    let (mut load, mut blacklist, mut unload) = (Vec::new(), Vec::new(), Vec::new());
    for (name, module) in &section.lists.names.0 {
        if let Some(leaf) = &module.load
            && let Some(loading) = leaf.value
        {
            let mut entry = ListEntry::new("name", name, key_of("modules.load", name), leaf);
            entry.more.extend(loading.0.map(|when| ("load", toml_text(&when))));
            load.push(entry);
        }
        let lists = [
            ("modules.blacklist", &module.blacklist, &mut blacklist),
            ("modules.unload", &module.unload, &mut unload),
        ];
        for (list, leaf, entries) in lists {
            let Some(leaf) = leaf.as_ref().filter(|leaf| leaf.value) else { continue };
            entries.push(ListEntry::new("name", name, key_of(list, name), leaf));
        }
    }
    out.list("load", &load);
    out.list("blacklist", &blacklist);
    out.list("unload", &unload);
    for ((module, parameter), leaf) in &section.lists.options.0 {
        let key = option_key(module, parameter);
        let entry = ListEntry::new("value", &leaf.value, key.clone(), leaf);
        let line = format!("options.{module}.{} = {}", quoted(parameter), entry.text());
        out.line(&line, Some(&key));
    }
}
