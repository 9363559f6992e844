//! Ports of RDMA devices, as sysfs words them (handbook §5.3).

use serde::Serialize;

use super::pci::Function;
use crate::host::{Reader, Reading};
use crate::value::PciAddress;

/// Directory of the RDMA devices.
const CLASS: &str = "/sys/class/infiniband";

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RdmaPort {
    /// The function that it belongs to.
    pub function: PciAddress,
    /// `mlx5_0/1`.
    pub name: String,
    /// `4: ACTIVE`.
    pub state: Reading<String>,
    /// `5: LinkUp`.
    pub phys_state: Reading<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Reading<String>,
    /// `400 Gb/sec (4X NDR)`.
    pub rate: Reading<String>,
}

impl RdmaPort {
    /// Where it is in sysfs.
    pub fn directory(&self) -> String {
        let (device, port) = self.name.split_once('/').unwrap_or((&self.name, "1"));
        format!("{CLASS}/{device}/ports/{port}")
    }
}

/// The ports of a function, by device and number.
pub fn ports(reader: &dyn Reader, function: &Function) -> Vec<RdmaPort> {
    let of_device = |device: &String| {
        let numbers = reader.list(&format!("{CLASS}/{device}/ports")).unwrap_or_default();
        numbers.into_iter().map(|number| (device.clone(), number)).collect::<Vec<_>>()
    };
    let port = |(device, number): (String, String)| {
        let directory = format!("{CLASS}/{device}/ports/{number}");
        let attribute =
            |name: &str| Reading::from_result(reader.attribute(&format!("{directory}/{name}")));
        RdmaPort {
            function: function.address,
            name: format!("{device}/{number}"),
            state: attribute("state"),
            phys_state: attribute("phys_state"),
            link_layer: attribute("link_layer"),
            rate: attribute("rate"),
        }
    };
    function.infiniband.iter().flat_map(of_device).map(port).collect()
}
