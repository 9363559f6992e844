//! Ports of RDMA devices, as worded in sysfs (handbook §5.3).

use std::net::Ipv6Addr;

use serde::Serialize;

use super::pci::Function;
use super::uplink;
use bedplate_base::value::PciAddress;
use bedplate_base::{ReadError, Reading, Reason};
use bedplate_host::{Reader, symlink};

/// Directory of the RDMA devices.
const CLASS: &str = "/sys/class/infiniband";
/// Directory of the network interfaces.
const NET: &str = "/sys/class/net";

/// Port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RdmaPort {
    /// Function of the device.
    pub function: PciAddress,
    /// Device and port number: `mlx5_0/1`.
    pub name: String,
    /// Logical state: `4: ACTIVE`.
    pub state: Reading<String>,
    /// Physical state: `5: LinkUp`.
    pub phys_state: Reading<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Reading<String>,
    /// Rate: `400 Gb/sec (4X NDR)`.
    pub rate: Reading<String>,
    /// GID that RoCE v2 should use; `Absent`: no usable GID, or not an Ethernet port.
    pub gid: Reading<RoceGid>,
    /// Network interface; `Absent`: not visible here, or not an Ethernet port.
    pub interface: Reading<Interface>,
}

/// Entry of a port's GID table that RoCE v2 can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoceGid {
    /// Index in the table.
    pub index: u16,
    /// Source of the GID.
    pub kind: GidKind,
}

/// Source of a GID, from best to worst: NCCL and most other programs prefer IPv4 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GidKind {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A link-local IPv6 address, which routers do not forward.
    LinkLocal,
}

/// Network interface of a port, or the bond above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Interface name.
    pub name: String,
    /// Operational state: `up`.
    pub state: Reading<String>,
    /// MTU: `9000`.
    pub mtu: Reading<u32>,
}

impl RdmaPort {
    /// Returns a port with only its name known.
    pub fn unread(function: PciAddress, name: &str, why: &Reason) -> Self {
        RdmaPort {
            function,
            name: name.to_owned(),
            state: Reading::Unknown(why.clone()),
            phys_state: Reading::Unknown(why.clone()),
            link_layer: Reading::Unknown(why.clone()),
            rate: Reading::Unknown(why.clone()),
            gid: Reading::Unknown(why.clone()),
            interface: Reading::Unknown(why.clone()),
        }
    }

    /// Returns the directory in sysfs.
    pub fn directory(&self) -> String {
        let (device, port) = self.name.split_once('/').unwrap_or((&self.name, "1"));
        format!("{CLASS}/{device}/ports/{port}")
    }

