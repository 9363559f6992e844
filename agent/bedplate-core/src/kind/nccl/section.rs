//! `[nccl]`: what NCCL is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conf::{LONGEST_VALUE, Variable};
use super::topology;
use crate::section::{
    Checker, Diagnostic, Entry, Finisher, Leaf, Lint, LintMatch, ListEntry, Overlay, Printer,
    Reason, Rule, ScalarEntry, SectionLint, Severity, Sources, Spanned, key_of, section,
};
use bedplate_nccl::Library;
use bedplate_nccl::switches::{Off, switches_off};
use bedplate_nccl::variables::{names, own};

/// The variables that keys of their own set.
pub(crate) const HCA: &str = "NCCL_IB_HCA";
/// As [`HCA`].
pub(crate) const SOCKET_INTERFACE: &str = "NCCL_SOCKET_IFNAME";

/// Which RDMA ports NCCL is told to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HcaList {
    /// None: NCCL takes every ACTIVE port.
    Automatic,
    /// Those near GPUs.
    NearGpus,
}

/// A text that one line of /etc/nccl.conf can carry.
pub struct ConfValue;

impl Rule for ConfValue {
    type File = String;
    type Value = String;

    fn read(checker: &mut Checker<'_>, key: &str, at: Spanned<String>) -> Option<Leaf<String>> {
        let leaf = checker.bare(at);
        match value_fault(&leaf.value) {
            None => Some(leaf),
            Some(label) => {
                let message = format!("the value of `{key}` cannot stand in /etc/nccl.conf");
                checker.error(leaf.place, "bad-nccl", message, label, None);
                None
            }
        }
    }

    fn to_toml(value: &String) -> impl Serialize {
        value
    }
}

section! {
    /// `[nccl]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "nccl" Nccl, NcclFragment, NcclLayer {
        /// Which RDMA ports NCCL is told to use: `automatic` leaves it to NCCL, which takes every ACTIVE port; `near-gpus`
        /// lists those near GPUs in `NCCL_IB_HCA`, each once it is ACTIVE. A port that goes down later stays in the list:
        /// NCCL passes it by.
        #[schemars(
            example = &"near-gpus",
            extend("x-source" = "nccl src/transport/net_ib; handbook §5.3, §8.5")
        )]
        hca: HcaList = HcaList::Automatic;

        /// The network interface over which NCCL's ranks find each other, as `NCCL_SOCKET_IFNAME` has it: `=bond0` is this one,
        /// `eth` all whose names begin so, `^docker` all others. Without it NCCL chooses.
        #[schemars(
            example = &"=bond0",
            extend("x-source" = "nccl src/misc/socket.cc; handbook §8.5")
        )]
        socket_interface: String as ConfValue;

        /// Whether NCCL is given the machine's topology in a file, `/etc/nccl-topology.xml`, and told of it in `NCCL_TOPO_FILE`:
        /// GPUs, NICs and the switches between them as sysfs has them, for jobs that see another sysfs or none. For NCCL 2.8 and
        /// later; a container needs both files mounted.
        #[schemars(
            example = &true,
            extend("x-source" = "nccl src/graph/xml.cc, src/graph/topo.cc; handbook §8.7")
        )]
        topology_file: bool = false;
    }
    special variables: Variables = read_variables {
        /// Further variables, `set = { "NAME" = value }`, in /etc/nccl.conf. What a job sets itself goes before. A later file
        /// replaces single variables.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "NCCL_DEBUG": "WARN" }]),
            extend("x-source" = "nccl src/misc/param.cc; handbook §8.6")
        )]
        set: BTreeMap<Spanned<String>, ScalarEntry>;
    }
    before {
        /// Sorted by name.
        set: Vec<Variable> = finish_variables;
    }
    show show_variables;
    merged set_twice;
    lints LINTS;
}

impl Serialize for Variable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.name, &self.value, &self.why).serialize(serializer)
    }
}

/// Variables by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Variables(BTreeMap<String, Leaf<String>>);

