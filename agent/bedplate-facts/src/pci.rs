//! PCI tree as typed data: functions, bridges, capabilities, topology.

use std::collections::BTreeMap;

use serde::Serialize;

use super::vpd::Vpd;
use bedplate_base::value::{AcsBits, PciAddress, PciId};
use bedplate_base::{Cause, Reading, Reason};

/// PCIe device/port type, bits 7:4 of the PCIe capability's flags (handbook §7; pci_regs.h PCI_EXP_TYPE_*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortType {
    /// 0: endpoint.
    Endpoint,
    /// 1: legacy endpoint.
    LegacyEndpoint,
    /// 4: root port.
    RootPort,
    /// 5: upstream port of a switch.
    Upstream,
    /// 6: downstream port of a switch.
    Downstream,
    /// 7: PCIe-to-PCI bridge.
    PcieToPci,
    /// 8: PCI-to-PCIe bridge.
    PciToPcie,
    /// 9: root-complex integrated endpoint.
    IntegratedEndpoint,
    /// 10: root-complex event collector.
    EventCollector,
    /// A value the specification does not define.
    Reserved(u8),
}

/// ACS extended capability (id 0x000d).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Acs {
    /// Offset of the capability; control is at `+6` (handbook §3.1).
    pub offset: u16,
    /// Capability register: bits that the port supports.
    pub capable: AcsBits,
    /// Control register: bits that are enabled.
    pub control: AcsBits,
}

impl Acs {
    /// Returns the byte offset of the control register.
    pub fn control_offset(&self) -> u16 {
        self.offset + 6
    }
}

/// SR-IOV state of a physical function, from sysfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SriovPf {
    /// `sriov_totalvfs` (the driver may have lowered it).
    pub total: Reading<u16>,
    /// `sriov_numvfs`.
    pub enabled: Reading<u16>,
    /// `sriov_vf_device`.
    pub vf_device: Reading<PciId>,
    /// `sriov_drivers_autoprobe`.
    pub autoprobe: Reading<bool>,
    /// VFs that exist now, from the `virtfnN` links, in order.
    pub vfs: Vec<PciAddress>,
}

/// Link speed and width, as worded in sysfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Link {
    /// Current speed: `32.0 GT/s PCIe`.
    pub speed: Option<String>,
    /// Current number of lanes.
    pub width: Option<u8>,
    /// Maximum speed.
    pub max_speed: Option<String>,
    /// Maximum lanes.
    pub max_width: Option<u8>,
}

/// Memory or I/O window of a function, one line of `resource` (handbook §6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Line number: 0–5 BARs, 6 ROM, 7–12 VF BARs.
    pub index: u8,
    /// First address; 0 if unassigned.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// The kernel's flags (0x200 memory, 0x2000 prefetch, 0x100000 64-bit, 0x20000000 unset).
    pub flags: u64,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Function {
    /// PCI address.
    pub address: PciAddress,
    /// 24-bit class code.
    pub class: u32,
    /// Vendor.
    pub vendor: PciId,
    /// Device.
    pub device: PciId,
    /// Subsystem vendor and device.
    pub subsystem: (PciId, PciId),
    /// Bound driver.
    pub driver: Option<String>,
    /// Bridge directly above, if any.
    pub parent: Option<PciAddress>,
    /// Root bus, as named in sysfs (`pci0000:16`).
    pub root: String,
    /// NUMA node; −1: not set by the firmware.
    pub numa_node: Reading<i32>,
    /// IOMMU group number.
    pub iommu_group: Reading<u32>,
    /// PCIe port type; `Absent`: conventional PCI. Read for bridges; a thorough scan reads it for all functions that
    /// [take part](Self::takes_part).
    pub port: Reading<PortType>,
    /// ACS; `Absent`: not supported. Read for bridges; a thorough scan reads it for all functions that take part.
    pub acs: Reading<Acs>,
    /// PF that this VF belongs to.
    pub physfn: Option<PciAddress>,
    /// SR-IOV state of a PF; `Absent`: not a PF.
    pub sriov: Reading<SriovPf>,
    /// Network interface names, sorted; read only for network-class functions.
    pub net: Vec<String>,
    /// RDMA device names, sorted; read only for network-class functions.
    pub infiniband: Vec<String>,
    /// Whether the function is reserved for a VM: bound to a VFIO driver, or with a registered VFIO device.
    #[serde(skip)]
    pub vfio: bool,
    /// Whether ATS is enabled; `Absent`: not supported. Read for NICs behind a switch. A thorough scan reads it for all
    /// functions that take part and shows it in `detail`.
    #[serde(skip)]
    pub ats: Reading<bool>,
    /// Vital Product Data, which holds serial numbers; read for NICs when there is a Data Direct function to pair.
    #[serde(skip)]
    pub vpd: Reading<Vpd>,
    /// Data of a thorough scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

/// Data that planning does not need and reports show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// Link state, as worded in sysfs.
    pub link: Link,
    /// Whether the function may issue requests, and a bridge may forward them upstream.
    pub bus_master: Reading<bool>,
    /// Windows in use, in line order; read only for GPUs and network functions.
    pub bars: Vec<Bar>,
    /// Device control; `Absent`: conventional PCI, or a VF (its bits are reserved; handbook §7).
    pub control: Reading<DeviceControl>,
    /// Whether Address Translation Services are enabled; `Absent`: not supported.
    pub ats: Reading<bool>,
    /// SR-IOV extended capability; `Absent`: not a PF.
    pub sriov: Reading<SriovCapability>,
}