    /// Returns the name of its device.
    pub fn device(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

    /// Whether the port is active.
    pub fn is_active(&self) -> bool {
        self.state.known().is_some_and(|state| state.ends_with("ACTIVE"))
    }

    /// Returns the rate in Gb/s, if known.
    pub fn gigabits(&self) -> Option<f64> {
        self.rate.known()?.split(' ').next()?.parse().ok()
    }

    /// Whether this is a RoCE port.
    pub fn is_ethernet(&self) -> bool {
        self.link_layer.known().is_some_and(|layer| layer == "Ethernet")
    }
}

impl GidKind {
    /// Classifies a GID. Returns `None` for an empty entry or other text.
    fn from_gid(text: &str) -> Option<Self> {
        let address: Ipv6Addr = text.parse().ok()?;
        Some(match address {
            _ if address.is_unspecified() => return None,
            _ if address.to_ipv4_mapped().is_some() => GidKind::Ipv4,
            _ if address.segments()[0] & 0xffc0 == 0xfe80 => GidKind::LinkLocal,
            _ => GidKind::Ipv6,
        })
    }
}

/// Returns the ports of a function, by device and number.
pub fn ports(reader: &dyn Reader, function: &Function) -> Vec<RdmaPort> {
    let of_device = |device: &String| {
        let numbers = match Reading::from_result(reader.list(&format!("{CLASS}/{device}/ports"))) {
            Reading::Known(numbers) => numbers,
            Reading::Absent => Vec::new(),
            // A device without ports would pass as one that needs no port.
            Reading::Unknown(why) => {
                return vec![RdmaPort::unread(function.address, &format!("{device}/1"), &why)];
            }
        };
        numbers.into_iter().map(|number| port(reader, function, device, &number)).collect()
    };
    function.infiniband.iter().flat_map(of_device).collect()
}

fn port(reader: &dyn Reader, function: &Function, device: &str, number: &str) -> RdmaPort {
    let directory = format!("{CLASS}/{device}/ports/{number}");
    let attribute =
        |name: &str| Reading::from_result(reader.attribute(&format!("{directory}/{name}")));
    let mut port = RdmaPort {
        function: function.address,
        name: format!("{device}/{number}"),
        state: attribute("state"),
        phys_state: attribute("phys_state"),
        link_layer: attribute("link_layer"),
        rate: attribute("rate"),
        gid: Reading::Absent,
        interface: Reading::Absent,
    };
    if port.is_ethernet() {
        port.gid =
            Reading::from_result(roce_gid(reader, &directory)).and_then(Reading::from_option);
        let interface = interface(reader, function, &directory);
        port.interface = Reading::from_result(interface).and_then(Reading::from_option);
    }
    port
}

/// Returns the interface of a NIC without verbs as a port; its speed is in Mb/s (Documentation/ABI/testing/sysfs-class-net).
pub fn interface_port(reader: &dyn Reader, function: &Function) -> Option<RdmaPort> {
    let name = uplink::uplink(reader, &function.net)?;
    let state = Reading::from_result(reader.attribute(&format!("{NET}/{name}/operstate")));
    let state = state.map(|state| if state == "up" { "4: ACTIVE" } else { "1: DOWN" }.to_owned());
    let rate = super::scan::number::<u32>(reader, &format!("{NET}/{name}/speed"));
    Some(RdmaPort {
        state,
        link_layer: Reading::Known("Ethernet".to_owned()),
        rate: rate.map(|megabits| format!("{} Gb/sec", f64::from(megabits) / 1000.0)),
        ..RdmaPort::unread(function.address, name, &"its NIC has no RDMA device".into())
    })
}

/// Returns the first entry of the best kind. A table has 255 or more entries, mostly empty; reading stops at the first
/// IPv4 entry.
fn roce_gid(reader: &dyn Reader, directory: &str) -> Result<Option<RoceGid>, ReadError> {
    let names = reader.list(&format!("{directory}/gids"))?;
    let mut indices: Vec<u16> = names.iter().filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    let mut best: Option<RoceGid> = None;
    for index in indices {
        let gid = reader.attribute(&format!("{directory}/gids/{index}"))?;
        let Some(kind) = GidKind::from_gid(&gid) else { continue };
        if best.is_some_and(|best| best.kind <= kind) {
            continue;
        }
        match reader.attribute(&format!("{directory}/gid_attrs/types/{index}")) {
            Ok(text) if text == "RoCE v2" => best = Some(RoceGid { index, kind }),
            // EINVAL: the entry was cleared since, or belongs to another namespace.
            Ok(_) | Err(ReadError::Failed { .. }) => {}
            Err(error) => return Err(error),
        }
        if best.is_some_and(|best| best.kind == GidKind::Ipv4) {
            break;
        }
    }
    Ok(best)
}

/// Returns the interface of the first GID, which exists while the interface does; otherwise the function's own.
fn interface(
    reader: &dyn Reader,
    function: &Function,
    directory: &str,
) -> Result<Option<Interface>, ReadError> {
    let of_gid = reader.attribute(&format!("{directory}/gid_attrs/ndevs/0")).ok();
    let own = || uplink::uplink(reader, &function.net).map(str::to_owned);
    let Some(own) = of_gid.filter(|name| !name.is_empty()).or_else(own) else { return Ok(None) };
    let name = match reader.link(&format!("{NET}/{own}/master")) {
        Ok(master) => symlink::last_part(&master).unwrap_or(&own).to_owned(),
        Err(_) => own,
    };
    let attribute = |what: &str| reader.attribute(&format!("{NET}/{name}/{what}"));
    Ok(Some(Interface {
        state: Reading::from_result(attribute("operstate")),
        mtu: super::scan::number(reader, &format!("{NET}/{name}/mtu")),
        name,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_classified_by_address() {
        let kind = GidKind::from_gid;
        assert_eq!(kind("0000:0000:0000:0000:0000:0000:0000:0000"), None);
        assert_eq!(kind("0000:0000:0000:0000:0000:ffff:0a00:1301"), Some(GidKind::Ipv4));
        assert_eq!(kind("fe80:0000:0000:0000:9e63:c0ff:fe00:0013"), Some(GidKind::LinkLocal));
        assert_eq!(kind("2001:0db8:0000:0000:9e63:c0ff:fe00:0013"), Some(GidKind::Ipv6));
        assert_eq!(kind("rubbish"), None);
    }
}
