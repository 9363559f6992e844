//! `[nccl]`: configuration of NCCL.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conf::{LONGEST_VALUE, Variable};
use super::topology;
use crate::section::{
    Check, Checked, Checker, Fault, Printer, Rule, ScalarEntry, Spanned, key_of, section,
};

/// Variable that `hca` sets.
pub(crate) const HCA: &str = "NCCL_IB_HCA";
/// Variable that `socket_interface` sets.
pub(crate) const SOCKET_INTERFACE: &str = "NCCL_SOCKET_IFNAME";

/// RDMA ports that NCCL uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HcaList {
    /// NCCL's choice: every ACTIVE port.
    Automatic,
    /// Ports near GPUs.
    NearGpus,
}

/// Text that one line of /etc/nccl.conf can carry.
pub struct ConfValue;

impl Check for ConfValue {
    type Value = String;
    const ID: &'static str = "bad-nccl";

    fn fault(key: &str, text: &String) -> Option<Fault> {
        let message = format!("the value of `{key}` cannot be written to /etc/nccl.conf");
        value_fault(text).map(|label| (message, label, None))
    }
}

section! {
    /// `[nccl]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "nccl" Nccl, NcclFile {
        /// RDMA ports that NCCL uses: `automatic` leaves the choice to NCCL, which uses every ACTIVE port; `near-gpus`
        /// lists the ports near GPUs in `NCCL_IB_HCA`, each once it is ACTIVE. A port that goes down later stays in the
        /// list; NCCL skips it. The list has one link layer, the one with more bandwidth: NCCL cannot connect InfiniBand to Ethernet.
        #[schemars(
            example = &"near-gpus",
            extend("x-source" = "nccl src/transport/net_ib; handbook §5.3, §8.5")
        )]
        hca: HcaList = HcaList::Automatic;

        /// Network interface over which NCCL's ranks find each other, in the syntax of `NCCL_SOCKET_IFNAME`: `=bond0` is
        /// this one, `eth` every name that begins with it, `^docker` every other name. By default NCCL chooses.
        #[schemars(
            example = &"=bond0",
            extend("x-source" = "nccl src/misc/socket.cc; handbook §8.5")
        )]
        socket_interface: String as Checked<ConfValue>;

        /// Whether to write the machine's topology to `/etc/nccl-topology.xml` and pass it to NCCL in `NCCL_TOPO_FILE`:
        /// GPUs, NICs and the switches between them from the host's sysfs, for jobs with another sysfs or without one. For
        /// NCCL 2.8 and later; a container needs both files mounted.
        #[schemars(
            example = &true,
            extend("x-source" = "nccl src/graph/xml.cc, src/graph/topo.cc; handbook §8.7")
        )]
        topology_file: bool = false;
    }
    special read_variables {
        /// Further variables, `set = { "NAME" = value }`, in /etc/nccl.conf. A job's own variables override them. A later
        /// file replaces single variables.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "NCCL_DEBUG": "WARN" }]),
            extend("x-source" = "nccl src/misc/param.cc; handbook §8.6")
        )]
        set: BTreeMap<Spanned<String>, ScalarEntry>;
    }
    before {
        /// Sorted by name.
        set: Vec<Variable>;
    }
    show show_variables;
}

impl Serialize for Variable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.name, &self.value, &self.why).serialize(serializer)
    }
}

fn read_variables(section: &mut Nccl, files: Vec<NcclFile>, checker: &mut Checker<'_>) {
    let mut set = BTreeMap::new();
    let given = files.into_iter().filter_map(|file| file.set).flatten();
    for (Spanned { value: name, place }, entry) in given {
        if !is_name(&name) {
            let message = format!("`{name}` is not a variable of NCCL or its plugins");
            checker.error(place, "bad-nccl", message, "expected a name like `NCCL_DEBUG`", None);
            continue;
        }
        let place = entry.place;
        let (value, reason) = entry.into_parts();
        let text = Spanned { value: value.to_string(), place };
        let Some(value) = Checked::<ConfValue>::read(checker, &name, text) else { continue };
        let why = checker.note(&key_of("nccl.set", &name), place, reason);
        set.insert(name.clone(), Variable { name, value, why });
    }
    section.set = set.into_values().collect();
    report_set_twice(section, checker);
}

/// Whether NCCL or its plugins read this name. Other names could affect the loader or the C library in the processes of
/// jobs.
fn is_name(name: &str) -> bool {
    const OF_NCCL: [&str; 8] =
        ["NCCL_", "RCCL_", "OFI_NCCL_", "FI_", "UCX_", "SHARP_", "HSA_", "NCCLNET_"];
    let good = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    OF_NCCL.iter().any(|start| name.len() > start.len() && name.starts_with(start))
        && name.chars().all(good)
}

/// Returns the reason why the file cannot carry a value, if any.
fn value_fault(value: &str) -> Option<String> {
    match value {
        "" => Some("empty".to_owned()),
        _ if value.chars().any(char::is_control) => Some("contains a control character".to_owned()),
        _ if value.trim() != value => {
            Some("NCCL includes surrounding blanks in the value".to_owned())
        }
        _ if value.starts_with('"') || value.ends_with('"') => {
            Some("NCCL includes quotes in the value".to_owned())
        }
        _ if value.len() > LONGEST_VALUE => {
            Some(format!("{} bytes long; NCCL reads at most {LONGEST_VALUE}", value.len()))
        }
        _ => None,
    }
}

fn show_variables(section: &Nccl, out: &mut Printer<'_>) {
    for Variable { name, value, .. } in &section.set {
        out.named(&format!("set.{name}"), value, &key_of("nccl.set", name));
    }
}

/// Reports a variable that both its own key and `set` define.
fn report_set_twice(section: &Nccl, checker: &mut Checker<'_>) {
    let keys = [
        (section.hca == HcaList::NearGpus, HCA, "hca"),
        (section.socket_interface.is_some(), SOCKET_INTERFACE, "socket_interface"),
        (section.topology_file, topology::VARIABLE, "topology_file"),
    ];
    for (_, name, key) in keys.into_iter().filter(|(is_set, ..)| *is_set) {
        let set = checker.place(&key_of("nccl.set", name));
        let own = checker.place(&format!("nccl.{key}"));
        if let (Some(set), Some(own)) = (set, own) {
            let message = format!("`{key}` in [nccl] and `set` both set {name}");
            let (at, with) = ((set, "remove one of them"), (own, "also set here"));
            return checker.clash("contradiction", message, at, with, None);
        }
    }
}
