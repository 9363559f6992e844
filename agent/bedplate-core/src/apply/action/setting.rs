//! What settings have in common that are written as one value: read, compare, write, read back, take back. Attributes of VFs,
//! which are set one by one and may need the driver to start again, have a file of their own.

use super::{Operation, Store, Task, Undo, UndoList, expect};
use crate::apply::StepError;
use crate::ledger::{Ledger, Recorded};
use crate::setting::SettingValue;

/// How a setting gets to the host.
pub(crate) trait Writable: Recorded + 'static {
    /// What is being done, for people.
    fn describe(&self) -> String;

    /// As [`Operation::may_take_long`].
    fn may_take_long(&self) -> bool {
        true
    }

    /// Lines of a patch, as [`Operation::diff`].
    fn diff(&self) -> String;

    /// What the setting is on the host.
    fn read(&self, store: &Store) -> Result<Self::Value, StepError>;

    /// Set `value` and read it back.
    fn write(&self, store: &mut Store, value: &Self::Value) -> Result<(), StepError>;
}

/// What is left to do where the setting is `now`; `None`: nothing. What others have changed since the plan is an error.
fn left<C: Recorded>(action: &C, now: &C::Value) -> Result<Option<C::Value>, StepError> {
    let Some(left) = action.after().differing(now) else { return Ok(None) };
    let before = action.before().limited_to(&left);
    expect(before.differing(now).is_none(), &action.name(), &now.limited_to(&left).format())?;
    Ok(Some(left))
}

/// Do what is left of an action.
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
        undo.push(Box::new(Reversed(self.with(left.clone(), now.limited_to(&left)))));
        self.write(store, &left)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        ledger.settle_setting(self, &self.read(store)?);
        Ok(())
    }
}

/// The action that takes another back.
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
