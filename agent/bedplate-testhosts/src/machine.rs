//! PCI topology of the fake machines. Topologies and ids follow the real machines; `device` builds single functions.

mod grace;
mod x86;

use std::collections::BTreeMap;

use super::device::{ACS_BY_LINUX, ACS_CAPABLE, Device, Port, Sriov};
use super::function;
use super::spec::{HostSpec, Machine, Nvidia};
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::PortType;
use bedplate_host::snapshot::{Node, Snapshot};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Start of memory windows: above 4 GiB, as with Above 4G Decoding.
const WINDOWS: u64 = 0x2000_0000_0000;

/// Root ports of Vera CPUs: their P2P Completion Redirect is read-only and 0 (handbook §14.1).
const VERA_ROOT_PORTS: [(u16, u16); 2] = [(0x10de, 0x2f95), (0x10de, 0x2f96)];
const ACS_OF_VERA: u16 = ACS_CAPABLE & !0x0008;

/// Adds the machine's PCI functions to a running host.
pub(crate) fn pci(spec: &HostSpec, snapshot: &mut Snapshot) {
    let mut layout = Layout { spec, domain: 0, devices: Vec::new(), names: 0, disks: 0 };
    loop {
        match spec.machine {
            Machine::Hgx => layout.hgx(),
            Machine::Mi300x => layout.mi300x(),
            Machine::B300 => layout.b300(),
            Machine::EpycL40s => layout.epyc_l40s(),
            Machine::Grace => layout.grace(),
            Machine::Gb200 => layout.gb200(),
            Machine::Gb300 => layout.gb300(),
            Machine::VeraRubin => layout.vera_rubin(),
            Machine::DgxSpark => layout.dgx_spark(),
            Machine::Plain => layout.plain(),
            Machine::Bare => {}
        }
        if layout.devices.len() >= spec.functions || spec.machine == Machine::Bare {
            break;
        }
    }
    function::describe(spec, &mut layout.devices);
    layout.groups(snapshot);
    super::nic::answers(spec, &layout.devices, snapshot);
    super::nodes::put(&layout.devices, snapshot);
    let length = if spec.unprivileged { 64 } else { 4096 };
    let mut windows = WINDOWS;
    for device in &layout.devices {
        device.write(snapshot, &mut windows, length);
    }
}

/// Model of a network adapter.
struct Adapter {
    device: u16,
    name: &'static str,
    /// Mask for the bits of the adapter number that form the board's serial number: several adapters may share a board.
    board: u32,
}

const CONNECTX_7: Adapter = Adapter { device: 0x1021, name: "NVIDIA ConnectX-7", board: u32::MAX };

impl Adapter {
    /// Returns the Vital Product Data of its functions.
    fn vpd(&self, number: u32) -> Vec<u8> {
        let (board, uuid) =
            (format!("MT0000{:06X}", number & self.board), format!("{number:032x}"));
        function::vpd(self.name, &board, &uuid)
    }
}

/// Returns the number of the adapter on a bus.
fn adapter_number(bus: &Bus) -> u32 {
    bus.domain << 8 | u32::from(bus.number)
}

/// Parent of functions: a host bridge, or a bridge with its secondary bus.
#[derive(Clone)]
struct Bus {
    directory: String,
    domain: u32,
    number: u8,
    numa: i32,
}

struct Layout<'a> {
    spec: &'a HostSpec,
    /// Next free PCI domain.
    domain: u32,
    devices: Vec<Device>,
    /// Number of RDMA devices so far.
    names: u32,
    /// Number of disks so far.
    disks: u32,
}

