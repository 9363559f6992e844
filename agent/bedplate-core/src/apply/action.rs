//! Operations behind the actions of a plan: one file per action, one arm in [`operation_for`]. An action reads,
//! compares, returns early when equal, writes, and reads back. The ledger records a change before its first write.

mod attribute;
mod bind_vfs;
mod eswitch;
pub mod file;
mod made_files;
mod module;
mod program;
pub(crate) mod register;
pub(crate) mod setting;
pub mod tool;
mod verify;
pub(crate) mod vf_attributes;

use super::error::StepError;
use super::store::{FoundFile, expect_written};
use super::{Checker, Store};
use crate::ledger::{Generator, Ledger};
use crate::plan::{Action, Change, ToolUndo};

/// Returns the operation of an action.
pub(crate) fn operation_for(action: &Action) -> Box<dyn Operation + '_> {
    match action {
        Action::ReplaceFile { path, before, after } => {
            Box::new(file::ReplaceFile { path, before: before.as_ref(), after: after.as_ref() })
        }
        Action::WriteAttribute(action) => Box::new(action.clone()),
        Action::SetConfigBits(action) => Box::new(action.clone()),
        Action::SetEswitch(action) => Box::new(action.clone()),
        Action::SetVf(action) => Box::new(action.clone()),
        Action::RunTool { argv, purpose, touches, undo, limit_s } => {
            Box::new(tool::RunTool { argv, purpose, touches, undo, limit_s: *limit_s })
        }
        Action::BindVfs { pf, count, driver, limit_s } => {
            Box::new(bind_vfs::BindVfs { pf: *pf, count: *count, driver, limit_s: *limit_s })
        }
        Action::LoadModule { module } => Box::new(module::LoadModule { module }),
        Action::UnloadModule { module } => Box::new(module::UnloadModule { module }),
        Action::Verify(check) => Box::new(verify::Verify { check }),
    }
}

/// An action, as used by the executor and the reports.
pub(crate) trait Operation {
    /// Describes the action for operators.
    fn describe(&self) -> String;

    /// Returns the effect as lines of a patch: `+` for the new state, `-` for the current one.
    fn diff(&self) -> String;

    /// Returns the action's line in a plan, next to the items of the change called `subject`. `None` if the items
    /// suffice.
    fn plan_line(&self, _subject: &str) -> Option<String> {
        None
    }

    /// Whether the action may take seconds to minutes, as tools and drivers do. It is then announced first.
    fn may_take_long(&self) -> bool {
        true
    }

    /// Returns the object acted on. A later action of the same change on the same target overrides this one (a VF count
    /// of 0, then of 8). `None`: nothing can override it.
    fn target(&self) -> Option<String> {
        None
    }

    /// Whether nothing is left to do. Reads only.
    fn is_done(&self, store: &Store, task: Task) -> bool;

    /// Inspects the host before the change's first write, and records the current state in `ledger`. Fails if that
    /// state differs from the planned one. `first`: no earlier action of the change has the same target. State that is
    /// known only during the change is recorded by [`Operation::execute`].
    fn record(
        &self,
        _store: &mut Store,
        _ledger: &mut Ledger,
        _task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        Ok(())
    }

    /// Executes the action and reads it back. Pushes every effect on `undo` before its write, except files, which the
    /// ledger restores.
    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError>;

    /// Records the current state in `ledger` once the whole change is done.
    fn record_result(&self, _store: &Store, _ledger: &mut Ledger) -> Result<(), StepError> {
        Ok(())
    }
}

/// Context of an action: its change and the checker.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The change.
    pub change: &'a Change,
    /// Evaluates checks.
    pub checker: Checker<'a>,
}

/// An undo step for an effect of an action, performed or about to be performed, that is not a file.
pub trait Undo {
    /// Returns the subject.
    fn subject(&self) -> String;

    /// Whether the files of the change must be restored first.
    fn needs_files(&self) -> bool {
        false
    }

    /// Restores the previous state, reads it back, and settles the ledger in memory.
    fn run(&self, store: &mut Store) -> Result<(), StepError>;
}

/// Undo steps of a change so far, oldest first.
pub(crate) type UndoList = Vec<Box<dyn Undo>>;

/// Fails unless the subject still is as planned: later changes by other tools must not be overwritten.
pub(crate) fn expect(as_planned: bool, subject: &str, found: &str) -> Result<(), StepError> {
    match as_planned {
        true => Ok(()),
        false => Err(StepError::new(format!(
            "{subject} changed since planning (now {found}): plan again"
        ))),
    }
}

/// Returns the tools of a change that generate files from other files.
fn generators(change: &Change) -> Vec<Generator> {
    let tools = change.actions.iter().filter_map(|action| match action {
        Action::RunTool { argv, purpose, undo: ToolUndo::Repeat, limit_s, .. } => {
            Some(Generator { argv: argv.clone(), purpose: purpose.clone(), limit_s: *limit_s })
        }
        _ => None,
    });
    tools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{SetEswitch, SetVf, VfKey};
    use bedplate_base::value::vf::{EswitchMode, VfAttributes};

    #[test]
    fn driver_dependent_actions_are_announced_first() {
        let pf = "0000:18:00.0".parse().unwrap();
        let (interface, driver) = ("ens1f0".to_owned(), "vfio-pci".to_owned());
        let (none, limit_s) = (VfAttributes::default(), 5);
        let (before, after) = (EswitchMode::Legacy, EswitchMode::Switchdev);
        let slow = [
            Action::UnloadModule { module: "nvidia_peermem".into() },
            Action::BindVfs { pf, count: 8, driver, limit_s },
            Action::SetVf(SetVf {
                key: VfKey { pf, interface, vf: 0 },
                before: none,
                after: none,
                start: true,
                limit_s,
            }),
            Action::SetEswitch(SetEswitch { pf, before, after, limit_s }),
        ];
        let may_take_long = |action: &Action| operation_for(action).may_take_long();
        assert!(slow.iter().all(may_take_long));
        let path = "/etc/default/grub".to_owned();
        assert!(!may_take_long(&Action::ReplaceFile { path, before: None, after: None }));
    }
}
