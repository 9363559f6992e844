//! Giving VFs a driver: by name, one by one, through `driver_override` (handbook §5.1). Which VFs a PF has is only known
//! once they are there.

use super::Store;
use super::act::{attribute, same_value, to_write};
use super::change::boot;
use super::undo::Undo;
use crate::value::PciAddress;

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVERS: &str = "/sys/bus/pci/drivers";

/// The first `count` VFs of a PF, by their addresses.
pub(super) fn vfs(store: &Store, pf: PciAddress, count: u16) -> Result<Vec<String>, String> {
    (0..count)
        .map(|number| {
            let link = store.reader.link(&format!("{DEVICES}/{pf}/virtfn{number}"));
            let target =
                link.map_err(|error| format!("VF {number} of {pf} is missing: {error}"))?;
            Ok(target.rsplit('/').next().unwrap_or(&target).to_owned())
        })
        .collect()
}

/// Where a VF is told its driver's name.
pub(super) fn driver_override(vf: &str) -> String {
    format!("{DEVICES}/{vf}/driver_override")
}

/// Those of the first `count` VFs that do not have the driver. One that has another is an error: whoever bound it uses it.
pub(super) fn unbound(
    store: &Store,
    pf: PciAddress,
    count: u16,
    driver: &str,
) -> Result<Vec<String>, String> {
    let mut without = Vec::new();
    for vf in vfs(store, pf, count)? {
        match driver_of(store, &vf)? {
            None => without.push(vf),
            Some(bound) if bound == driver => {}
            Some(bound) => return Err(format!("VF {vf} is bound to {bound}: plan again")),
        }
    }
    Ok(without)
}

fn driver_of(store: &Store, vf: &str) -> Result<Option<String>, String> {
    match store.reader.link(&format!("{DEVICES}/{vf}/driver")) {
        Ok(target) => Ok(target.rsplit('/').next().map(str::to_owned)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Bind the VFs that are not bound.
pub(super) fn bind(
    store: &mut Store,
    kind: &str,
    (pf, count): (PciAddress, u16),
    driver: &str,
    limit_s: u32,
    undo: &mut Vec<Undo>,
) -> Result<(), String> {
    let vfs = unbound(store, pf, count, driver)?;
    if !vfs.is_empty() && store.reader.exists(&format!("{DRIVERS}/{driver}")) == Ok(false) {
        return Err(format!("there is no PCI driver {driver}: modprobe {driver} first"));
    }
    let mut found = Vec::new();
    for vf in &vfs {
        found.push(attribute(store, &driver_override(vf))?);
    }
    let boot = boot(store)?;
    store.note(|ledger| {
        for (vf, now) in vfs.iter().zip(&found) {
            ledger.begin_attribute(&driver_override(vf), kind, &boot, (now, driver), limit_s);
        }
    })?;
    for (vf, now) in vfs.iter().zip(&found) {
        undo.push(Undo::Bound {
            vf: vf.clone(),
            driver: driver.to_owned(),
            driver_override: now.clone(),
            limit_s,
        });
        write(store, &driver_override(vf), driver, limit_s)?;
        write(store, &format!("{DRIVERS}/{driver}/bind"), vf, limit_s)?;
        let bound = driver_of(store, vf)?;
        if bound.as_deref() != Some(driver) {
            return Err(format!(
                "VF {vf} has {} after it was given to {driver}",
                bound.map_or("no driver".to_owned(), |bound| format!("driver {bound}"))
            ));
        }
    }
    Ok(())
}

/// Take the driver from a VF again, and let it forget the driver's name.
pub(super) fn unbind(
    store: &mut Store,
    vf: &str,
    driver: &str,
    was: &str,
    limit_s: u32,
) -> Result<(), String> {
    if driver_of(store, vf)?.as_deref() == Some(driver) {
        write(store, &format!("{DRIVERS}/{driver}/unbind"), vf, limit_s)?;
    }
    let path = driver_override(vf);
    if !same_value(&attribute(store, &path)?, was) {
        write(store, &path, to_write(was), limit_s)?;
    }
    store.ledger.settle_attribute(&path, was);
    Ok(())
}

fn write(store: &mut Store, path: &str, value: &str, limit_s: u32) -> Result<(), String> {
    store.writer.write_attribute(path, value, limit_s).map_err(|error| error.to_string())
}
