//! Congestion control of RoCE ports: priority flow control (DCB), traffic class, and ECN if the driver shows it.
//! Drivers from NVIDIA's own packages show more in sysfs than the kernel's drivers.

use std::collections::BTreeMap;

use super::nccl_conf::{self, NCCL_CONF};
use super::pci::PciTree;
use super::rdma::RdmaPort;
use super::{scan, uplink};
use bedplate_base::Reading;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_host::Reader;

/// Variable with the traffic class, for NCCL and RCCL.
const NCCL_IB_TC: &str = "NCCL_IB_TC";

/// Congestion settings of all ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Congestion {
    /// Settings by port name. Ports without an interface on this host are left out.
    pub ports: BTreeMap<String, PortFlow>,
    /// NCCL_IB_TC in `conf`; `Absent`: set by jobs, or unset.
    pub nccl_class: Reading<u8>,
    /// File that the host's collective library reads.
    pub conf: &'static str,
}

impl Congestion {
    /// Returns the settings of a host without readable ports.
    pub fn none() -> Self {
        Congestion { ports: BTreeMap::new(), nccl_class: Reading::Absent, conf: NCCL_CONF }
    }
}

/// Congestion settings of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFlow {
    /// The port's own interface, not a bond above it.
    pub interface: String,
    /// DCB state from the driver; `Absent`: no DCB.
    pub control: Reading<FlowControl>,
    /// Traffic class that the driver forces on all RoCE packets; `Absent`: programs choose.
    pub forced_class: Reading<u8>,
    /// Whether ECN is on for both sender and receiver, by priority; only priorities with flow control.
    pub ecn: BTreeMap<u8, Reading<bool>>,
}

/// Reads the settings of the active Ethernet ports in `ports`. `conf` is the file that the host's collective library
/// reads.
pub fn read(
    reader: &dyn Reader,
    tree: &PciTree,
    ports: &[RdmaPort],
    conf: &'static str,
) -> Congestion {
    let ports = ports.iter().filter(|port| port.is_ethernet() && port.is_active());
    let found = ports.filter_map(|port| {
        let function = tree.get(port.function)?;
        let interface = uplink::uplink(reader, &function.net)?;
        let control = Reading::from_result(reader.flow_control(function.address, interface));
        let control = control.and_then(Reading::from_option);
        let mask = control.known().and_then(|control| control.pfc).unwrap_or(0);
        let covered = (0..8u8).filter(|priority| mask >> priority & 1 == 1);
        let flow = PortFlow {
            interface: interface.to_owned(),
            forced_class: forced_class(reader, port),
            ecn: covered.map(|priority| (priority, ecn(reader, interface, priority))).collect(),
            control,
        };
        Some((port.name.clone(), flow))
    });
    let ports: BTreeMap<String, PortFlow> = found.collect();
    match ports.is_empty() {
        true => Congestion::none(),
        false => Congestion { ports, nccl_class: nccl_class(reader, conf), conf },
    }
}

/// Parses `Global tclass=106`, shown by drivers from NVIDIA's packages; the file is empty if no class is forced.
fn forced_class(reader: &dyn Reader, port: &RdmaPort) -> Reading<u8> {
    let number = port.name.rsplit('/').next().unwrap_or("1");
    let path = format!("/sys/class/infiniband/{}/tc/{number}/traffic_class", port.device());
    Reading::from_result(reader.attribute(&path)).and_then(|text| {
        let global = text.lines().find_map(|line| line.trim().strip_prefix("Global tclass="));
        match global.map(|class| class.trim().parse::<i32>()) {
            // A negative class means that no class is forced.
            Some(Ok(class)) => Reading::from_option(u8::try_from(class).ok()),
            Some(Err(_)) => Reading::unknown(format!("cannot parse {path}")),
            None => Reading::Absent,
        }
    })
}

/// Reads ECN as notification point (receiver) and reaction point (sender).
fn ecn(reader: &dyn Reader, interface: &str, priority: u8) -> Reading<bool> {
    let side = |side: &str| {
        let path = format!("/sys/class/net/{interface}/ecn/{side}/enable/{priority}");
        scan::number::<u8>(reader, &path)
    };
    match (side("roce_np"), side("roce_rp")) {
        (Reading::Known(receiver), Reading::Known(sender)) => {
            Reading::Known(receiver == 1 && sender == 1)
        }
        (Reading::Unknown(why), _) | (_, Reading::Unknown(why)) => Reading::Unknown(why),
        _ => Reading::Absent,
    }
}

fn nccl_class(reader: &dyn Reader, conf: &str) -> Reading<u8> {
    Reading::from_result(reader.read(conf)).and_then(|bytes| {
        match nccl_conf::value(&String::from_utf8_lossy(&bytes), NCCL_IB_TC).map(str::parse) {
            None => Reading::Absent,
            Some(Ok(class)) => Reading::Known(class),
            Some(Err(_)) => {
                Reading::unknown(format!("{NCCL_IB_TC} in {conf} is not a traffic class"))
            }
        }
    })
}
