//! The PCI tree as typed data: functions, bridges, capabilities, topology.

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

/// The ACS extended capability (id 0x000d).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Acs {
    /// Offset of the capability; control is at `+6` (handbook §3.1).
    pub offset: u16,
    /// Capability register: what the port can do.
    pub capable: AcsBits,
    /// Control register: what is switched on now.
    pub control: AcsBits,
}

impl Acs {
    /// Byte offset of the control register.
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
    /// Its VFs present now, from the `virtfnN` links, in order.
    pub vfs: Vec<PciAddress>,
}

/// Link speed and width, as sysfs words them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Link {
    /// `32.0 GT/s PCIe`.
    pub speed: Option<String>,
    /// Lanes.
    pub width: Option<u8>,
    /// Maximum speed.
    pub max_speed: Option<String>,
    /// Maximum lanes.
    pub max_width: Option<u8>,
}

/// One memory or I/O window of a function, a line of `resource` (handbook §6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Line number: 0–5 BARs, 6 ROM, 7–12 VF BARs.
    pub index: u8,
    /// First address; 0 when no address was given.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The kernel's flags (0x200 memory, 0x2000 prefetch, 0x100000 64-bit, 0x20000000 unset).
    pub flags: u64,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Its address.
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
    /// The bridge directly above, if any.
    pub parent: Option<PciAddress>,
    /// Root bus it hangs from, as sysfs names it (`pci0000:16`).
    pub root: String,
    /// NUMA node; −1 = the firmware gave none.
    pub numa_node: Reading<i32>,
    /// IOMMU group number.
    pub iommu_group: Reading<u32>,
    /// PCIe port type; `Absent` = conventional PCI; read for bridges (and by a thorough scan for all
    /// that [take part](Self::takes_part)).
    pub port: Reading<PortType>,
    /// ACS; `Absent` = known to have none; read for bridges (and by a thorough scan for all that take part).
    pub acs: Reading<Acs>,
    /// The PF this VF belongs to.
    pub physfn: Option<PciAddress>,
    /// SR-IOV side of a PF; `Absent` = not a PF.
    pub sriov: Reading<SriovPf>,
    /// Network interface names, sorted; only looked for on network-class functions.
    pub net: Vec<String>,
    /// RDMA device names, sorted; only looked for on network-class functions.
    pub infiniband: Vec<String>,
    /// Whether it is there for a guest: a driver that claims devices for VFIO, or a VFIO device registered for it.
    #[serde(skip)]
    pub vfio: bool,
    /// ATS: whether switched on; `Absent` = the function has none. Read for NICs behind a switch (and by a thorough scan for
    /// all that take part, which shows it in `detail`).
    #[serde(skip)]
    pub ats: Reading<bool>,
    /// Vital Product Data, which holds serial numbers; read for NICs where there is a Data Direct function to pair.
    #[serde(skip)]
    pub vpd: Reading<Vpd>,
    /// What only a thorough scan reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

/// What planning does not need and people want to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// Link, as sysfs words it.
    pub link: Link,
    /// Whether it may issue requests, and a bridge forward them upstream.
    pub bus_master: Reading<bool>,
    /// Windows in use, in line order; only looked for on GPUs and network functions.
    pub bars: Vec<Bar>,
    /// Device control; `Absent` = conventional PCI, or a VF (its bits are reserved; handbook §7).
    pub control: Reading<DeviceControl>,
    /// Address Translation Services: whether switched on; `Absent` = the function has none.
    pub ats: Reading<bool>,
    /// The SR-IOV extended capability; `Absent` = not a PF.
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
    /// Relaxed Ordering enabled.
    pub relaxed_ordering: bool,
    /// Extended tags enabled.
    pub extended_tags: bool,
    /// ARI forwarding enabled; `None` = a capability without the second register set.
    pub ari_forwarding: Option<bool>,
}

/// The SR-IOV extended capability (id 0x0010).
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

/// AMD's (then ATI's) ids that servers have for their console: Rage XL (4752), Radeon 7000/VE (5159), ES1000 (515e); pci.ids, with
/// servers and their BMCs as subsystems.
const BMC_GRAPHICS: [u16; 3] = [0x4752, 0x5159, 0x515e];

impl Function {
    /// The path of one of its sysfs attributes.
    pub fn attribute(&self, name: &str) -> String {
        format!("/sys/bus/pci/devices/{}/{name}", self.address)
    }

    /// PCI-to-PCI bridge (class 0x0604).
    pub fn is_bridge(&self) -> bool {
        self.class >> 8 == 0x0604
    }

    /// Network controllers: Ethernet (0x0200), InfiniBand (0x0207), the rest of class 0x02; InfiniBand of old firmware, which
    /// calls itself a serial bus (0x0c06); virtio's, whatever class a hypervisor gives it (include/linux/pci_ids.h;
    /// virtio 1.2, 4.1.2). Not the ConnectX-7 that manages NVSwitches: no job uses it.
    pub fn is_nic(&self) -> bool {
        if self.is_switch_manager() {
            return false;
        }
        let virtio_net = (self.vendor.0, self.device.0);
        self.class >> 16 == 0x02
            || self.class >> 8 == 0x0c06
            || matches!(virtio_net, (0x1af4, 0x1000 | 0x1041))
    }

    /// The DMA function of a ConnectX-8: its own way to a GPU, in another place of the tree than the NIC (handbook §14.1).
    pub fn is_data_direct(&self) -> bool {
        (self.vendor.0, self.device.0) == (0x15b3, 0x2100)
    }

