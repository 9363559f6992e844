//! What depends on more than one function: which are there for guests, ATS of NICs behind a switch, Vital Product Data
//! where there is something to pair.

use std::collections::BTreeMap;

use super::identity::Place;
use crate::fabric::is_nvlink5;
use crate::pci::{Function, PciTree};
use crate::{caps, vpd};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Directory of the devices that are there for guests (Linux drivers/vfio/vfio_main.c, since 6.1).
const VFIO_DEVICES: &str = "/sys/class/vfio-dev";
/// Directory of the mediated devices (drivers/vfio/mdev/mdev_driver.c): before 6.1 the only sign that a vGPU is a guest's.
const MEDIATED_DEVICES: &str = "/sys/bus/mdev/devices";

/// Functions with a VFIO device or a mediated one, by the places of the devices: a driver need not say vfio in its name (NVIDIA's
/// vGPU driver does not). A mediated device stands for the function that it is cut from. The links lead through every bridge
/// above, so that a function counts below them even where it is not listed itself.
pub(super) fn vfio_devices(reader: &dyn Reader) -> BTreeMap<PciAddress, Option<Place>> {
    let links = [VFIO_DEVICES, MEDIATED_DEVICES]
        .into_iter()
        .flat_map(|directory| reader.links(directory).unwrap_or_default());
    links.filter_map(|(_, text)| Place::of_child(&text)).collect()
}

/// Where the class is not to be seen (a container, part of a recording) the function's own directory still may be. Kernels
/// before 6.1 have neither: there the driver's name has to do.
fn vfio_devices_one_by_one(reader: &dyn Reader, tree: &mut PciTree) {
    if reader.links(VFIO_DEVICES).is_ok() {
        return;
    }
    for function in tree.functions.values_mut().filter(|f| f.is_gpu() || f.is_nic()) {
        let devices = reader.list(&function.attribute("vfio-dev"));
        function.vfio |= devices.is_ok_and(|devices| !devices.is_empty());
    }
}

/// Reads them, once the tree is complete.
pub(super) fn read(reader: &dyn Reader, tree: &mut PciTree) {
    vfio_devices_one_by_one(reader, tree);
    ats_of_nics(reader, tree);
    vpd_of_adapters(reader, tree);
}

/// ATS decides what a NIC's way through a switch needs; a ConnectX on a root port is to have none (handbook §14.1).
fn ats_of_nics(reader: &dyn Reader, tree: &mut PciTree) {
    let can_matter = |function: &&Function| {
        let is_connectx = function.vendor.0 == 0x15b3;
        function.is_nic()
            && !function.is_vf()
            && (is_connectx || tree.path_up(function.address).len() > 1)
    };
    let nics: Vec<PciAddress> =
        tree.functions.values().filter(can_matter).map(|f| f.address).collect();
    for nic in nics {
        let Some(function) = tree.functions.get_mut(&nic) else { continue };
        function.ats = match &function.detail {
            // A thorough look has read it already.
            Some(detail) => detail.ats.clone(),
            None => match reader.config(nic) {
                Ok(config) => caps::reading(caps::ats(config.as_ref())),
                Err(error) => Reading::unknown(error),
            },
        };
    }
}

/// Vital Product Data is slow to read (a register handshake a dword): only where it has something to pair, or where a
/// ConnectX-7 may be there for NVSwitches.
fn vpd_of_adapters(reader: &dyn Reader, tree: &mut PciTree) {
    let pairs = tree.functions.values().any(Function::is_data_direct);
    let has_managers = tree.functions.values().any(is_nvlink5);
    let is_connectx7 = |f: &Function| f.device.0 == 0x1021;
    let of_an_adapter = |f: &&mut Function| {
        let adapter = f.vendor.0 == 0x15b3 && f.is_nic() && !f.is_vf();
        f.is_data_direct() || adapter && (pairs || has_managers && is_connectx7(f))
    };
    for function in tree.functions.values_mut().filter(of_an_adapter) {
        let bytes = Reading::from_result(reader.read(&function.attribute("vpd")));
        function.vpd = bytes.and_then(|bytes| Reading::from_option(vpd::parse(&bytes)));
    }
}