impl Overlay for Variables {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

fn read_variables(
    checker: &mut Checker<'_>,
    set: Option<BTreeMap<Spanned<String>, ScalarEntry>>,
) -> Variables {
    let mut variables = Variables::default();
    for (name, entry) in set.into_iter().flatten() {
        if !is_name(&name.value) {
            let message = format!("`{}` is not the name of a variable", name.value);
            let label = "expected a name like `NCCL_DEBUG`";
            checker.error(checker.place(name.span), "bad-nccl", message, label, None);
            continue;
        }
        let place = checker.place(entry.span);
        let (value, reason) = match entry.value {
            Entry::Short(value) => (value, Reason::NONE),
            Entry::Long(table) => (table.value, Reason { why: table.why, source: table.source }),
        };
        let text = value.to_string();
        if let Some(label) = value_fault(&text) {
            let message = format!("the value of `{}` cannot stand in /etc/nccl.conf", name.value);
            checker.error(place, "bad-nccl", message, label, None);
            continue;
        }
        variables.0.insert(name.value, checker.reasoned(text, place, reason));
    }
    variables
}

/// Names that NCCL and its plugins read. Others could change what the loader or the C library does in the processes of jobs.
fn is_name(name: &str) -> bool {
    const OF_NCCL: [&str; 8] =
        ["NCCL_", "RCCL_", "OFI_NCCL_", "FI_", "UCX_", "SHARP_", "HSA_", "NCCLNET_"];
    let good = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    OF_NCCL.iter().any(|start| name.len() > start.len() && name.starts_with(start))
        && name.chars().all(good)
}

/// Why a value cannot stand in the file, if it cannot.
fn value_fault(value: &str) -> Option<String> {
    match value {
        "" => Some("it is empty".to_owned()),
        _ if value.chars().any(char::is_control) => Some("it holds a control character".to_owned()),
        _ if value.trim() != value => {
            Some("NCCL takes blanks around it for a part of it".to_owned())
        }
        _ if value.starts_with('"') || value.ends_with('"') => {
            Some("NCCL takes quotes for a part of it".to_owned())
        }
        _ if value.len() > LONGEST_VALUE => {
            Some(format!("it has {} bytes, and NCCL reads {LONGEST_VALUE}", value.len()))
        }
        _ => None,
    }
}

fn finish_variables(section: &NcclLayer, finisher: &mut Finisher<'_>) -> Vec<Variable> {
    let mut out = Vec::new();
    for (name, leaf) in &section.variables.0 {
        finisher.note(key_of("nccl.set", name), leaf);
        let (value, why) = (leaf.value.clone(), finisher.reasons_of_leaf(leaf));
        out.push(Variable { name: name.clone(), value, why });
    }
    out
}

fn show_variables(section: &NcclLayer, _: &Nccl, out: &mut Printer<'_>) {
    for (name, leaf) in &section.variables.0 {
        let origin = key_of("nccl.set", name);
        let entry = ListEntry::new("value", &leaf.value, origin.clone(), leaf);
        out.line(&format!("set.{name} = {}", entry.text()), Some(&origin));
    }
}

/// A variable that a key of its own sets, and `set` as well.
fn set_twice(section: &NcclLayer, sources: &Sources) -> Option<Diagnostic> {
    let hca = section.hca.as_ref().filter(|leaf| leaf.value == HcaList::NearGpus);
    let hca = hca.map(|leaf| (HCA, "hca", leaf.place));
    let interface = section.socket_interface.as_ref();
    let interface = interface.map(|leaf| (SOCKET_INTERFACE, "socket_interface", leaf.place));
    let topology = section.topology_file.as_ref().filter(|leaf| leaf.value);
    let topology = topology.map(|leaf| (topology::VARIABLE, "topology_file", leaf.place));
    let twice = |(name, key, place)| Some((name, key, place, section.variables.0.get(name)?.place));
    let (name, key, place, set) =
        [hca, interface, topology].into_iter().flatten().find_map(twice)?;
    let message = format!("`{key}` in [nccl] sets {name}, and `set` sets it, too");
    let finding =
        Diagnostic::error(sources, set, "contradiction", message).label("drop one of them");
    Some(finding.also(sources, place, "set by this"))
}

/// The section's lints.
const LINTS: &[SectionLint<NcclLayer, Nccl>] = &[
    Lint {
        id: "nccl-folklore",
        severity: Severity::Warning,
        find: |section, _| cargo_cult_values(section),
        reason: "is often passed around, and is not needed or does harm",
        source: "docs/nccl.md, the row of this variable",
        remedy: "leave the variable to NCCL; `bedplate nccl env -v` says why",
    },
    Lint {
        id: "nccl-switched-off",
        severity: Severity::Warning,
        find: |section, _| switched_off(section),
        reason: "switches off what GPUDirect RDMA needs, for every job of the host",
        source: "handbook §8.4, §8.5",
        remedy: "leave it out; a job that is to go without can set it itself",
    },
    Lint {
        id: "nccl-typo",
        severity: Severity::Warning,
        find: |section, _| typos(section),
        reason: "is read by no NCCL from 2.0 to 2.30, and no job says so",
        source: "nccl src/misc/param.cc and every use of it",
        remedy: "correct the name; one that a plug-in reads can be allowed under [lints]",
    },
];

/// Right at one site and wrong at another: who sets them in a profile may know.
const SITE_DECIDES: [&str; 3] = ["NCCL_IB_TC", "NCCL_IB_TIMEOUT", "NCCL_NET"];

/// Variables that are set to what people are told to set, word for word.
fn cargo_cult_values(section: &NcclLayer) -> Vec<LintMatch> {
    let told = |name: &str, value: &str| {
        let row =
            own(Library::Nccl).iter().find(|row| row.name == name && !SITE_DECIDES.contains(&name));
        let advice = row.and_then(|row| row.advice.as_ref());
        advice.is_some_and(|advice| advice.value.split(" or ").any(|told| told == value))
    };
    let set = section.variables.0.iter().filter(|(name, leaf)| told(name, &leaf.value));
    set.map(|(name, leaf)| LintMatch::new(leaf.place, format!("{name}={}", leaf.value))).collect()
}

/// Names that are nearly those of variables.
fn switched_off(section: &NcclLayer) -> Vec<LintMatch> {
    let off = |(name, leaf): (&String, &Leaf<String>)| {
        let off = switches_off(name, &leaf.value)?;
        Some(LintMatch::new(leaf.place, format!("{name}={}", leaf.value)))
            .filter(|_| matches!(off, Off::Rdma | Off::GpuDirect))
    };
    section.variables.0.iter().filter_map(off).collect()
}

fn typos(section: &NcclLayer) -> Vec<LintMatch> {
    let meant = |(name, leaf): (&String, &Leaf<String>)| {
        let known = names::suggest(name)?;
        Some(LintMatch::new(leaf.place, format!("{name} (did you mean {known}?)")))
    };
    section.variables.0.iter().filter_map(meant).collect()
}
