//! Ports of RDMA NICs.

use std::collections::BTreeMap;

use super::super::finding::{Tally, few_of, tally};
use super::super::rails::model;
use super::super::unread::{OrUnread as _, some};
use super::super::{Check, CheckInput, Evidence, Group, Judgement, Outcome, RdmaFinding, Severity};
use bedplate_base::Reading;
use bedplate_facts::rdma::RdmaPort;

/// Requires the state of every port.
///
/// # Errors
/// The outcome that names the first port with an unreadable state.
pub(super) fn expect_states(ports: &[&RdmaPort]) -> Result<(), Outcome> {
    for port in ports {
        port.state.or_unread(format_args!("the state of port {}", port.name))?;
    }
    Ok(())
}

pub(super) fn port_evidence(
    port: &RdmaPort,
    one: &Reading<String>,
    other: &Reading<String>,
) -> Evidence {
    Evidence::new(
        format!("{}: {}, {}", port.name, text_or_not_known(one), text_or_not_known(other)),
        port.directory(),
    )
}

pub(super) fn text_or_not_known(reading: &Reading<String>) -> &str {
    reading.known().map_or("not known", String::as_str)
}

pub(crate) const RATE: Check = Check {
    id: "rdma.rate",
    group: Group::Rdma,
    verifies: "active ports of RDMA NICs of one model run at the same rate",
    severity: Severity::Fail,
    needs_root: false,
    what: "Each active port of the GPUs' NICs runs at the rate of the fastest one among NICs of the same model (device and \
           subsystem id). NICs for storage or the front end are not checked. No file shows a port's maximum rate: NICs that \
           are all equally slow are not detected.",
    why: "NCCL spreads a job over all NICs of a node: the slowest one sets the pace. A port with fewer lanes or an older \
          speed has a bad cable, or a switch port configured so.",
    source: "handbook §5.3; Linux drivers/infiniband/core/sysfs.c rate_show",
    how: "rate of each port in /sys/class/infiniband",
    judge: rate,
};

pub(crate) const LINK_LAYER: Check = Check {
    id: "rdma.link-layer",
    group: Group::Rdma,
    verifies: "RDMA NICs of one model are all on InfiniBand or all on Ethernet",
    severity: Severity::Fail,
    needs_root: false,
    what: "Active ports of NICs of the same model (device and subsystem id) have the same link layer.",
    why: "ConnectX ports can be either (LINK_TYPE_P1 in their firmware). A port that changed its type in a firmware reset \
          has a link and is active, but reaches none of its peers.",
    source: "handbook §5.3",
    how: "link_layer of each port in /sys/class/infiniband",
    judge: link_layer,
};

pub(crate) const NAMES: Check = Check {
    id: "rdma.names",
    group: Group::Rdma,
    verifies: "RDMA devices have names of one kind, so that one rule of NCCL_IB_HCA matches them all",
    severity: Severity::Warn,
    needs_root: false,
    what: "The devices all have kernel names (mlx5_0, bnxt_re0 …), or all have other names: by location (rocep25s0, \
           ibp25s0), as assigned by rdma-core's udev rules. A mixture is a warning.",
    why: "`NCCL_IB_HCA=mlx5` matches no renamed device, and only some of a mixture. Kernel names are numbered in probe \
          order: with a NIC missing or added, mlx5_4 is another NIC. `rdma link` shows names and interfaces.",
    source: "handbook §5.3, §12.26; rdma-core kernel-boot/rdma-persistent-naming.rules",
    how: "infiniband/ of each NIC in /sys/bus/pci/devices",
    judge: names_of_devices,
};

/// Returns the ports of the NICs that jobs use for GPUDirect RDMA.
///
/// # Errors
/// The outcome to report if there is no NIC.
pub(super) fn own_ports<'a>(input: &'a CheckInput<'_>) -> Result<Vec<&'a RdmaPort>, Outcome> {
    input.some_rdma_pfs()?;
    let is_of_a_rail =
        |port: &&RdmaPort| input.rails.iter().any(|nic| nic.address == port.function);
    Ok(input.observed.ports.iter().filter(is_of_a_rail).collect())
}

/// Returns the active ports, grouped by NIC model.
///
/// # Errors
/// The outcome to report if there is no active port, or a state is unreadable.
fn by_model<'a>(input: &'a CheckInput<'_>) -> Result<Vec<Vec<&'a RdmaPort>>, Outcome> {
    let ports = own_ports(input)?;
    expect_states(&ports)?;
    let mut models: BTreeMap<_, Vec<&RdmaPort>> = BTreeMap::new();
    for port in ports.into_iter().filter(|port| port.is_active()) {
        let nic = input.rails.iter().find(|nic| nic.address == port.function);
        models.entry(nic.map(|nic| model(nic))).or_default().push(port);
    }
    some(models.into_values().collect(), "no active port of an RDMA NIC")
}

