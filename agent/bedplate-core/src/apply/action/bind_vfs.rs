//! Binds VFs to a driver by name, one by one, through `driver_override` (handbook §5.1). The VFs of a PF are known only
//! once they exist.

use super::{Operation, StepError, Store, Task, Undo, UndoList};
use crate::ledger::Ledger;
use crate::setting::{SettingValue as _, WriteAttribute, to_write};
use bedplate_base::value::PciAddress;
use bedplate_host::symlink;

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVERS: &str = "/sys/bus/pci/drivers";

/// [`crate::plan::Action::BindVfs`].
pub(super) struct BindVfs<'a> {
    pub pf: PciAddress,
    pub count: u16,
    pub driver: &'a str,
    pub limit_s: u32,
}

impl Operation for BindVfs<'_> {
    fn describe(&self) -> String {
        format!("bind the first {} VFs of {} to {}", self.count, self.pf, self.driver)
    }

    fn diff(&self) -> String {
        format!("+{}: {} VFs bound to {}\n", self.pf, self.count, self.driver)
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        self.unbound_vfs(store).is_ok_and(|unbound| unbound.is_empty())
    }

    /// Binds the unbound VFs. They are created within the change, so they are recorded in the ledger here.
    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError> {
        let driver = self.driver;
        let vfs = self.unbound_vfs(store)?;
        if !vfs.is_empty() && store.reader.exists(&format!("{DRIVERS}/{driver}")) == Ok(false) {
            return Err(StepError::new(format!(
                "PCI driver {driver} is not loaded: run `modprobe {driver}`"
            )));
        }
        let mut bindings = Vec::new();
        for vf in &vfs {
            bindings.push(self.driver_override(store, vf)?);
        }
        let boot = store.boot_id()?;
        store.update_ledger(|ledger| {
            for binding in &bindings {
                ledger.begin_setting(binding, task.change.kind, &boot, &binding.before);
            }
        })?;
        for (vf, action) in vfs.into_iter().zip(bindings) {
            let bound = VfBinding { vf, action };
            undo.push(Box::new(bound.clone()));
            bound.bind(store)?;
        }
        Ok(())
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        for vf in self.vfs(store)? {
            let now = self.driver_override(store, &vf)?;
            ledger.settle_setting(&now, &now.before);
        }
        Ok(())
    }
}

impl BindVfs<'_> {
    /// Returns the addresses of the PF's first `count` VFs.
    fn vfs(&self, store: &Store) -> Result<Vec<String>, StepError> {
        let pf = self.pf;
        (0..self.count)
            .map(|number| {
                let vf = symlink::virtual_function(store.reader, pf, number);
                vf.map_err(|error| StepError::no_vf(number, pf, error))
            })
            .collect()
    }

    /// Returns the VFs without a driver. A VF bound to another driver is an error: that driver may be in use.
    fn unbound_vfs(&self, store: &Store) -> Result<Vec<String>, StepError> {
        let mut without = Vec::new();
        for vf in self.vfs(store)? {
            match symlink::driver(store.reader, &vf)? {
                None => without.push(vf),
                Some(bound) if bound == self.driver => {}
                Some(driver) => return Err(StepError::vf_taken(&vf, &driver)),
            }
        }
        Ok(without)
    }

    /// Returns the write of the driver's name to a VF's `driver_override`.
    fn driver_override(&self, store: &Store, vf: &str) -> Result<WriteAttribute, StepError> {
        let path = format!("{DEVICES}/{vf}/driver_override");
        let (before, after) = (store.attribute(&path)?, self.driver.to_owned());
        Ok(WriteAttribute { path, before, after, limit_s: self.limit_s })
    }
}

/// A VF and its new driver.
#[derive(Clone)]
struct VfBinding {
    vf: String,
    /// Write to its `driver_override`, from the previous value to the driver's name.
    action: WriteAttribute,
}

impl VfBinding {
    fn bind(&self, store: &mut Store) -> Result<(), StepError> {
        let VfBinding { vf, action: WriteAttribute { path, after: driver, limit_s, .. } } = self;
        store.write_attribute(path, driver, *limit_s)?;
        store.write_attribute(&format!("{DRIVERS}/{driver}/bind"), vf, *limit_s)?;
        let bound = symlink::driver(store.reader, vf)?;
        if bound.as_ref() == Some(driver) {
            return Ok(());
        }
        let bound = bound.map_or("no driver".to_owned(), |bound| format!("driver {bound}"));
        Err(StepError::new(format!("VF {vf} has {bound} after binding to {driver}")))
    }
}

impl Undo for VfBinding {
    fn subject(&self) -> String {
        format!("driver of {}", self.vf)
    }

    /// Unbinds the driver again, and restores `driver_override`.
    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let VfBinding { vf, action } = self;
        let WriteAttribute { path, before, after: driver, limit_s } = action;
        if symlink::driver(store.reader, vf)?.as_ref() == Some(driver) {
            store.write_attribute(&format!("{DRIVERS}/{driver}/unbind"), vf, *limit_s)?;
        }
        if before.differing(&store.attribute(path)?).is_some() {
            store.write_attribute(path, to_write(before), *limit_s)?;
        }
        store.ledger.settle_setting(action, before);
        Ok(())
    }
}
