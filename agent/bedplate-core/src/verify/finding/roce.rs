//! RoCE: addresses, interfaces and flow control.

use serde::Serialize;

use super::rdma::FEW_PORTS;
use super::{FindingText, text};
use bedplate_base::counted;
use bedplate_base::value::flow_control::priorities;

/// ECT(0) in the low bits of a traffic class, which marks packets for ECN (RFC 3168).
const ECT0: u8 = 2;

/// Number of ports with PFC on the same priorities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PfcTally {
    /// Priorities with PFC, bit 0 for priority 0.
    pub mask: u8,
    /// Ports.
    pub ports: usize,
}

/// A finding about RoCE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "RoceCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum RoceFinding {
    /// A port has no GID for RoCE v2.
    NoGid {
        /// `mlx5_0/1`.
        port: String,
    },
    /// A port has only a link-local GID.
    GidLinkLocal {
        /// `mlx5_0/1`.
        port: String,
    },
    /// The network interface of a port is down.
    InterfaceDown {
        /// `mlx5_0/1`.
        port: String,
        /// `ens1f0np0`.
        interface: String,
    },
    /// A port has no visible network interface.
    NoInterface {
        /// `mlx5_0/1`.
        port: String,
    },
    /// The MTU of a port's interface is too small for packets of 4,096 bytes.
    MtuSmall {
        /// `mlx5_0/1`.
        port: String,
        /// `ens1f0np0`.
        interface: String,
        /// MTU in bytes. `None`: not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtu: Option<u32>,
    },
    /// Ports have PFC on different priorities.
    PfcDiffers {
        /// Number of ports for each set of priorities.
        tally: Vec<PfcTally>,
        /// Interface of the first port.
        interface: String,
    },
    /// No port has PFC.
    PfcOff {
        /// Number of ports.
        ports: usize,
    },
    /// RoCE packets of a port use a priority without PFC.
    PfcNotOnRocePriority {
        /// `mlx5_0/1`.
        port: String,
        /// Priority of RoCE packets.
        priority: u8,
        /// Priorities with PFC, bit 0 for priority 0.
        mask: u8,
        /// A DSCP that maps to a priority with PFC, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        dscp: Option<u8>,
        /// Configuration file of the collective library for all jobs.
        conf: &'static str,
    },
    /// ECN is off for the priority of a port's RoCE packets.
    EcnOff {
        /// `mlx5_0/1`.
        port: String,
        /// `ens1f0np0`.
        interface: String,
        /// Priority of RoCE packets.
        priority: u8,
    },
}

impl RoceFinding {
    pub(super) fn text(&self) -> FindingText {
        let text = match self {
            Self::NoGid { port } => text(
                "port {}: no GID for RoCE v2",
                port,
                "give the interface an IP address. Already has one? RoCE is off: check enable_roce in `devlink dev param \
                 show`",
            ),
            Self::GidLinkLocal { port } => text(
                "port {}: only a link-local GID for RoCE v2, which no router passes on",
                port,
                "give the interface an IPv4 or a routed IPv6 address",
            ),
            Self::InterfaceDown { port, interface } => text(
                "port {}: its interface is down",
                port,
                format!("run `ip link set {interface} up`"),
            ),
            Self::NoInterface { port } => text(
                "port {}: no network interface is visible",
                port,
                "look for it in the network namespaces of containers (`ip netns`): RoCE uses its addresses",
            ),
            Self::MtuSmall { port, interface, .. } => text(
                "port {}: the MTU is too small for packets of 4,096 bytes",
                port,
                format!(
                    "if the switches pass such frames, run `ip link set {interface} mtu 9000`, and set the same in the \
                     network configuration"
                ),
            ),
            Self::PfcDiffers { tally, interface } => pfc_differs(tally, interface),
            Self::PfcOff { ports } => text(
                format!("PFC is off on {}: congestion loses packets", counted(*ports, "RoCE port")),
                "",
                "if the switches do the same, run `dcb pfc set dev IF prio-pfc 3:on` (or `mlnx_qos -i IF --trust dscp --pfc \
                 0,0,0,1,0,0,0,0`). Lossy on purpose? Set [verify.severity] \"rdma.pfc\" = { level = \"ignore\", reason = \
                 \"…\" } in the profile",
            ),
            Self::PfcNotOnRocePriority { port, priority, mask, dscp, conf } => text(
                format!(
                    "port {{}}: RoCE uses priority {priority}, but PFC is on for {}",
                    priorities(*mask)
                ),
                port,
                class_fix(*dscp, conf),
            ),
            Self::EcnOff { port, interface, priority } => text(
                format!("port {{}}: ECN is off for priority {priority}"),
                port,
                format!(
                    "write 1 to /sys/class/net/{interface}/ecn/roce_np/enable/{priority} and roce_rp/enable/{priority}"
                ),
            ),
        };
        text.listed(FEW_PORTS, "ports")
    }
}

fn pfc_differs(tally: &[PfcTally], interface: &str) -> FindingText {
    let each: Vec<String> = tally.iter().map(pfc_of).collect();
    text(
        format!("PFC differs between RoCE ports: {}", each.join(", ")),
        "",
        format!(
            "configure all like the switch: `dcb pfc set dev {interface} prio-pfc all:off 3:on` (or `mlnx_qos -i IF --pfc \
             0,0,0,1,0,0,0,0`)"
        ),
    )
}

/// Returns the fix that maps RoCE packets to a priority with PFC. `dscp`: a DSCP that maps there.
pub(in crate::verify) fn class_fix(dscp: Option<u8>, conf: &str) -> String {
    match dscp {
        Some(dscp) => format!(
            "set `NCCL_IB_TC={}` (DSCP {dscp}) in {conf} of every host, or enable flow control on the priority in use",
            dscp << 2 | ECT0
        ),
        None => format!(
            "run `dcb app add dev IF dscp-prio 26:3` (or `mlnx_qos -i IF --trust dscp`), and set NCCL_IB_TC for that DSCP in \
             {conf}"
        ),
    }
}

/// Formats a tally: `2 ports have it on 3`.
fn pfc_of(tally: &PfcTally) -> String {
    let verb = if tally.ports == 1 { "has" } else { "have" };
    let ports = counted(tally.ports, "port");
    match tally.mask {
        0 => format!("{ports} {verb} none"),
        mask => format!("{ports} {verb} it on {}", priorities(mask)),
    }
}