/// Fields of the PCIe device control and capability registers (handbook §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DeviceControl {
    /// Max_Payload_Size in bytes.
    pub max_payload: u16,
    /// Largest payload supported, in bytes.
    pub max_payload_supported: u16,
    /// Max_Read_Request_Size in bytes.
    pub max_read_request: u16,
    /// Whether Relaxed Ordering is enabled.
    pub relaxed_ordering: bool,
    /// Whether extended tags are enabled.
    pub extended_tags: bool,
    /// Whether ARI forwarding is enabled; `None`: a capability without the second register set.
    pub ari_forwarding: Option<bool>,
}

/// SR-IOV extended capability (id 0x0010).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SriovCapability {
    /// TotalVFs.
    pub total: u16,
    /// First VF Offset, in routing ids.
    pub first_offset: u16,
    /// VF Stride.
    pub stride: u16,
    /// VF Device ID.
    pub vf_device: PciId,
}

/// AMD (then ATI) device ids of console graphics in servers: Rage XL (4752), Radeon 7000/VE (5159), ES1000 (515e). In
/// pci.ids their subsystems are servers and BMCs.
const BMC_GRAPHICS: [u16; 3] = [0x4752, 0x5159, 0x515e];

impl Function {
    /// Returns the path of a sysfs attribute.
    pub fn attribute(&self, name: &str) -> String {
        format!("/sys/bus/pci/devices/{}/{name}", self.address)
    }

    /// Whether this is a PCI-to-PCI bridge (class 0x0604).
    pub fn is_bridge(&self) -> bool {
        self.class >> 8 == 0x0604
    }

    /// Whether this is a network controller: Ethernet (0x0200), InfiniBand (0x0207) or another of class 0x02;
    /// InfiniBand with old firmware, classified as a serial bus (0x0c06); virtio-net of any class
    /// (include/linux/pci_ids.h; virtio 1.2, 4.1.2). Excludes the ConnectX-7 that manages NVSwitches, which jobs do not
    /// use.
    pub fn is_nic(&self) -> bool {
        if self.is_switch_manager() {
            return false;
        }
        let virtio_net = (self.vendor.0, self.device.0);
        self.class >> 16 == 0x02
            || self.class >> 8 == 0x0c06
            || matches!(virtio_net, (0x1af4, 0x1000 | 0x1041))
    }

    /// Whether this is the DMA function of a ConnectX-8: a separate path to a GPU, elsewhere in the tree than the NIC
    /// (handbook §14.1).
    pub fn is_data_direct(&self) -> bool {
        (self.vendor.0, self.device.0) == (0x15b3, 0x2100)
    }

    /// Whether this is a function of the ConnectX-7 that manages the NVSwitches of a B200 or B300 board (handbook
    /// §6.5).
    pub fn is_switch_manager(&self) -> bool {
        self.vpd.known().is_some_and(|vpd| vpd.manages_switches)
    }

    /// Whether this is an NVM Express controller.
    pub fn is_nvme(&self) -> bool {
        self.class >> 8 == 0x0108
    }

    /// Whether this is an NVIDIA NVSwitch: an "other" bridge (class 0x0680) with NVIDIA's vendor id (handbook §6.1).
    pub fn is_nvswitch(&self) -> bool {
        self.class >> 8 == 0x0680 && self.vendor.0 == 0x10de
    }

    /// Whether traffic between GPUs, NICs and disks passes through the function or ends in it: bridges, displays,
    /// coprocessors and accelerators (classes 0x03, 0x0b, 0x12), network functions, mass storage (0x01), NVSwitches,
    /// Data Direct functions, VFs, and functions reserved for VMs.
    pub fn takes_part(&self) -> bool {
        self.is_bridge()
            || matches!(self.class >> 16, 0x01 | 0x03 | 0x0b | 0x12)
            || self.is_nic()
            || self.is_nvswitch()
            || self.is_data_direct()
            || self.is_vf()
            || self.vfio
    }

