//! PCI functions that a host's description names one by one: added to a machine, or changed on it. With `machine = "bare"`
//! they are all there is, so that a fabric can be read from its description.
//!
//! ```toml
//! [[pci]]
//! at = "0008:00:00.0"
//! is = "root-port"        # root-port, upstream, downstream, gpu, nic, data-direct, nvme, other; needed for a new function
//! under = "0008:00:00.0"  # the bridge that it hangs below; none: the host bridge of its bus
//! id = "10de:22b1"        # of its kind unless given
//! class = 0x0c0600        # of its kind unless given
//! driver = "mlx5_core"    # of its kind unless given; "" = none
//! acs = 0x1d              # ACS control, for ports; without, as Linux sets it
//! acs-capable = 0x5f      # what the port can do
//! ats = true              # ATS capability, enabled (true) or not (false); without, none
//! vpd = "uuid"            # V3 of its Vital Product Data
//! board = "serial"        # SN of its Vital Product Data
//! numa = 0
//! group-with = "0008:06:00.0"  # shares that function's IOMMU group
//! vfio-dev = true         # a VFIO device is registered for it
//! ```

use serde::Deserialize;

use super::device::{ACS_BY_LINUX, ACS_CAPABLE, Device, Port};
use super::spec::HostSpec;
use crate::facts::pci::PortType;
use crate::host::snapshot::{Node, Snapshot};
use crate::value::PciAddress;

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A port of the root complex.
    RootPort,
    /// The upstream port of a switch.
    Upstream,
    /// A downstream port of a switch.
    Downstream,
    /// An H100.
    Gpu,
    /// A ConnectX-7.
    Nic,
    /// The DMA function of a ConnectX-8.
    DataDirect,
    /// A disk.
    Nvme,
    /// Something without a meaning here.
    Other,
}

/// One `[[pci]]` of a description; see the head of this file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each field is documented once, in the TOML form above")]
pub struct Described {
    pub at: PciAddress,
    pub is: Option<What>,
    pub under: Option<PciAddress>,
    pub id: Option<String>,
    pub class: Option<u32>,
    pub driver: Option<String>,
    pub acs: Option<u16>,
    pub acs_capable: Option<u16>,
    pub ats: Option<bool>,
    pub vpd: Option<String>,
    pub board: Option<String>,
    pub numa: Option<i32>,
    pub group_with: Option<PciAddress>,
    #[serde(default)]
    pub vfio_dev: bool,
}

/// Adds the functions that a host's description names, and changes those that are there already.
pub fn describe(spec: &HostSpec, devices: &mut Vec<Device>) {
    for described in &spec.pci {
        let known = devices.iter().position(|device| device.address == described.at);
        let place = known.unwrap_or_else(|| {
            let device = new(spec, described, devices);
            devices.push(device);
            devices.len() - 1
        });
        change(&mut devices[place], described);
    }
}

fn new(spec: &HostSpec, described: &Described, devices: &[Device]) -> Device {
    let at = described.at;
    let above = devices.iter().find(|device| Some(device.address) == described.under);
    let directory = above.map_or_else(
        || format!("/sys/devices/pci{:04x}:{:02x}/{at}", at.domain, at.bus),
        |bridge| format!("{}/{at}", bridge.directory),
    );
    let (class, id, driver, port) = match described.is.unwrap_or(What::Other) {
        What::RootPort => (0x06_0400, (0x8086, 0x352a), "pcieport", PortType::RootPort),
        What::Upstream => (0x06_0400, (0x1000, 0xc030), "pcieport", PortType::Upstream),
        What::Downstream => (0x06_0400, (0x1000, 0xc030), "pcieport", PortType::Downstream),
        What::Gpu => (0x03_0200, (0x10de, 0x2330), "nvidia", PortType::Endpoint),
        What::Nic => (0x02_0000, (0x15b3, 0x1021), "mlx5_core", PortType::Endpoint),
        What::DataDirect => (0x08_0100, (0x15b3, 0x2100), "mlx5_core", PortType::Endpoint),
        What::Nvme => (0x01_0802, (0x144d, 0xa80a), "nvme", PortType::Endpoint),
        What::Other => (0x08_8000, (0x8086, 0x0001), "", PortType::Endpoint),
    };
    let mut device = Device::new(at, directory, class, id);
    device.port = Some(port);
    device.driver = Some(driver);
    device.numa = above.map_or(0, |bridge| bridge.numa);
    if matches!(port, PortType::RootPort | PortType::Downstream) {
        let on = spec.acs.unwrap_or(spec.group_type().is_some());
        device.acs = Some((ACS_CAPABLE, if on { ACS_BY_LINUX } else { 0 }));
    }
    if described.is == Some(What::Nic) {
        let name = at.to_string().replace([':', '.'], "");
        let infiniband = Some(format!("mlx5_{name}"));
        device.network = Some(Port { net: format!("net{name}"), infiniband, is_infiniband: false });
    }
    device
}