    /// A function of the ConnectX-7 through which the NVSwitches of a B200 or B300 board are managed (handbook §6.5).
    pub fn is_switch_manager(&self) -> bool {
        self.vpd.known().is_some_and(|vpd| vpd.manages_switches)
    }

    /// NVM Express.
    pub fn is_nvme(&self) -> bool {
        self.class >> 8 == 0x0108
    }

    /// NVIDIA's NVSwitch: a bridge of another sort (class 0x0680) with its vendor id (handbook §6.1).
    pub fn is_nvswitch(&self) -> bool {
        self.class >> 8 == 0x0680 && self.vendor.0 == 0x10de
    }

    /// Whether traffic between GPUs, NICs and disks passes through it or ends in it: bridges, displays, coprocessors and
    /// accelerators (classes 0x03, 0x0b, 0x12), network functions, mass storage (0x01), NVSwitches, Data Direct functions, and what a guest has.
    pub fn takes_part(&self) -> bool {
        self.is_bridge()
            || matches!(self.class >> 16, 0x01 | 0x03 | 0x0b | 0x12)
            || self.is_nic()
            || self.is_nvswitch()
            || self.is_data_direct()
            || self.is_vf()
            || self.vfio
    }

    /// A GPU or accelerator of a vendor that makes them: display class 0x03 or processing accelerator 0x1200
    /// with NVIDIA, AMD, or Intel's vendor id (handbook §6.1), and not the VGA of a BMC.
    pub fn is_gpu(&self) -> bool {
        if self.vendor.0 == 0x1002 && BMC_GRAPHICS.contains(&self.device.0) {
            return false;
        }
        let accelerator = self.class >> 8 == 0x1200;
        let display = self.class >> 16 == 0x03;
        match self.vendor.0 {
            0x10de | 0x1002 => accelerator || display,
            // Intel makes integrated graphics too; only its data-centre parts come as processing accelerators or 0x0380.
            0x8086 => accelerator || self.class >> 8 == 0x0380,
            _ => accelerator,
        }
    }

    /// Whether it is known to answer no read of its config space: all bits are ones. A thorough scan tells.
    pub fn is_dead(&self) -> bool {
        let command = self.detail.as_ref().map(|detail| &detail.bus_master);
        matches!(command, Some(Reading::Unknown(why)) if why.cause == Cause::NoAnswer)
    }

    /// Whether its control and link registers say nothing: a VF's are reserved. In a virtual machine there is no PF to tell it by;
    /// ConnectX VFs have ids of their own (Linux drivers/net/ethernet/mellanox/mlx5/core/main.c, MLX5_PCI_DEV_IS_VF).
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
    /// Sorted by address.
    pub functions: BTreeMap<PciAddress, Function>,
    /// What could not be read, in the order met: nothing is claimed about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<UnreadFunction>,
    /// Bridges that are not listed, known from the links of what hangs below them: each with the bridge above it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hidden: BTreeMap<PciAddress, Option<PciAddress>>,
    /// Functions for guests that are not among `functions`: not listed, or not understood; those whose driver could not be read
    /// among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted_guests: Vec<UnlistedGuest>,
    /// Functions whose driver could not be read, and why; bridges aside, which no guest gets. Each may be a guest's.
    #[serde(skip)]
    pub unread_drivers: BTreeMap<PciAddress, Reason>,
}

/// A function that a guest has, by its VFIO device or its driver, or may have, for its driver could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnlistedGuest {
    /// The function.
    pub address: PciAddress,
    /// Its host bridge; empty where its place is not known.
    pub root: String,
    /// Bridges above it, nearest first.
    pub above: Vec<PciAddress>,
}

/// Whether a driver hands its functions to guests: VFIO's drivers have it in their names, Xen's has another
/// (drivers/xen/xen-pciback/pci_stub.c).
pub fn serves_guests(driver: &str) -> bool {
    driver.contains("vfio") || is_xen_back(driver)
}

/// Whether a driver is the one by which a Xen dom0 sets functions aside for its guests.
pub fn is_xen_back(driver: &str) -> bool {
    matches!(driver, "pciback" | "xen-pciback")
}

/// Something about one function that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadFunction {
    /// The function.
    pub address: PciAddress,
    /// It is listed, and nothing more of it is known: not even its class.
    #[serde(skip)]
    pub whole: bool,
    /// What is missing and why.
    pub reason: Reason,
}

impl PciTree {
    /// One function.
    pub fn get(&self, address: PciAddress) -> Option<&Function> {
        self.functions.get(&address)
    }

    /// Whether a guest has this function, or may have it.
    pub fn may_be_a_guests(&self, function: &Function) -> bool {
        function.vfio || self.unread_drivers.contains_key(&function.address)
    }

    /// Functions that are there and could not be read, not even for what they are.
    pub fn unread(&self) -> Vec<&UnreadFunction> {
        self.gaps.iter().filter(|gap| gap.whole).collect()
    }

    /// Bridges above a function, nearest first. A VF is placed where its PF is.
    pub fn path_up(&self, address: PciAddress) -> Vec<PciAddress> {
        let start = self.get(address).and_then(|f| f.physfn).unwrap_or(address);
        // Switches behind switches are seldom deeper.
        let mut path = Vec::with_capacity(8);
        let above = |address| match self.get(address) {
            Some(function) => function.parent,
            None => self.hidden.get(&address).copied().flatten(),
        };
        let mut at = above(start);
        while let Some(bridge) = at {
            // A recorded tree may lie about parents; a loop must not hang us.
            if path.contains(&bridge) {
                break;
            }
            path.push(bridge);
            at = above(bridge);
        }
        path
    }
}
