//! Facts about VFs that are not in the PCI tree: addresses of VFs and PFs, and RDMA devices hidden in another namespace
//! (handbook §5.2, §5.3).

use std::collections::BTreeMap;

use super::pci::{Function, PciTree};
use super::uplink;
use bedplate_base::OptionalRead as _;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// `node_guid` of an RDMA device.
    NodeGuid,
    /// `address` of an Ethernet interface.
    Mac,
}

/// An address of a NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicAddress {
    /// PCI function.
    pub function: PciAddress,
    /// Kind of address.
    pub kind: AddressKind,
    /// Path of the attribute.
    pub path: String,
    /// Text of the attribute.
    pub value: Reading<String>,
}

/// Facts about VFs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VfFacts {
    /// Addresses of VFs and of their PFs.
    pub addresses: Vec<NicAddress>,
    /// For VFs with a driver and no visible RDMA device: whether it has one in another namespace.
    pub rdma_elsewhere: BTreeMap<PciAddress, Reading<bool>>,
}

/// Reads the VFs of NICs that are not assigned to VMs.
pub fn read(reader: &dyn Reader, tree: &PciTree) -> VfFacts {
    let mut facts = VfFacts::default();
    for function in tree.functions.values().filter(|function| function.is_nic() && !function.vfio) {
        if !function.is_vf() && function.sriov.known().is_none_or(|pf| pf.vfs.is_empty()) {
            continue;
        }
        facts.addresses.extend(addresses(reader, function));
        if function.is_vf() && function.driver.is_some() && function.infiniband.is_empty() {
            let elsewhere = Reading::from_result(is_elsewhere(reader, function));
            facts.rdma_elsewhere.insert(function.address, elsewhere);
        }
    }
    facts
}

/// Whether the RDMA device is in another namespace. The directory exists with the device; its entries are visible only
/// in the device's namespace (drivers/base/core.c, get_device_parent; drivers/infiniband/core/device.c, net_namespace
/// of ib_class).
fn is_elsewhere(reader: &dyn Reader, vf: &Function) -> Result<bool, bedplate_base::ReadError> {
    Ok(reader.list(&vf.attribute("infiniband")).optional()?.is_some())
}

fn addresses(reader: &dyn Reader, function: &Function) -> Vec<NicAddress> {
    let read = |kind, path: String| NicAddress {
        function: function.address,
        kind,
        value: Reading::from_result(reader.attribute(&path)),
        path,
    };
    let guid = |device: &String| {
        read(AddressKind::NodeGuid, format!("/sys/class/infiniband/{device}/node_guid"))
    };
    let mut all: Vec<NicAddress> = function.infiniband.iter().map(guid).collect();
    let own = uplink::uplink(reader, &function.net).filter(|_| function.class >> 8 == ETHERNET);
    // Every port of a bond reports the bond's address.
    let bonded =
        |interface: &&str| reader.exists(&format!("/sys/class/net/{interface}/master")) == Ok(true);
    let mac = |interface| read(AddressKind::Mac, format!("/sys/class/net/{interface}/address"));
    all.extend(own.filter(|interface| !bonded(interface)).map(mac));
    all
}

/// Class and subclass of Ethernet controllers.
const ETHERNET: u32 = 0x0200;
