//! Ports that carry RDMA over Ethernet: their GIDs, and the interfaces of these.

use std::collections::BTreeMap;

use super::super::unread::{OrUnread as _, some, unread};
use super::super::{Check, CheckInput, Evidence, Group, Judgement, Outcome, RoceFinding, Severity};
use super::rdma::{own_ports, text_or_not_known};
use bedplate_base::{Reading, counted};
use bedplate_facts::rdma::{GidKind, Interface, RdmaPort, RoceGid};

/// Bytes of the interface's MTU that the headers of a RoCE packet may take (include/rdma/ib_addr.h, iboe_get_mtu: GRH,
/// UDP, BTH, XRC, atomic, ICRC).
const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;
/// Largest payload of a packet (InfiniBand Architecture Specification, volume 1).
const LARGEST: u32 = 4096;

pub(crate) const GID: Check = Check {
    id: "rdma.gid",
    group: Group::Rdma,
    verifies: "every active RoCE port has a routable GID for RoCE v2",
    severity: Severity::Fail,
    needs_root: false,
    what: "The GID table of each active Ethernet port has an entry of type RoCE v2, preferably of an IPv4 address, then of \
           an IPv6 address. A link-local address alone is a warning. The index is determined for each port: it depends on \
           the order in which addresses were assigned, and need not be 3.",
    why: "Without such an entry, the port has no RoCE v2. NCCL determines the index itself from 2.21 on; NCCL_IB_GID_INDEX \
          is one number for all ports, and wrong if they differ.",
    source: "handbook §5.3, §8.5, §12.24",
    how: "gids/*, gid_attrs/types/* of each port in /sys/class/infiniband; snapshots have masked addresses",
    judge: gid,
};

pub(crate) const NETDEV: Check = Check {
    id: "rdma.netdev",
    group: Group::Rdma,
    verifies: "the interfaces of RoCE ports are up, and their MTU fits packets of 4,096 bytes",
    severity: Severity::Fail,
    needs_root: false,
    what: "The network interface of each RoCE port, or its bond, is up. An MTU below 4,192 (4,096 bytes of payload and 96 of \
           headers) is a warning: RoCE then uses the next smaller size (1,024 with the usual 1,500).",
    why: "RoCE runs over the interface's addresses and within its MTU. Small packets cost bandwidth and packet rate; ports with \
          different MTUs agree on the smaller one.",
    source: "handbook §5.3; Linux include/rdma/ib_addr.h iboe_get_mtu",
    how: "gid_attrs/ndevs/0 of each port in /sys/class/infiniband; master, operstate and mtu in /sys/class/net",
    judge: netdev,
};

/// Returns active Ethernet ports of the RDMA NICs that the host itself uses.
///
/// # Errors
/// The outcome to report if there is no such port.
pub(super) fn active<'a>(input: &'a CheckInput<'_>) -> Result<Vec<&'a RdmaPort>, Outcome> {
    let ports = own_ports(input)?;
    for port in &ports {
        let what = format!("whether port {} is an active Ethernet port", port.name);
        port.link_layer.or_unread(&what)?;
        port.state.or_unread(&what)?;
    }
    let active = ports.into_iter().filter(|port| port.is_ethernet() && port.is_active());
    some(active.collect(), "no active Ethernet port of an RDMA NIC")
}

fn gid(input: &CheckInput<'_>) -> Judgement {
    let ports = active(input)?;
    let (mut none, mut local, mut found, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), None);
    for port in &ports {
        match &port.gid {
            Reading::Known(gid) if gid.kind == GidKind::LinkLocal => local.push((*port, *gid)),
            Reading::Known(gid) => found.push((*port, *gid)),
            Reading::Absent => none.push(*port),
            Reading::Unknown(why) => drop(unknown.get_or_insert((*port, why))),
        }
    }
    if !none.is_empty() {
        let codes = none.iter().map(|port| RoceFinding::NoGid { port: port.name.clone() });
        return Ok(Outcome::fail(codes).all_evidence(none.iter().map(|port| {
            Evidence::new(
                "no entry of type RoCE v2",
                format!("{}/gid_attrs/types", port.directory()),
            )
        })));
    }
    if let Some((port, why)) = unknown {
        return Ok(unread(format_args!("the GIDs of port {}", port.name), why));
    }
    if !local.is_empty() {
        let code = |(port, _): &(&RdmaPort, RoceGid)| RoceFinding::GidLinkLocal {
            port: port.name.clone(),
        };
        return Ok(
            Outcome::warn(local.iter().map(code)).all_evidence(local.iter().map(gid_evidence))
        );
    }
    let mut indices: BTreeMap<u16, usize> = BTreeMap::new();
    found.iter().for_each(|(_, gid)| *indices.entry(gid.index).or_default() += 1);
    let count = counted(found.len(), "port");
    let text = match indices.len() {
        1 => format!("{count}, each at index {}", found[0].1.index),
        _ => {
            let each = indices.iter().map(|(index, count)| format!("{index} ({count})"));
            let each: Vec<String> = each.collect();
            format!(
                "{count}, at different indices: {}; keep NCCL_IB_GID_INDEX unset",
                each.join(", ")
            )
        }
    };
    Ok(Outcome::pass(text).all_evidence(found.iter().map(gid_evidence)))
}

