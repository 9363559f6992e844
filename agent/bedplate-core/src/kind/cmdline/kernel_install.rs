//! systemd-boot with kernel-install (handbook §10.3, §10.4). /etc/kernel/cmdline has the whole line of every future
//! kernel. `kernel-install add` regenerates the entries or unified kernel images of installed kernels.

mod made_entries;
mod removed_kernels;

use super::bls::entry_files;
use super::boot_files::{self, KERNEL_CMDLINE, line_of_entry, line_of_file, line_source};
use super::boot_files::{VENDOR_CMDLINE, raw, replace, verify};
use super::{Context, ObservedLines, Obstacle, Steps, default_entry, kernel_image, only_in_entry};
use crate::ledger::Generator;
use crate::plan::{Action, ToolUndo};
use bedplate_base::{OptionalRead as _, Reading};
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader, systemd_default};
use bedplate_cmdline::boot::{kernel_cmdline, uki, version};
use bedplate_cmdline::{CommandLine, Edit};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

pub(crate) use removed_kernels::{entries, installed_release, is_kernel_gone, release_of_entry};

/// Possible mount points of $BOOT, in the search order of bootctl (Boot Loader Specification).
pub(crate) const BOOT_MOUNTS: [&str; 3] = ["/efi", "/boot", "/boot/efi"];
/// Time limit. kernel-install also rebuilds the initramfs.
const LIMIT_S: u32 = 600;

/// Reads both states.
pub(super) fn observe(reader: &dyn Reader, facts: &Facts) -> ObservedLines {
    let next = match &facts.boot {
        BootLoader::SystemdBoot { uki: true } => next_uki(reader),
        _ => next_entry(reader),
    };
    ObservedLines { configured: configured(reader), next, remarks: Vec::new() }
}

fn configured(reader: &dyn Reader) -> Reading<CommandLine> {
    match line_source(reader) {
        Ok(Some((path, text))) => line_of_file(path, &text, BlsReader::SystemdBoot),
        Ok(None) => Reading::Absent,
        Err(error) => Reading::unknown(error),
    }
}

fn next_entry(reader: &dyn Reader) -> Reading<CommandLine> {
    default_entry(reader).and_then(|entry| line_of_entry(&entry, BlsReader::SystemdBoot))
}

/// Returns the entry that systemd-boot starts by default.
pub(crate) fn default_entry(reader: &dyn Reader) -> Reading<BlsEntry> {
    placed_entry(reader).map(|(_, entry)| entry)
}

/// Returns the same entry with the mount point of the partition that its paths are on.
pub(crate) fn placed_entry(reader: &dyn Reader) -> Reading<(&'static str, BlsEntry)> {
    placed_by(reader, |mount, entries| {
        default_entry::patterns(reader, mount).map(|patterns| {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            systemd_default(entries, &patterns).cloned()
        })
    })
}

/// Returns the entry that `choose` selects among those of the first partition with entries, and the partition's mount
/// point, which `choose` gets too.
pub(crate) fn placed_by(
    reader: &dyn Reader,
    choose: impl Fn(&str, &[BlsEntry]) -> Reading<Option<BlsEntry>>,
) -> Reading<(&'static str, BlsEntry)> {
    for mount in BOOT_MOUNTS {
        let files = match entry_files(reader, &format!("{mount}/loader/entries")).optional() {
            Ok(files) => files.unwrap_or_default(),
            Err(error) => return Reading::unknown(error),
        };
        if files.is_empty() {
            continue;
        }
        let entries: Vec<BlsEntry> = files.into_iter().map(|file| file.entry).collect();
        return match choose(mount, &entries) {
            Reading::Known(Some(entry)) => Reading::Known((mount, entry)),
            Reading::Known(None) | Reading::Absent => {
                Reading::unknown(format!("no entry of {mount}/loader/entries can be the default"))
            }
            Reading::Unknown(why) => Reading::Unknown(why),
        };
    }
    Reading::Absent
}

fn next_uki(reader: &dyn Reader) -> Reading<CommandLine> {
    newest_uki(reader).and_then(|path| {
        let bytes = match reader.read_start(&path, uki::PREFIX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => return Reading::unknown(error),
        };
        match uki::cmdline(&bytes) {
            Ok(Some(line)) => Reading::Known(CommandLine::parse(&line)),
            Ok(None) => Reading::unknown(format!("{path} has no embedded command line")),
            Err(error) => Reading::unknown(format!("{path}: {error}")),
        }
    })
}

