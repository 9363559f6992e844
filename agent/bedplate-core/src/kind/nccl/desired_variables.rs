//! Resolves the variables for /etc/nccl.conf from the profile and the machine.

use std::collections::BTreeSet;

use super::NAME;
use super::conf::{self, Conf, LONGEST_VALUE, Variable};
use super::section::{HCA, HcaList, Nccl, SOCKET_INTERFACE};
use crate::kind::Context;
use crate::plan::{KindPlan, Rationale};
use bedplate_base::terminal::one_line;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_facts::topology::Distance;
use bedplate_host::HostKind;
use bedplate_nccl::Library;
use bedplate_nccl::env::{not_active, too_far};
use bedplate_nccl::link_layer::{self, LinkLayer, OneLayer, Undecided};
use bedplate_nccl::ports::{self, PlacedPort, exact_port_list, is_listable, listed_name, named};

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
    let before = || listed.clone().map(|value| variable(value, Vec::new()));
    if context.facts.host == HostKind::Image {
        let text = "depends on the machine: `bedplate apply` writes it at the first boot";
        note(out, text.to_owned());
        return before();
    }
    let found = ports_near_gpus(context).map_err(Undecided::Unknown);
    let chosen = found.and_then(|found| chosen(&found, listed.as_deref()));
    let (ports, left_out) = match chosen {
        Ok(chosen) => chosen,
        Err(Undecided::Unknown(reason)) => {
            out.unknowns.push(NAME.unknown(HCA, reason));
            return before();
        }
        Err(Undecided::Tie(reason)) => {
            let fix =
                "replace `hca` in [nccl] by the ports of one layer: set = { NCCL_IB_HCA = \"=…\" }";
            out.blockers.push(NAME.blocker(HCA, reason, fix));
            return before();
        }
    };
    let down = ports.iter().filter(|port| !port.is_active());
    let down: Vec<&str> = down.map(|port| port.name.as_str()).collect();
    if !down.is_empty() {
        let down = down.join(", ");
        note(out, format!("listed although not ACTIVE (NCCL skips them): {down}"));
    }
    let value = exact_port_list(ports.iter());
    let reason = match value.len() {
        _ if ports.is_empty() => "no RDMA port near a GPU is ACTIVE".to_owned(),
        bytes if bytes > LONGEST_VALUE => {
            format!("the list has {bytes} bytes; NCCL reads at most {LONGEST_VALUE} from a file")
        }
        _ => return Some(variable(value, left_out)),
    };
    out.blockers.push(NAME.blocker(
        HCA,
        reason,
        "run `bedplate verify --check rdma` and `bedplate topology`; or let NCCL choose: [nccl] hca = \"automatic\"",
    ));
    before()
}

/// Ports of the host.
struct HostPorts {
    /// Ports near GPUs, all with known states.
    near: Vec<PlacedPort>,
    /// Ports farther away.
    far: Vec<PlacedPort>,
}

/// Chooses the ports to list: ACTIVE ones, and those in `listed`, bedplate's current list. Also returns a sentence for
/// each reason why ports are left out.
fn chosen(
    found: &HostPorts,
    listed: Option<&str>,
) -> Result<(Vec<RdmaPort>, Vec<String>), Undecided> {
    let is_listed = |port: &RdmaPort| {
        let name = listed_name(port);
        let list = listed.and_then(|list| list.strip_prefix('='));
        list.is_some_and(|list| list.split(',').any(|one| one == name))
    };
    let in_list = found.near.iter().map(|one| &one.port).filter(|port| is_listed(port));
    let layers = in_list.map(LinkLayer::of).collect::<Result<Vec<_>, Undecided>>()?;
    // Ports of two layers cannot connect, so such a list is not retained.
    let retains = layers.windows(2).all(|pair| pair[0] == pair[1]);
    let is_candidate = |port: &RdmaPort| port.is_active() || retains && is_listed(port);
    let candidates: Vec<&PlacedPort> =
        found.near.iter().filter(|one| is_candidate(&one.port)).collect();
    let idle: Vec<&PlacedPort> = found.near.iter().filter(|one| !is_candidate(&one.port)).collect();
    let one = match link_layer::choose(&candidates, &[]) {
        // Ports that are not ACTIVE yet may decide.
        Err(Undecided::Tie(why)) if !idle.is_empty() => {
            let idle = named(idle.iter().map(|one| &one.port));
            return Err(Undecided::Unknown(format!("{why}; not ACTIVE: {idle}")));
        }
        chosen => chosen?,
    };
    // A list of bedplate's shows which layer is meant.
    if !candidates.iter().any(|port| is_listed(&port.port)) {
        not_outnumbered(&one, &idle)?;
    }
    let mut left_out = too_far(found.far.iter().filter(|one| one.port.is_active()));
    left_out.extend(one.left_out);
    left_out.extend(not_active(idle.iter().map(|one| &one.port)));
    Ok((one.ports.into_iter().map(|one| one.port.clone()).collect(), left_out))
}

/// Checks that the ports which are not ACTIVE cannot change the choice of the link layer: after a boot, some come up late.
///
/// # Errors
/// More NICs have such ports of another link layer.
fn not_outnumbered(one: &OneLayer, idle: &[&PlacedPort]) -> Result<(), Undecided> {
    let Some(chosen) = one.layer else { return Ok(()) };
    let mut others = Vec::new();
    for port in idle {
        if LinkLayer::of(&port.port)?.is_some_and(|layer| layer != chosen) {
            others.push(*port);
        }
    }
    let nics = |ports: &[&PlacedPort]| {
        let nics = ports.iter().map(|one| PciAddress { function: 0, ..one.way });
        nics.collect::<BTreeSet<PciAddress>>().len()
    };
    if nics(&others) <= nics(&one.ports) {
        return Ok(());
    }
    let others = named(others.iter().map(|one| &one.port));
    Err(Undecided::Unknown(format!(
        "more NICs near GPUs are of another link layer, and not ACTIVE: {others}; if they are to stay down, replace `hca` in \
         [nccl] by the ports of one layer: set = {{ NCCL_IB_HCA = \"=…\" }}"
    )))
}

/// Returns the ports of the host, or the reason why those near GPUs are unknown.
fn ports_near_gpus(context: &Context) -> Result<HostPorts, String> {
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
    let (near, far): (Vec<_>, Vec<_>) = ports.into_iter().partition(is_near);
    for PlacedPort { port, .. } in &near {
        let unknown = |why| format!("state of port {} unknown: {why}", port.name);
        port.state.optional().map_err(unknown)?;
        if !is_listable(port) {
            return Err(format!("unusual name of a port: {}", one_line(&port.name)));
        }
    }
    Ok(HostPorts { near, far })
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

fn variable(value: String, left_out: Vec<String>) -> Variable {
    let mut why =
        vec![Rationale::new("RDMA ports near GPUs, as in `bedplate topology`", "handbook §8.5")];
    why.extend(left_out.into_iter().map(Rationale::because));
    Variable { name: HCA.to_owned(), value, why }
}
