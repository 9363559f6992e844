//! Builds the PCI functions in a host's description: added to a machine, or changed on it.

use super::described_functions::{Described, FunctionKind};
use super::device::{ACS_BY_LINUX, ACS_CAPABLE, Device, Port};
use super::spec::HostSpec;
use bedplate_facts::pci::PortType;

/// Adds the described functions, and changes existing ones.
pub(crate) fn describe(spec: &HostSpec, devices: &mut Vec<Device>) {
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
    let (class, id, driver, port) = match described.is.unwrap_or(FunctionKind::Other) {
        FunctionKind::RootPort => (0x06_0400, (0x8086, 0x352a), "pcieport", PortType::RootPort),
        FunctionKind::Upstream => (0x06_0400, (0x1000, 0xc030), "pcieport", PortType::Upstream),
        FunctionKind::Downstream => (0x06_0400, (0x1000, 0xc030), "pcieport", PortType::Downstream),
        FunctionKind::Gpu => (0x03_0200, (0x10de, 0x2330), "nvidia", PortType::Endpoint),
        FunctionKind::Nic => (0x02_0000, (0x15b3, 0x1021), "mlx5_core", PortType::Endpoint),
        FunctionKind::DataDirect => (0x08_0100, (0x15b3, 0x2100), "mlx5_core", PortType::Endpoint),
        FunctionKind::Nvme => (0x01_0802, (0x144d, 0xa80a), "nvme", PortType::Endpoint),
        FunctionKind::Other => (0x08_8000, (0x8086, 0x0001), "", PortType::Endpoint),
    };
    let mut device = Device::new(at, directory, class, id);
    device.port = Some(port);
    device.driver = Some(driver);
    device.numa = above.map_or(0, |bridge| bridge.numa);
    if matches!(port, PortType::RootPort | PortType::Downstream) {
        let on = spec.acs.unwrap_or(spec.group_type().is_some());
        device.acs = Some((ACS_CAPABLE, if on { ACS_BY_LINUX } else { 0 }));
    }
    if described.is == Some(FunctionKind::Nic) {
        let name = at.to_string().replace([':', '.'], "");
        let infiniband = Some(format!("mlx5_{name}"));
        device.network = Some(Port::ethernet(format!("net{name}"), infiniband));
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
    device.link = described.link_max.unwrap_or(device.link);
    device.link_now = described.link_now.or(device.link_now);
    device.errors = described.errors.unwrap_or(device.errors);
    let control = &mut device.control;
    control.payload = described.payload.unwrap_or(control.payload);
    control.read_request = described.read_request.unwrap_or(control.read_request);
    control.relaxed_ordering = described.relaxed_ordering.unwrap_or(control.relaxed_ordering);
    control.ari = described.ari.unwrap_or(control.ari);
    control.bus_master = described.bus_master.unwrap_or(control.bus_master);
    control.answers = described.answers.unwrap_or(control.answers);
    if described.vpd.is_some() || described.board.is_some() {
        let value = |given: &Option<String>| given.clone().unwrap_or_default();
        let name = "NVIDIA ConnectX SuperNIC";
        device.vpd = Some(vpd(name, &value(&described.board), &value(&described.vpd)));
    }
}

/// Builds Vital Product Data as on a ConnectX: its name, then the read-only keywords (PCI 3.0, appendix I). They
/// include the board's serial number and, as V3, a UUID shared by all functions of an adapter (rdma-core
/// kernel-boot/rdma_topo parse_vpd).
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
