//! What a PF keeps of its VFs, and the mode of its eswitch: set by netlink, read back, taken back. VFs that come to be
//! within the change are entered nowhere: they go with it.

use super::{Operation, StepError, Store, Task, Undo, UndoList, expect};
use crate::facts::uplink;
use crate::ledger::{Ledger, VfKey};
use crate::value::PciAddress;
use crate::value::vf::{EswitchMode, VfAttributes};

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVERS_PROBE: &str = "/sys/bus/pci/drivers_probe";

/// [`crate::plan::Action::SetVf`].
pub(super) struct SetVf<'a> {
    pub key: VfKey,
    pub before: &'a VfAttributes,
    pub after: &'a VfAttributes,
    pub start: bool,
    pub limit_s: u32,
}

impl Operation for SetVf<'_> {
    fn describe(&self) -> String {
        format!("set {}: {}", self.key, self.after)
    }

    fn diff(&self) -> String {
        let lines = |sign: char, attributes: &VfAttributes| {
            let named = attributes.named().into_iter();
            named.map(|(name, value)| format!("{sign}{} {name}: {value}\n", self.key)).collect()
        };
        let [gone, come]: [String; 2] = [lines('-', self.before), lines('+', self.after)];
        gone + &come
    }

    fn target(&self) -> Option<String> {
        Some(self.key.to_string())
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        let found = read(store, &self.key);
        found.is_ok_and(|found| self.after.without(&found).is_empty())
    }

    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError> {
        let found = read(store, &self.key)?;
        let left = self.after.without(&found);
        let planned = self.before.among(&left).without(&found).is_empty();
        expect(planned, &self.key.to_string(), &found.among(&left).to_string())?;
        let set = Set { key: self.key.clone(), start: self.start, limit_s: self.limit_s };
        if !left.is_empty() && !self.before.is_empty() {
            let boot = store.boot_id()?;
            let (kind, start, limit_s) = (task.change.kind, self.start, self.limit_s);
            store.update_ledger(|ledger| {
                ledger.begin_vf(&self.key, kind, &boot, (&found, &left), (start, limit_s));
            })?;
            undo.push(Box::new(SetBack { set: set.clone(), to: found.among(&left) }));
        }
        set.run(store, &left)
    }

    fn settle(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        if ledger.vfs.contains_key(&self.key.name()) {
            ledger.settle_vf(&self.key, &read(store, &self.key)?);
        }
        Ok(())
    }
}

/// How attributes get to a VF.
#[derive(Clone)]
struct Set {
    key: VfKey,
    start: bool,
    limit_s: u32,
}

impl Set {
    /// Set them and read them back; the driver of the VF starts after that, if it has to.
    fn run(&self, store: &mut Store, attributes: &VfAttributes) -> Result<(), StepError> {
        let Set { key, start, limit_s } = self;
        let vf = start.then(|| address(store, key)).transpose()?;
        if let Some(vf) = &vf
            && let Some(driver) = driver(store, vf)?
        {
            if attributes.is_empty() {
                return Ok(());
            }
            store.write_attribute(
                &format!("/sys/bus/pci/drivers/{driver}/unbind"),
                vf,
                *limit_s,
            )?;
        }
        let done = write(store, key, attributes, *limit_s);
        // A VF that lost its driver for this gets it back, whatever became of it.
        if let Some(vf) = &vf {
            store.write_attribute(DRIVERS_PROBE, vf, *limit_s)?;
        }
        done
    }
}

/// Sets attributes as they were.
struct SetBack {
    set: Set,
    to: VfAttributes,
}

impl Undo for SetBack {
    fn subject(&self) -> String {
        self.set.key.to_string()
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let key = &self.set.key;
        let left = self.to.without(&read(store, key)?);
        if !left.is_empty() {
            self.set.run(store, &left)?;
        }
        let now = read(store, key)?;
        store.ledger.settle_vf(key, &now);
        Ok(())
    }
}

/// Put the attributes `after` back on a VF that still has `before`.
pub(crate) fn put_back_vf(
    store: &mut Store,
    key: &VfKey,
    (before, after): (&VfAttributes, &VfAttributes),
    (start, limit_s): (bool, u32),
) -> Result<(), StepError> {
    let found = read(store, key)?;
    let as_before = before.without(&found).is_empty();
    expect(as_before, &key.to_string(), &found.among(before).to_string())?;
    Set { key: key.clone(), start, limit_s }.run(store, after)
}