/// Counts ports by the value of an attribute.
fn tallies<'a>(values: impl Iterator<Item = &'a str>) -> Vec<Tally> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let tally = |(value, ports): (&str, usize)| Tally { value: value.to_owned(), ports };
    counts.into_iter().map(tally).collect()
}

/// Parses a rate in tenths of Gb/sec, because of 2.5.
fn tenths(rate: &str) -> Option<u32> {
    let number: f64 = rate.split(' ').next()?.parse().ok()?;
    (number > 0.0 && number < 100_000.0).then_some((number * 10.0) as u32)
}

fn rate(input: &CheckInput<'_>) -> Judgement {
    let models = by_model(input)?;
    let mut slow = Vec::new();
    for model in &models {
        let mut rates = Vec::new();
        for port in model {
            let rate = port.rate.or_unread(format_args!("the rate of port {}", port.name))?;
            let Some(rate) = rate.and_then(|rate| tenths(rate)) else {
                let text = format!("the rate of port {} is not recognised", port.name);
                return Ok(Outcome::unknown(text).evidence(
                    text_or_not_known(&port.rate),
                    format!("{}/rate", port.directory()),
                ));
            };
            rates.push((*port, rate));
        }
        let best = rates.iter().map(|(_, rate)| *rate).max();
        slow.extend(rates.iter().filter(|(_, rate)| Some(*rate) < best).map(|(port, _)| *port));
    }
    let rates = tallies(models.iter().flatten().map(|port| text_or_not_known(&port.rate)));
    if !slow.is_empty() {
        let code = |port: &&RdmaPort| RdmaFinding::PortSlow {
            port: port.name.clone(),
            function: port.function,
            rate: text_or_not_known(&port.rate).to_owned(),
            rates: rates.clone(),
        };
        return Ok(Outcome::fail(slow.iter().map(code)).all_evidence(
            slow.iter().map(|port| port_evidence(port, &port.rate, &port.phys_state)),
        ));
    }
    Ok(Outcome::pass(tally(&rates)).evidence("rate", "/sys/class/infiniband/*/ports/*/rate"))
}

fn link_layer(input: &CheckInput<'_>) -> Judgement {
    let models = by_model(input)?;
    for port in models.iter().flatten() {
        port.link_layer.or_unread(format_args!("the link layer of port {}", port.name))?;
    }
    let link_layers =
        tallies(models.iter().flatten().map(|port| text_or_not_known(&port.link_layer)));
    let differs =
        |ports: &&Vec<&RdmaPort>| ports.iter().any(|port| port.link_layer != ports[0].link_layer);
    Ok(match models.iter().find(differs) {
        Some(ports) => Outcome::fail([RdmaFinding::LinkLayersDiffer { link_layers }]).all_evidence(
            ports.iter().map(|port| port_evidence(port, &port.link_layer, &port.rate)),
        ),
        None => Outcome::pass(tally(&link_layers))
            .evidence("link_layer", "/sys/class/infiniband/*/ports/*/link_layer"),
    })
}

/// Prefixes of the device names that drivers assign, before the number (`ib_register_device` and `ib_alloc_device` in
/// drivers/infiniband/hw).
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

fn names_of_devices(input: &CheckInput<'_>) -> Judgement {
    let nics = input.some_rdma_pfs()?;
    let devices: Vec<&str> =
        nics.iter().flat_map(|nic| &nic.infiniband).map(String::as_str).collect();
    let is_kernels = |name: &&str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        stem.len() < name.len() && BY_DRIVERS.contains(&stem)
    };
    let (kernels, others): (Vec<&str>, Vec<&str>) =
        devices.iter().partition(|name| is_kernels(name));
    let some = |names: &[&str]| few_of(names.iter().copied(), "devices");
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let at = "/sys/class/infiniband";
    Ok(match (kernels.is_empty(), others.is_empty()) {
        (true, true) => Outcome::not_applicable("no RDMA device"),
        (false, true) => {
            Outcome::pass(format!("kernel names, numbered in probe order: {}", some(&kernels)))
                .evidence(format!("{} devices", kernels.len()), at)
        }
        (true, false) => Outcome::pass(format!(
            "persistent names: {}; NCCL_IB_HCA=mlx5 matches none",
            some(&others)
        ))
        .evidence(format!("{} devices", others.len()), at),
        (false, false) => Outcome::warn([RdmaFinding::MixedNames {
            kernel: owned(&kernels),
            others: owned(&others),
        }])
        .evidence(format!("{} and {} devices", kernels.len(), others.len()), at),
    })
}