    /// Whether this is a GPU or accelerator: display class 0x03 from NVIDIA or AMD, display controller 0x0380 from Intel,
    /// or processing accelerator 0x1200 from any vendor (handbook §6.1). Excludes BMC graphics.
    pub fn is_gpu(&self) -> bool {
        if self.vendor.0 == 0x1002 && BMC_GRAPHICS.contains(&self.device.0) {
            return false;
        }
        let accelerator = self.class >> 8 == 0x1200;
        let display = self.class >> 16 == 0x03;
        match self.vendor.0 {
            0x10de | 0x1002 => accelerator || display,
            // Intel makes integrated graphics too; only its data-centre parts are processing accelerators or 0x0380.
            0x8086 => accelerator || self.class >> 8 == 0x0380,
            _ => accelerator,
        }
    }

    /// Whether the function is known not to answer reads of its config space (all ones). Requires a thorough scan.
    pub fn is_dead(&self) -> bool {
        let command = self.detail.as_ref().map(|detail| &detail.bus_master);
        matches!(command, Some(Reading::Unknown(why)) if why.cause == Cause::NoAnswer)
    }

    /// Whether control and link registers are meaningless: those of a VF are reserved. In a VM no PF identifies a VF,
    /// but ConnectX VFs have their own ids (Linux drivers/net/ethernet/mellanox/mlx5/core/main.c, MLX5_PCI_DEV_IS_VF).
    pub fn has_reserved_registers(&self) -> bool {
        const VFS: [u16; 8] = [0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e, 0xa2d3];
        self.is_vf() || self.vendor.0 == 0x15b3 && VFS.contains(&self.device.0)
    }

    /// Whether this is a virtual function.
    pub fn is_vf(&self) -> bool {
        self.physfn.is_some()
    }
}

/// All functions, by address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct PciTree {
    /// All functions, sorted by address.
    pub functions: BTreeMap<PciAddress, Function>,
    /// Unreadable parts, in scan order; nothing is reported about them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<UnreadFunction>,
    /// Unlisted bridges, known from the links of functions below them, each with the bridge above it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hidden: BTreeMap<PciAddress, Option<PciAddress>>,
    /// Functions reserved for VMs that are not in `functions` because they are not listed or not understood. Includes
    /// those with an unreadable driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted_guests: Vec<UnlistedGuest>,
    /// Functions with an unreadable driver, and the reason. Each may be assigned to a VM. Bridges are left out; VMs do
    /// not get them.
    #[serde(skip)]
    pub unread_drivers: BTreeMap<PciAddress, Reason>,
}

/// An unlisted function that is assigned to a VM, by its VFIO device or driver, or may be, because its driver is
/// unreadable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnlistedGuest {
    /// PCI address.
    pub address: PciAddress,
    /// Host bridge; empty if its location is unknown.
    pub root: String,
    /// Bridges above it, nearest first.
    pub above: Vec<PciAddress>,
}

/// Whether a driver hands its functions to VMs: VFIO drivers have "vfio" in their names, Xen's does not
/// (drivers/xen/xen-pciback/pci_stub.c).
pub fn serves_guests(driver: &str) -> bool {
    driver.contains("vfio") || is_xen_back(driver)
}

/// Whether this is the driver with which a Xen dom0 reserves functions for its VMs.
pub fn is_xen_back(driver: &str) -> bool {
    matches!(driver, "pciback" | "xen-pciback")
}

/// An unreadable part of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadFunction {
    /// PCI address.
    pub address: PciAddress,
    /// Whether everything is unknown but the address, even the class.
    #[serde(skip)]
    pub whole: bool,
    /// Missing part, and the reason.
    pub reason: Reason,
}

impl PciTree {
    /// Returns the function at an address.
    pub fn get(&self, address: PciAddress) -> Option<&Function> {
        self.functions.get(&address)
    }

    /// Whether a VM has this function, or may have it.
    pub fn may_be_a_guests(&self, function: &Function) -> bool {
        function.vfio || self.unread_drivers.contains_key(&function.address)
    }

    /// Returns the functions that exist but are completely unreadable.
    pub fn unread(&self) -> Vec<&UnreadFunction> {
        self.gaps.iter().filter(|gap| gap.whole).collect()
    }

    /// Returns the bridges above a function, nearest first. A VF has the location of its PF.
    pub fn path_up(&self, address: PciAddress) -> Vec<PciAddress> {
        let start = self.get(address).and_then(|f| f.physfn).unwrap_or(address);
        // Nested switches are rarely deeper.
        let mut path = Vec::with_capacity(8);
        let above = |address| match self.get(address) {
            Some(function) => function.parent,
            None => self.hidden.get(&address).copied().flatten(),
        };
        let mut at = above(start);
        while let Some(bridge) = at {
            // A recorded tree can have wrong parents; a loop must not hang the program.
            if path.contains(&bridge) {
                break;
            }
            path.push(bridge);
            at = above(bridge);
        }
        path
    }
}