fn gid_evidence((port, gid): &(&RdmaPort, RoceGid)) -> Evidence {
    let kind = match gid.kind {
        GidKind::Ipv4 => "IPv4",
        GidKind::Ipv6 => "IPv6",
        GidKind::LinkLocal => "link-local",
    };
    Evidence::new(
        format!("{}: index {}, {kind}", port.name, gid.index),
        format!("{}/gid_attrs/types/{}", port.directory(), gid.index),
    )
}

/// Returns the payload of a RoCE packet that fits an MTU.
fn payload(mtu: u32) -> u32 {
    let sizes = [LARGEST, 2048, 1024, 512, 256];
    sizes.into_iter().find(|size| mtu >= size + HEADERS).unwrap_or(0)
}

fn netdev(input: &CheckInput<'_>) -> Judgement {
    let ports = active(input)?;
    let (mut down, mut none, mut small, mut right, mut unknown) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), None);
    for port in &ports {
        let interface = match &port.interface {
            Reading::Known(interface) => interface,
            Reading::Absent => {
                none.push(*port);
                continue;
            }
            Reading::Unknown(why) => {
                unknown.get_or_insert((*port, why));
                continue;
            }
        };
        match (&interface.state, &interface.mtu) {
            (Reading::Known(state), _) if state == "down" || state == "lowerlayerdown" => {
                down.push((*port, interface));
            }
            (Reading::Unknown(why), _) | (_, Reading::Unknown(why)) => {
                unknown.get_or_insert((*port, why));
            }
            (_, Reading::Known(mtu)) if payload(*mtu) < LARGEST => small.push((*port, interface)),
            _ => right.push((*port, interface)),
        }
    }
    if !down.is_empty() {
        let code = |(port, interface): &(&RdmaPort, &Interface)| RoceFinding::InterfaceDown {
            port: port.name.clone(),
            interface: interface.name.clone(),
        };
        return Ok(Outcome::fail(down.iter().map(code)).all_evidence(down.iter().map(seen)));
    }
    if let Some((port, why)) = unknown {
        return Ok(unread(format_args!("the interface of port {}", port.name), why));
    }
    if !none.is_empty() {
        let codes = none.iter().map(|port| RoceFinding::NoInterface { port: port.name.clone() });
        return Ok(Outcome::warn(codes).all_evidence(none.iter().map(|port| {
            Evidence::new("no interface", format!("{}/gid_attrs/ndevs", port.directory()))
        })));
    }
    if !small.is_empty() {
        let code = |(port, interface): &(&RdmaPort, &Interface)| RoceFinding::MtuSmall {
            port: port.name.clone(),
            interface: interface.name.clone(),
            mtu: interface.mtu.known().copied(),
        };
        return Ok(Outcome::warn(small.iter().map(code)).all_evidence(small.iter().map(seen)));
    }
    Ok(Outcome::pass(format!(
        "{}: interfaces up, MTU fits 4,096 bytes a packet",
        counted(right.len(), "port")
    ))
    .all_evidence(right.iter().map(seen)))
}

fn seen((port, interface): &(&RdmaPort, &Interface)) -> Evidence {
    let state = text_or_not_known(&interface.state);
    let mtu = interface.mtu.known().map_or("MTU not known".to_owned(), |mtu| {
        format!("MTU {mtu}, {} bytes a packet", payload(*mtu))
    });
    Evidence::new(
        format!("{}: {} {state}, {mtu}", port.name, interface.name),
        format!("/sys/class/net/{}", interface.name),
    )
}
