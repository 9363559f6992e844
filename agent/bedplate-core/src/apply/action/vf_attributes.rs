//! VF attributes that the PF stores: set by netlink, read back, rolled back. Attributes of VFs that are created within
//! the change are not recorded: they vanish with the VF.

use super::{Operation, StepError, Store, Task, Undo, UndoList, expect};
use crate::ledger::Ledger;
use crate::setting::{SetVf, SettingChange as _, VfKey, to_write};
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::VfAttributes;
use bedplate_facts::uplink;
use bedplate_host::{NicCause, NicError, symlink};

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVERS_PROBE: &str = "/sys/bus/pci/drivers_probe";

impl Operation for SetVf {
    fn describe(&self) -> String {
        match self.after.is_empty() {
            true => format!("start the driver of {}", self.key),
            false => format!("set {}: {}", self.key, self.after),
        }
    }

    fn diff(&self) -> String {
        let lines = |sign: char, attributes: &VfAttributes| {
            let named = attributes.named().into_iter();
            named.map(|(name, value)| format!("{sign}{} {name}: {value}\n", self.key)).collect()
        };
        let [gone, come]: [String; 2] = [lines('-', &self.before), lines('+', &self.after)];
        gone + &come
    }

    fn target(&self) -> Option<String> {
        Some(self.key.to_string())
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        let found = read(store, &self.key);
        found.is_ok_and(|found| self.after.without(&found).is_empty())
            && !(self.start && waits_for_driver(store, &self.key))
    }

    /// Records a VF without a driver: if this run ends before the driver starts, the next run must start it.
    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        _task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        if self.start && self.before.is_empty() {
            ledger.owe_start(&self.key, &store.boot_id()?, self.limit_s);
        }
        Ok(())
    }

    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError> {
        let found = read(store, &self.key)?;
        let left = self.after.without(&found);
        let planned = self.before.intersect(&left).without(&found).is_empty();
        expect(planned, &self.key.to_string(), &found.intersect(&left).to_string())?;
        if !left.is_empty() && !self.before.is_empty() {
            let boot = store.boot_id()?;
            store.update_ledger(|ledger| {
                let earlier = ledger.vfs.get(&self.key.name());
                let start = self.start
                    || earlier.is_some_and(|record| record.boot == boot && record.action.start);
                let action = SetVf { start, after: left, ..self.clone() };
                ledger.begin_setting(&action, task.change.kind, &boot, &found);
            })?;
            undo.push(Box::new(Reversed(self.with(left, found.intersect(&left)))));
        }
        self.set(store, &left)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        if ledger.vfs.contains_key(&self.key.name()) {
            ledger.settle_setting(self, &read(store, &self.key)?);
        }
        Ok(())
    }
}

impl SetVf {
    /// Sets attributes and reads them back. A driver that reads them at its start is unbound before and started
    /// afterwards, even if setting them failed.
    fn set(&self, store: &mut Store, attributes: &VfAttributes) -> Result<(), StepError> {
        let SetVf { key, start, limit_s, .. } = self;
        store.expect_answers(key.pf)?;
        if !start {
            return write(store, key, attributes, *limit_s);
        }
        let vf = address(store, key)?;
        let stopped = match symlink::driver(store.reader, &vf)? {
            Some(_) if attributes.is_empty() => {
                return store.update_ledger(|ledger| ledger.started(key));
            }
            Some(driver) => self.stop_driver(store, &vf, &driver),
            None => Ok(()),
        };
        let done = stopped.and_then(|()| write(store, key, attributes, *limit_s));
        done.and(self.start_driver(store, &vf))
    }

    /// Unbinds the VF's driver. The pending start is recorded on disk first.
    fn stop_driver(&self, store: &mut Store, vf: &str, driver: &str) -> Result<(), StepError> {
        let guest = store.reader.exists(&format!("{DEVICES}/{vf}/vfio-dev")) != Ok(false);
        // Independent of the plan: a guest that uses the VF would lose it.
        if guest || driver.contains("vfio") {
            return Err(StepError::vf_taken(vf, driver));
        }
        if !finds_driver(store, self.key.pf, vf) {
            return Err(StepError::new(format!(
                "VF {vf} would lose its driver: sriov_drivers_autoprobe of {} is 0; write 1 to it, then run again",
                self.key.pf
            )));
        }
        let boot = store.boot_id()?;
        store.update_ledger(|ledger| ledger.owe_start(&self.key, &boot, self.limit_s))?;
        let unbind = format!("/sys/bus/pci/drivers/{driver}/unbind");
        store.write_attribute(&unbind, vf, self.limit_s)
    }

    /// Lets the kernel bind the VF's driver if bedplate has to start it: a driver that another tool unbound must stay
    /// unbound. Waits for an unfinished unbind, which holds the device's lock.
    fn start_driver(&self, store: &mut Store, vf: &str) -> Result<(), StepError> {
        // A VF's driver queries the PF's driver: while that is silent, the start stays pending.
        if !owes_start(store, &self.key) || store.silent.contains(&self.key.pf) {
            return Ok(());
        }
        store.write_attribute(DRIVERS_PROBE, vf, self.limit_s)?;
        if symlink::driver(store.reader, vf)?.is_none() && !finds_driver(store, self.key.pf, vf) {
            return Ok(());
        }
        store.update_ledger(|ledger| ledger.started(&self.key))
    }
}

