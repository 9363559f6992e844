//! Scans a host's PCI functions into a [`PciTree`]. At plan depth each function costs one `uevent` and one link.
//! Everything else is read only where it can matter: config space of bridges, ATS of NICs behind a switch, SR-IOV, NUMA
//! node and interface names of network functions and GPUs. A thorough scan reads more only for functions that take part
//! in GPU traffic. Missing or malformed files never stop the scan.

mod adapters;
mod detail;
mod identity;
mod unlisted;

use std::collections::{BTreeMap, BTreeSet};

use self::identity::{Identity, Place};
use super::pci::{Function, PciTree, PortType, SriovPf, UnreadFunction, serves_guests};
use super::{Depth, caps};
use bedplate_base::value::{PciAddress, PciId};
use bedplate_base::{ReadError, Reading, Reason};
use bedplate_host::{ConfigSpace, Reader, symlink};

/// Directory of the PCI functions.
pub const DEVICES: &str = "/sys/bus/pci/devices";

/// Reason for fields that planning does not read.
const NOT_LOOKED_AT: &str = "not read: planning reads bridges only";
/// Reason for fields that a thorough scan skips.
const TAKES_NO_PART: &str = "not read: irrelevant to GPU traffic (inspect --all reads it)";
/// Vendor id of virtio (drivers/virtio/virtio_pci_common.c).
const VIRTIO: PciId = PciId(0x1af4);

/// Scans the PCI tree.
pub fn scan(reader: &dyn Reader, depth: Depth) -> Reading<PciTree> {
    let links = match reader.links(DEVICES) {
        Ok(links) => links,
        Err(error) => return Reading::from_result(Err(error)),
    };
    let mut scan = Scan {
        reader,
        depth,
        tree: PciTree::default(),
        vfs: BTreeMap::new(),
        vfio: adapters::vfio_devices(reader),
        undriven: BTreeMap::new(),
    };
    let mut places: Vec<(PciAddress, Place)> = links
        .iter()
        .filter_map(|(name, text)| Some((name.parse().ok()?, Place::from_link(text)?)))
        .collect();
    if places.len() != links.len() || links.is_empty() {
        scan.add_unlinked(&mut places);
    }
    // Order by address handles a PF before its VFs (a VF's routing id is its PF's plus an offset).
    places.sort_unstable_by_key(|(address, _)| *address);
    scan.above(places.iter().map(|(_, place)| place));
    for (address, place) in places {
        match scan.function(address, place) {
            Ok(function) => {
                scan.tree.functions.insert(address, function);
            }
            Err(reason) => {
                scan.tree.gaps.push(UnreadFunction { address, whole: true, reason });
            }
        }
    }
    scan.note_missing_bridges();
    scan.note_unlisted_guests();
    if depth != Depth::Identity {
        adapters::read(reader, &mut scan.tree);
    }
    Reading::Known(scan.tree)
}

struct Scan<'a> {
    reader: &'a dyn Reader,
    depth: Depth,
    tree: PciTree,
    /// VF → PF, from the PFs scanned so far.
    vfs: BTreeMap<PciAddress, PciAddress>,
    /// Functions with a VFIO device or driver, and their locations.
    vfio: BTreeMap<PciAddress, Option<Place>>,
    /// Functions with an unreadable driver, and their locations.
    undriven: BTreeMap<PciAddress, Place>,
}

