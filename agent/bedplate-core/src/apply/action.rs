//! What the program knows of each action: one file an action, one row in [`operation_for`]. An action reads, compares, returns
//! early when equal, writes, and reads back; what it changes is in the ledger before it is changed.

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
use crate::plan::{Action, Change, WayBack};

/// The row of each action.
pub(crate) fn operation_for(action: &Action) -> Box<dyn Operation + '_> {
    match action {
        Action::ReplaceFile { path, before, after } => {
            Box::new(file::ReplaceFile { path, before: before.as_ref(), after: after.as_ref() })
        }
        Action::WriteAttribute(action) => Box::new(action.clone()),
        Action::SetConfigBits(action) => Box::new(action.clone()),
        Action::SetEswitch(action) => Box::new(action.clone()),
        Action::SetVf(action) => Box::new(action.clone()),
        Action::RunTool { argv, purpose, touches, way_back, limit_s } => {
            Box::new(tool::RunTool { argv, purpose, touches, way_back, limit_s: *limit_s })
        }
        Action::BindVfs { pf, count, driver, limit_s } => {
            Box::new(bind_vfs::BindVfs { pf: *pf, count: *count, driver, limit_s: *limit_s })
        }
        Action::LoadModule { module } => Box::new(module::LoadModule { module }),
        Action::UnloadModule { module } => Box::new(module::UnloadModule { module }),
        Action::Verify(check) => Box::new(verify::Verify { check }),
    }
}

/// One action, as the executor and the reports use it.
pub(crate) trait Operation {
    /// What is being done, for people.
    fn describe(&self) -> String;

    /// What it changes, as lines of a patch: `+` for what will be there, `-` for what is there now.
    fn diff(&self) -> String;

    /// The line that it gets in a plan beside the items of the change called `subject`; none where the items say it all.
    fn plan_line(&self, _subject: &str) -> Option<String> {
        None
    }

    /// Whether it may take seconds to minutes, as tools and drivers do: then it is shown before it begins.
    fn may_take_long(&self) -> bool {
        true
    }

    /// What it acts on. A later action of the same change on the same target overrules this one (a VF count of 0,
    /// then of 8). `None`: nothing can overrule it.
    fn target(&self) -> Option<String> {
        None
    }

    /// Whether there is nothing left to do. Reads only.
    fn is_done(&self, store: &Store, task: Task) -> bool;

    /// Before the change's first write: look at what is there, refuse it where it is not as planned, and enter it in
    /// `ledger`. `first`: no earlier action of the change has the same target. What is known only while the change
    /// is being made is entered by [`Operation::execute`].
    fn record(
        &self,
        _store: &mut Store,
        _ledger: &mut Ledger,
        _task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        Ok(())
    }

    /// Do it and read it back. The ledger restores files; whatever else it changes, it pushes on `undo`, before the write.
    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError>;

    /// When the whole change is done: enter in `ledger` what is there now.
    fn record_result(&self, _store: &Store, _ledger: &mut Ledger) -> Result<(), StepError> {
        Ok(())
    }
}

/// The change that an action is part of.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The change.
    pub change: &'a Change,
    /// Reads checks back.
    pub checker: Checker<'a>,
}

/// One thing that an action has done, or was about to do, and that is not a file.
pub trait Undo {
    /// Subject.
    fn subject(&self) -> String;

    /// Whether the files of the change have to be put back first.
    fn needs_files(&self) -> bool {
        false
    }

    /// Make it be as it was, read it back, and settle the ledger in memory.
    fn run(&self, store: &mut Store) -> Result<(), StepError>;
}

/// What a change has done so far, oldest first.
pub(crate) type UndoList = Vec<Box<dyn Undo>>;

/// A subject must be as it was when the plan was made: what others have changed since is not overwritten.
pub(crate) fn expect(as_planned: bool, subject: &str, found: &str) -> Result<(), StepError> {
    match as_planned {
        true => Ok(()),
        false => Err(StepError::new(format!(
            "{subject} has changed since the plan was made (it holds {found}): plan again"
        ))),
    }
}

/// The tools of a change that make files from others.
fn generators(change: &Change) -> Vec<Generator> {
    let tools = change.actions.iter().filter_map(|action| match action {
        Action::RunTool { argv, purpose, way_back: WayBack::Repeat, limit_s, .. } => {
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
    fn what_waits_for_a_driver_is_shown_before_it_begins() {
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
