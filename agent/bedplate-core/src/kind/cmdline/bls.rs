//! Boot Loader Specification entries that GRUB reads, on RHEL, Fedora and derivatives (handbook §10.3). The entries
//! have the line of installed kernels. /etc/default/grub and /etc/kernel/cmdline have the line of future kernels. All
//! get the same edit.

mod entries;
mod loader;

use super::boot_files::{self, ENTRY_PLUGIN, KERNEL_CMDLINE, agreed, line_of_file, line_source};
use super::boot_files::{raw, replace, verify};
use super::grub;
use super::{Context, NAME, ObservedLines, Obstacle, Steps};
use crate::plan::{Action, Note};
use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader};
use bedplate_cmdline::boot::grub_default::MAIN;
use bedplate_cmdline::boot::kernel_cmdline;
use bedplate_cmdline::{CommandLine, Edit};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

use loader::Loader;

/// Entry directory (Boot Loader Specification, $BOOT is /boot on these systems).
pub(crate) const ENTRIES: &str = "/boot/loader/entries";
/// Variable of the environment block with the command line of the entries (RHEL 8).
const VARIABLE: &str = "kernelopts";

/// Entry file.
#[derive(Clone)]
pub(crate) struct EntryFile {
    /// Full path.
    pub path: String,
    /// Name in the directory.
    pub name: String,
    /// Parsed content.
    pub entry: BlsEntry,
}

/// Reads every entry of a directory. Dangling links are skipped.
///
/// # Errors
/// If the directory or an entry cannot be read.
pub(crate) fn entry_files(
    reader: &dyn Reader,
    directory: &str,
) -> Result<Vec<EntryFile>, ReadError> {
    let names = reader.list(directory)?.into_iter().filter(|name| name.ends_with(".conf"));
    let read = |name: String| {
        let path = format!("{directory}/{name}");
        let text = raw(reader, &path).optional().transpose()?;
        Some(text.map(|text| EntryFile { entry: BlsEntry::parse(&name, &text), path, name }))
    };
    names.filter_map(read).collect()
}

/// Reads both states.
pub(super) fn observe(reader: &dyn Reader, _: &Facts) -> ObservedLines {
    let mut remarks = Vec::new();
    let configured = match raw(reader, KERNEL_CMDLINE) {
        Ok(text) => line_of_file(KERNEL_CMDLINE, &text, BlsReader::Grub),
        Err(error) if error.is_absent() => grub::read(reader, &grub::RHEL, &mut remarks),
        Err(error) => Reading::unknown(error),
    };
    ObservedLines { configured, next: next(reader), remarks }
}

/// Reads GRUB's files, once for each configuration that may start this system.
fn loaders(reader: &dyn Reader) -> Result<Reading<Vec<Loader>>, Obstacle> {
    let paths = grub::configurations(reader)?;
    let loaders: Result<Vec<Loader>, ReadError> =
        paths.iter().map(|path| Loader::read(reader, path)).collect();
    match loaders {
        Err(error) if !error.is_absent() => Err(error.into()),
        loaders => Ok(Reading::from_result(loaders)),
    }
}

/// Returns a property of the default entry. Unknown if the configurations that GRUB may read disagree.
fn of_default<T: PartialEq>(
    reader: &dyn Reader,
    property: impl Fn(&Loader) -> Reading<T>,
) -> Reading<T> {
    let differ = || "the default entries for BIOS and for UEFI firmware differ".to_owned();
    let loaders = loaders(reader).unwrap_or_else(|obstacle| Reading::unknown(obstacle.reason));
    loaders.and_then(|loaders| agreed(loaders.iter().map(property), differ))
}

fn next(reader: &dyn Reader) -> Reading<CommandLine> {
    of_default(reader, Loader::line)
}

/// Returns the kernel image of the default entry, as GRUB names it.
pub(super) fn image(reader: &dyn Reader) -> Reading<String> {
    of_default(reader, Loader::image)
}

/// Returns the files that the default entry loads.
pub(crate) fn loaded_files(reader: &dyn Reader) -> Reading<grub::LoadedFiles> {
    of_default(reader, Loader::files)
}

