//! One fake PCI function: its config space with realistic capabilities, and its sysfs directory. Registers follow
//! include/uapi/linux/pci_regs.h.

use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::Guid;
use bedplate_facts::aer;
use bedplate_facts::pci::PortType;
use bedplate_host::snapshot::Config;

/// ACS capabilities of switch and root ports: all but egress control.
pub(crate) const ACS_CAPABLE: u16 = 0x005f;
/// ACS bits that Linux enables with an active IOMMU: SV, RR, CR, UF (handbook §3.2).
pub(crate) const ACS_BY_LINUX: u16 = 0x001d;

/// SR-IOV state of a PF.
#[derive(Debug, Clone)]
pub(crate) struct Sriov {
    /// TotalVFs.
    pub total: u16,
    /// Device id of the VFs.
    pub vf_device: u16,
    /// Existing VFs, in order.
    pub vfs: Vec<PciAddress>,
}

/// Registers of a PCI Express function except its type.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    /// Max_Payload_Size in bytes.
    pub payload: u16,
    /// Max_Read_Request_Size in bytes.
    pub read_request: u16,
    /// Whether Relaxed Ordering is enabled.
    pub relaxed_ordering: bool,
    /// Whether ARI forwarding is enabled, on a port that supports it.
    pub ari: bool,
    /// Whether bus mastering is enabled.
    pub bus_master: bool,
    /// Whether it answers reads of its config space.
    pub answers: bool,
}

/// Network port of a function.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// Interface name.
    pub net: String,
    /// RDMA device name.
    pub infiniband: Option<String>,
    /// Whether it is InfiniBand rather than Ethernet.
    pub is_infiniband: bool,
    /// Node GUID; `None`: derived from the address.
    pub guid: Option<Guid>,
}

impl Port {
    /// Returns the port of an Ethernet function.
    pub(crate) fn ethernet(net: String, infiniband: Option<String>) -> Self {
        Port { net, infiniband, is_infiniband: false, guid: None }
    }
}

/// A fake PCI function.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    /// PCI address.
    pub address: PciAddress,
    /// Directory in sysfs (`/sys/devices/pci0000:16/…`).
    pub directory: String,
    /// 24-bit class.
    pub class: u32,
    /// Vendor and device id.
    pub id: (u16, u16),
    /// Subsystem vendor and device id.
    pub subsystem: (u16, u16),
    /// Driver.
    pub driver: Option<&'static str>,
    /// Driver in the description, overriding `driver`; empty: unbound.
    pub other_driver: Option<String>,
    /// PCIe port type; `None`: conventional PCI.
    pub port: Option<PortType>,
    /// ACS capability and control, for ports.
    pub acs: Option<(u16, u16)>,
    /// Whether ATS is enabled, for functions that have it.
    pub ats: Option<bool>,
    /// Whether a VFIO device is registered for it.
    pub vfio_dev: bool,
    /// Secondary and subordinate bus, for bridges.
    pub buses: (u8, u8),
    /// NUMA node.
    pub numa: i32,
    /// IOMMU group.
    pub group: Option<u32>,
    /// Function with which it shares an IOMMU group, regardless of the ports in between.
    pub group_with: Option<PciAddress>,
    /// Memory windows: (resource line, size).
    pub windows: Vec<(usize, u64)>,
    /// Maximum link speed in units of the LnkSta field (5 = 32 GT/s), and width.
    pub link: (u8, u8),
    /// Trained speed and width, if below the maximum.
    pub link_now: Option<(u8, u8)>,
    /// PCI Express device control.
    pub control: Control,
    /// AER error counts: corrected, non-fatal, fatal.
    pub errors: [u64; 3],
    /// SR-IOV.
    pub sriov: Option<Sriov>,
    /// Vital Product Data, as in the `vpd` file.
    pub vpd: Option<Vec<u8>>,
    /// PF of a VF.
    pub physfn: Option<PciAddress>,
    /// Network.
    pub network: Option<Port>,
    /// Controller name of a disk with a driver.
    pub disk: Option<String>,
}

impl Device {
    /// Returns a function without special properties.
    pub(crate) fn new(address: PciAddress, directory: String, class: u32, id: (u16, u16)) -> Self {
        Device {
            address,
            directory,
            class,
            id,
            subsystem: (0, 0),
            driver: None,
            other_driver: None,
            port: Some(PortType::Endpoint),
            acs: None,
            ats: None,
            vfio_dev: false,
            buses: (0, 0),
            numa: 0,
            group: None,
            group_with: None,
            windows: Vec::new(),
            link: (0, 0),
            link_now: None,
            control: Control {
                payload: 512,
                read_request: 512,
                relaxed_ordering: true,
                ari: true,
                bus_master: true,
                answers: true,
            },
            errors: [0; 3],
            sriov: None,
            vpd: None,
            physfn: None,
            network: None,
            disk: None,
        }
    }

