//! Writing a sysfs attribute.

use super::{Operation, StepError, Store, Task, Undo, UndoList, expect, expect_written};
use crate::ledger::Ledger;
use bedplate_base::value::PciAddress;

/// [`crate::plan::Action::WriteAttribute`].
pub(super) struct WriteAttribute<'a> {
    pub path: &'a str,
    pub before: &'a str,
    pub after: &'a str,
    pub limit_s: u32,
}

impl Operation for WriteAttribute<'_> {
    fn describe(&self) -> String {
        format!("write {:?} to {}", self.after, self.path)
    }

    fn diff(&self) -> String {
        format!("-{path}: {}\n+{path}: {}\n", self.before, self.after, path = self.path)
    }

    fn target(&self) -> Option<String> {
        Some(self.path.to_owned())
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        store.attribute(self.path).is_ok_and(|now| same_value(&now, self.after))
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        first: bool,
    ) -> Result<(), StepError> {
        let now = store.attribute(self.path)?;
        if first && !same_value(&now, self.after) {
            expect(same_value(&now, self.before), self.path, &format!("{now:?}"))?;
        }
        let (boot, values) = (store.boot_id()?, (now.as_str(), self.after));
        ledger.begin_attribute(self.path, task.change.kind, &boot, values, self.limit_s);
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let WriteAttribute { path, after, limit_s, .. } = *self;
        let now = store.attribute(path)?;
        if same_value(&now, after) {
            return Ok(());
        }
        expect(same_value(&now, self.before), path, &format!("{now:?}"))?;
        undo.push(Box::new(RestoreAttribute { path: path.to_owned(), value: now, limit_s }));
        let now = write(store, path, after, limit_s)?;
        match same_value(&now, after) {
            true => Ok(()),
            false => Err(StepError::AttributeIgnored {
                path: path.to_owned(),
                now,
                written: after.to_owned(),
            }),
        }
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        record_result(store, ledger, self.path)
    }
}

/// Writes the value that was there.
struct RestoreAttribute {
    path: String,
    value: String,
    limit_s: u32,
}

impl Undo for RestoreAttribute {
    fn subject(&self) -> String {
        self.path.clone()
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let RestoreAttribute { path, value, limit_s } = self;
        let now = write(store, path, to_write(value), *limit_s)?;
        if !same_value(&now, value) {
            return Err(StepError::NotWrittenBack { now, written: value.clone() });
        }
        store.ledger.settle_attribute(path, &now);
        Ok(())
    }
}

/// Enter in `ledger` that the change of an attribute is over.
pub(super) fn record_result(
    store: &Store,
    ledger: &mut Ledger,
    path: &str,
) -> Result<(), StepError> {
    ledger.settle_attribute(path, &store.attribute(path)?);
    Ok(())
}

/// Put the value `after` back into an attribute that still holds `before`.
pub(crate) fn put_back(
    store: &mut Store,
    path: &str,
    (before, after): (&str, &str),
    limit_s: u32,
) -> Result<(), StepError> {
    expect(same_value(&store.attribute(path)?, before), path, "something else")?;
    let now = write(store, path, to_write(after), limit_s)?;
    expect_written(same_value(&now, after), path)
}

/// Write an attribute; returns what it reads afterwards.
fn write(store: &mut Store, path: &str, value: &str, limit_s: u32) -> Result<String, StepError> {
    if let Some(pf) = pf_of_vfs(path) {
        store.expect_answers(pf)?;
    }
    store.write_attribute(path, value, limit_s)?;
    store.attribute(path)
}

/// The PF whose driver makes and removes VFs when this is written.
fn pf_of_vfs(path: &str) -> Option<PciAddress> {
    path.strip_prefix("/sys/bus/pci/devices/")?.strip_suffix("/sriov_numvfs")?.parse().ok()
}

/// What to write for an attribute to read `value` again: what shows emptiness is not written as such.
pub(super) fn to_write(value: &str) -> &str {
    if value.trim() == "(null)" { "" } else { value }
}

/// Whether two attribute values are the same; `driver_override` reads `(null)` when it is empty
/// (drivers/pci/pci-sysfs.c, driver_override_show).
pub(super) fn same_value(a: &str, b: &str) -> bool {
    to_write(a).trim() == to_write(b).trim()
}
