//! Rules of a profile that select PCI functions, for example `[[sriov.devices]]`. A function belongs to the first rule that
//! selects it; a rule of a later file replaces the one with the same name.

use glob::Pattern;
use serde::{Deserialize, Serialize};

use crate::section::{self, Checked, Checker, Rule as _, Spanned, toml_text};
use bedplate_base::Reading;
use bedplate_base::value::{PciAddress, PciId};
use bedplate_facts::pci::Function;

/// Conditions that select PCI functions; all given ones must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionSelector {
    /// PCI vendor.
    pub vendor: Option<PciId>,
    /// PCI device.
    pub device: Option<PciId>,
    /// Driver name.
    pub driver: Option<String>,
    /// Glob on a network interface name.
    pub interface: Option<String>,
    /// Exact address.
    pub address: Option<PciAddress>,
    /// NUMA node.
    pub numa_node: Option<i32>,
}

/// `select` of a rule.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectTable {
    /// PCI vendor id, hexadecimal.
    #[cfg_attr(feature = "schemars", schemars(example = &"15b3", regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}$"), extend("x-source" = "pci.ids")))]
    pub vendor: Option<Spanned<String>>,

    /// PCI device id, hexadecimal.
    #[cfg_attr(feature = "schemars", schemars(
        example = &"1021",
        regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}$"),
        extend("x-source" = "drivers/net/ethernet/mellanox/mlx5/core/main.c; pci.ids")
    ))]
    pub device: Option<Spanned<String>>,

    /// Name of the bound driver.
    #[cfg_attr(feature = "schemars", schemars(example = &"mlx5_core"))]
    pub driver: Option<String>,

    /// Shell pattern on the name of a network interface of the function.
    #[cfg_attr(feature = "schemars", schemars(example = &"ens*np0"))]
    pub interface: Option<Spanned<String>>,

    /// One PCI address.
    #[cfg_attr(feature = "schemars", schemars(
        example = &"0000:17:00.0",
        regex(pattern = r"^([0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{1,2}:[01]?[0-9A-Fa-f]\.[0-7]$")
    ))]
    pub address: Option<Spanned<String>>,

    /// NUMA node; -1 selects functions for which the firmware gave none.
    #[cfg_attr(feature = "schemars", schemars(range(min = -1), example = 0))]
    pub numa_node: Option<i32>,
}

/// Whether a selector matches a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SelectorMatch {
    Yes,
    No,
    CannotTell(String),
}

impl FunctionSelector {
    /// Reads the conditions of the rules called `list` in dotted keys. Without a table every function matches.
    pub(crate) fn read(
        checker: &mut Checker<'_>,
        list: &str,
        table: Option<SelectTable>,
    ) -> Option<Self> {
        let Some(table) = table else { return Some(FunctionSelector::default()) };
        let before = checker.errors();
        let key = format!("{list}.select.interface");
        let selector = FunctionSelector {
            vendor: table.vendor.and_then(|id| checker.parse(&id, "bad-pci-id")),
            device: table.device.and_then(|id| checker.parse(&id, "bad-pci-id")),
            driver: table.driver,
            interface: table
                .interface
                .and_then(|at| Checked::<section::Pattern>::read(checker, &key, at)),
            address: table.address.and_then(|at| checker.parse(&at, "bad-pci-address")),
            numa_node: table.numa_node,
        };
        // A rule without one of its conditions would select too much.
        (checker.errors() == before).then_some(selector)
    }

    /// Whether it matches a function. `numa` returns the function's NUMA node.
    fn selects(
        &self,
        function: &Function,
        numa: impl FnOnce(&Function) -> Reading<i32>,
    ) -> SelectorMatch {
        let is = |wanted: Option<PciId>, found: PciId| wanted.is_none_or(|wanted| wanted == found);
        let fits = is(self.vendor, function.vendor)
            && is(self.device, function.device)
            && self.address.is_none_or(|address| address == function.address)
            && self.driver.as_ref().is_none_or(|driver| function.driver.as_ref() == Some(driver))
            && self.interface.as_ref().is_none_or(|glob| matches_any(glob, &function.net));
        let wanted = match self.numa_node {
            _ if !fits => return SelectorMatch::No,
            None => return SelectorMatch::Yes,
            Some(wanted) => wanted,
        };
        match numa(function) {
            Reading::Known(found) if found == wanted => SelectorMatch::Yes,
            Reading::Known(_) | Reading::Absent => SelectorMatch::No,
            Reading::Unknown(reason) => SelectorMatch::CannotTell(reason.to_string()),
        }
    }

