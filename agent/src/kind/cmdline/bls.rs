//! RHEL, Fedora and kin: Boot Loader Specification entries that GRUB reads (handbook §10.3). The entries carry the
//! line of the installed kernels; /etc/default/grub and /etc/kernel/cmdline give it to kernels to come: all are kept alike.

use super::files::{self, raw, readable, replace, verify};
use super::grub;
use super::{Context, NAME, Observed, Obstacle, Steps};
use crate::boot::bls::{BlsEntry, Reader as BlsReader, grub_order};
use crate::boot::grub_cfg::{Entry, default_entry};
use crate::boot::grub_files::GrubFiles;
use crate::boot::grub_quote;
use crate::boot::grubenv::Grubenv;
use crate::boot::kernel_cmdline;
use crate::cmdline::{CommandLine, Edit, LineDiff, Token, fold_name};
use crate::facts::Facts;
use crate::host::{HostKind, ReadError, Reader, Reading};
use crate::plan::{Action, WayBack};

/// Entry directory (Boot Loader Specification, $BOOT is /boot on these systems).
const ENTRIES: &str = "/boot/loader/entries";
const GRUBENV: &str = "/boot/grub2/grubenv";
const GRUB_CFG: &str = "/boot/grub2/grub.cfg";
const KERNEL_CMDLINE: &str = "/etc/kernel/cmdline";
const DEFAULT_GRUB: &str = "/etc/default/grub";
const GRUBBY: &str = "/usr/sbin/grubby";

/// One entry file.
pub struct EntryFile {
    /// Its path.
    pub path: String,
    /// What it says.
    pub entry: BlsEntry,
}

/// Every entry of a directory; a link that leads nowhere is none.
///
/// # Errors
/// When the directory or an entry cannot be read.
pub fn entry_files(reader: &dyn Reader, directory: &str) -> Result<Vec<EntryFile>, ReadError> {
    let names = reader.list(directory)?.into_iter().filter(|name| name.ends_with(".conf"));
    let read = |name: String| {
        let path = format!("{directory}/{name}");
        match raw(reader, &path) {
            Ok(text) => Some(Ok(EntryFile { entry: BlsEntry::parse(&name, &text), path })),
            Err(error) if error.is_absent() => None,
            Err(error) => Some(Err(error)),
        }
    };
    names.filter_map(read).collect()
}

/// Reads both states.
pub fn observe(reader: &dyn Reader, _: &Facts) -> Observed {
    let mut remarks = Vec::new();
    let configured = match raw(reader, KERNEL_CMDLINE) {
        Ok(text) => match kernel_cmdline::cmdline(&text, BlsReader::Grub) {
            Ok(line) => readable(KERNEL_CMDLINE, &line),
            Err(error) => Reading::unknown(format!("{KERNEL_CMDLINE}: {error}")),
        },
        Err(error) if error.is_absent() => grub::read(reader, &grub::RHEL, &mut remarks),
        Err(error) => Reading::unknown(error),
    };
    Observed { configured, next: next(reader), remarks }
}