impl Scan<'_> {
    fn gap(&mut self, address: PciAddress, reason: impl Into<Reason>) {
        self.tree.gaps.push(UnreadFunction { address, whole: false, reason: reason.into() });
    }

    /// Adds functions of trees that were copied without links: names are known, locations are not.
    fn add_unlinked(&mut self, places: &mut Vec<(PciAddress, Place)>) {
        let known: BTreeSet<PciAddress> = places.iter().map(|(address, _)| *address).collect();
        for name in self.reader.list(DEVICES).unwrap_or_default() {
            if let Ok(address) = name.parse()
                && !known.contains(&address)
            {
                self.gap(address, "unknown PCI location: the entry is not a link");
                places.push((address, Place { root: String::new(), above: Vec::new() }));
            }
        }
    }

    /// Records every bridge named in a link, with its parent. Bridges that are listed themselves are removed later.
    fn above<'p>(&mut self, places: impl Iterator<Item = &'p Place>) {
        for place in places {
            let mut above = None;
            for bridge in &place.above {
                self.tree.hidden.entry(*bridge).or_insert(above);
                above = Some(*bridge);
            }
        }
    }

    fn function(&mut self, address: PciAddress, place: Place) -> Result<Function, Reason> {
        let directory = format!("{DEVICES}/{address}");
        let identity = self.identity(address, &directory);
        if identity.driver.as_deref().is_some_and(serves_guests) {
            self.vfio.entry(address).or_insert_with(|| Some(place.clone()));
        }
        if self.tree.unread_drivers.contains_key(&address) {
            self.undriven.insert(address, place.clone());
        }
        let class = match identity.class {
            Some(class) => class,
            None => self.hex(&directory, "class")?,
        };
        let (vendor, device) = match identity.id {
            Some(id) => id,
            None => (self.id(&directory, "vendor")?, self.id(&directory, "device")?),
        };
        let mut function = Function {
            address,
            class,
            vendor,
            device,
            subsystem: self.subsystem(&directory, identity.subsystem),
            driver: identity.driver,
            parent: place.above.last().copied(),
            root: place.root,
            numa_node: Reading::Absent,
            iommu_group: self.iommu_group(&directory),
            port: self.not_asked(),
            acs: self.not_asked(),
            physfn: self.vfs.get(&address).copied(),
            sriov: Reading::Absent,
            net: Vec::new(),
            infiniband: Vec::new(),
            vfio: self.vfio.contains_key(&address),
            ats: self.not_asked(),
            vpd: self.not_asked(),
            detail: None,
        };
        self.capabilities(&mut function, &directory);
        if self.depth == Depth::Identity {
            function.sriov = self.not_asked();
        } else if may_have_vfs(&function) {
            function.sriov = self.sriov(address, &directory);
            if let Reading::Known(pf) = &function.sriov {
                self.vfs.extend(pf.vfs.iter().map(|vf| (*vf, address)));
            }
        }
        function.numa_node = self.numa_node(&function, &directory);
        if function.is_nic()
            && function.driver.as_deref().is_some_and(|driver| !driver.contains("vfio"))
        {
            function.net = match function.vendor {
                VIRTIO => self.virtio_names(address, &directory),
                _ => self.names(address, &directory, "net"),
            };
            function.infiniband = self.names(address, &directory, "infiniband");
        }
        Ok(function)
    }

    fn identity(&mut self, address: PciAddress, directory: &str) -> Identity {
        match self.reader.text(&format!("{directory}/uevent")) {
            Ok(text) => Identity::from_uevent(&text),
            Err(_) => Identity { driver: self.driver_link(address), ..Identity::default() },
        }
    }

    /// Returns the driver from the function's link. An unreadable link does not mean that there is no driver.
    fn driver_link(&mut self, address: PciAddress) -> Option<String> {
        symlink::driver(self.reader, &address.to_string()).unwrap_or_else(|error| {
            let reason = Reason::from(error);
            self.tree.unread_drivers.insert(address, reason.clone());
            self.gap(address, reason.about("unknown driver"));
            None
        })
    }

    fn hex(&self, directory: &str, name: &str) -> Result<u32, Reason> {
        let path = format!("{directory}/{name}");
        let text = self.reader.attribute(&path)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        u32::from_str_radix(digits, 16)
            .map_err(|_| format!("{path} holds {text:?}, not a hexadecimal number").into())
    }

    fn id(&self, directory: &str, name: &str) -> Result<PciId, Reason> {
        let value = self.hex(directory, name)?;
        u16::try_from(value)
            .map(PciId)
            .map_err(|_| format!("{directory}/{name} is wider than 16 bits").into())
    }

    /// Returns subsystem ids. For bridges and old trees without them, returns zero as the kernel does.
    fn subsystem(&self, directory: &str, known: Option<(PciId, PciId)>) -> (PciId, PciId) {
        known.unwrap_or_else(|| {
            let id = |name| self.id(directory, name).unwrap_or(PciId(0));
            (id("subsystem_vendor"), id("subsystem_device"))
        })
    }

    fn iommu_group(&self, directory: &str) -> Reading<u32> {
        match self.reader.link(&format!("{directory}/iommu_group")) {
            Ok(text) => match symlink::last_part(&text).and_then(|number| number.parse().ok()) {
                Some(number) => Reading::Known(number),
                None => Reading::unknown(format!(
                    "{directory}/iommu_group leads to {text:?}, not to a group"
                )),
            },
            Err(error) => Reading::from_result(Err(error)),
        }
    }

    /// Reads the NUMA node from the function's own file. Devices inherit the node of their host bridge, but the file is
    /// writable (the workaround for firmware that does not set it). Planning reads it for functions that it pairs or
    /// selects by node: GPUs, NICs and PFs. A VF uses its PF's node, and a downstream port its switch's, because there
    /// are thousands of both.
    fn numa_node(&self, function: &Function, directory: &str) -> Reading<i32> {
        let downstream = function.port == Reading::Known(PortType::Downstream);
        let switch = function.parent.filter(|_| downstream && self.depth == Depth::Thorough);
        let stands_for = function.physfn.or(switch).and_then(|address| self.tree.get(address));
        let wanted = function.is_gpu()
            || function.is_nic()
            || matches!(function.sriov, Reading::Known(_) | Reading::Unknown(_));
        match stands_for {
            Some(other) if self.depth >= Depth::Thorough => other.numa_node.clone(),
            None if self.looks_into(function) || wanted && !function.is_vf() => {
                number(self.reader, &format!("{directory}/numa_node"))
            }
            _ => self.not_asked(),
        }
    }

    fn sriov(&self, address: PciAddress, directory: &str) -> Reading<SriovPf> {
        let total = number(self.reader, &format!("{directory}/sriov_totalvfs"));
        if let Reading::Absent = total {
            return Reading::Absent;
        }
        let enabled = number(self.reader, &format!("{directory}/sriov_numvfs"));
        let vf_device = match self.reader.attribute(&format!("{directory}/sriov_vf_device")) {
            Ok(text) => match text.parse() {
                Ok(id) => Reading::Known(id),
                Err(error) => Reading::unknown(format!("sriov_vf_device: {error}")),
            },
            Err(error) => Reading::from_result(Err(error)),
        };
        let autoprobe = number::<u8>(self.reader, &format!("{directory}/sriov_drivers_autoprobe"));
        let count: u16 = enabled.known().copied().unwrap_or(0);
        let vfs = (0..count).filter_map(|index| self.virtual_function(address, index)).collect();
        Reading::Known(SriovPf {
            total,
            enabled,
            vf_device,
            autoprobe: autoprobe.map(|on| on != 0),
            vfs,
        })
    }

    fn virtual_function(&self, pf: PciAddress, index: u16) -> Option<PciAddress> {
        symlink::virtual_function(self.reader, pf, index).ok()?.parse().ok()
    }

    /// Reads interface names of a virtio NIC. They belong to the device below the function, `virtio0/net/eth0`
    /// (drivers/virtio/virtio.c).
    fn virtio_names(&mut self, address: PciAddress, directory: &str) -> Vec<String> {
        let devices = self.reader.list(directory).unwrap_or_default();
        let devices = devices.into_iter().filter(|name| name.starts_with("virtio"));
        devices.flat_map(|name| self.names(address, directory, &format!("{name}/net"))).collect()
    }

    fn names(&mut self, address: PciAddress, directory: &str, what: &str) -> Vec<String> {
        match self.reader.list(&format!("{directory}/{what}")) {
            Ok(names) => names,
            Err(error) if error.is_absent() => Vec::new(),
            Err(error) => {
                self.gap(address, error);
                Vec::new()
            }
        }
    }

    /// Whether to read everything about a function.
    fn looks_into(&self, function: &Function) -> bool {
        match self.depth {
            Depth::Identity | Depth::Plan => false,
            Depth::Thorough => function.takes_part(),
            Depth::Everything => true,
        }
    }

    fn not_asked<T>(&self) -> Reading<T> {
        let words = if self.depth < Depth::Thorough { NOT_LOOKED_AT } else { TAKES_NO_PART };
        Reading::Unknown(Reason::not_asked(words))
    }

    fn capabilities(&mut self, function: &mut Function, directory: &str) {
        match self.depth {
            Depth::Identity => {}
            Depth::Plan if !function.is_bridge() => {}
            Depth::Thorough if !self.looks_into(function) => {}
            Depth::Plan => match self.reader.config(function.address) {
                Ok(config) => bridge(function, config.as_ref()),
                Err(error) => unread(function, &error),
            },
            Depth::Thorough | Depth::Everything => match self.reader.config(function.address) {
                Ok(config) => detail::fill(function, self.reader, directory, Ok(config.as_ref())),
                Err(error) => detail::fill(function, self.reader, directory, Err(&error)),
            },
        }
    }
}