    /// Returns the `select` line in TOML; `None` without conditions.
    pub(crate) fn to_toml(&self) -> Option<String> {
        let conditions: Vec<String> = [
            self.vendor.map(|id| format!("vendor = {}", toml_text(&id))),
            self.device.map(|id| format!("device = {}", toml_text(&id))),
            self.driver.as_ref().map(|driver| format!("driver = {}", toml_text(driver))),
            self.interface.as_ref().map(|name| format!("interface = {}", toml_text(name))),
            self.address.map(|address| format!("address = {}", toml_text(&address))),
            self.numa_node.map(|node| format!("numa_node = {node}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!conditions.is_empty()).then(|| format!("select = {{ {} }}", conditions.join(", ")))
    }
}

fn matches_any(glob: &str, names: &[String]) -> bool {
    Pattern::new(glob).is_ok_and(|pattern| names.iter().any(|name| pattern.matches(name)))
}

/// A rule that selects PCI functions.
pub(crate) trait FunctionRule: Sized {
    /// The rule in a file.
    type Entry;

    /// Returns the name of the rule in a file, unique there.
    fn name_of(entry: &Self::Entry) -> &Spanned<String>;

    /// Checks a rule. On failure, records diagnostics and returns `None`.
    fn read(checker: &mut Checker<'_>, entry: Self::Entry) -> Option<Self>;

    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the conditions.
    fn select(&self) -> &FunctionSelector;
}

/// Adds the rules of one file. A rule with the name of an earlier file's rule takes its place.
pub(crate) fn read_rules<R: FunctionRule>(
    rules: &mut Vec<R>,
    entries: Vec<R::Entry>,
    checker: &mut Checker<'_>,
) {
    let mut names: Vec<Spanned<String>> = Vec::new();
    for entry in entries {
        let name = R::name_of(&entry).clone();
        if name.value.trim().is_empty() {
            let message = "a rule's name cannot be empty";
            checker.error(name.place, "bad-name", message, "", None);
            continue;
        }
        if let Some(first) = names.iter().find(|own| **own == name) {
            let message = format!("two rules in this file are called `{}`", name.value);
            let help = "give each rule its own name: a later file replaces rules by it";
            let (at, with) = ((name.place, "again here"), (first.place, "first here"));
            checker.clash("duplicate", message, at, with, Some(help));
            continue;
        }
        let rule = R::read(checker, entry);
        match rules.iter_mut().find(|own| own.name() == name.value) {
            Some(own) => rule.into_iter().for_each(|rule| *own = rule),
            None => rules.extend(rule),
        }
        names.push(name);
    }
}

/// Functions that rules select.
pub(crate) struct Claims<'a> {
    /// Functions of each rule.
    pub functions: Vec<Vec<&'a Function>>,
    /// Number of functions that each rule matches, including those of earlier rules.
    pub matches: Vec<usize>,
    /// Functions for which this is undecidable, with the rule's name and the reason.
    pub undecided: Vec<(&'a Function, String, String)>,
}

/// Returns the functions of each rule. `numa` returns the NUMA node of a function.
pub(crate) fn claims<'a, R: FunctionRule>(
    rules: &[R],
    candidates: impl Iterator<Item = &'a Function>,
    numa: impl Fn(&Function) -> Reading<i32>,
) -> Claims<'a> {
    let mut claims = Claims {
        functions: vec![Vec::new(); rules.len()],
        matches: vec![0; rules.len()],
        undecided: Vec::new(),
    };
    for function in candidates {
        let mut free = true;
        for (n, rule) in rules.iter().enumerate() {
            match rule.select().selects(function, &numa) {
                SelectorMatch::No => continue,
                SelectorMatch::Yes if free => claims.functions[n].push(function),
                SelectorMatch::CannotTell(reason) if free => {
                    claims.undecided.push((function, rule.name().to_owned(), reason));
                }
                SelectorMatch::Yes | SelectorMatch::CannotTell(_) => {}
            }
            claims.matches[n] += 1;
            free = false;
        }
    }
    claims
}