    /// Returns the name of the bound driver.
    pub(crate) fn bound(&self) -> Option<&str> {
        self.other_driver.as_deref().or(self.driver).filter(|driver| !driver.is_empty())
    }

    fn is_bridge(&self) -> bool {
        self.class >> 8 == 0x0604
    }

    pub(crate) fn attributes(&self, address_space: &mut u64) -> Vec<(&'static str, String)> {
        let (vendor, device) = self.id;
        let (sub_vendor, sub_device) = self.subsystem;
        let mut files = vec![
            ("vendor", format!("0x{vendor:04x}\n")),
            ("device", format!("0x{device:04x}\n")),
            ("subsystem_vendor", format!("0x{sub_vendor:04x}\n")),
            ("subsystem_device", format!("0x{sub_device:04x}\n")),
            ("class", format!("0x{:06x}\n", self.class)),
            ("revision", "0x01\n".to_owned()),
            ("irq", "0\n".to_owned()),
            ("numa_node", format!("{}\n", self.numa)),
            ("resource", self.resource(address_space)),
            ("driver_override", "(null)\n".to_owned()),
            ("uevent", self.uevent()),
        ];
        if self.link.1 > 0 {
            let speed = |code: u8| {
                ["Unknown", "2.5", "5.0", "8.0", "16.0", "32.0", "64.0"][usize::from(code % 7)]
            };
            let now = self.link_now.unwrap_or(self.link);
            files.extend([
                ("current_link_speed", format!("{} GT/s PCIe\n", speed(now.0))),
                ("max_link_speed", format!("{} GT/s PCIe\n", speed(self.link.0))),
                ("current_link_width", format!("{}\n", now.1)),
                ("max_link_width", format!("{}\n", self.link.1)),
            ]);
        }
        // Linux shows counters for functions with the capability, which VFs here lack.
        if self.port.is_some() && self.physfn.is_none() {
            let counters = aer::FILES.iter().zip(self.errors);
            files.extend(
                counters.map(|((name, total), count)| (*name, format!("{total} {count}\n"))),
            );
        }
        if let Some(sriov) = &self.sriov {
            files.extend([
                ("sriov_totalvfs", format!("{}\n", sriov.total)),
                ("sriov_numvfs", format!("{}\n", sriov.vfs.len())),
                ("sriov_offset", "1\n".to_owned()),
                ("sriov_stride", "1\n".to_owned()),
                ("sriov_vf_device", format!("{:x}\n", sriov.vf_device)),
                ("sriov_drivers_autoprobe", "1\n".to_owned()),
            ]);
        }
        files
    }

    fn uevent(&self) -> String {
        let (vendor, device) = self.id;
        let (sub_vendor, sub_device) = self.subsystem;
        let driver = self.bound().map(|driver| format!("DRIVER={driver}\n")).unwrap_or_default();
        format!(
            "{driver}PCI_CLASS={:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SUBSYS_ID={sub_vendor:04X}:{sub_device:04X}\n\
             PCI_SLOT_NAME={}\n",
            self.class, self.address
        )
    }

    /// Returns thirteen lines `start end flags`; windows are 64-bit prefetchable and naturally aligned.
    fn resource(&self, address_space: &mut u64) -> String {
        let mut lines = vec![(0, 0, 0); 13];
        for (line, size) in &self.windows {
            let start = address_space.next_multiple_of(*size);
            *address_space = start + size;
            lines[line % 13] = (start, start + size - 1, 0x0014_220c_u64);
        }
        lines
            .iter()
            .map(|(start, end, flags)| format!("0x{start:016x} 0x{end:016x} 0x{flags:016x}\n"))
            .collect()
    }