/// Whether to read SR-IOV state. Planning does so for network functions and GPUs; a thorough scan for every function
/// that has, or may have, the capability.
fn may_have_vfs(function: &Function) -> bool {
    let capable = function.detail.as_ref().is_some_and(|detail| detail.sriov != Reading::Absent);
    !function.is_vf() && (function.is_nic() || function.is_gpu() || capable)
}

/// Reads port type and ACS with as few reads as possible.
fn bridge(function: &mut Function, config: &dyn ConfigSpace) {
    let pcie = caps::pcie(config);
    function.acs = match &pcie {
        Ok(Some(pcie)) => acs(function, pcie.port(), || caps::acs(config)),
        // Conventional PCI has no extended config space.
        Ok(None) => Reading::Absent,
        Err(error) => Reading::unknown(error.clone()),
    };
    function.port = caps::reading(pcie.map(|found| found.map(caps::Pcie::port)));
}

/// Reads ACS of a function with a known port type.
pub(super) fn acs(
    function: &Function,
    port: super::pci::PortType,
    read: impl FnOnce() -> caps::Lookup<super::pci::Acs>,
) -> Reading<super::pci::Acs> {
    if caps::has_misplaced_acs(function.vendor, function.device, port) {
        return Reading::unknown(
            "this Intel chipset root port lays ACS out against the specification: its registers cannot be trusted"
                .to_owned(),
        );
    }
    caps::reading(read())
}

/// Marks port and ACS as unknown. A missing config file means a copied or filtered tree, not a device without
/// capabilities.
pub(super) fn unread(function: &mut Function, error: &ReadError) {
    function.port = Reading::unknown(error);
    function.acs = Reading::unknown(error);
}

/// Reads a decimal attribute.
pub(crate) fn number<T: std::str::FromStr>(reader: &dyn Reader, path: &str) -> Reading<T> {
    match reader.attribute(path) {
        Ok(text) => match text.parse() {
            Ok(number) => Reading::Known(number),
            Err(_) => Reading::unknown(format!("{path} holds {text:?}, not a number in range")),
        },
        Err(error) => Reading::from_result(Err(error)),
    }
}

#[cfg(test)]
mod tests;