/// Returns the path of the unified kernel image that boots by default: the chosen one, else the newest by file name.
pub(crate) fn newest_uki(reader: &dyn Reader) -> Reading<String> {
    for mount in BOOT_MOUNTS {
        let directory = format!("{mount}/EFI/Linux");
        let mut names = match reader.list(&directory).optional() {
            Ok(names) => names.unwrap_or_default(),
            Err(error) => return Reading::unknown(error),
        };
        names.retain(|name| name.ends_with(".efi"));
        names.sort_by(|a, b| version::uapi_order(a, b));
        let Some(newest) = names.last() else { continue };
        let patterns = match default_entry::patterns(reader, mount) {
            Reading::Known(patterns) => patterns,
            Reading::Absent => Vec::new(),
            Reading::Unknown(why) => return Reading::Unknown(why),
        };
        let matching = |pattern: &String| {
            let pattern = glob::Pattern::new(&pattern.to_lowercase()).ok()?;
            names.iter().rev().find(|name| pattern.matches(&name.to_lowercase()))
        };
        let first = patterns.iter().find_map(matching).unwrap_or(newest);
        return Reading::Known(format!("{directory}/{first}"));
    }
    Reading::Absent
}

/// Plans the actions that make both states satisfy the edit.
pub(crate) fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    let kernels = made_entries::kernels(context)?;
    let old = raw(context.reader, KERNEL_CMDLINE).optional()?;
    let base = match &old {
        Some(text) => text.clone(),
        None => whole_line(context)?,
    };
    let edited = kernel_cmdline::edited(&base, BlsReader::SystemdBoot, edit)
        .map_err(|error| boot_files::cannot(KERNEL_CMDLINE, &error))?;
    let next = observe(context.reader, context.facts).next;
    keeps_root(&next, &edited)?;
    let made = CommandLine::parse(edited.trim_end());
    // A different spelling of the same root is allowed. The check after the change compares the roots.
    only_in_entry::check(&next, &made, edit, &["root"], "kernel-install add RELEASE IMAGE")?;
    let mut actions: Vec<Action> =
        replace(KERNEL_CMDLINE, old.as_deref(), Some(&edited)).into_iter().collect();
    // A kernel without an entry must not get one, which would be the new default.
    let touches = written_paths(context.reader);
    for release in &kernels {
        let Generator { argv, purpose, limit_s } = entry_generator(context.reader, release);
        let (touches, undo) = (touches.clone(), ToolUndo::Repeat);
        actions.push(Action::RunTool { argv, purpose, touches, undo, limit_s });
    }
    if !matches!(next, Reading::Absent) {
        actions.push(verify(context));
    }
    Ok(Steps { subject: KERNEL_CMDLINE.into(), actions, disrupts: Vec::new() })
}

/// Returns the tool that regenerates the entry or the image of an installed kernel.
pub(crate) fn entry_generator(reader: &dyn Reader, release: &str) -> Generator {
    let image = kernel_image::for_kernel_install(reader, release);
    Generator {
        argv: ["kernel-install", "add", release, &image].map(str::to_owned).to_vec(),
        purpose: format!("regenerate the boot entry of {release}"),
        limit_s: LIMIT_S,
    }
}

/// Refuses a file that lacks the root= of the default entry: kernel-install uses the file as the whole line.
fn keeps_root(next: &Reading<CommandLine>, edited: &str) -> Result<(), Obstacle> {
    let has = |line: &CommandLine| line.named("root").next().is_some();
    let loses = next.known().is_some_and(has) && !has(&CommandLine::parse(edited.trim_end()));
    match loses {
        true => Err(Obstacle {
            reason: format!(
                "{KERNEL_CMDLINE} has no root=, unlike the default boot entry; a regenerated entry would not find its root \
                 file system"
            ),
            fix: format!("write the whole line, with root=, to {KERNEL_CMDLINE}, then plan again"),
        }),
        false => Ok(()),
    }
}

/// Returns globs of the entries and images that kernel-install writes, including new ones with another token or a boot
/// counter.
pub(crate) fn written_paths(reader: &dyn Reader) -> Vec<String> {
    let made = [("loader/entries", ".conf"), ("EFI/Linux", ".efi")];
    let below = |mount: &'static str| {
        made.map(|(directory, ending)| (format!("{mount}/{directory}"), ending))
    };
    let there = BOOT_MOUNTS.into_iter().flat_map(below);
    let there = there.filter(|(directory, _)| reader.exists(directory) != Ok(false));
    there.map(|(directory, ending)| format!("{directory}/*{ending}")).collect()
}

/// Returns those of [`written_paths`] that are entries.
pub(crate) fn written_entries(reader: &dyn Reader) -> Vec<String> {
    let mut paths = written_paths(reader);
    paths.retain(|path| path.ends_with(".conf"));
    paths
}

/// Returns the whole line, with `root=`, for a file that does not exist yet: the vendor's line, else that of the
/// default entry. Never uses /proc/cmdline, which kernel-install would use: in a chroot it belongs to another machine.
fn whole_line(context: &Context) -> Result<String, Obstacle> {
    if let Ok(text) = context.reader.text(VENDOR_CMDLINE) {
        return Ok(text);
    }
    match observe(context.reader, context.facts).next {
        Reading::Known(line) => Ok(line.to_string()),
        Reading::Absent | Reading::Unknown(_) => Err(Obstacle {
            reason: format!(
                "{KERNEL_CMDLINE} does not exist, and no boot entry shows the whole line"
            ),
            fix: format!(
                "write the current line (with root=) to {KERNEL_CMDLINE}, then plan again"
            ),
        }),
    }
}
