//! Ports of RDMA NICs.

use std::collections::BTreeMap;

use super::super::evidence::unread;
use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::topology::Candidates;
use super::{counted, named};
use crate::facts::pci::Function;
use crate::facts::rdma::RdmaPort;
use crate::host::{Reading, Reason};
use crate::kind::some_of;
use crate::topology::Distance;

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
        what: "Every RDMA NIC has an RDMA device, and its ports are `4: ACTIVE`. It fails where none is, or none of \
               the NICs that a GPU shares a switch with; other ports that are not are a warning (a second port without a cable).",
        why: "NCCL uses active ports only, and says nothing of the others.",
        source: "handbook §5.3, §8.5",
        how: "infiniband/ of each NIC in /sys/bus/pci/devices; state and phys_state of /sys/class/infiniband/*/ports/*",
    },
    judge: port_state,
};

fn port_state(evidence: &Evidence<'_>) -> Judgement {
    let nics = evidence.some_rdma_pfs()?;
    let topology = evidence.topology()?;
    let tree = topology.tree();
    let ports = own_ports(evidence)?;
    if let Some((port, why)) = unknown_state(&ports) {
        return Ok(unread(&format!("the state of port {}", port.name), why));
    }
    let (active, down): (Vec<_>, Vec<_>) = ports.iter().partition(|port| port.is_active());
    let gap = |nic: &&Function| tree.gaps.iter().find(|gap| gap.address == nic.address);
    if let Some(gap) = nics.iter().filter(|nic| nic.infiniband.is_empty()).find_map(gap) {
        return Ok(unread(&format!("the RDMA device of NIC {}", gap.address), &gap.reason));
    }
    if active.is_empty() {
        return Ok(none_active(&nics, &down));
    }
    let works = |nic: &&&Function| active.iter().any(|port| port.function == nic.address);
    let candidates = Candidates::new(topology, &nics);
    let cut_off: Vec<(&Function, Vec<&Function>)> = evidence
        .gpus
        .iter()
        .filter_map(|gpu| {
            let (distance, near) = candidates.nearest(gpu)?;
            (distance <= Distance::Pxb && near.iter().find(works).is_none()).then_some((*gpu, near))
        })
        .collect();
    if !cut_off.is_empty() {
        return Ok(cut_off_from_all(&cut_off, &down));
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

/// GPUs whose near NICs have no active port.
fn cut_off_from_all(cut_off: &[(&Function, Vec<&Function>)], down: &[&RdmaPort]) -> Outcome {
    let gpus: Vec<&Function> = cut_off.iter().map(|(gpu, _)| *gpu).collect();
    let seen = |(gpu, near): &(&Function, Vec<&Function>)| Seen {
        what: format!("GPU {}: near NIC {}", gpu.address, named(near, "NICs")),
        at: "places in /sys/bus/pci/devices".to_owned(),
    };
    let portless =
        cut_off.iter().flat_map(|(_, near)| near).filter(|nic| nic.infiniband.is_empty());
    let portless = portless.map(|nic| Seen {
        what: match &nic.driver {
            None => format!("NIC {}: no driver", nic.address),
            Some(driver) => format!("NIC {}: {driver}, no RDMA device", nic.address),
        },
        at: nic.attribute("uevent"),
    });
    let portless: BTreeMap<String, Seen> = portless.map(|seen| (seen.at.clone(), seen)).collect();
    Outcome::fail(format!(
        "GPU {}: no NIC below the same switches has an active port",
        named(&gpus, "GPUs")
    ))
    .all_seen(cut_off.iter().map(seen))
    .all_seen(portless.into_values())
    .all_seen(down.iter().map(|port| shown(port, &port.state, &port.phys_state)))
    .remedy(CABLE)
}

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

fn unknown_state<'a>(ports: &[&'a RdmaPort]) -> Option<(&'a RdmaPort, &'a Reason)> {
    ports.iter().find_map(|port| match &port.state {
        Reading::Unknown(why) => Some((*port, why)),
        _ => None,
    })
}

pub(super) fn names(ports: &[&RdmaPort]) -> String {
    some_of(ports.iter().map(|port| port.name.clone()), FEW, "ports")
}

fn shown(port: &RdmaPort, one: &Reading<String>, other: &Reading<String>) -> Seen {
    Seen { what: format!("{}: {}, {}", port.name, words(one), words(other)), at: port.directory() }
}

fn words(reading: &Reading<String>) -> &str {
    reading.known().map_or("not known", String::as_str)
}

