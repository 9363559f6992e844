//! Common operations of settings that are written as one value: read, compare, write, read back, undo. VF attributes
//! have a file of their own: they are set one by one, and may need a restart of the driver.

use super::{Operation, Store, Task, Undo, UndoList, expect};
use crate::apply::StepError;
use crate::ledger::{Ledger, Recorded};
use crate::setting::SettingValue;

/// Host access of a setting.
pub(crate) trait Writable: Recorded + 'static {
    /// Describes the write for operators.
    fn describe(&self) -> String;

    /// See [`Operation::may_take_long`].
    fn may_take_long(&self) -> bool {
        true
    }

    /// Whether a value that was only partly reached stays, and is not undone.
    fn keeps_part(&self) -> bool {
        false
    }

    /// Returns lines of a patch, as [`Operation::diff`] does.
    fn diff(&self) -> String;

    /// Reads the setting on the host.
    fn read(&self, store: &Store) -> Result<Self::Value, StepError>;

    /// Sets `value` and reads it back.
    fn write(&self, store: &mut Store, value: &Self::Value) -> Result<(), StepError>;
}

/// Returns the remaining part of the action where the setting is `now`; `None` if it is done. Fails if the setting has
/// changed since the plan.
fn left<C: Recorded>(action: &C, now: &C::Value) -> Result<Option<C::Value>, StepError> {
    let Some(left) = action.after().differing(now) else { return Ok(None) };
    let before = action.before().limited_to(&left);
    expect(before.differing(now).is_none(), &action.name(), &now.limited_to(&left).format())?;
    Ok(Some(left))
}

/// Executes the remaining part of an action.
pub(crate) fn run(store: &mut Store, action: &impl Writable) -> Result<(), StepError> {
    match left(action, &action.read(store)?)? {
        Some(left) => action.write(store, &left),
        None => Ok(()),
    }
}

impl<C: Writable> Operation for C {
    fn describe(&self) -> String {
        Writable::describe(self)
    }

    fn may_take_long(&self) -> bool {
        Writable::may_take_long(self)
    }

    fn diff(&self) -> String {
        Writable::diff(self)
    }

    fn target(&self) -> Option<String> {
        Some(self.name())
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        self.read(store).is_ok_and(|now| self.after().differing(&now).is_none())
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        first: bool,
    ) -> Result<(), StepError> {
        let now = self.read(store)?;
        if first {
            left(self, &now)?;
        }
        ledger.begin_setting(self, task.change.kind, &store.boot_id()?, &now);
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let now = self.read(store)?;
        let Some(left) = left(self, &now)? else { return Ok(()) };
        if self.keeps_part() {
            let result = self.write(store, &left);
            let now = self.read(store)?;
            store.ledger.settle_setting(self, &now);
            return result;
        }
        undo.push(Box::new(Reversed(self.with(left.clone(), now.limited_to(&left)))));
        self.write(store, &left)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        ledger.settle_setting(self, &self.read(store)?);
        Ok(())
    }
}

/// The inverse of an executed action.
struct Reversed<C>(C);

impl<C: Writable> Undo for Reversed<C> {
    fn subject(&self) -> String {
        self.0.name()
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        let Reversed(action) = self;
        action.write(store, &action.after())?;
        let now = action.read(store)?;
        store.ledger.settle_setting(action, &now);
        Ok(())
    }
}
