//! Module lists and options. A module is in one list or another; a later file moves it.

use std::collections::BTreeMap;

use super::{ModuleEntry, Modules, ModulesFile, Parameters, Scalar, ScalarEntry};
use crate::desired::{ModuleLoad, WantedModule, WantedOption};
use crate::section::{
    Checker, Entry, OrderedMap, Place, Printer, Reason, Spanned, key_of, quoted, toml_text,
};
use bedplate_base::value::ModuleName;

/// A module's entry in each list.
#[derive(Debug, Default)]
struct Lists {
    load: Option<ListEntry>,
    blacklist: Option<ListEntry>,
    unload: Option<ListEntry>,
}

/// One entry of a module list.
#[derive(Debug, Clone)]
struct ListEntry {
    name: ModuleName,
    /// When to load it, if the entry sets that.
    load: Option<Spanned<ModuleLoad>>,
    place: Place,
    reason: Reason,
}

/// Reads the module lists and options of all files. Loading and blocking exclude each other, so a later file overrides an
/// earlier one.
pub(super) fn read(section: &mut Modules, files: Vec<ModulesFile>, checker: &mut Checker<'_>) {
    let mut modules: OrderedMap<Lists> = OrderedMap::default();
    let mut parameters = BTreeMap::new();
    for file in files {
        let load = module_list(checker, "load", file.load);
        let blacklist = module_list(checker, "blacklist", file.blacklist);
        let unload = module_list(checker, "unload", file.unload);
        check_lists(checker, &load, &blacklist, &unload);
        for entry in load {
            let lists = modules.entry(entry.name.as_str());
            *lists = Lists { load: Some(entry), ..Lists::default() };
        }
        for entry in blacklist {
            let lists = modules.entry(entry.name.as_str());
            (lists.load, lists.blacklist) = (None, Some(entry));
        }
        for entry in unload {
            let lists = modules.entry(entry.name.as_str());
            (lists.load, lists.unload) = (None, Some(entry));
        }
        read_options(checker, file.options, &mut parameters);
    }
    let default = section.load_default;
    let mut listed = |list: &str, entry: Option<ListEntry>| {
        let ListEntry { name, load, place, reason } = entry?;
        let key = key_of(list, name.as_str());
        let why = checker.note(&key, place, reason);
        if let Some(load) = &load {
            checker.note(&format!("{key}.load"), load.place, Reason::NONE);
        }
        Some(WantedModule { name, load: load.map_or(default, |at| at.value), why })
    };
    for (_, Lists { load, blacklist, unload }) in modules.0 {
        section.load.extend(listed("modules.load", load));
        section.blacklist.extend(listed("modules.blacklist", blacklist));
        section.unload.extend(listed("modules.unload", unload));
    }
    section.options = parameters.into_values().collect();
}

fn check_lists(
    checker: &mut Checker<'_>,
    load: &[ListEntry],
    blacklist: &[ListEntry],
    unload: &[ListEntry],
) {
    for entry in blacklist.iter().chain(unload) {
        if let Some(load) = &entry.load {
            let message =
                format!("`load` has no effect for {}: blacklisted or unloaded", entry.name);
            checker.error(load.place, "load-without-load", message, "drop this", None);
        }
        if let Some(wanted) = load.iter().find(|wanted| wanted.name == entry.name) {
            let message = format!("module {} is both loaded and excluded", entry.name);
            let (at, with) = ((entry.place, "excluded here"), (wanted.place, "loaded here"));
            checker.clash("contradiction", message, at, with, None);
        }
    }
}

fn module_list(
    checker: &mut Checker<'_>,
    list: &str,
    entries: Option<Vec<ModuleEntry>>,
) -> Vec<ListEntry> {
    let mut out: Vec<ListEntry> = Vec::new();
    for Spanned { value: entry, place } in entries.into_iter().flatten() {
        let (text, place, load, reason) = match entry {
            Entry::Short(text) => (text.0, place, None, Reason::NONE),
            Entry::Long(table) => {
                let reason = Reason { why: table.why, source: table.source };
                (table.name.value.0, table.name.place, table.load, reason)
            }
        };
        let text = Spanned { value: text, place };
        let Some(name) = checker.parse::<ModuleName>(&text, "bad-module-name") else { continue };
        if let Some(first) = out.iter().find(|listed| listed.name == name) {
            let message = format!("module {name} is listed twice in `modules.{list}`");
            let (at, with) = ((place, "again here"), (first.place, "first here"));
            checker.clash("duplicate", message, at, with, None);
            continue;
        }
        out.push(ListEntry { name, load, place, reason });
    }
    out
}

fn read_options(
    checker: &mut Checker<'_>,
    given: Option<BTreeMap<Spanned<String>, Parameters>>,
    into: &mut BTreeMap<(ModuleName, String), WantedOption>,
) {
    for (name, parameters) in given.into_iter().flatten() {
        let Some(module) = checker.parse::<ModuleName>(&name, "bad-module-name") else { continue };
        for (Spanned { value: parameter, place }, entry) in parameters {
            let Some((value, reason)) = option(checker, &parameter, place, entry) else { continue };
            let why = checker.note(&option_key(&module, &parameter), place, reason);
            let key = (module.clone(), parameter.clone());
            into.insert(key, WantedOption { module: module.clone(), parameter, value, why });
        }
    }
}

fn option(
    checker: &mut Checker<'_>,
    parameter: &str,
    place: Place,
    entry: ScalarEntry,
) -> Option<(String, Reason)> {
    let value_place = entry.place;
    let (value, reason) = entry.into_parts();
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    if parameter.is_empty() || !parameter.chars().all(good) {
        let message = format!("`{parameter}` is not a valid module parameter name");
        checker.error(place, "bad-parameter", message, "expected letters, digits and `_`", None);
        return None;
    }
    if let Scalar::Text(text) = &value
        && text.chars().any(char::is_control)
    {
        let message = format!("the value of `{parameter}` contains a control character");
        let help = "modprobe.d has one line per option and no escape for line breaks";
        checker.error(value_place, "bad-parameter", message, "", Some(help));
        return None;
    }
    Some((value.to_string(), reason))
}

/// Returns the dotted key of a module parameter.
pub(crate) fn option_key(module: &ModuleName, parameter: &str) -> String {
    format!("modules.options.{module}.{}", quoted(parameter))
}

/// Prints lists and options as TOML.
pub(super) fn show(section: &Modules, out: &mut Printer<'_>) {
    let lists =
        [("load", &section.load), ("blacklist", &section.blacklist), ("unload", &section.unload)];
    for (list, modules) in lists {
        let entry = |module: &WantedModule| {
            let key = key_of(&format!("modules.{list}"), module.name.as_str());
            let is_given = out.has(&format!("{key}.load"));
            let load = is_given.then(|| ("load", toml_text(&module.load)));
            (out.entry_text("name", module.name.as_str(), &key, load), key)
        };
        let entries: Vec<_> = modules.iter().map(entry).collect();
        out.list(list, &entries);
    }
    for option in &section.options {
        let (module, parameter) = (&option.module, quoted(&option.parameter));
        let key = option_key(module, &option.parameter);
        out.named(&format!("options.{module}.{parameter}"), &option.value, &key);
    }
}