fn change(device: &mut Device, described: &Described) {
    if let Some((vendor, id)) = described.id.as_deref().and_then(|id| id.split_once(':')) {
        let hex = |text| u16::from_str_radix(text, 16).unwrap_or_default();
        device.id = (hex(vendor), hex(id));
    }
    device.class = described.class.unwrap_or(device.class);
    if let Some(driver) = &described.driver {
        device.other_driver = Some(driver.clone());
        // A NIC without its network driver has no interface.
        device.network = device.network.take().filter(|_| !driver.contains("vfio"));
    }
    if device.acs.is_some() || described.acs.is_some() {
        let (capable, control) = device.acs.unwrap_or((ACS_CAPABLE, 0));
        let capable = described.acs_capable.unwrap_or(capable);
        device.acs = Some((capable, described.acs.unwrap_or(control)));
    }
    device.ats = described.ats.or(device.ats);
    device.numa = described.numa.unwrap_or(device.numa);
    device.group_with = described.group_with.or(device.group_with);
    device.vfio_dev |= described.vfio_dev;
    if described.vpd.is_some() || described.board.is_some() {
        let value = |given: &Option<String>| given.clone().unwrap_or_default();
        let name = "NVIDIA ConnectX SuperNIC";
        device.vpd = Some(vpd(name, &value(&described.board), &value(&described.vpd)));
    }
}

/// Vital Product Data as a ConnectX has it: its name, then the read-only keywords (PCI 3.0, appendix I): the serial number of the
/// board and, as V3, a UUID that all functions of one adapter share (rdma-core kernel-boot/rdma_topo parse_vpd).
pub fn vpd(name: &str, board: &str, uuid: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    let values = [
        ("PN", "900-9X86E-00CX-ST0"),
        ("EC", "A5"),
        ("SN", board),
        ("V3", uuid),
        ("VA", "MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=C8180"),
        ("RV", "\0"),
    ];
    for (keyword, value) in values.into_iter().filter(|(_, value)| !value.is_empty()) {
        fields.extend(keyword.bytes().chain([value.len() as u8]).chain(value.bytes()));
    }
    let resource = |tag: u8, bytes: &[u8]| {
        let length = bytes.len() as u16;
        [&[tag], &length.to_le_bytes()[..], bytes].concat()
    };
    let name = resource(0x82, name.as_bytes());
    [name, resource(0x90, &fields), vec![0x78]].concat()
}

/// The class directory by which VFIO devices are found, and the device's own.
pub fn vfio_device(device: &Device, snapshot: &mut Snapshot) {
    let name = format!("vfio{:x}{:02x}", device.address.domain, device.address.bus);
    let directory = format!("{}/vfio-dev/{name}", device.directory);
    snapshot.insert(&directory, Node::Dir(None));
    let target = format!("../..{}", directory.trim_start_matches("/sys"));
    snapshot.insert(&format!("/sys/class/vfio-dev/{name}"), Node::Link(target));
}
