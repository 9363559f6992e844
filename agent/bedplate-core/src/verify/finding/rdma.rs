//! RDMA devices and their ports.

use std::borrow::Cow;

use serde::Serialize;

use super::{Device, FEW, FindingText};
use crate::kind::some_of;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

/// Ports or RDMA devices that a finding names before it counts.
pub(in crate::verify) const FEW_PORTS: usize = 6;

const CABLE: &str =
    "look at cable and switch port; on InfiniBand `INIT` waits for a subnet manager (`sminfo`)";
const DRIVER: &str =
    "`modprobe mlx5_ib` (for other makers their RDMA driver), then `dmesg | grep -i mlx5`";

/// Names of ports or RDMA devices: `mlx5_0/1, mlx5_1/1 and 6 more ports`.
pub(in crate::verify) fn few_of<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    what: &str,
) -> String {
    some_of(names.map(str::to_owned), FEW_PORTS, what)
}

/// How many ports have one value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Tally {
    /// As the kernel shows it: `400 Gb/sec (4X NDR)`, `Ethernet`.
    pub value: String,
    /// Ports.
    pub ports: usize,
}

/// A finding about RDMA devices and their ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "RdmaCode"))]
pub enum RdmaFinding {
    /// A NIC without an RDMA device.
    NoRdmaDevice {
        /// The NIC.
        device: Device,
        /// Its driver; `None`: it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// No port of the GPUs' NICs is active.
    NoActivePort {
        /// How many ports they have.
        ports: usize,
    },
    /// A port is not active.
    PortNotActive {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `1: DOWN`.
        state: String,
    },
    /// An adapter whose ports are all active has fewer of them than others of its model.
    FewerPorts {
        /// Its first function.
        device: Device,
        /// Its active ports.
        active: usize,
        /// Active ports of most others.
        usual: usize,
    },
    /// A port runs slower than others of its model.
    PortSlow {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `100 Gb/sec (4X EDR)`.
        rate: String,
        /// Rates of the active ports of the GPUs' NICs.
        rates: Vec<Tally>,
    },
    /// NICs of one model are on different link layers.
    LinkLayersDiffer {
        /// Link layers of the active ports of the GPUs' NICs.
        link_layers: Vec<Tally>,
    },
    /// Some RDMA devices have names of the kernel, and others do not.
    NamesOfTwoKinds {
        /// Names of the kernel.
        kernel: Vec<String>,
        /// Other names.
        others: Vec<String>,
    },
}

impl FindingText for RdmaFinding {
    fn description(&self) -> Cow<'static, str> {
        match self {
            RdmaFinding::NoRdmaDevice { driver: None, .. } => {
                "no driver, and so no RDMA device".into()
            }
            RdmaFinding::NoRdmaDevice { .. } => "a driver, and no RDMA device".into(),
            RdmaFinding::NoActivePort { .. } => "none is active".into(),
            RdmaFinding::PortNotActive { .. } => "not active, in a NIC of the GPUs".into(),
            RdmaFinding::FewerPorts { .. } => "fewer ports than others of its model".into(),
            RdmaFinding::PortSlow { rates, .. } => {
                format!("port {{}}: slower than others of the same model ({})", tally(rates)).into()
            }
            RdmaFinding::LinkLayersDiffer { link_layers } => {
                format!("NICs of one model on different link layers: {}", tally(link_layers)).into()
            }
            RdmaFinding::NamesOfTwoKinds { kernel, others } => {
                let few = |names: &[String]| few_of(names.iter().map(String::as_str), "devices");
                format!("kernel names ({}) beside others ({})", few(kernel), few(others)).into()
            }
        }
    }

    fn subject(&self) -> String {
        match self {
            RdmaFinding::NoRdmaDevice { device, .. } => device.to_string(),
            RdmaFinding::NoActivePort { .. } => "ports of the GPUs' NICs".to_owned(),
            RdmaFinding::PortNotActive { port, function, state } => {
                format!("{port} {function} ({state})")
            }
            RdmaFinding::FewerPorts { device, active, usual } => {
                format!("{device} ({active} of {usual})")
            }
            RdmaFinding::PortSlow { port, .. } => port.clone(),
            RdmaFinding::LinkLayersDiffer { .. } | RdmaFinding::NamesOfTwoKinds { .. } => {
                String::new()
            }
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            RdmaFinding::PortSlow { .. } => "ports",
            _ => "of them",
        }
    }

    fn few(&self) -> usize {
        match self {
            RdmaFinding::PortSlow { .. } => FEW_PORTS,
            _ => FEW,
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            RdmaFinding::NoActivePort { ports: 0 }
            | RdmaFinding::NoRdmaDevice { .. }
            | RdmaFinding::FewerPorts { .. } => DRIVER,
            RdmaFinding::NoActivePort { .. } | RdmaFinding::PortNotActive { .. } => CABLE,
            RdmaFinding::PortSlow { .. } => {
                "look at cable, transceiver and the speed that the switch port is set to (`mlxlink -d DEVICE` says what both ends can)"
            }
            RdmaFinding::LinkLayersDiffer { .. } => {
                "`mlxconfig -d DEVICE set LINK_TYPE_P1=…` (1 InfiniBand, 2 Ethernet) and a firmware reset, unless it is meant so"
            }
            RdmaFinding::NamesOfTwoKinds { .. } => {
                "`udevadm test /sys/class/infiniband/DEVICE` says why a rule does not rename it; until they are alike, list each device in NCCL_IB_HCA (`=` before the list for exact names)"
            }
        };
        remedy.into()
    }

    fn recovery(&self) -> Recovery {
        match self {
            RdmaFinding::NoRdmaDevice { .. }
            | RdmaFinding::NoActivePort { .. }
            | RdmaFinding::PortNotActive { .. }
            | RdmaFinding::FewerPorts { .. }
            | RdmaFinding::PortSlow { .. } => Recovery::Drain,
            RdmaFinding::LinkLayersDiffer { .. } | RdmaFinding::NamesOfTwoKinds { .. } => {
                Recovery::None
            }
        }
    }
}

/// `8 × 400 Gb/sec (4X NDR)`.
pub(in crate::verify) fn tally(tallies: &[Tally]) -> String {
    let each = tallies.iter().map(|tally| format!("{} × {}", tally.ports, tally.value));
    each.collect::<Vec<String>>().join(", ")
}