/// Returns the value of a GRUB variable at the time GRUB reads the entries. `None` if no entry uses the variable or its
/// value is unknown.
pub(crate) fn variable(reader: &dyn Reader, name: &str) -> Option<String> {
    let value = |loader: &Loader| {
        let mut entries = loader.entries.iter();
        match entries.any(|file| file.entry.grub_variables().contains(&name)) {
            true => loader.config.value(name).map_or_else(Reading::unknown, Reading::Known),
            false => Reading::Absent,
        }
    };
    of_default(reader, value).known().cloned()
}

/// Plans the actions that make both states satisfy the edit.
pub(crate) fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    boot_files::carried_by_grub(context)?;
    let reader = context.reader;
    let mut actions = Vec::new();
    // A system may lack this file, since entries contain the line.
    if reader.exists(MAIN) != Ok(false) {
        actions.extend(grub::edit_files(reader, &grub::RHEL, edit)?);
    }
    actions.extend(kernel_cmdline_file(context, edit)?);
    if let Reading::Known(loaders) = loaders(reader)? {
        for loader in &loaders {
            let of_this = entries::actions(context, loader, edit)?;
            // All configurations read the same entry files.
            actions.extend(
                of_this.into_iter().filter(|one| !actions.contains(one)).collect::<Vec<_>>(),
            );
        }
    }
    if matches!(next(reader), Reading::Known(_) | Reading::Unknown(_)) {
        actions.push(verify(context));
    }
    Ok(Steps { subject: "/boot/loader/entries".into(), actions, disrupts: Vec::new() })
}

/// Edits the file from which new kernels take the whole line. If it is missing, creates it as grubby does
/// (`update_bls_fragment`): kernels installed before the next boot would get the line of /proc/cmdline, without the
/// arguments. In an image, never creates it from an entry: the builder may put the image on other file systems, and the
/// root= of the entry would be wrong there.
fn kernel_cmdline_file(context: &Context, edit: &Edit) -> Result<Option<Action>, Obstacle> {
    let reader = context.reader;
    let (path, text) = match line_source(reader)? {
        Some((path, text)) => (path, Some(text)),
        None if context.facts.host == HostKind::Image => return Ok(None),
        None => (ENTRIES, of_default(reader, Loader::options).known().cloned()),
    };
    let is_read = || path == KERNEL_CMDLINE || reader.exists(ENTRY_PLUGIN) == Ok(true);
    let Some(text) = text.filter(|_| is_read()) else { return Ok(None) };
    if text.trim().is_empty() {
        return Err(boot_files::blank_line(path));
    }
    let edited = kernel_cmdline::edited(&text, BlsReader::Grub, edit)
        .map_err(|error| boot_files::cannot(path, &error))?;
    let old = (path == KERNEL_CMDLINE).then_some(text.as_str());
    Ok(replace(KERNEL_CMDLINE, old, Some(&edited)))
}

/// Returns a note if the change makes [`KERNEL_CMDLINE`] the newer file: an earlier edit of /etc/default/grub then no
/// longer reaches it (handbook §10.3).
pub(super) fn order_note(context: &Context, steps: &Steps) -> Option<Note> {
    let reader = context.reader;
    let is_edit = |action: &Action| match action {
        Action::ReplaceFile { path, before: Some(_), .. } => path == KERNEL_CMDLINE,
        _ => false,
    };
    let is_compared =
        context.facts.boot == BootLoader::GrubBls && reader.exists(ENTRY_PLUGIN) == Ok(true);
    if !is_compared || !steps.actions.iter().any(is_edit) {
        return None;
    }
    let (line, main) = (reader.modified(KERNEL_CMDLINE).ok()?, reader.modified(MAIN).ok()?);
    (line < main).then(|| {
        let text = format!(
            "this change makes it newer than {MAIN}; other arguments that were added there by hand then do not \
             reach new kernels: add them to {KERNEL_CMDLINE} too"
        );
        NAME.note(KERNEL_CMDLINE, text)
    })
}
