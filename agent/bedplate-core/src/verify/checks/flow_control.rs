//! Flow control of RoCE: the behaviour of this host's ports if the network cannot take their packets in time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::finding::{PfcTally, class_fix};
use super::super::unread::unread;
use super::super::{Check, CheckInput, Evidence, Group, Judgement, Outcome, RoceFinding, Severity};
use super::roce::active;
use bedplate_base::value::flow_control::{FlowControl, priorities};
use bedplate_base::{Reading, counted};
use bedplate_facts::flow_control::{Congestion, PortFlow};
use bedplate_facts::rdma::RdmaPort;

/// DSCP that RoCE guides recommend (handbook §8.5).
const USUAL_DSCP: u8 = 26;

pub(crate) const PFC: Check = Check {
    id: "rdma.pfc",
    group: Group::Rdma,
    verifies: "all RoCE ports have flow control (PFC), on the priority that RoCE traffic uses",
    severity: Severity::Warn,
    needs_root: false,
    what: "Every active RoCE port has priority flow control on, all on the same priorities, and RoCE packets use one of \
           these. Their priority follows from the traffic class that the driver forces, or else from NCCL_IB_TC in \
           /etc/nccl.conf, with AMD GPUs /etc/rccl.conf (its upper six bits are the DSCP). If neither is set, jobs choose \
           it, and the result is unknown. If the driver shows ECN, it is on for that priority. Switches are not checked. For \
           a network that is lossy on purpose, set the check's level in the profile.",
    why: "RoCE assumes that hardly any packet is lost. Without flow control on its priority, bursts of many senders overflow \
          a switch, and transfers are sent again: bandwidth collapses under load, but is fine in a test of two hosts. One \
          deviating port affects all.",
    source: "handbook §5.5, §8.5; Linux net/dcb/dcbnl.c; drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c",
    how: "DCB of each interface, by netlink (as `dcb pfc show dev IF` and `dcb app show dev IF`); tc/*/traffic_class in \
          /sys/class/infiniband and ecn/ in /sys/class/net, where the driver has them; /etc/nccl.conf or /etc/rccl.conf",
    judge: pfc,
};

/// A port, its readings, the driver's answer, and the priorities with PFC.
type Port<'a> = (&'a RdmaPort, &'a PortFlow, &'a FlowControl, u8);

/// Returns the ports whose driver reports flow control, and the outcome for the first port without a report.
fn answers<'a>(
    ports: &[&'a RdmaPort],
    congestion: &'a Congestion,
) -> (Vec<Port<'a>>, Option<Outcome>) {
    let (mut found, mut unknown) = (Vec::new(), None);
    for port in ports {
        let outcome = match congestion.ports.get(&port.name) {
            None => {
                Outcome::unknown(format!("no network interface of port {} is visible", port.name))
            }
            Some(flow) => match &flow.control {
                Reading::Unknown(why) => {
                    unread(format_args!("flow control of {}", flow.interface), why)
                }
                Reading::Known(control) if control.pfc.is_some() => {
                    found.push((*port, flow, control, control.pfc.unwrap_or(0)));
                    continue;
                }
                Reading::Known(_) | Reading::Absent => Outcome::unknown(format!(
                    "the driver of {} does not report its flow control",
                    flow.interface
                ))
                .evidence("not answered", format!("DCB of {}", flow.interface))
                .hint("use the vendor's own tool (`mlnx_qos -i IF`, `niccli`)"),
            },
        };
        unknown.get_or_insert(outcome);
    }
    (found, unknown)
}

fn seen((port, flow, _, mask): &Port<'_>) -> Evidence {
    let what = match mask {
        0 => format!("{}: PFC off", port.name),
        mask => format!("{}: PFC on priority {}", port.name, priorities(*mask)),
    };
    Evidence { value: what, source: format!("DCB of {}", flow.interface) }
}

fn pfc(input: &CheckInput<'_>) -> Judgement {
    let all = active(input)?;
    let congestion = &input.observed.congestion;
    let (ports, unknown) = answers(&all, congestion);
    let masks: BTreeSet<u8> = ports.iter().map(|port| port.3).collect();
    if masks.len() > 1 {
        return Ok(differ(&ports));
    }
    if let Some(unknown) = unknown {
        return Ok(unknown);
    }
    let mask = masks.first().copied().unwrap_or(0);
    if mask == 0 {
        return Ok(none(&ports));
    }
    let mut priorities_taken: BTreeMap<u8, Vec<&Port<'_>>> = BTreeMap::new();
    for port in &ports {
        match roce_priority(port, congestion, mask) {
            Ok(priority) => priorities_taken.entry(priority).or_default().push(port),
            Err(outcome) => return Ok(outcome.all_evidence(ports.iter().map(seen))),
        }
    }
    let beside = priorities_taken.iter().find(|(priority, _)| mask >> **priority & 1 == 0);
    if let Some((priority, ports)) = beside {
        let dscp = covered_dscp(ports[0].2, mask);
        let code = |(port, ..): &&Port<'_>| RoceFinding::PfcNotOnRocePriority {
            port: port.name.clone(),
            priority: *priority,
            mask,
            dscp,
            conf: congestion.conf,
        };
        return Ok(Outcome::warn(ports.iter().map(code))
            .all_evidence(ports.iter().map(|port| seen(port)))
            .all_evidence(class_seen(congestion, ports[0])));
    }
    Ok(with_ecn(&ports, &priorities_taken, mask, congestion))
}