    /// Builds the config space; unspecified registers are zero.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config { length: 4096, rest_is_zero: true, ..Config::default() };
        if !self.control.answers {
            config.add(0, &[0xff; 4096]);
            return config;
        }
        let mut put = |at: u16, value: u32| config.add(at, &value.to_le_bytes());
        let (vendor, device) = self.id;
        // A VF's ids read as all ones; its PF defines them (handbook §5.1).
        put(0x00, if self.physfn.is_some() { u32::MAX } else { pair(vendor, device) });
        let command = if self.port.is_some() { 0x0010_0546 } else { 0x0000_0007 };
        put(0x04, if self.control.bus_master { command } else { command & !0x4 });
        put(0x08, self.class << 8 | 1);
        put(0x0c, if self.is_bridge() { 0x0001_0000 } else { 0 });
        if self.is_bridge() {
            put(0x18, u32::from_le_bytes([self.address.bus, self.buses.0, self.buses.1, 0]));
        } else {
            put(0x2c, pair(self.subsystem.0, self.subsystem.1));
        }
        let Some(port) = self.port else { return config };
        put(0x34, 0x40);
        // Power management, then MSI-X (a bridge: MSI), then PCI Express.
        put(0x40, 0x0003_0001 | if self.is_bridge() { 0x48 } else { 0x50 } << 8);
        if self.is_bridge() {
            put(0x48, 0x0080_6805);
        } else {
            put(0x50, 0x003f_6811);
        }
        self.pcie(port, &mut put);
        self.extended(&mut put);
        config
    }

    fn pcie(&self, port: PortType, put: &mut impl FnMut(u16, u32)) {
        let kind: u32 = match port {
            PortType::Endpoint => 0,
            PortType::LegacyEndpoint => 1,
            PortType::RootPort => 4,
            PortType::Upstream => 5,
            PortType::Downstream => 6,
            PortType::PcieToPci => 7,
            PortType::PciToPcie => 8,
            PortType::IntegratedEndpoint => 9,
            PortType::EventCollector => 10,
            PortType::Reserved(other) => other.into(),
        };
        put(0x68, (kind << 4 | 2) << 16 | 0x0010);
        // Payload 512 supported and set; read requests 512 for endpoints; relaxed ordering and extended tags on.
        put(0x6c, 0x0000_8022);
        let bytes = |size: u16| u32::from(size).ilog2().saturating_sub(7);
        let Control { payload, read_request, relaxed_ordering, ari: forwards, .. } = self.control;
        let ordering = u32::from(relaxed_ordering) << 4;
        put(0x70, 0x0000_0100 | bytes(read_request) << 12 | bytes(payload) << 5 | ordering);
        let link = |(speed, lanes): (u8, u8)| u32::from(lanes) << 4 | u32::from(speed);
        put(0x74, link(self.link));
        put(0x78, link(self.link_now.unwrap_or(self.link)) << 16);
        let ari = self.sriov.is_some() || matches!(port, PortType::RootPort | PortType::Downstream);
        put(0x8c, u32::from(ari) << 5);
        put(0x90, u32::from(ari && forwards && self.is_bridge()) << 5);
    }

    /// Adds the extended capabilities: AER first, as on real devices, then secondary PCI Express, then those of this
    /// function.
    fn extended(&self, put: &mut impl FnMut(u16, u32)) {
        let header = |id: u32, version: u32, next: u32| next << 20 | version << 16 | id;
        if self.physfn.is_some() {
            return put(0x100, header(0x000e, 1, 0));
        }
        put(0x100, header(0x0001, 2, 0x150));
        let mut list: Vec<Capability> = vec![(0x0019, 0x150, Vec::new())];
        if let Some((capable, control)) = self.acs {
            list.push((0x000d, 0x180, vec![(0x4, pair(capable, control))]));
            list.push((0x0026, 0x1a0, Vec::new()));
        }
        if let Some(sriov) = &self.sriov {
            let registers = vec![
                (0x08, u32::from(!sriov.vfs.is_empty()) * 0x9),
                (0x0c, pair(sriov.total, sriov.total)),
                (0x10, sriov.vfs.len() as u32),
                (0x14, pair(1, 1)),
                (0x18, pair(0, sriov.vf_device)),
            ];
            list.push((0x0010, 0x1b0, registers));
        }
        if let Some(enabled) = self.ats {
            list.push((0x000f, 0x200, vec![(0x4, u32::from(enabled) << 31)]));
        }
        for (index, (id, at, registers)) in list.iter().enumerate() {
            let next = list.get(index + 1).map_or(0, |(_, next, _)| u32::from(*next));
            put(*at, header(*id, 1, next));
            registers.iter().for_each(|(offset, value)| put(at + offset, *value));
        }
    }
}

/// An extended capability: its id, offset, and registers by relative offset.
type Capability = (u32, u16, Vec<(u16, u32)>);

/// Combines two 16-bit registers into a dword, lower address first.
fn pair(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}
