//! Choice of one link layer. NCCL aborts a job when a connection meets both InfiniBand and Ethernet ports: since 2.20
//! (v2.20.3 src/transport/net_ib.cc; v2.30.7 src/transport/net_ib/connect.cc, ncclIbConnect and ncclIbAccept), and since
//! 2.24 when it fuses NICs (ncclIbMakeVDeviceInternal). It skips ports of other layers (EFA). Pure.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use crate::ports::{PlacedPort, named};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};
use bedplate_facts::rdma::RdmaPort;

/// Ports of one link layer.
#[derive(Debug)]
pub struct OneLayer<'a> {
    /// Link layer; `None`: no port.
    pub layer: Option<LinkLayer>,
    /// Ports.
    pub ports: Vec<&'a PlacedPort>,
    /// Ports of other layers with the reason, one sentence each.
    pub left_out: Vec<String>,
}

/// Link layer that NCCL uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet (RoCE).
    Ethernet,
}

/// Reason why no layer can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undecided {
    /// A value that decides is unknown.
    Unknown(String),
    /// Both layers serve the GPUs equally well.
    Tie(String),
}

/// Chooses the layer with more bandwidth; with equal bandwidth the nearer one. Distances decide only then, because the
/// candidates are within the GDR level, or all beyond it. `in_doubt` are ports that would be candidates if they were
/// ACTIVE, but their states are unknown.
///
/// # Errors
/// [`Undecided`] if the layers are equal, or a decisive value is unknown.
pub fn choose<'a>(
    candidates: &[&'a PlacedPort],
    in_doubt: &[&PlacedPort],
) -> Result<OneLayer<'a>, Undecided> {
    let (mut infiniband, mut ethernet, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for one in candidates {
        match LinkLayer::of(&one.port)? {
            Some(LinkLayer::InfiniBand) => infiniband.push(*one),
            Some(LinkLayer::Ethernet) => ethernet.push(*one),
            None => other.push(*one),
        }
    }
    let mut left_out = Vec::new();
    if !other.is_empty() {
        let other = named(other.iter().map(|one| &one.port));
        left_out.push(format!("{other} left out: neither InfiniBand nor Ethernet"));
    }
    let (layer, ports) = match (infiniband.is_empty(), ethernet.is_empty()) {
        (true, true) => return Ok(OneLayer { layer: None, ports: Vec::new(), left_out }),
        (false, true) => (LinkLayer::InfiniBand, infiniband),
        (true, false) => (LinkLayer::Ethernet, ethernet),
        (false, false) => {
            let (layer, why) = better(&infiniband, &ethernet)?;
            let (ports, rest) = match layer {
                LinkLayer::InfiniBand => (infiniband, ethernet),
                LinkLayer::Ethernet => (ethernet, infiniband),
            };
            let rest = named(rest.iter().map(|one| &one.port));
            left_out.push(format!("{rest} left out: InfiniBand cannot connect to Ethernet; {why}"));
            (layer, ports)
        }
    };
    for PlacedPort { port, .. } in in_doubt {
        if let Some(own) = LinkLayer::of(port)?.filter(|own| *own != layer) {
            let why =
                format!("state of {own} port {} unknown, ACTIVE ports are {layer}", port.name);
            return Err(Undecided::Unknown(why));
        }
    }
    Ok(OneLayer { layer: Some(layer), ports, left_out })
}

/// Compares the ports of both layers. Returns the better layer with the reason.
fn better(
    infiniband: &[&PlacedPort],
    ethernet: &[&PlacedPort],
) -> Result<(LinkLayer, String), Undecided> {
    let ib = Bandwidth::of(LinkLayer::InfiniBand, infiniband)?;
    let eth = Bandwidth::of(LinkLayer::Ethernet, ethernet)?;
    let nearest = |ports: &[&PlacedPort]| ports.iter().filter_map(|one| one.distance).min();
    let (near, far) = (nearest(infiniband), nearest(ethernet));
    let by_rate = ib.total().total_cmp(&eth.total());
    let layer = match by_rate.then(far.cmp(&near)) {
        Ordering::Greater => LinkLayer::InfiniBand,
        Ordering::Less => LinkLayer::Ethernet,
        Ordering::Equal => {
            let why = format!("InfiniBand has {ib}, Ethernet {eth}, equally near to GPUs");
            return Err(Undecided::Tie(format!(
                "InfiniBand cannot connect to Ethernet, and {why}"
            )));
        }
    };
    let why = match by_rate {
        Ordering::Equal => format!("{layer} is nearer to GPUs"),
        _ => format!("InfiniBand has {ib}, Ethernet {eth}"),
    };
    Ok((layer, why))
}

/// Bandwidth of the ports of one layer. Ports of one NIC share its PCIe link, so each NIC counts once.
struct Bandwidth {
    nics: usize,
    /// Rate of the fastest ACTIVE port in Gb/s.
    rate: f64,
}

impl Bandwidth {
    fn of(layer: LinkLayer, ports: &[&PlacedPort]) -> Result<Bandwidth, Undecided> {
        // The rate of a port that is down says nothing.
        let active = ports.iter().map(|one| &one.port).filter(|port| port.is_active());
        let rate = |port: &RdmaPort| {
            let unknown = || Undecided::Unknown(format!("rate of port {} unknown", port.name));
            port.gigabits().ok_or_else(unknown)
        };
        let rates = active.map(rate).collect::<Result<Vec<f64>, Undecided>>()?;
        let rate = rates.into_iter().max_by(f64::total_cmp).ok_or_else(|| {
            let ports = named(ports.iter().map(|one| &one.port));
            Undecided::Unknown(format!("rate of {layer} unknown: {ports} not ACTIVE"))
        })?;
        let card = |one: &&PlacedPort| PciAddress { function: 0, ..one.port.function };
        let nics = ports.iter().map(card).collect::<BTreeSet<PciAddress>>().len();
        Ok(Bandwidth { nics, rate })
    }

