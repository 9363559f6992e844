//! Taking back what a change has done when one of its actions fails: files by the ledger, which also knows what an
//! earlier run of the same change did before it was cut short; the rest by the list of what was done.

use super::act::{attribute, register, same_value, to_write, write_bits};
use super::{Left, Restored, Store, bind, run_tool};
use crate::ledger::{RegisterKey, UndoTool, Unfinished};

/// One thing that a change has done, or was about to do, and that is not a file.
pub(crate) enum Undo {
    /// Write the value that was there.
    Attribute { path: String, value: String, limit_s: u32 },
    /// Take a driver from a VF.
    Bound { vf: String, driver: String, driver_override: String, limit_s: u32 },
    /// Run the tool that undoes another.
    Tool { record: UndoTool },
    /// Set the bits as they were.
    Register { key: RegisterKey, mask: u16, value: u16 },
    /// A module was loaded or unloaded. That is not taken back: neither way is safe to try blindly.
    Module { module: String, was: &'static str },
}

/// Take everything back, the last first, then the files and the directories made for them. The ledger is settled in
/// memory only.
pub(super) fn all(store: &mut Store, change: &str, undo: Vec<Undo>) -> Restored {
    let mut restored = Restored::default();
    for step in undo.iter().rev() {
        note(&mut restored, subject(step), one(store, step).map(|()| true));
    }
    let files = store.ledger.unfinished_of(change);
    for path in &files {
        note(&mut restored, path.clone(), file(store, path));
    }
    let above =
        |directory: &String| files.iter().any(|file| file.starts_with(&format!("{directory}/")));
    let made: Vec<String> =
        store.ledger.directories.iter().rev().filter(|path| above(path)).cloned().collect();
    for directory in made {
        // One that is not empty has become somebody's, or is still needed; it stays recorded for revert.
        if let Ok(true) = store.writer.remove_directory(&directory) {
            store.ledger.directories.remove(&directory);
        }
    }
    restored
}

fn note(restored: &mut Restored, subject: String, result: Result<bool, String>) {
    match result {
        Ok(true) => restored.back.push(subject),
        Ok(false) => {}
        Err(why) => restored.left.push(Left { subject, why }),
    }
}

fn subject(step: &Undo) -> String {
    match step {
        Undo::Attribute { path, .. } => path.clone(),
        Undo::Bound { vf, .. } => format!("driver of {vf}"),
        Undo::Tool { record } => record.purpose.clone(),
        Undo::Register { key, .. } => format!("{} of {}", key.register, key.address),
        Undo::Module { module, .. } => format!("module {module}"),
    }
}

/// `false` = it was still as before.
fn file(store: &mut Store, path: &str) -> Result<bool, String> {
    let unfinished = store.ledger.files.get(path).and_then(|record| record.unfinished.clone());
    let Some(Unfinished { before, .. }) = unfinished else { return Ok(false) };
    let changed = store.see(path)?.was != before;
    store.put(path, &before)?;
    store.ledger.settle_file(path, &before);
    Ok(changed)
}

fn one(store: &mut Store, step: &Undo) -> Result<(), String> {
    match step {
        Undo::Attribute { path, value, limit_s } => {
            store
                .writer
                .write_attribute(path, to_write(value), *limit_s)
                .map_err(|error| error.to_string())?;
            let now = attribute(store, path)?;
            if !same_value(&now, value) {
                return Err(format!("it reads {now:?} after {value:?} was written back"));
            }
            store.ledger.settle_attribute(path, &now);
        }
        Undo::Bound { vf, driver, driver_override, limit_s } => {
            bind::unbind(store, vf, driver, driver_override, *limit_s)?;
        }
        Undo::Tool { record } => {
            run_tool(store, &record.argv, record.limit_s).map_err(|failure| failure.why)?;
            store.ledger.drop_undo(record);
        }
        Undo::Register { key, mask, value } => {
            write_bits(store, key, *mask, *value)?;
            let now = register(store, key.address, key.offset)?;
            store.ledger.settle_register(key, now);
        }
        Undo::Module { was, .. } => return Err(format!("it was {was}, and is left as it is now")),
    }
    Ok(())
}