fn write(
    store: &mut Store,
    key: &VfKey,
    attributes: &VfAttributes,
    limit_s: u32,
) -> Result<(), StepError> {
    // The kernel takes both rates or none.
    let mut set = *attributes;
    if set.min_tx_rate.is_some() || set.max_tx_rate.is_some() {
        let found = read(store, key)?;
        set.min_tx_rate = set.min_tx_rate.or(found.min_tx_rate);
        set.max_tx_rate = set.max_tx_rate.or(found.max_tx_rate);
    }
    let interface = interface(store, key)?;
    if let Err(error) = store.writer.set_vf(&interface, key.vf, &set, limit_s) {
        return Err(by_driver(store, key.pf, error.into()));
    }
    let left = attributes.without(&read(store, key)?);
    match left.is_empty() {
        true => Ok(()),
        false => {
            let unlike = StepError::NotAsSet { vf: key.to_string(), left: left.to_string() };
            Err(by_driver(store, key.pf, unlike))
        }
    }
}

/// What a driver cannot do is said with its name.
fn by_driver(store: &Store, pf: PciAddress, source: StepError) -> StepError {
    match driver(store, &pf.to_string()) {
        Ok(Some(driver)) => StepError::Driver { driver, source: Box::new(source) },
        _ => source,
    }
}

/// What a VF has now.
pub(crate) fn read(store: &Store, key: &VfKey) -> Result<VfAttributes, StepError> {
    let interface = interface(store, key)?;
    let table = store.reader.vfs(&interface)?;
    let found = table.vfs.get(&key.vf).copied();
    found.ok_or_else(|| StepError::NotListed { vf: key.to_string() })
}

/// The PF's interface as it is called now: with another mode of the eswitch some drivers make it again, and udev may give it
/// another name then (systemd.net-naming-scheme(7), phys_port_name).
fn interface(store: &Store, key: &VfKey) -> Result<String, StepError> {
    let now = uplink::now(store.reader, key.pf)?;
    now.ok_or(StepError::NoInterface { pf: key.pf })
}

/// The PCI address of a VF.
fn address(store: &Store, key: &VfKey) -> Result<String, StepError> {
    let link = format!("{DEVICES}/{}/virtfn{}", key.pf, key.vf);
    let target = store.reader.link(&link).map_err(|source| StepError::NoVf {
        number: key.vf,
        pf: key.pf,
        source,
    })?;
    Ok(target.rsplit('/').next().unwrap_or(&target).to_owned())
}

/// The driver of a function.
fn driver(store: &Store, address: &str) -> Result<Option<String>, StepError> {
    match store.reader.link(&format!("{DEVICES}/{address}/driver")) {
        Ok(target) => Ok(target.rsplit('/').next().map(str::to_owned)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// [`crate::plan::Action::SetEswitch`].
pub(super) struct SetEswitch {
    pub pf: PciAddress,
    pub before: EswitchMode,
    pub after: EswitchMode,
    pub limit_s: u32,
}

impl Operation for SetEswitch {
    fn describe(&self) -> String {
        format!("set the eswitch of {} to {}", self.pf, self.after)
    }

    fn diff(&self) -> String {
        let SetEswitch { pf, before, after, .. } = self;
        format!("-{pf} eswitch mode: {before}\n+{pf} eswitch mode: {after}\n")
    }

    fn target(&self) -> Option<String> {
        Some(format!("eswitch of {}", self.pf))
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        mode(store, self.pf).is_ok_and(|mode| mode == self.after)
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        let now = mode(store, self.pf)?;
        let planned = now == self.after || now == self.before;
        expect(planned, &format!("the eswitch of {}", self.pf), &now.to_string())?;
        let boot = store.boot_id()?;
        ledger.begin_eswitch(self.pf, task.change.kind, &boot, (now, self.after), self.limit_s);
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let now = mode(store, self.pf)?;
        if now == self.after {
            return Ok(());
        }
        undo.push(Box::new(SwitchBack { pf: self.pf, mode: now, limit_s: self.limit_s }));
        switch(store, self.pf, self.after, self.limit_s)
    }

    fn settle(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        ledger.settle_eswitch(self.pf, mode(store, self.pf)?);
        Ok(())
    }
}

/// Sets the mode that was there.
struct SwitchBack {
    pf: PciAddress,
    mode: EswitchMode,
    limit_s: u32,
}

impl Undo for SwitchBack {
    fn subject(&self) -> String {
        format!("eswitch of {}", self.pf)
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        switch(store, self.pf, self.mode, self.limit_s)?;
        store.ledger.settle_eswitch(self.pf, self.mode);
        Ok(())
    }
}

/// Change a mode and read it back.
pub(crate) fn switch(
    store: &mut Store,
    pf: PciAddress,
    to: EswitchMode,
    limit_s: u32,
) -> Result<(), StepError> {
    if let Err(error) = store.writer.set_eswitch(pf, to, limit_s) {
        return Err(by_driver(store, pf, error.into()));
    }
    match mode(store, pf)? {
        now if now == to => Ok(()),
        now => Err(StepError::EswitchIgnored { pf, now, to }),
    }
}

/// The mode now.
fn mode(store: &Store, pf: PciAddress) -> Result<EswitchMode, StepError> {
    store.reader.eswitch(pf)?.ok_or(StepError::NoEswitch { pf })
}