/// Whether a start of the VF's driver is pending in the ledger of this boot.
fn owes_start(store: &Store, key: &VfKey) -> bool {
    store.boot_id().is_ok_and(|boot| store.ledger.owes_start(&key.name(), &boot))
}

/// Whether the VF has no driver because of bedplate.
fn waits_for_driver(store: &Store, key: &VfKey) -> bool {
    let driver = || Ok::<_, StepError>(symlink::driver(store.reader, &address(store, key)?)?);
    owes_start(store, key) && driver().is_ok_and(|driver| driver.is_none())
}

/// Whether the kernel looks for a driver for a VF (drivers/pci/pci-driver.c, pci_device_can_probe).
fn finds_driver(store: &Store, pf: PciAddress, vf: &str) -> bool {
    let reads = |path: String| store.attribute(&path).ok();
    let named = reads(format!("{DEVICES}/{vf}/driver_override"));
    reads(format!("{DEVICES}/{pf}/sriov_drivers_autoprobe")).as_deref() != Some("0")
        || named.is_some_and(|name| !to_write(&name).trim().is_empty())
}

/// The inverse of an executed action.
struct Reversed(SetVf);

impl Undo for Reversed {
    fn subject(&self) -> String {
        self.0.key.to_string()
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let Reversed(action) = self;
        let key = &action.key;
        let left = action.after.without(&read(store, key)?);
        if !left.is_empty() || waits_for_driver(store, key) {
            action.set(store, &left)?;
        }
        let now = read(store, key)?;
        store.ledger.settle_setting(action, &now);
        Ok(())
    }
}

/// Restores attributes of a VF that still has the previous ones.
pub(crate) fn put_back(store: &mut Store, action: &SetVf) -> Result<(), StepError> {
    let SetVf { key, before, .. } = action;
    if !before.is_empty() {
        let found = read(store, key)?;
        let as_before = before.without(&found).is_empty();
        expect(as_before, &key.to_string(), &found.intersect(before).to_string())?;
    }
    action.set(store, &action.after)
}

fn write(
    store: &mut Store,
    key: &VfKey,
    attributes: &VfAttributes,
    limit_s: u32,
) -> Result<(), StepError> {
    if attributes.is_empty() {
        return Ok(());
    }
    // The kernel accepts only both rates together.
    let mut set = *attributes;
    if set.min_tx_rate.is_some() || set.max_tx_rate.is_some() {
        let found = read(store, key)?;
        set.min_tx_rate = set.min_tx_rate.or(found.min_tx_rate);
        set.max_tx_rate = set.max_tx_rate.or(found.max_tx_rate);
    }
    let interface = interface(store, key)?;
    if let Err(error) = store.writer.set_vf(key.pf, &interface, key.vf, &set, limit_s) {
        return Err(refused(store, key.pf, error));
    }
    let left = attributes.without(&read(store, key)?);
    match left.is_empty() {
        true => Ok(()),
        false => {
            let unlike = StepError::new(format!("{key}: read-back differs: {left}"));
            Err(by_driver(store, key.pf, unlike))
        }
    }
}

/// Converts an error. A PF that timed out gets no further requests.
pub(super) fn refused(
    store: &mut Store,
    pf: PciAddress,
    NicError { error, cause }: NicError,
) -> StepError {
    match cause {
        NicCause::Driver => by_driver(store, pf, error.into()),
        NicCause::NoAnswer => {
            store.silent.insert(pf);
            error.into()
        }
        NicCause::Other => error.into(),
    }
}

/// Prefixes an error with the name of the driver that caused it.
fn by_driver(store: &Store, pf: PciAddress, source: StepError) -> StepError {
    match symlink::driver(store.reader, &pf.to_string()) {
        Ok(Some(driver)) => StepError::because(format!("driver {driver}"), source),
        _ => source,
    }
}

/// Reads the current attributes of a VF.
fn read(store: &Store, key: &VfKey) -> Result<VfAttributes, StepError> {
    store.expect_answers(key.pf)?;
    let interface = interface(store, key)?;
    let table = store.reader.vfs(key.pf, &interface)?;
    let found = table.vfs.get(&key.vf).copied();
    found.ok_or_else(|| StepError::new(format!("the kernel does not list {key}")))
}

/// Returns the current name of the PF's interface. When the eswitch mode changes, some drivers create the interface
/// again, and udev may then rename it (systemd.net-naming-scheme(7), phys_port_name).
fn interface(store: &Store, key: &VfKey) -> Result<String, StepError> {
    let now = uplink::now(store.reader, key.pf)?;
    now.ok_or_else(|| StepError::new(format!("{} has no network interface here", key.pf)))
}

/// Returns the PCI address of a VF.
fn address(store: &Store, key: &VfKey) -> Result<String, StepError> {
    let (pf, number) = (key.pf, key.vf);
    let vf = symlink::virtual_function(store.reader, pf, number);
    vf.map_err(|error| StepError::no_vf(number, pf, error))
}
