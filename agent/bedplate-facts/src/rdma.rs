//! Ports of RDMA devices, as sysfs words them (handbook §5.3).

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
    /// Of an Ethernet port the GID that RoCE v2 is to use; `Absent`: it has none.
    pub gid: Reading<RoceGid>,
    /// Of an Ethernet port its network interface; `Absent`: none shows here.
    pub interface: Reading<Interface>,
}

/// An entry of a port's GID table that RoCE v2 can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoceGid {
    /// Its index.
    pub index: u16,
    /// What it is made of.
    pub kind: GidKind,
}

/// What a GID is made of, from best to worst: NCCL and most others go by IPv4 unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GidKind {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A link-local IPv6 address: no router passes it on.
    LinkLocal,
}

/// The network interface of a port: the bond, where it is part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// `up`.
    pub state: Reading<String>,
    /// `9000`.
    pub mtu: Reading<u32>,
}

impl RdmaPort {
    /// One of which nothing is known but its name.
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

    /// Where it is in sysfs.
    pub fn directory(&self) -> String {
        let (device, port) = self.name.split_once('/').unwrap_or((&self.name, "1"));
        format!("{CLASS}/{device}/ports/{port}")
    }

    /// The device that it is a port of.
    pub fn device(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

    /// Whether it is in use.
    pub fn is_active(&self) -> bool {
        self.state.known().is_some_and(|state| state.ends_with("ACTIVE"))
    }

    /// Whether it is RoCE's.
    pub fn is_ethernet(&self) -> bool {
        self.link_layer.known().is_some_and(|layer| layer == "Ethernet")
    }
}

impl GidKind {
    /// `None`: an empty entry, or no GID.
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

/// The ports of a function, by device and number.
pub fn ports(reader: &dyn Reader, function: &Function) -> Vec<RdmaPort> {
    let of_device = |device: &String| {
        let numbers = match Reading::from_result(reader.list(&format!("{CLASS}/{device}/ports"))) {
            Reading::Known(numbers) => numbers,
            Reading::Absent => Vec::new(),
            // A device without a port would be taken for one that needs none.
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

/// The first entry of the best kind. A table has 255 entries and more, mostly empty: it is read no further than that.
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
            // EINVAL: emptied meanwhile, or of another namespace.
            Ok(_) | Err(ReadError::Failed { .. }) => {}
            Err(error) => return Err(error),
        }
        if best.is_some_and(|best| best.kind == GidKind::Ipv4) {
            break;
        }
    }
    Ok(best)
}

/// The interface of the first GID, which is there with the interface; else the function's own.
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
    fn gids_are_told_apart_by_what_they_are_made_of() {
        let kind = GidKind::from_gid;
        assert_eq!(kind("0000:0000:0000:0000:0000:0000:0000:0000"), None);
        assert_eq!(kind("0000:0000:0000:0000:0000:ffff:0a00:1301"), Some(GidKind::Ipv4));
        assert_eq!(kind("fe80:0000:0000:0000:9e63:c0ff:fe00:0013"), Some(GidKind::LinkLocal));
        assert_eq!(kind("2001:0db8:0000:0000:9e63:c0ff:fe00:0013"), Some(GidKind::Ipv6));
        assert_eq!(kind("rubbish"), None);
    }
}
