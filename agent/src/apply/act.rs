//! One action: read, compare, return early when equal, write, read back. Files are taken back by the ledger; what else
//! the action changes is pushed on the undo list.

use super::undo::Undo;
use super::{Answer, Checker, Store, bind};
use crate::host::{Reader, ToolEnd, ToolOutput};
use crate::ledger::{By, Generator, RegisterKey, UndoTool};
use crate::plan::{Action, Change, Check, FileContent, WayBack};
use crate::value::PciAddress;

/// Mode of a new file: configuration that everybody may read.
const NEW_FILE: u32 = 0o644;
/// Seconds a module may take: a GPU driver starts firmware on every GPU of the machine.
const MODULE_LIMIT_S: u32 = 300;

/// Why an action failed.
pub(crate) struct Failure {
    pub why: String,
    pub output: Option<String>,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Failure { why, output: None }
    }
}

/// Do one action. What it changes is in the ledger already, or, where that is known only now, is written down first.
pub(super) fn act(
    store: &mut Store,
    checker: Checker,
    change: &Change,
    action: &Action,
    undo: &mut Vec<Undo>,
) -> Result<(), Failure> {
    match action {
        Action::ReplaceFile { path, before, after } => {
            replace(store, path, before.as_ref(), after.as_ref()).map_err(Failure::from)
        }
        Action::WriteAttribute { path, before, after, limit_s } => {
            let now = attribute(store, path)?;
            if same_value(&now, after) {
                return Ok(());
            }
            expect(same_value(&now, before), path, &format!("{now:?}"))?;
            undo.push(Undo::Attribute { path: path.clone(), value: now, limit_s: *limit_s });
            store
                .writer
                .write_attribute(path, after, *limit_s)
                .map_err(|error| error.to_string())?;
            let now = attribute(store, path)?;
            match same_value(&now, after) {
                true => Ok(()),
                false => {
                    Err(format!("{path} reads {now:?} after {after:?} was written to it").into())
                }
            }
        }
        Action::SetConfigBits { address, offset, mask, value, before, register: name } => {
            let key = RegisterKey { address: *address, offset: *offset, register: name.clone() };
            set_bits(store, &key, (*mask, *value), *before, undo).map_err(Failure::from)
        }
        Action::RunTool { .. } => {
            tool(store, By { kind: change.kind, change: &change.id }, action, undo)
        }
        Action::BindVfs { pf, count, driver, limit_s } => {
            bind::bind(store, change.kind, (*pf, *count), driver, *limit_s, undo)
                .map_err(Failure::from)
        }
        Action::LoadModule { module } => load(store, checker, module, undo),
        Action::UnloadModule { module } => unload(store, module, undo),
        Action::Verify(check) => verify(store, checker, check).map_err(Failure::from),
    }
}

fn replace(
    store: &mut Store,
    path: &str,
    before: Option<&FileContent>,
    after: Option<&FileContent>,
) -> Result<(), String> {
    let bytes = |content: Option<&FileContent>| content.map(|content| content.bytes.clone());
    let now = store.see(path)?.bytes;
    if now == bytes(after) {
        return Ok(());
    }
    expect(now == bytes(before), path, "something else")?;
    match after {
        Some(content) => store.writer.replace_file(path, &content.bytes, NEW_FILE),
        None => store.writer.remove_file(path),
    }
    .map_err(|error| error.to_string())?;
    match store.see(path)?.bytes == bytes(after) {
        true => Ok(()),
        false => Err(format!("{path} reads back otherwise than it was written")),
    }
}

/// A subject must be as it was when the plan was made: what somebody has changed since is not overwritten.
pub(crate) fn expect(as_planned: bool, subject: &str, found: &str) -> Result<(), String> {
    match as_planned {
        true => Ok(()),
        false => Err(format!(
            "{subject} has changed since the plan was made (it holds {found}): plan again"
        )),
    }
}

/// An attribute's value now.
pub(crate) fn attribute(store: &Store, path: &str) -> Result<String, String> {
    store.reader.attribute(path).map_err(|error| error.to_string())
}

/// What to write for an attribute to read `value` again: what shows emptiness is not written as such.
pub(crate) fn to_write(value: &str) -> &str {
    if value.trim() == "(null)" { "" } else { value }
}

/// Whether two attribute values are the same; `driver_override` reads `(null)` when it is empty
/// (drivers/pci/pci-sysfs.c, driver_override_show).
pub(crate) fn same_value(a: &str, b: &str) -> bool {
    to_write(a).trim() == to_write(b).trim()
}

/// A 16-bit register now.
pub(super) fn register(store: &Store, address: PciAddress, offset: u16) -> Result<u16, String> {
    register_now(store.reader, address, offset)
}

/// The same, without a ledger at hand.
pub(crate) fn register_now(
    reader: &dyn Reader,
    address: PciAddress,
    offset: u16,
) -> Result<u16, String> {
    let mut bytes = [0; 2];
    let config = reader.config(address).map_err(|error| error.to_string())?;
    match config.read(offset, &mut bytes).map_err(|error| error.to_string())? {
        2 => Ok(u16::from_le_bytes(bytes)),
        _ => Err(format!("config space of {address} ends before offset {offset:#x}: run as root")),
    }
}

