//! Whether the ports that jobs use are active.

use std::collections::BTreeMap;

use super::super::rails::model;
use super::super::unread::unread;
use super::super::{Check, CheckInput, Evidence, Group, Judgement, Outcome, RdmaFinding, Severity};
use super::rdma::{expect_states, own_ports, port_evidence, text_or_not_known};
use bedplate_base::counted;
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;

pub(crate) const PORT_STATE: Check = Check {
    id: "rdma.port-state",
    group: Group::Rdma,
    verifies: "each NIC of the GPUs has an active port, and as many as other NICs of its model",
    severity: Severity::Fail,
    needs_root: false,
    what: "Each NIC near a GPU has a driver, an RDMA device and a port that is `4: ACTIVE`. An adapter with several ports \
           has as many active as most adapters of its model, so that a second port without a cable does not matter. NICs for \
           storage or the front end (of another model, or farther away than others) are shown, but not checked.",
    why: "NCCL uses only active ports, and reports nothing about the rest: a GPU without its NIC shares another's, or takes \
          a longer path.",
    source: "handbook §5.3, §8.5",
    how: "infiniband/ of each NIC in /sys/bus/pci/devices; state and phys_state of /sys/class/infiniband/*/ports/*",
    judge: port_state,
};

/// A card: its functions, and the ports of all of them.
struct Adapter<'a> {
    functions: Vec<&'a Function>,
    ports: Vec<&'a RdmaPort>,
}

impl Adapter<'_> {
    fn active(&self) -> usize {
        self.ports.iter().filter(|port| port.is_active()).count()
    }

    /// Returns the findings; at least one.
    fn codes(&self, input: &CheckInput<'_>, usual: usize) -> Vec<RdmaFinding> {
        let without = self.functions.iter().filter(|function| function.infiniband.is_empty());
        let without = without.map(|function| RdmaFinding::NoRdmaDevice {
            device: input.device(function),
            driver: function.driver.clone(),
        });
        let down = self.ports.iter().filter(|port| !port.is_active());
        let down = down.map(|port| RdmaFinding::PortNotActive {
            port: port.name.clone(),
            function: port.function,
            state: port.state.known().cloned().unwrap_or_default(),
        });
        let mut codes: Vec<RdmaFinding> = without.chain(down).collect();
        if codes.is_empty() {
            let device = input.device(self.functions[0]);
            codes.push(RdmaFinding::FewerPorts { device, active: self.active(), usual });
        }
        codes
    }
}

/// Returns the adapters of the GPUs, by PCI location.
fn adapters<'a>(input: &'a CheckInput<'_>, ports: &[&'a RdmaPort]) -> Vec<Adapter<'a>> {
    let mut all: BTreeMap<_, Adapter<'a>> = BTreeMap::new();
    for function in &input.rails {
        let place = (function.address.domain, function.address.bus, function.address.device);
        let adapter = all
            .entry(place)
            .or_insert_with(|| Adapter { functions: Vec::new(), ports: Vec::new() });
        adapter.functions.push(function);
        adapter.ports.extend(ports.iter().filter(|port| port.function == function.address));
    }
    all.into_values().collect()
}

/// Returns the usual number of active ports of an adapter of each model: that of most adapters, or the smaller of two
/// equally common numbers.
fn usual_active_ports(adapters: &[Adapter<'_>]) -> BTreeMap<super::super::rails::Model, usize> {
    let mut counts: BTreeMap<_, BTreeMap<usize, usize>> = BTreeMap::new();
    for adapter in adapters {
        *counts
            .entry(model(adapter.functions[0]))
            .or_default()
            .entry(adapter.active())
            .or_default() += 1;
    }
    let most = |counts: BTreeMap<usize, usize>| {
        let most =
            counts.iter().max_by_key(|(active, count)| (**count, std::cmp::Reverse(**active)));
        most.map_or(1, |(active, _)| (*active).max(1))
    };
    counts.into_iter().map(|(model, counts)| (model, most(counts))).collect()
}

fn port_state(input: &CheckInput<'_>) -> Judgement {
    let ports = own_ports(input)?;
    let tree = input.topology()?.tree();
    let adapters = adapters(input, &ports);
    let usual = usual_active_ports(&adapters);
    let is_unread = |adapter: &Adapter<'_>| {
        expect_states(&adapter.ports).is_err()
            || adapter
                .functions
                .iter()
                .any(|nic| tree.gaps.iter().any(|gap| gap.address == nic.address))
    };
    let wanted =
        |adapter: &Adapter<'_>| usual.get(&model(adapter.functions[0])).copied().unwrap_or(1);
    let short: Vec<&Adapter<'_>> = adapters
        .iter()
        .filter(|adapter| adapter.active() < wanted(adapter) && !is_unread(adapter))
        .collect();
    if !short.is_empty() {
        let of_each = short.iter().flat_map(|adapter| adapter.codes(input, wanted(adapter)));
        let none = adapters.iter().all(|adapter| adapter.active() == 0);
        let ports = short.iter().map(|adapter| adapter.ports.len()).sum();
        let codes: Vec<RdmaFinding> = none
            .then_some(RdmaFinding::NoActivePort { ports })
            .into_iter()
            .chain(of_each)
            .collect();
        let down = short.iter().flat_map(|adapter| &adapter.ports);
        let seen = down.map(|port| port_evidence(port, &port.state, &port.phys_state));
        return Ok(Outcome::fail(codes).all_evidence(seen));
    }
    expect_states(&ports)?;
    let gap = |nic: &&Function| tree.gaps.iter().find(|gap| gap.address == nic.address);
    if let Some(gap) = input.rails.iter().find_map(gap) {
        return Ok(unread(format_args!("the RDMA device of NIC {}", gap.address), &gap.reason));
    }
    let (active, idle): (Vec<&RdmaPort>, Vec<&RdmaPort>) =
        input.observed.ports.iter().partition(|port| port.is_active());
    let idle = idle.into_iter().map(|port| {
        let state = text_or_not_known(&port.state);
        Evidence::new(format!("{}: {state}, not checked", port.name), port.directory())
    });
    Ok(Outcome::pass(format!("{}, all active", counted(active.len(), "port")))
        .all_evidence(active.iter().map(|port| port_evidence(port, &port.link_layer, &port.rate)))
        .all_evidence(idle))
}