    fn total(&self) -> f64 {
        self.nics as f64 * self.rate
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} Gb/s", counted(self.nics, "NIC"), self.rate)
    }
}

impl LinkLayer {
    /// Returns the layer of a port; `None`: one that NCCL does not use.
    ///
    /// # Errors
    /// The layer is unknown.
    pub fn of(port: &RdmaPort) -> Result<Option<LinkLayer>, Undecided> {
        let unknown = |why: &str| {
            Undecided::Unknown(format!("link layer of port {} unknown: {why}", port.name))
        };
        match &port.link_layer {
            Reading::Known(layer) => Ok(match layer.as_str() {
                "InfiniBand" => Some(LinkLayer::InfiniBand),
                "Ethernet" => Some(LinkLayer::Ethernet),
                _ => None,
            }),
            Reading::Absent => Err(unknown("not in sysfs")),
            Reading::Unknown(why) => Err(unknown(&why.to_string())),
        }
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::topology::Distance;

    fn port(name: &str, bus: u8, layer: &str, rate: &str, distance: Distance) -> PlacedPort {
        let function = PciAddress { domain: 0, bus, device: 0, function: 0 };
        let port = RdmaPort {
            state: Reading::Known("4: ACTIVE".to_owned()),
            link_layer: Reading::Known(layer.to_owned()),
            rate: Reading::Known(rate.to_owned()),
            ..RdmaPort::unread(function, name, &"not asked".into())
        };
        PlacedPort { port, way: function, distance: Some(distance) }
    }

    fn chosen(ports: &[PlacedPort]) -> Result<(Option<LinkLayer>, usize, usize), Undecided> {
        let one = choose(&ports.iter().collect::<Vec<_>>(), &[])?;
        Ok((one.layer, one.ports.len(), one.left_out.len()))
    }

    const IB: &str = "InfiniBand";
    const ETH: &str = "Ethernet";
    const FAST: &str = "400 Gb/sec (4X NDR)";
    const SLOW: &str = "25 Gb/sec (1X EDR)";

    #[test]
    fn layer_with_more_bandwidth_is_chosen() {
        let near = Distance::Pix;
        let mut ports = vec![
            port("mlx5_0/1", 1, IB, FAST, Distance::Pxb),
            port("mlx5_1/1", 2, IB, FAST, Distance::Pxb),
            // Two ports of one NIC.
            port("mlx5_2/1", 3, ETH, FAST, near),
            port("mlx5_3/1", 3, ETH, FAST, near),
        ];
        assert_eq!(chosen(&ports), Ok((Some(LinkLayer::InfiniBand), 2, 1)));
        ports[3].port.function.bus = 4;
        ports.push(port("mlx5_4/1", 5, ETH, SLOW, near));
        assert_eq!(chosen(&ports), Ok((Some(LinkLayer::Ethernet), 3, 1)));
        assert_eq!(chosen(&ports[2..]), Ok((Some(LinkLayer::Ethernet), 3, 0)));
        assert_eq!(chosen(&[]), Ok((None, 0, 0)));
    }

    #[test]
    fn distance_decides_at_equal_bandwidth() {
        let mut ports = vec![
            port("mlx5_0/1", 1, IB, FAST, Distance::Node),
            port("mlx5_1/1", 2, ETH, FAST, Distance::Sys),
        ];
        assert_eq!(chosen(&ports), Ok((Some(LinkLayer::InfiniBand), 1, 1)));
        ports[0].distance = Some(Distance::Sys);
        assert!(matches!(chosen(&ports), Err(Undecided::Tie(_))));
    }

    #[test]
    fn ports_of_other_layers_are_left_out() {
        let efa = port("rdmap0/1", 1, "Unknown", FAST, Distance::Pix);
        assert_eq!(chosen(&[efa]), Ok((None, 0, 1)));
    }

    #[test]
    fn unknown_values_that_decide_leave_it_undecided() {
        let unread = || Reading::unknown("permission denied".to_owned());
        let pair = || {
            vec![
                port("mlx5_0/1", 1, IB, FAST, Distance::Pix),
                port("mlx5_1/1", 2, ETH, SLOW, Distance::Pix),
            ]
        };
        let is_unknown = |ports: &[PlacedPort]| matches!(chosen(ports), Err(Undecided::Unknown(_)));
        let mut ports = pair();
        ports[1].port.rate = unread();
        assert!(is_unknown(&ports) && !is_unknown(&ports[1..]));
        let mut ports = pair();
        ports[1].port.state = Reading::Known("1: DOWN".to_owned());
        assert!(is_unknown(&ports));
        let mut ports = pair();
        ports[1].port.link_layer = unread();
        assert!(is_unknown(&ports));
        let ports = pair();
        let doubt = |port| choose(&[&ports[0]], &[port]);
        assert!(doubt(&ports[0]).is_ok());
        assert!(matches!(doubt(&ports[1]), Err(Undecided::Unknown(_))));
    }
}