/// The environment block. None at all, or one that GRUB does not take for one, sets nothing.
fn grubenv(reader: &dyn Reader) -> Result<Option<Grubenv>, ReadError> {
    match raw(reader, GRUBENV) {
        Ok(text) => Ok(Grubenv::parse(&text).ok()),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

fn next(reader: &dyn Reader) -> Reading<CommandLine> {
    let line = default(reader, |chosen, env| match chosen {
        Chosen::Menu(entry) => resolved(entry.cmdline, &entry.unresolved),
        Chosen::File(entry) => {
            let lookup = |name: &str| env.and_then(|env| env.get(name)).map(str::to_owned);
            let (line, unresolved) =
                entry.grub_cmdline(&lookup).map_err(|error| format!("{}: {error}", entry.id()))?;
            resolved(line, &unresolved)
        }
    });
    match line {
        Reading::Known(line) => readable(ENTRIES, &line),
        Reading::Absent => Reading::Absent,
        Reading::Unknown(why) => Reading::Unknown(why),
    }
}

/// The kernel image of the entry that boots by default, as GRUB names it.
pub fn image(reader: &dyn Reader) -> Reading<String> {
    default(reader, |chosen, _| match chosen {
        Chosen::Menu(entry) => Ok(entry.image),
        Chosen::File(entry) => Ok(entry.linux().unwrap_or_default().to_owned()),
    })
}

/// The default entry: as GRUB's configuration makes it, or the file itself where there is no configuration yet.
enum Chosen<'a> {
    Menu(Entry),
    File(&'a BlsEntry),
}

/// Looks at the default entry.
fn default(
    reader: &dyn Reader,
    look: impl FnOnce(Chosen<'_>, Option<&Grubenv>) -> Result<String, String>,
) -> Reading<String> {
    let files = match entry_files(reader, ENTRIES) {
        Ok(files) => files,
        Err(error) => return Reading::from_result(Err(error)),
    };
    let entries: Vec<BlsEntry> = files.into_iter().map(|file| file.entry).collect();
    let env = match grubenv(reader) {
        Ok(env) => env,
        Err(error) => return Reading::unknown(error),
    };
    let chosen = match raw(reader, GRUB_CFG) {
        Ok(cfg) => from_cfg(reader, &cfg, env.as_ref(), &entries).map(Chosen::Menu),
        // An image that has never booted may have entries and no grub.cfg yet: the newest entry will be the default.
        Err(error) if error.is_absent() => newest(env.as_ref(), &entries).map(Chosen::File),
        Err(error) => Err(error.to_string()),
    };
    chosen
        .and_then(|chosen| look(chosen, env.as_ref()))
        .map_or_else(Reading::unknown, Reading::Known)
}

fn from_cfg(
    reader: &dyn Reader,
    cfg: &str,
    env: Option<&Grubenv>,
    entries: &[BlsEntry],
) -> Result<Entry, String> {
    let names = reader.list("/boot/grub2").unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let around = GrubFiles { grubenv: env, files: &names, bls: entries };
    default_entry(cfg, &around).map_err(|error| format!("{GRUB_CFG}: {error}"))
}

fn newest<'a>(env: Option<&Grubenv>, entries: &'a [BlsEntry]) -> Result<&'a BlsEntry, String> {
    let ordered = grub_order(entries);
    let saved = env.and_then(|env| env.get("saved_entry"));
    let chosen =
        saved.and_then(|id| ordered.iter().find(|entry| entry.id() == id)).or(ordered.first());
    chosen.copied().ok_or_else(|| format!("{ENTRIES} holds no entry with a kernel"))
}

/// A variable that nobody can fill in could hold anything.
fn resolved(line: String, unresolved: &[String]) -> Result<String, String> {
    // tuned_params is optional by design: an unset one is empty.
    let open: Vec<&String> = unresolved
        .iter()
        .filter(|name| !matches!(name.as_str(), "tuned_params" | "early_params"))
        .collect();
    if open.is_empty() {
        Ok(line)
    } else {
        Err(format!("the entry uses GRUB variables that are not known: {open:?}"))
    }
}

/// What makes both states satisfy the edit.
pub fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    files::carried_by_grub(context)?;
    let reader = context.reader;
    let mut actions = Vec::new();
    // Entries carry the line themselves: a system may do without that file.
    if reader.exists(DEFAULT_GRUB) != Ok(false) {
        actions.extend(grub::edit_files(reader, &grub::RHEL, edit)?);
    }
    actions.extend(kernel_cmdline_file(reader, edit)?);
    match entry_files(reader, ENTRIES) {
        Ok(entries) => actions.extend(entry_actions(context, entries, edit)?),
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(files::unreadable(&error)),
    }
    if matches!(next(reader), Reading::Known(_) | Reading::Unknown(_)) {
        actions.push(verify(context));
    }
    Ok(Steps { subject: "/boot/loader/entries".into(), actions, disrupts: Vec::new() })
}

/// New kernels take the whole line from here, if it is there; it is not made where the system has none.
fn kernel_cmdline_file(reader: &dyn Reader, edit: &Edit) -> Result<Option<Action>, Obstacle> {
    let text = match raw(reader, KERNEL_CMDLINE) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(files::unreadable(&error)),
    };
    let edited = kernel_cmdline::edited(&text, BlsReader::Grub, edit)
        .map_err(|error| files::cannot(KERNEL_CMDLINE, &error))?;
    Ok(replace(KERNEL_CMDLINE, Some(&text), Some(&edited)))
}

fn entry_actions(
    context: &Context,
    entries: Vec<EntryFile>,
    edit: &Edit,
) -> Result<Vec<Action>, Obstacle> {
    // The rescue entry stays as it is: it is what one boots when the arguments are the problem.
    let entries: Vec<EntryFile> =
        entries.into_iter().filter(|file| !file.entry.id().ends_with("-rescue")).collect();
    let by_variable =
        entries.iter().any(|file| file.entry.grub_variables().contains(&"kernelopts"));
    let env = grubenv(context.reader).map_err(|error| files::unreadable(&error))?;
    if by_variable && let Some(env) = env {
        return kernelopts(context, &entries, env, edit);
    }
    if let Some(tool) = grubby(context, &entries, edit) {
        return Ok(vec![tool]);
    }
    let mut actions = Vec::new();
    for file in &entries {
        let edited = file
            .entry
            .edited(BlsReader::Grub, edit)
            .map_err(|error| files::cannot(&file.path, &error))?;
        actions.extend(replace(&file.path, Some(file.entry.text()), Some(&edited)));
    }
    Ok(actions)
}