fn set_bits(
    store: &mut Store,
    key: &RegisterKey,
    (mask, value): (u16, u16),
    before: u16,
    undo: &mut Vec<Undo>,
) -> Result<(), String> {
    let now = register(store, key.address, key.offset)?;
    if now & mask == value & mask {
        return Ok(());
    }
    let subject = format!("{} of {}", key.register, key.address);
    expect(now & mask == before & mask, &subject, &format!("{now:#06x}"))?;
    undo.push(Undo::Register { key: key.clone(), mask, value: now & mask });
    write_bits(store, key, mask, value)
}

/// Set bits of a register and read them back; other bits keep their present value.
pub(crate) fn write_bits(
    store: &mut Store,
    key: &RegisterKey,
    mask: u16,
    value: u16,
) -> Result<(), String> {
    let now = register(store, key.address, key.offset)?;
    let to = now & !mask | value & mask;
    store.writer.write_config(key.address, key.offset, to).map_err(|error| error.to_string())?;
    let now = register(store, key.address, key.offset)?;
    match (now ^ to) & mask {
        0 => Ok(()),
        stuck => Err(format!(
            "{} of {} reads {now:#06x} after {to:#06x} was written: the hardware does not let bits {stuck:#06x} go",
            key.register, key.address
        )),
    }
}

fn tool(store: &mut Store, by: By, action: &Action, undo: &mut Vec<Undo>) -> Result<(), Failure> {
    let Action::RunTool { argv, purpose, touches, way_back, limit_s } = action else {
        return Ok(());
    };
    let generator = Generator { argv: argv.clone(), purpose: purpose.clone(), limit_s: *limit_s };
    save_touched(store, by, touches, (*way_back == WayBack::Repeat).then_some(&generator))?;
    let WayBack::Run { argv: back } = way_back else { return run_tool(store, argv, *limit_s) };
    let record = UndoTool {
        kind: by.kind.into(),
        argv: back.clone(),
        purpose: purpose.clone(),
        limit_s: *limit_s,
    };
    // Before it runs: a run that is cut short may have done its work.
    store.note(|ledger| ledger.begin_undo(record.clone()))?;
    run_tool(store, argv, *limit_s).inspect_err(|_| store.ledger.drop_undo(&record))?;
    undo.push(Undo::Tool { record });
    Ok(())
}

/// Save what a tool may rewrite, and write down that it is about to.
pub(crate) fn save_touched(
    store: &mut Store,
    by: By,
    touches: &[String],
    generator: Option<&Generator>,
) -> Result<(), String> {
    let mut seen = Vec::new();
    for path in touches {
        let now = store.see(path)?;
        store.keep(&now)?;
        seen.push((path, now.was));
    }
    store.note(|ledger| {
        for (path, was) in &seen {
            ledger.begin_tool_file(path, by, was, generator.cloned());
        }
    })
}

/// Run a tool; anything but exit status 0 is a failure.
pub(crate) fn run_tool(store: &mut Store, argv: &[String], limit_s: u32) -> Result<(), Failure> {
    let ToolOutput { end, output } = store.writer.run_tool(argv, limit_s);
    match end {
        ToolEnd::Exited(0) => Ok(()),
        end => Err(Failure { why: format!("{}: {end}", argv.join(" ")), output: Some(output) }),
    }
}

fn load(
    store: &mut Store,
    checker: Checker,
    module: &str,
    undo: &mut Vec<Undo>,
) -> Result<(), Failure> {
    let live = Check::ModuleLive { module: module.to_owned() };
    if checker(&live, store.reader) == Answer::Holds {
        return Ok(());
    }
    undo.push(Undo::Module { module: module.to_owned(), was: "not loaded" });
    let argv = ["modprobe", "--", module].map(str::to_owned);
    run_tool(store, &argv, MODULE_LIMIT_S)?;
    verify(store, checker, &live).map_err(Failure::from)
}

fn unload(store: &mut Store, module: &str, undo: &mut Vec<Undo>) -> Result<(), Failure> {
    if is_unloaded(store, module)? {
        return Ok(());
    }
    undo.push(Undo::Module { module: module.to_owned(), was: "loaded" });
    let argv = ["modprobe", "-r", "--", module].map(str::to_owned);
    run_tool(store, &argv, MODULE_LIMIT_S)?;
    match is_unloaded(store, module)? {
        true => Ok(()),
        false => Err(format!("module {module} is still loaded").into()),
    }
}

/// Only a loaded module has `initstate`; a built-in one cannot go and has none (handbook §9).
pub(super) fn is_unloaded(store: &Store, module: &str) -> Result<bool, String> {
    let there = store.reader.exists(&format!("/sys/module/{module}/initstate"));
    there.map(|there| !there).map_err(|error| error.to_string())
}

fn verify(store: &Store, checker: Checker, check: &Check) -> Result<(), String> {
    match checker(check, store.reader) {
        Answer::Holds => Ok(()),
        Answer::Not(why) => Err(why),
        Answer::Unknown(why) => Err(format!("it cannot be told: {why}")),
    }
}
