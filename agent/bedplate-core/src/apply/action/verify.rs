//! Evaluates a check within a change: the change fails unless the check holds.

use super::{Operation, StepError, Store, Task, UndoList};
use crate::apply::Answer;
use crate::plan::Check;

/// [`crate::plan::Action::Verify`].
pub(super) struct Verify<'a> {
    pub check: &'a Check,
}

impl Operation for Verify<'_> {
    fn describe(&self) -> String {
        match self.check {
            Check::NextBoot { .. } => "verify the next boot entry".into(),
            Check::ModuleLive { module } => format!("verify that module {module} is live"),
        }
    }

    fn may_take_long(&self) -> bool {
        false
    }

    fn diff(&self) -> String {
        String::new()
    }

    fn is_done(&self, store: &Store, task: Task) -> bool {
        verify(store, task, self.check).is_ok()
    }

    fn execute(
        &self,
        store: &mut Store,
        task: Task,
        _undo: &mut UndoList,
    ) -> Result<(), StepError> {
        verify(store, task, self.check)
    }
}

/// Fails unless the check holds, with the current state. An unknown state is a failure too.
pub(super) fn verify(store: &Store, task: Task, check: &Check) -> Result<(), StepError> {
    match (task.checker)(check, store.reader) {
        Answer::Holds => Ok(()),
        Answer::Not(why) => Err(StepError::new(why)),
        Answer::Unknown(why) => Err(StepError::new(format!("unknown: {why}"))),
    }
}