/// `rdma.rate`.
pub const RATE: Check = Check {
    id: "rdma.rate",
    group: Group::Rdma,
    proves: "active ports of RDMA NICs of one model run at one rate",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "The rate of each active port is that of the fastest one among NICs of the same model (device and subsystem id). What \
               a port can do at most stands in no file: NICs that are all slow alike are not found here.",
        why: "NCCL spreads a job over all NICs of a node: the slowest one sets the pace. A port that trained to fewer lanes, or to an \
              older speed, is a bad cable, or a switch port set so.",
        source: "handbook §5.3; Linux drivers/infiniband/core/sysfs.c rate_show",
        how: "rate of each port in /sys/class/infiniband",
    },
    judge: rate,
};

/// `rdma.link-layer`.
pub const LINK_LAYER: Check = Check {
    id: "rdma.link-layer",
    group: Group::Rdma,
    proves: "RDMA NICs of one model are all on InfiniBand, or all on Ethernet",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "Active ports of NICs of the same model (device and subsystem id) have the same link layer.",
        why: "ConnectX ports can be either (LINK_TYPE_P1 in their firmware). One that came back from a firmware reset as the other \
              has a link and an active port, and reaches none of its peers.",
        source: "handbook §5.3",
        how: "link_layer of each port in /sys/class/infiniband",
    },
    judge: link_layer,
};

/// `rdma.names`.
pub const NAMES: Check = Check {
    id: "rdma.names",
    group: Group::Rdma,
    proves: "RDMA devices have names of one kind, so that one rule of NCCL_IB_HCA fits them all",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "The devices are all called as the kernel numbers them (mlx5_0, bnxt_re0 …), or all otherwise: by their place \
               (rocep25s0, ibp25s0), as rdma-core's udev rules do. Both kinds at once is a warning.",
        why: "`NCCL_IB_HCA=mlx5` matches nothing on renamed devices, and half of them on a mixture. Kernel names are numbers in the \
              order in which drivers came: with a NIC gone, or one more, mlx5_4 is another NIC. `rdma link` shows names and \
              interfaces.",
        source: "handbook §5.3, §12.26; rdma-core kernel-boot/rdma-persistent-naming.rules",
        how: "infiniband/ of each NIC in /sys/bus/pci/devices",
    },
    judge: names_of_devices,
};

/// Ports of the RDMA NICs that the host itself uses, without those of VFs.
///
/// # Errors
/// What is to be said without a NIC.
pub(super) fn own_ports<'a>(evidence: &'a Evidence<'_>) -> Result<Vec<&'a RdmaPort>, Outcome> {
    let nics = evidence.some_rdma_pfs()?;
    let ports = evidence.observed.ports.iter();
    Ok(ports.filter(|port| nics.iter().any(|nic| nic.address == port.function)).collect())
}

/// Active ports of NICs of one model each.
///
/// # Errors
/// What is to be said without one, or where one cannot be read.
fn by_model<'a>(evidence: &'a Evidence<'_>) -> Result<Vec<Vec<&'a RdmaPort>>, Outcome> {
    let nics = evidence.some_rdma_pfs()?;
    let ports = own_ports(evidence)?;
    if let Some((port, why)) = unknown_state(&ports) {
        return Err(unread(&format!("the state of port {}", port.name), why));
    }
    let mut models: BTreeMap<_, Vec<&RdmaPort>> = BTreeMap::new();
    for port in ports.into_iter().filter(|port| port.is_active()) {
        let nic = nics.iter().find(|nic| nic.address == port.function);
        let model = nic.map(|nic| (nic.vendor, nic.device, nic.subsystem));
        models.entry(model).or_default().push(port);
    }
    match models.is_empty() {
        true => Err(Outcome::not_applicable("no active port of an RDMA NIC")),
        false => Ok(models.into_values().collect()),
    }
}

/// `8 × 400 Gb/sec (4X NDR)`.
fn tally<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let words: Vec<String> =
        counts.iter().map(|(word, count)| format!("{count} × {word}")).collect();
    words.join(", ")
}

/// Tenths of Gb/sec, for 2.5.
fn tenths(rate: &str) -> Option<u32> {
    let number: f64 = rate.split(' ').next()?.parse().ok()?;
    (number > 0.0 && number < 100_000.0).then_some((number * 10.0) as u32)
}

