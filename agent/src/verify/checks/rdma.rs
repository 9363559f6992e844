//! Ports of RDMA NICs.

use super::super::evidence::unread;
use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::{counted, named};
use crate::facts::pci::Function;
use crate::facts::rdma::RdmaPort;
use crate::host::Reading;
use crate::kind::some_of;

/// Ports that a finding names before it counts.
const FEW: usize = 6;

/// `rdma.port-state`.
pub const PORT_STATE: Check = Check {
    id: "rdma.port-state",
    group: Group::Rdma,
    proves: "the ports of RDMA NICs are active",
    severity: Severity::Fail,
    needs_root: false,
    explain: Explain {
        what: "Every RDMA NIC has an RDMA device, and its ports are `4: ACTIVE`. Some ports that are not are a warning (a second \
               port without a cable); none that is fails.",
        why: "NCCL uses active ports only, and says nothing of the others.",
        source: "handbook §5.3, §8.5",
        how: "infiniband/ of each NIC in /sys/bus/pci/devices; state and phys_state of /sys/class/infiniband/*/ports/*",
    },
    judge: port_state,
};

fn port_state(evidence: &Evidence<'_>) -> Judgement {
    let nics = evidence.some_rdma_pfs()?;
    let ports: Vec<&RdmaPort> = evidence
        .observed
        .ports
        .iter()
        .filter(|port| nics.iter().any(|nic| nic.address == port.function))
        .collect();
    if let Some((port, why)) = ports.iter().find_map(|port| match &port.state {
        Reading::Unknown(why) => Some((port, why)),
        _ => None,
    }) {
        return Ok(unread(&format!("the state of port {}", port.name), why));
    }
    let (active, down): (Vec<_>, Vec<_>) = ports
        .iter()
        .partition(|port| port.state.known().is_some_and(|state| state.ends_with("ACTIVE")));
    if active.is_empty() {
        return Ok(none_active(&nics, &down));
    }
    if !down.is_empty() {
        let of = counted(ports.len(), "port");
        return Ok(Outcome::warn(format!(
            "not active: {}; {} of {of} are",
            names(&down),
            active.len()
        ))
        .all_seen(down.iter().map(|port| shown(port, &port.state, &port.phys_state)))
        .remedy(format!("{CABLE}; a port that is not to be used needs nothing")));
    }
    let without: Vec<&Function> =
        nics.iter().filter(|nic| nic.infiniband.is_empty()).copied().collect();
    if let Some(first) = without.first() {
        return Ok(Outcome::warn(format!("NIC {}: no RDMA device", named(&without, "NICs")))
            .seen("no infiniband/", first.attribute("infiniband"))
            .remedy("`dmesg | grep -i mlx5` says why; a NIC that carries no RDMA needs nothing"));
    }
    Ok(Outcome::pass(format!("{}, all active", counted(active.len(), "port")))
        .all_seen(active.iter().map(|port| shown(port, &port.link_layer, &port.rate))))
}

const CABLE: &str =
    "look at cable and switch port; on InfiniBand `INIT` waits for a subnet manager (`sminfo`)";

fn none_active(nics: &[&Function], down: &[&RdmaPort]) -> Outcome {
    if down.is_empty() {
        return Outcome::fail(format!("NIC {}: no RDMA device", named(nics, "NICs"))).remedy(
            "`modprobe mlx5_ib` (for other makers their RDMA driver), then `dmesg | grep -i mlx5`",
        );
    }
    Outcome::fail(format!("no port is active: {}", names(down)))
        .all_seen(down.iter().map(|port| shown(port, &port.state, &port.phys_state)))
        .remedy(CABLE)
}

fn names(ports: &[&RdmaPort]) -> String {
    some_of(ports.iter().map(|port| port.name.clone()), FEW, "ports")
}

fn shown(port: &RdmaPort, one: &Reading<String>, other: &Reading<String>) -> Seen {
    Seen { what: format!("{}: {}, {}", port.name, words(one), words(other)), at: port.directory() }
}

fn words(reading: &Reading<String>) -> &str {
    reading.known().map_or("not known", String::as_str)
}
