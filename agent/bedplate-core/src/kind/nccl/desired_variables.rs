//! Resolves the variables for /etc/nccl.conf from the profile and the machine.

use super::NAME;
use super::conf::{self, Conf, LONGEST_VALUE, Variable};
use super::section::{HCA, HcaList, Nccl, SOCKET_INTERFACE};
use crate::kind::Context;
use crate::plan::{KindPlan, Rationale};
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_facts::topology::Distance;
use bedplate_host::HostKind;
use bedplate_nccl::Library;
use bedplate_nccl::env::exact_port_list;
use bedplate_nccl::ports::{self, PlacedPort};

/// Returns the variables that the profile itself sets.
pub(crate) fn of_profile(section: &Nccl) -> Vec<Variable> {
    let interface = section.socket_interface.iter().map(|value| Variable {
        name: SOCKET_INTERFACE.to_owned(),
        value: value.clone(),
        why: vec![Rationale::new("the profile names the interface", "nccl.socket_interface")],
    });
    let mut variables: Vec<Variable> = interface.chain(section.set.iter().cloned()).collect();
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    variables
}

/// Returns all desired variables, sorted by name. A value that is unknown now stays as in the file.
pub(crate) fn variables(context: &Context, out: &mut KindPlan) -> Vec<Variable> {
    let section = &context.profile.nccl;
    let mut variables = of_profile(section);
    if section.hca == HcaList::NearGpus {
        hca(context, out).into_iter().for_each(|one| insert(&mut variables, one));
    }
    variables
}

/// Inserts a variable in name order.
pub(crate) fn insert(variables: &mut Vec<Variable>, one: Variable) {
    let place = variables.partition_point(|other| other.name < one.name);
    variables.insert(place, one);
}

fn hca(context: &Context, out: &mut KindPlan) -> Option<Variable> {
    let listed = listed(context);
    let before = || listed.clone().map(variable);
    if context.facts.host == HostKind::Image {
        let text = "depends on the machine: `bedplate apply` writes it at the first boot";
        note(out, text.to_owned());
        return before();
    }
    let near = match ports_near_gpus(context) {
        Ok(near) => near,
        Err(reason) => {
            out.unknowns.push(NAME.unknown(HCA, reason));
            return before();
        }
    };
    let is_listed = |port: &RdmaPort| {
        let name = port.name.replacen('/', ":", 1);
        let list = listed.as_deref().and_then(|list| list.strip_prefix('='));
        list.is_some_and(|list| list.split(',').any(|one| one == name))
    };
    let chosen: Vec<&RdmaPort> =
        near.iter().filter(|port| port.is_active() || is_listed(port)).collect();
    let down: Vec<&str> =
        chosen.iter().filter(|port| !port.is_active()).map(|port| port.name.as_str()).collect();
    if !down.is_empty() {
        let down = down.join(", ");
        note(out, format!("listed although not ACTIVE (NCCL skips them): {down}"));
    }
    let value = exact_port_list(chosen.iter().copied());
    let reason = match value.len() {
        _ if chosen.is_empty() => "no RDMA port near a GPU is ACTIVE".to_owned(),
        bytes if bytes > LONGEST_VALUE => {
            format!("the list has {bytes} bytes; NCCL reads at most {LONGEST_VALUE} from a file")
        }
        _ => return Some(variable(value)),
    };
    out.blockers.push(NAME.blocker(
        HCA,
        reason,
        "run `bedplate verify --check rdma` and `bedplate topology`; or let NCCL choose: [nccl] hca = \"automatic\"",
    ));
    before()
}

/// Returns the ports near GPUs, all with known states, or the reason why they are unknown.
fn ports_near_gpus(context: &Context) -> Result<Vec<RdmaPort>, String> {
    let tree = context.facts.pci.optional().map_err(ToString::to_string)?;
    let tree = tree.ok_or("this host shows no PCI functions")?;
    let reach = match superchip(context.facts) {
        Superchip::No => Distance::Pxb,
        Superchip::Translated | Superchip::PassthroughNotKnown | Superchip::Either => {
            Distance::Node
        }
        Superchip::NotKnown(why) => {
            return Err(format!("cannot determine which ports are near GPUs: {why}"));
        }
    };
    let ports = ports::of_host(context.reader, tree);
    let reach = ports::within(ports.iter().filter_map(|one| one.distance), reach);
    let is_near = |one: &PlacedPort| one.distance.is_some_and(|distance| distance <= reach);
    let near: Vec<RdmaPort> = ports.into_iter().filter(is_near).map(|one| one.port).collect();
    for port in &near {
        let unknown = |why| format!("state of port {} unknown: {why}", port.name);
        port.state.optional().map_err(unknown)?;
    }
    Ok(near)
}

fn note(out: &mut KindPlan, text: String) {
    out.notes.push(NAME.note(HCA.to_owned(), text));
}

/// Returns the file of the library for this host's GPUs, if it reads one. No visible GPU may mean that all fell off the
/// bus, or that PCI devices are unreadable; existing lines then stay in their file.
pub(super) fn path(context: &Context) -> Option<&'static str> {
    let mut functions =
        context.facts.pci.known().into_iter().flat_map(|tree| tree.functions.values());
    if !functions.any(Function::is_gpu) {
        let is_there = !own_settings(context, conf::RCCL).is_empty();
        return Some(if is_there { conf::RCCL } else { conf::NCCL });
    }
    let library = Library::of_host(context.facts);
    library.file(library.versions().1)
}

/// Returns bedplate's settings in a file.
fn own_settings(context: &Context, path: &str) -> Vec<(String, String)> {
    let text = context.reader.text(path).unwrap_or_default();
    let conf = Conf::parse(&text).unwrap_or_default();
    conf.own_settings()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the port list that bedplate wrote.
fn listed(context: &Context) -> Option<String> {
    let ours = own_settings(context, path(context)?).into_iter();
    ours.into_iter().find(|(name, _)| *name == HCA).map(|(_, value)| value)
}

fn variable(value: String) -> Variable {
    let why =
        vec![Rationale::new("RDMA ports near GPUs, as in `bedplate topology`", "handbook §8.5")];
    Variable { name: HCA.to_owned(), value, why }
}
