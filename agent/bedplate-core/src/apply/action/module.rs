//! Loads and unloads modules with `modprobe`. Neither is undone: neither direction is safe without checks.

use super::{Operation, StepError, Store, Task, Undo, UndoList, program, verify};
use crate::plan::Check;
use bedplate_host::module::is_loaded;

/// Time limit in seconds: a GPU driver starts the firmware of every GPU of the machine.
const LIMIT_S: u32 = 300;

/// [`crate::plan::Action::LoadModule`].
pub(super) struct LoadModule<'a> {
    pub module: &'a str,
}

impl LoadModule<'_> {
    fn live(&self) -> Check {
        Check::ModuleLive { module: self.module.to_owned() }
    }
}

impl Operation for LoadModule<'_> {
    fn describe(&self) -> String {
        format!("load module {}", self.module)
    }

    fn diff(&self) -> String {
        format!("+module {} loaded\n", self.module)
    }

    fn plan_line(&self, _subject: &str) -> Option<String> {
        Some(format!("run modprobe {}", self.module))
    }

    fn is_done(&self, store: &Store, task: Task) -> bool {
        verify::verify(store, task, &self.live()).is_ok()
    }

    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), StepError> {
        if self.is_done(store, task) {
            return Ok(());
        }
        undo.push(Box::new(ModuleUndo { module: self.module.to_owned(), was: "not loaded" }));
        program::run(store, &["modprobe", "--", self.module].map(str::to_owned), LIMIT_S)?;
        verify::verify(store, task, &self.live())
    }
}

/// [`crate::plan::Action::UnloadModule`].
pub(super) struct UnloadModule<'a> {
    pub module: &'a str,
}

impl UnloadModule<'_> {
    fn is_loaded(&self, store: &Store) -> Result<bool, StepError> {
        Ok(is_loaded(store.reader, self.module)?)
    }
}

impl Operation for UnloadModule<'_> {
    fn describe(&self) -> String {
        format!("unload module {}", self.module)
    }

    fn diff(&self) -> String {
        format!("-module {} loaded\n", self.module)
    }

    fn plan_line(&self, _subject: &str) -> Option<String> {
        Some(format!("run modprobe -r {}", self.module))
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        self.is_loaded(store).is_ok_and(|loaded| !loaded)
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        if !self.is_loaded(store)? {
            return Ok(());
        }
        undo.push(Box::new(ModuleUndo { module: self.module.to_owned(), was: "loaded" }));
        program::run(store, &["modprobe", "-r", "--", self.module].map(str::to_owned), LIMIT_S)?;
        match self.is_loaded(store)? {
            false => Ok(()),
            true => Err(StepError::new(format!("module {} is still loaded", self.module))),
        }
    }
}

/// A module that was loaded or unloaded.
struct ModuleUndo {
    module: String,
    was: &'static str,
}

impl Undo for ModuleUndo {
    fn subject(&self) -> String {
        format!("module {}", self.module)
    }

    fn run(&self, _store: &mut Store) -> Result<(), StepError> {
        Err(StepError::new(format!("module left unchanged (previously {})", self.was)))
    }
}