impl Layout<'_> {
    fn root(&self, number: u8, numa: i32) -> Bus {
        let directory = format!("/sys/devices/pci{:04x}:{number:02x}", self.domain);
        Bus { directory, domain: self.domain, number, numa }
    }

    fn nvidia_if_installed(&self) -> Option<&'static str> {
        (self.spec.nvidia_driver() != Nvidia::None).then_some("nvidia")
    }

    fn device(&self, bus: &Bus, slot: u8, function: u8, class: u32, id: (u16, u16)) -> Device {
        let address = PciAddress { domain: bus.domain, bus: bus.number, device: slot, function };
        let mut device = Device::new(address, format!("{}/{address}", bus.directory), class, id);
        device.numa = bus.numa;
        device
    }

    fn add(&mut self, mut device: Device) {
        if self.spec.vfio.contains(&device.address) {
            device.driver = Some("vfio-pci");
            device.network = None;
            device.disk = None;
        }
        self.devices.push(device);
    }

    /// Adds passive functions as (slot, function, class, device id).
    fn fill(&mut self, bus: &Bus, vendor: u16, functions: &[(u8, u8, u32, u16)]) {
        for (slot, function, class, id) in functions {
            let mut device = self.device(bus, *slot, *function, *class, (vendor, *id));
            device.port = Some(PortType::IntegratedEndpoint);
            self.add(device);
        }
    }

    /// Adds a bridge; `buses` are its secondary and its last bus.
    fn bridge(
        &mut self,
        bus: &Bus,
        slot: (u8, u8),
        id: (u16, u16),
        kind: PortType,
        buses: (u8, u8),
    ) -> Bus {
        let mut bridge = self.device(bus, slot.0, slot.1, 0x06_0400, id);
        bridge.port = Some(kind);
        bridge.driver = (kind != PortType::PcieToPci).then_some("pcieport");
        bridge.buses = buses;
        bridge.link = (5, 16);
        if matches!(kind, PortType::RootPort | PortType::Downstream) {
            let on = self.spec.acs.unwrap_or(self.spec.group_type().is_some());
            let capable = if VERA_ROOT_PORTS.contains(&id) { ACS_OF_VERA } else { ACS_CAPABLE };
            let usual = if on { ACS_BY_LINUX & capable } else { 0 };
            let own = self.spec.acs_control.get(&bridge.address);
            bridge.acs = Some((capable, own.copied().unwrap_or(usual)));
        }
        let below = Bus { directory: bridge.directory.clone(), number: buses.0, ..bus.clone() };
        self.add(bridge);
        below
    }

    /// Adds a root port with a switch below it; returns one bus per downstream port.
    fn switch(&mut self, root: &Bus, slot: (u8, u8), root_id: (u16, u16), ports: u8) -> Vec<Bus> {
        const PEX: (u16, u16) = (0x1000, 0xc030);
        let first = root.number + 1;
        let last = first + 1 + ports;
        let link = self.bridge(root, slot, root_id, PortType::RootPort, (first, last));
        let inside = self.bridge(&link, (0, 0), PEX, PortType::Upstream, (first + 1, last));
        (0..ports)
            .map(|port| {
                let bus = first + 2 + port;
                self.bridge(&inside, (port, 0), PEX, PortType::Downstream, (bus, bus))
            })
            .collect()
    }

    fn gpu(&mut self, bus: &Bus, class: u32, id: (u16, u16), driver: Option<&'static str>) {
        let id = self.spec.gpu.map_or(id, |gpu| gpu.0);
        let mut gpu = self.device(bus, 0, 0, class, id);
        gpu.driver = driver;
        gpu.subsystem = (id.0, 0x16c1);
        let window = match id {
            // MI300X, H200, B200.
            (0x1002, 0x74a1) | (0x10de, 0x2335 | 0x2901) => 256 * GIB,
            _ => 128 * GIB,
        };
        gpu.windows = vec![(0, 16 * MIB), (2, window), (4, 32 * MIB)];
        gpu.link = (5, 16);
        self.add(gpu);
    }

    fn nvme(&mut self, bus: &Bus) {
        let mut disk = self.device(bus, 0, 0, 0x01_0802, (0x144d, 0xa80a));
        disk.driver = Some("nvme");
        disk.subsystem = (0x144d, 0xaa8b);
        disk.windows = vec![(0, 16 << 10)];
        disk.link = (5, 4);
        disk.disk = Some(format!("nvme{}", self.disks));
        self.disks += 1;
        self.add(disk);
    }

    /// Adds a ConnectX-7 with its VFs.
    fn connectx7(&mut self, bus: &Bus, is_infiniband: bool) {
        self.connectx(bus, &CONNECTX_7, 0, is_infiniband);
    }

    /// Adds a port of a ConnectX or BlueField adapter with its VFs.
    fn connectx(&mut self, bus: &Bus, model: &Adapter, function: u8, is_infiniband: bool) {
        let class = if is_infiniband { 0x02_0700 } else { 0x02_0000 };
        let mut pf = self.device(bus, 0, function, class, (0x15b3, model.device));
        pf.driver = Some("mlx5_core");
        pf.subsystem = (0x15b3, 0x0041);
        pf.windows = vec![(0, 32 * MIB), (7, 16 * MIB)];
        pf.link = (5, 16);
        let net = format!("{}p{}s0", if is_infiniband { "ib" } else { "en" }, bus.number);
        let net = if bus.domain == 0 {
            net
        } else {
            format!("{}P{}{}", &net[..2], bus.domain, &net[2..])
        };
        let net = if function == 0 { net } else { format!("{net}f{function}") };
        pf.network = Some(self.port(&net, is_infiniband));
        pf.vpd = Some(model.vpd(adapter_number(bus)));
        // VF i has the routing id of its PF + first offset (1) + i * stride (1).
        let vf_address = |index: u16| PciAddress {
            device: ((index + 1) / 8 % 32) as u8,
            function: ((index + 1) % 8) as u8,
            ..pf.address
        };
        // Two ports of one adapter would need different first offsets.
        let wanted = if function == 0 { self.spec.vfs.min(16) } else { 0 };
        let vfs: Vec<PciAddress> = (0..wanted).map(vf_address).collect();
        pf.sriov = Some(Sriov { total: 16, vf_device: 0x101e, vfs: vfs.clone() });
        pf.ats = self.spec.nic_ats.then_some(true);
        let pf_address = pf.address;
        self.add(pf);
        for (index, address) in (0u16..).zip(vfs) {
            let mut vf =
                self.device(bus, address.device, address.function, class, (0x15b3, 0x101e));
            vf.driver = Some("mlx5_core");
            vf.subsystem = (0x15b3, 0x0041);
            vf.physfn = Some(pf_address);
            let guid = super::nic::vf_guid(self.spec, pf_address, is_infiniband, index);
            vf.network = Some(Port { guid, ..self.port(&format!("{net}v{index}"), is_infiniband) });
            self.add(vf);
        }
    }

    fn port(&mut self, net: &str, is_infiniband: bool) -> Port {
        self.names += 1;
        let infiniband = Some(format!("mlx5_{}", self.names - 1));
        Port { is_infiniband, ..Port::ethernet(net.to_owned(), infiniband) }
    }

    /// Adds a two-port Ethernet adapter for management, without RDMA.
    fn management(&mut self, bus: &Bus) {
        for function in 0..2 {
            let mut nic = self.device(bus, 0, function, 0x02_0000, (0x8086, 0x1563));
            nic.driver = Some("ixgbe");
            nic.subsystem = (0x8086, 0x0001);
            nic.link = (3, 4);
            nic.windows = vec![(0, 4 * MIB)];
            let net = format!("enp{}s0f{function}", bus.number);
            let net = if bus.domain == 0 { net } else { format!("enP{}{}", bus.domain, &net[2..]) };
            nic.network = Some(Port::ethernet(net, None));
            nic.sriov = Some(Sriov { total: 63, vf_device: 0x1565, vfs: Vec::new() });
            self.add(nic);
        }
    }

    fn hgx(&mut self) {
        const ROOT_PORT: (u16, u16) = (0x8086, 0x352a);
        let nvidia = self.nvidia_if_installed();
        for (number, numa) in [(0x00, 0), (0x15, 0), (0x26, 0), (0x37, 0), (0x48, 0), (0x59, 0)]
            .into_iter()
            .chain([(0x80, 1), (0x97, 1), (0xa7, 1), (0xb7, 1), (0xc7, 1), (0xd7, 1)])
        {
            let root = self.root(number, numa);
            let system =
                [(0, 0, 0x08_8000, 0x09a2), (0, 1, 0x08_8000, 0x09a4), (0, 2, 0x08_8000, 0x09a3)];
            self.fill(&root, 0x8086, &system);
            self.fill(&root, 0x8086, &[(0, 4, 0x08_0700, 0x0b23)]);
            match number {
                0x00 => self.chipset(&root),
                0x15 | 0x26 | 0x97 | 0xa7 => {
                    let ports = self.switch(&root, (1, 0), ROOT_PORT, 8);
                    for pair in ports.chunks(2).take(2) {
                        self.gpu(&pair[0], 0x03_0200, (0x10de, 0x2330), nvidia);
                        self.connectx7(&pair[1], true);
                    }
                    self.nvme(&ports[4]);
                    self.nvme(&ports[5]);
                }
                // Boards with other GPUs have different NVSwitches, or ones not visible on PCI.
                0x37 if self.spec.gpu.is_none() => {
                    for port in self.switch(&root, (1, 0), ROOT_PORT, 4) {
                        let mut switch = self.device(&port, 0, 0, 0x06_8000, (0x10de, 0x22a3));
                        switch.driver = nvidia.map(|_| "nvidia-nvswitch");
                        switch.windows = vec![(0, 32 * MIB)];
                        self.add(switch);
                    }
                }
                0x48 => {
                    let port =
                        self.bridge(&root, (1, 0), ROOT_PORT, PortType::RootPort, (0x49, 0x49));
                    self.nvme(&port);
                }
                0x59 => {
                    let port =
                        self.bridge(&root, (1, 0), ROOT_PORT, PortType::RootPort, (0x5a, 0x5a));
                    self.management(&port);
                }
                _ => {}
            }
        }
        for (number, numa) in [(0x7e, 0), (0x7f, 0), (0xfe, 1), (0xff, 1)] {
            let uncore: Vec<(u8, u8, u32, u16)> = (0..34u8)
                .map(|index| (index / 4 + 1, index % 4, 0x08_8000, 0x3240 + u16::from(index / 4)))
                .collect();
            self.fill(&self.root(number, numa), 0x8086, &uncore);
        }
        self.domain += 1;
    }

    /// Adds the chipset of an Intel server, with the BMC's display behind a conventional bridge.
    fn chipset(&mut self, root: &Bus) {
        let functions = [
            (0x11, 0, 0xff_0000, 0x1bec),
            (0x14, 0, 0x0c_0330, 0x1bcd),
            (0x14, 2, 0x05_0000, 0x1bce),
            (0x15, 0, 0x11_8000, 0x1bff),
            (0x16, 0, 0x07_8000, 0x1be0),
            (0x17, 0, 0x01_0601, 0x1bf2),
            (0x1f, 0, 0x06_0100, 0x1b81),
            (0x1f, 4, 0x0c_0500, 0x1bc9),
            (0x1f, 5, 0x0c_8000, 0x1bca),
        ];
        self.fill(root, 0x8086, &functions);
        let port = self.bridge(root, (0x1c, 0), (0x8086, 0x1bbc), PortType::RootPort, (1, 2));
        let conventional =
            self.bridge(&port, (0, 0), (0x1a03, 0x1150), PortType::PcieToPci, (2, 2));
        let mut vga = self.device(&conventional, 0, 0, 0x03_0000, (0x1a03, 0x2000));
        vga.driver = Some("ast");
        vga.port = None;
        vga.windows = vec![(0, 64 * MIB)];
        self.add(vga);
    }

    fn plain(&mut self) {
        let root = self.root(0, -1);
        self.fill(&root, 0x8086, &[(0, 0, 0x06_0000, 0x09a2), (0x1f, 0, 0x06_0100, 0x1b81)]);
        let port = self.bridge(&root, (1, 0), (0x8086, 0x352a), PortType::RootPort, (1, 1));
        self.management(&port);
        self.domain += 1;
    }

    /// Assigns group numbers and types. With ACS every function has its own group; without, all functions below a root
    /// port share one.
    fn groups(&mut self, snapshot: &mut Snapshot) {
        let Some(kind) = self.spec.group_type() else { return };
        let alone = self.spec.acs.unwrap_or(true);
        let mut together: BTreeMap<String, u32> = BTreeMap::new();
        let places: BTreeMap<PciAddress, String> =
            self.devices.iter().map(|device| (device.address, device.directory.clone())).collect();
        for device in &mut self.devices {
            let at = device.group_with.unwrap_or(device.address);
            let place = places.get(&at).unwrap_or(&device.directory);
            let path: Vec<&str> = place.split('/').collect();
            let key = if alone { place.clone() } else { path[..path.len().min(5)].join("/") };
            let next = together.len() as u32;
            device.group = Some(*together.entry(key).or_insert(next));
        }
        for number in 0..together.len() {
            let file = Node::File(format!("{kind}\n").into_bytes());
            snapshot.insert(&format!("/sys/kernel/iommu_groups/{number}/type"), file);
        }
    }
}