fn rate(evidence: &Evidence<'_>) -> Judgement {
    let models = by_model(evidence)?;
    let mut slow = Vec::new();
    for model in &models {
        let mut rates = Vec::new();
        for port in model {
            match &port.rate {
                Reading::Unknown(why) => {
                    return Ok(unread(&format!("the rate of port {}", port.name), why));
                }
                reading => match reading.known().and_then(|rate| tenths(rate)) {
                    Some(rate) => rates.push((*port, rate)),
                    None => {
                        return Ok(Outcome::unknown(format!(
                            "the rate of port {} is not understood",
                            port.name
                        ))
                        .seen(words(reading), format!("{}/rate", port.directory())));
                    }
                },
            }
        }
        let best = rates.iter().map(|(_, rate)| *rate).max();
        slow.extend(rates.iter().filter(|(_, rate)| Some(*rate) < best).map(|(port, _)| *port));
    }
    let all = models.iter().flatten().map(|port| words(&port.rate));
    if !slow.is_empty() {
        return Ok(Outcome::warn(format!(
            "port {}: slower than others of the same model ({})",
            names(&slow),
            tally(all)
        ))
        .all_seen(slow.iter().map(|port| shown(port, &port.rate, &port.phys_state)))
        .remedy("look at cable, transceiver and the speed that the switch port is set to (`mlxlink -d DEVICE` says what both ends can)"));
    }
    Ok(Outcome::pass(tally(all)).seen("rate", "/sys/class/infiniband/*/ports/*/rate"))
}

fn link_layer(evidence: &Evidence<'_>) -> Judgement {
    let models = by_model(evidence)?;
    for port in models.iter().flatten() {
        if let Reading::Unknown(why) = &port.link_layer {
            return Ok(unread(&format!("the link layer of port {}", port.name), why));
        }
    }
    let all = tally(models.iter().flatten().map(|port| words(&port.link_layer)));
    let differs =
        |ports: &&Vec<&RdmaPort>| ports.iter().any(|port| port.link_layer != ports[0].link_layer);
    Ok(match models.iter().find(differs) {
        Some(ports) => Outcome::warn(format!("NICs of one model on different link layers: {all}"))
            .all_seen(ports.iter().map(|port| shown(port, &port.link_layer, &port.rate)))
            .remedy(
                "`mlxconfig -d DEVICE set LINK_TYPE_P1=…` (1 InfiniBand, 2 Ethernet) and a firmware reset, unless it is meant so",
            ),
        None => Outcome::pass(all).seen("link_layer", "/sys/class/infiniband/*/ports/*/link_layer"),
    })
}

/// What drivers call their devices, before the number (`ib_register_device` and `ib_alloc_device` in drivers/infiniband/hw).
const BY_DRIVERS: [&str; 12] = [
    "mlx5_",
    "mlx5_bond_",
    "mlx4_",
    "mlx4_bond_",
    "bnxt_re",
    "bnxt_re_bond",
    "irdma",
    "efa_",
    "qedr",
    "hns_",
    "mana_",
    "ionic_",
];

fn names_of_devices(evidence: &Evidence<'_>) -> Judgement {
    let nics = evidence.some_rdma_pfs()?;
    let devices: Vec<&str> =
        nics.iter().flat_map(|nic| &nic.infiniband).map(String::as_str).collect();
    let is_kernels = |name: &&str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        stem.len() < name.len() && BY_DRIVERS.contains(&stem)
    };
    let (kernels, others): (Vec<&str>, Vec<&str>) =
        devices.iter().partition(|name| is_kernels(name));
    let some =
        |names: &[&str]| some_of(names.iter().map(|name| (*name).to_owned()), FEW, "devices");
    let at = "/sys/class/infiniband";
    Ok(match (kernels.is_empty(), others.is_empty()) {
        (true, true) => Outcome::not_applicable("no RDMA device"),
        (false, true) => Outcome::pass(format!("kernel names, numbered in the order in which drivers came: {}", some(&kernels)))
            .seen(format!("{} devices", kernels.len()), at),
        (true, false) => Outcome::pass(format!("names that stay: {}; NCCL_IB_HCA=mlx5 matches none", some(&others)))
            .seen(format!("{} devices", others.len()), at),
        (false, false) => Outcome::warn(format!("kernel names ({}) beside others ({})", some(&kernels), some(&others)))
            .seen(format!("{} and {} devices", kernels.len(), others.len()), at)
            .remedy("`udevadm test /sys/class/infiniband/DEVICE` says why a rule does not rename it; until they are alike, list each device in NCCL_IB_HCA (`=` before the list for exact names)"),
    })
}