fn differ(ports: &[Port<'_>]) -> Outcome {
    let mut tally: BTreeMap<u8, usize> = BTreeMap::new();
    ports.iter().for_each(|port| *tally.entry(port.3).or_default() += 1);
    let tally = tally.into_iter().map(|(mask, ports)| PfcTally { mask, ports }).collect();
    let interface = ports[0].1.interface.clone();
    Outcome::warn([RoceFinding::PfcDiffers { tally, interface }])
        .all_evidence(ports.iter().map(seen))
}

fn none(ports: &[Port<'_>]) -> Outcome {
    Outcome::warn([RoceFinding::PfcOff { ports: ports.len() }]).all_evidence(ports.iter().map(seen))
}

/// Returns the traffic class of a port's RoCE packets, and its source.
fn class<'a>(flow: &'a PortFlow, congestion: &'a Congestion) -> (&'a Reading<u8>, &'static str) {
    match &flow.forced_class {
        Reading::Absent => (&congestion.nccl_class, congestion.conf),
        forced => (forced, "tc/*/traffic_class in /sys/class/infiniband"),
    }
}

fn class_seen(congestion: &Congestion, port: &Port<'_>) -> Option<Evidence> {
    let (class, at) = class(port.1, congestion);
    let class = class.known()?;
    let what = format!("traffic class {class}: DSCP {}", class >> 2);
    Some(Evidence { value: what, source: at.to_owned() })
}

/// Returns a DSCP that maps to a priority with PFC, preferably the usual one.
fn covered_dscp(control: &FlowControl, mask: u8) -> Option<u8> {
    let covered = |dscp: &u8| control.dscp.get(dscp).is_some_and(|one| mask >> one & 1 == 1);
    Some(USUAL_DSCP).filter(covered).or_else(|| (0..64).find(covered))
}

/// Returns the priority that RoCE packets of a port use.
///
/// # Errors
/// The outcome to report if the priority is not known.
fn roce_priority(
    (port, flow, control, _): &Port<'_>,
    congestion: &Congestion,
    mask: u8,
) -> Result<u8, Outcome> {
    if let Some(priority) = control.roce {
        return Ok(priority);
    }
    let (class, at) = class(flow, congestion);
    let on = format!("PFC is on for priority {}", priorities(mask));
    match class {
        Reading::Unknown(why) => Err(unread("the traffic class of RoCE packets", why)),
        Reading::Absent => Err(Outcome::unknown(format!(
            "{on}; each job chooses the priority of its RoCE packets (NCCL_IB_TC)"
        ))
        .evidence("no NCCL_IB_TC", congestion.conf)
        .hint(class_fix(covered_dscp(control, mask), congestion.conf))),
        Reading::Known(class) => control.priority(class >> 2).ok_or_else(|| {
            Outcome::unknown(format!(
                "{on}; the priority of RoCE packets at port {} is unknown: DSCP {} maps to no priority",
                port.name,
                class >> 2
            ))
            .evidence(format!("traffic class {class}"), at)
            .evidence(format!("{} DSCPs with a priority", control.dscp.len()), format!("DCB of {}", flow.interface))
            .hint(class_fix(covered_dscp(control, mask), congestion.conf))
        }),
    }
}

/// Checks ECN, once flow control is correct.
fn with_ecn(
    ports: &[Port<'_>],
    taken: &BTreeMap<u8, Vec<&Port<'_>>>,
    mask: u8,
    congestion: &Congestion,
) -> Outcome {
    let (mut off, mut on, mut unknown) = (Vec::new(), 0, None);
    for (priority, (port, flow, ..)) in
        taken.iter().flat_map(|(priority, ports)| ports.iter().map(move |port| (priority, port)))
    {
        match flow.ecn.get(priority) {
            Some(Reading::Known(true)) => on += 1,
            Some(Reading::Known(false)) => off.push((*port, *flow, *priority)),
            Some(Reading::Unknown(why)) => drop(unknown.get_or_insert((flow, why))),
            Some(Reading::Absent) | None => {}
        }
    }
    let common = |outcome: Outcome| {
        let class = ports.first().and_then(|port| class_seen(congestion, port));
        outcome.all_evidence(ports.iter().map(seen)).all_evidence(class)
    };
    if let Some((_, flow, priority)) = off.first() {
        let code = |(port, flow, priority): &(&RdmaPort, &PortFlow, u8)| RoceFinding::EcnOff {
            port: port.name.clone(),
            interface: flow.interface.clone(),
            priority: *priority,
        };
        let enable = format!("/sys/class/net/{}/ecn/roce_np/enable", flow.interface);
        return common(
            Outcome::warn(off.iter().map(code))
                .evidence("0", format!("{enable}/{priority}, roce_rp")),
        );
    }
    if let Some((flow, why)) = unknown {
        return common(unread(format_args!("ECN of {}", flow.interface), why));
    }
    let words: Vec<String> = taken.keys().map(u8::to_string).collect();
    let also = if mask.count_ones() > 1 {
        format!(" (on for {})", priorities(mask))
    } else {
        String::new()
    };
    let ecn = match on {
        0 => "ECN is not visible here",
        _ => "with ECN",
    };
    common(Outcome::pass(format!(
        "{}: PFC on priority {}, which RoCE uses{also}; {ecn}",
        counted(ports.len(), "port"),
        words.join(", ")
    )))
}
