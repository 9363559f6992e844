//! RDMA devices and their ports.

use serde::Serialize;

use super::{Device, FindingText, text};
use crate::kind::some_of;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

/// Maximum number of ports or RDMA devices that a finding lists by name.
pub(in crate::verify) const FEW_PORTS: usize = 6;

const CABLE: &str =
    "check cable and switch port; on InfiniBand, `INIT` waits for a subnet manager (`sminfo`)";
const DRIVER: &str =
    "run `modprobe mlx5_ib` (other vendors: their RDMA driver), then check `dmesg | grep -i mlx5`";

/// Lists ports or RDMA devices and counts the rest: `mlx5_0/1, mlx5_1/1 and 6 more ports`.
pub(in crate::verify) fn few_of<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    what: &str,
) -> String {
    some_of(names.map(str::to_owned), FEW_PORTS, what)
}

/// Number of ports with one value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Tally {
    /// Value as the kernel shows it: `400 Gb/sec (4X NDR)`, `Ethernet`.
    pub value: String,
    /// Ports.
    pub ports: usize,
}

/// A finding about RDMA devices and their ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "RdmaCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum RdmaFinding {
    /// A NIC without an RDMA device.
    NoRdmaDevice {
        /// The NIC.
        device: Device,
        /// Driver of the NIC. `None`: no driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// No port of the GPUs' NICs is active.
    NoActivePort {
        /// Number of their ports.
        ports: usize,
    },
    /// A port is not active.
    PortNotActive {
        /// `mlx5_0/1`.
        port: String,
        /// NIC of the port.
        function: PciAddress,
        /// `1: DOWN`.
        state: String,
    },
    /// All ports of an adapter are active, but it has fewer than other adapters of its model.
    FewerPorts {
        /// First function of the adapter.
        device: Device,
        /// Number of its active ports.
        active: usize,
        /// Number of active ports of most adapters of the model.
        usual: usize,
    },
    /// A port runs slower than ports of other NICs of its model.
    PortSlow {
        /// `mlx5_0/1`.
        port: String,
        /// NIC of the port.
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
    /// Some RDMA devices have kernel names, and some do not.
    MixedNames {
        /// Kernel names.
        kernel: Vec<String>,
        /// Other names.
        others: Vec<String>,
    },
}

impl RdmaFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::NoRdmaDevice { device, driver } => text(
                match driver {
                    None => "no driver, so no RDMA device",
                    Some(_) => "a driver, but no RDMA device",
                },
                device,
                DRIVER,
            )
            .recovery(Recovery::Drain),
            Self::NoActivePort { ports } => text(
                "none active",
                "ports of the GPUs' NICs",
                if *ports == 0 { DRIVER } else { CABLE },
            )
            .recovery(Recovery::Drain),
            Self::PortNotActive { port, function, state } => text(
                "not active, in a NIC of the GPUs",
                format!("{port} {function} ({state})"),
                CABLE,
            )
            .recovery(Recovery::Drain),
            Self::FewerPorts { device, active, usual } => text(
                "fewer ports than others of its model",
                format!("{device} ({active} of {usual})"),
                DRIVER,
            )
            .recovery(Recovery::Drain),
            Self::PortSlow { port, rates, .. } => text(
                format!("port {{}}: slower than others of the same model ({})", tally(rates)),
                port,
                "check cable, transceiver and the configured speed of the switch port (`mlxlink -d DEVICE` shows what both \
                 ends support)",
            )
            .recovery(Recovery::Drain)
            .listed(FEW_PORTS, "ports"),
            Self::LinkLayersDiffer { link_layers } => text(
                format!("NICs of one model on different link layers: {}", tally(link_layers)),
                "",
                "unless intended, run `mlxconfig -d DEVICE set LINK_TYPE_P1=…` (1 InfiniBand, 2 Ethernet) and reset the \
                 firmware",
            ),
            Self::MixedNames { kernel, others } => {
                let few = |names: &[String]| few_of(names.iter().map(String::as_str), "devices");
                text(
                    format!("kernel names ({}) mixed with others ({})", few(kernel), few(others)),
                    "",
                    "check `udevadm test /sys/class/infiniband/DEVICE` for why no rule renames it. Until then, list each \
                     device in NCCL_IB_HCA (`=` before the list for exact names)",
                )
            }
        }
    }
}

/// Formats tallies: `8 × 400 Gb/sec (4X NDR)`.
pub(in crate::verify) fn tally(tallies: &[Tally]) -> String {
    let each = tallies.iter().map(|tally| format!("{} × {}", tally.ports, tally.value));
    each.collect::<Vec<String>>().join(", ")
}
