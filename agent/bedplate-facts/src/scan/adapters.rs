//! Facts that depend on more than one function: VFIO reservation, ATS of NICs behind a switch, and Vital Product Data
//! where functions must be paired.

use std::collections::BTreeMap;

use super::identity::Place;
use crate::fabric::is_nvlink5;
use crate::pci::{Function, PciTree};
use crate::{caps, vpd};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Directory of VFIO devices (Linux drivers/vfio/vfio_main.c, since 6.1).
const VFIO_DEVICES: &str = "/sys/class/vfio-dev";
/// Directory of mediated devices (drivers/vfio/mdev/mdev_driver.c): before 6.1 the only evidence that a vGPU belongs to
/// a VM.
const MEDIATED_DEVICES: &str = "/sys/bus/mdev/devices";

/// Finds functions with a VFIO or mediated device by the locations of these devices. A driver need not have "vfio" in
/// its name (NVIDIA's vGPU driver does not). A mediated device represents its parent function. The links name every
/// bridge above, so an unlisted function counts below them too.
pub(super) fn vfio_devices(reader: &dyn Reader) -> BTreeMap<PciAddress, Option<Place>> {
    let links = [VFIO_DEVICES, MEDIATED_DEVICES]
        .into_iter()
        .flat_map(|directory| reader.links(directory).unwrap_or_default());
    links.filter_map(|(_, text)| Place::of_child(&text)).collect()
}

/// Finds VFIO devices in each function's own directory if the class is not visible (a container, part of a snapshot).
/// Kernels before 6.1 have neither, so only the driver's name remains.
fn vfio_devices_one_by_one(reader: &dyn Reader, tree: &mut PciTree) {
    if reader.links(VFIO_DEVICES).is_ok() {
        return;
    }
    for function in tree.functions.values_mut().filter(|f| f.is_gpu() || f.is_nic()) {
        let devices = reader.list(&function.attribute("vfio-dev"));
        function.vfio |= devices.is_ok_and(|devices| !devices.is_empty());
    }
}

/// Reads these facts. The tree must be complete.
pub(super) fn read(reader: &dyn Reader, tree: &mut PciTree) {
    vfio_devices_one_by_one(reader, tree);
    ats_of_nics(reader, tree);
    vpd_of_adapters(reader, tree);
}

/// Reads ATS: it determines the requirements of a NIC's path through a switch, and a ConnectX on a root port should
/// have it off (handbook §14.1).
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
            // A thorough scan has already read it.
            Some(detail) => detail.ats.clone(),
            None => match reader.config(nic) {
                Ok(config) => caps::reading(caps::ats(config.as_ref())),
                Err(error) => Reading::unknown(error),
            },
        };
    }
}

/// Reads Vital Product Data, which is slow (a register handshake per dword). Read only if there are functions to pair,
/// or if a ConnectX-7 may manage NVSwitches.
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