/// RHEL 8: entries say `$kernelopts`, and the line is in grubenv.
fn kernelopts(
    context: &Context,
    entries: &[EntryFile],
    mut env: Grubenv,
    edit: &Edit,
) -> Result<Vec<Action>, Obstacle> {
    if let Some(tool) = grubby(context, entries, edit) {
        return Ok(vec![tool]);
    }
    let old = env.render();
    let line = env.get("kernelopts").unwrap_or_default().to_owned();
    let edited =
        grub_quote::edit_text(&line, edit).map_err(|error| files::cannot(GRUBENV, &error))?;
    env.set("kernelopts", &edited).map_err(|error| files::cannot(GRUBENV, &error))?;
    Ok(replace(GRUBENV, Some(&old), Some(&env.render())).into_iter().collect())
}

/// Whether grubby would touch another argument that is to be there. One that is added: newer versions delete every argument
/// of its name first, older ones replace one of them. Any: older versions look for the name anywhere, and `iommu=` is at the
/// end of `intel_iommu=`, too (handbook §10.3).
fn replaced_by_name(target: &CommandLine, diff: &LineDiff) -> bool {
    let name = |token: &str| fold_name(token.split('=').next().unwrap_or_default());
    let names: Vec<String> = target.tokens().map(|token| name(token.as_str())).collect();
    let same = |one: &String| names.iter().filter(|other| **other == name(one)).count() > 1;
    let ends = |one: &String| {
        let one = name(one);
        names.iter().any(|other| *other != one && other.ends_with(&one))
    };
    diff.added.iter().any(same) || diff.added.iter().chain(&diff.removed).any(ends)
}

/// grubby, on a running machine that has it, for arguments that need no quotes. Two of its habits decide the rest
/// (handbook §10.3): it may drop every argument of a name when one is added, so one merged `pci=` is passed and the
/// result is read back, and what may stand there more than once is edited directly; and it passes text through sed and
/// GRUB, so anything with `;` or quotes is edited directly.
fn grubby(context: &Context, entries: &[EntryFile], edit: &Edit) -> Option<Action> {
    if context.facts.host == HostKind::Image || context.reader.exists(GRUBBY) != Ok(true) {
        return None;
    }
    let Reading::Known(line) = next(context.reader) else { return None };
    let target = edit.apply(&line).ok()?;
    let diff = edit.difference(&line, &target);
    if replaced_by_name(&target, &diff) {
        return None;
    }
    let plain = |token: &String| {
        Token::new(token)
            .ok()
            .and_then(|token| grub_quote::grub_token(&token).ok())
            .is_some_and(|written| written == *token)
            && !token.contains(char::is_whitespace)
    };
    if diff.is_empty() || !diff.added.iter().chain(&diff.removed).all(plain) {
        return None;
    }
    // /etc/default/grub has been edited by the action before: grubby must not edit it again.
    let mut argv =
        vec!["grubby".to_owned(), "--no-etc-grub-update".into(), "--update-kernel=ALL".into()];
    if !diff.removed.is_empty() {
        argv.push(format!("--remove-args={}", diff.removed.join(" ")));
    }
    if !diff.added.is_empty() {
        argv.push(format!("--args={}", diff.added.join(" ")));
    }
    let mut touches: Vec<String> = entries.iter().map(|file| file.path.clone()).collect();
    touches.push(KERNEL_CMDLINE.into());
    touches.push(GRUBENV.into());
    Some(Action::RunTool {
        argv,
        purpose: format!("{NAME}: put the arguments into every boot entry"),
        touches,
        way_back: WayBack::Files,
        limit_s: 120,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Arch;

    #[test]
    fn what_grubby_would_touch_besides_is_edited_directly() {
        let touches = |old: &str, set: &str, absent: &[&str]| {
            let set: Vec<&str> = set.split(' ').collect();
            let edit = Edit::new(Arch::X86_64, &set, absent).unwrap();
            let old = CommandLine::parse(old);
            let target = edit.apply(&old).unwrap();
            replaced_by_name(&target, &edit.difference(&old, &target))
        };
        assert!(!touches("ro quiet", "iommu=pt", &[]));
        assert!(!touches("ro iommu=nopt", "iommu=pt", &[]), "its own name");
        assert!(!touches("ro iommu=pt", "intel_iommu=on", &[]), "the longer one is in no other");
        assert!(touches("ro intel_iommu=on", "iommu=pt", &[]), "the end of another's name");
        assert!(touches("ro intel_iommu=on iommu=off", "nosmt", &["iommu=off"]), "removed");
        assert!(touches("ro", "hugepagesz=1G hugepages=4 hugepagesz=2M", &[]), "more than once");
    }
}
