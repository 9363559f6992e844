//! Reactions of NIC drivers to netlink settings. Answers to queries are in files, in the format of snapshots.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, Mac, VfAttributes, VfLinkState, VfTable, Vlan};
use bedplate_host::snapshot_paths::{eswitch_at, vfs_at};

use super::devices::{Habits, driver_link, uevent};

/// Default attributes that a PF's driver gives a VF.
pub fn as_made() -> VfAttributes {
    VfAttributes {
        mac: Some(Mac([0; 6])),
        vlan: Some(Vlan::default()),
        trust: Some(false),
        spoof_check: Some(true),
        link_state: Some(VfLinkState::Auto),
        min_tx_rate: Some(0),
        max_tx_rate: Some(0),
        ..VfAttributes::default()
    }
}

/// Kernel's table of an interface's VFs.
pub fn table(root: &Path, interface: &str) -> Option<VfTable> {
    let bytes = fs::read(super::at(root, &vfs_at(interface))).ok()?;
    Some(serde_json::from_slice(&bytes).expect("a table"))
}

fn put(root: &Path, interface: &str, table: &VfTable) {
    let bytes = serde_json::to_vec(table).expect("JSON");
    fs::write(super::at(root, &vfs_at(interface)), bytes).expect("it can be written");
}

/// Resets the table after the PF's number of VFs changed; all VFs are new.
pub(super) fn vfs_came(root: &Path, pf: &str, count: u16) {
    let Ok(mut interfaces) = fs::read_dir(super::at(root, pf).join("net")) else { return };
    let Some(Ok(interface)) = interfaces.next() else { return };
    let interface = interface.file_name().to_string_lossy().into_owned();
    if let Some(old) = table(root, &interface) {
        let vfs = (0..count).map(|number| (number, as_made())).collect();
        put(root, &interface, &VfTable { vfs, ..old });
    }
}

/// Sets attributes one by one; stops at the first that the driver cannot set.
pub(super) fn set_vf(
    root: &Path,
    habits: &Habits,
    interface: &str,
    vf: u16,
    attributes: &VfAttributes,
) -> Result<(), String> {
    for one in attributes.each() {
        if one.named().iter().any(|(name, _)| habits.not_for_vfs.contains(name)) {
            return Err("the driver cannot do it".into());
        }
        let mut table = table(root, interface).ok_or("the interface is not there")?;
        let found = table.vfs.get_mut(&vf).ok_or("the VF is not there")?;
        *found = one.or(found);
        put(root, interface, &table);
    }
    Ok(())
}

/// Behaves as drivers/net/ethernet/intel/ice/ice_eswitch.c.
pub(super) fn set_eswitch(root: &Path, pf: PciAddress, mode: EswitchMode) -> Result<(), String> {
    let count =
        fs::read_to_string(super::at(root, &format!("/sys/bus/pci/devices/{pf}/sriov_numvfs")));
    if count.unwrap_or_default().trim() != "0" {
        return Err("Changing eswitch mode is allowed only if there is no VFs created".into());
    }
    let bytes = serde_json::to_vec(&mode).expect("JSON");
    fs::write(super::at(root, &eswitch_at(pf)), bytes).map_err(|error| error.to_string())
}

/// Binds the VF's driver, unless autoprobe is off.
pub(super) fn probe(root: &Path, vf: &str) -> io::Result<()> {
    let device = super::at(root, &format!("/sys/bus/pci/devices/{vf}"));
    let allowed = fs::read_to_string(device.join("physfn/sriov_drivers_autoprobe"));
    if allowed.is_ok_and(|allowed| allowed.trim() != "1") {
        return Ok(());
    }
    let link = driver_link(root, vf);
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    symlink("../../../bus/pci/drivers/mlx5_core", link)?;
    uevent(root, vf, Some("mlx5_core"))
}
