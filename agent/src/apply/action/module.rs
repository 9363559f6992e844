//! Loading and unloading a module by `modprobe`. Neither is undone: neither way is safe to try blindly.

use super::{Failure, Operation, Store, Task, Undo, UndoList, tool, verify};
use crate::host::module::is_loaded;
use crate::plan::Check;

/// Seconds a module may take: a GPU driver starts firmware on every GPU of the machine.
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

    fn execute(&self, store: &mut Store, task: Task, undo: &mut UndoList) -> Result<(), Failure> {
        if self.is_done(store, task) {
            return Ok(());
        }
        undo.push(Box::new(Stays { module: self.module.to_owned(), was: "not loaded" }));
        tool::run(store, &["modprobe", "--", self.module].map(str::to_owned), LIMIT_S)?;
        Ok(verify::verify(store, task, &self.live())?)
    }
}

/// [`crate::plan::Action::UnloadModule`].
pub(super) struct UnloadModule<'a> {
    pub module: &'a str,
}

impl UnloadModule<'_> {
    fn is_loaded(&self, store: &Store) -> Result<bool, String> {
        is_loaded(store.reader, self.module).map_err(|error| error.to_string())
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
        self.is_loaded(store) == Ok(false)
    }

    fn execute(&self, store: &mut Store, _task: Task, undo: &mut UndoList) -> Result<(), Failure> {
        if !self.is_loaded(store)? {
            return Ok(());
        }
        undo.push(Box::new(Stays { module: self.module.to_owned(), was: "loaded" }));
        tool::run(store, &["modprobe", "-r", "--", self.module].map(str::to_owned), LIMIT_S)?;
        match self.is_loaded(store)? {
            false => Ok(()),
            true => Err(format!("module {} is still loaded", self.module).into()),
        }
    }
}

/// A module that was loaded or unloaded.
struct Stays {
    module: String,
    was: &'static str,
}

impl Undo for Stays {
    fn subject(&self) -> String {
        format!("module {}", self.module)
    }

    fn run(&self, _store: &mut Store) -> Result<(), String> {
        Err(format!("it was {}, and is left as it is now", self.was))
    }
}
