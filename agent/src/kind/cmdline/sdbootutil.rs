//! SUSE with sdbootutil: it makes the `options` of every entry of this system from /etc/kernel/cmdline, for GRUB that reads entries
//! on the EFI system partition (`grub2-bls`) and for systemd-boot alike (handbook §10.4).

use super::bls::{EntryFile, entry_files};
use super::files::{self, raw, readable, replace, verify};
use super::kernel_install::{BOOT_MOUNTS, KERNEL_CMDLINE, VENDOR_CMDLINE, touched};
use super::{Context, NAME, Observed, Obstacle, Steps, chosen, only_in_entry};
use crate::boot::bls::{BlsEntry, Reader as BlsReader, grub_order, systemd_default};
use crate::boot::grubenv::Grubenv;
use crate::boot::kernel_cmdline;
use crate::cmdline::{CommandLine, Edit};
use crate::facts::{BootLoader, Facts};
use crate::host::{HostKind, ReadError, Reader, Reading};
use crate::plan::{Action, KindPlan, Note, WayBack};
use crate::raw_text;

/// It, and how it is called. With a TPM it predicts measurements again as well.
const TOOL: &str = "/usr/bin/sdbootutil";
const COMMAND: [&str; 2] = ["sdbootutil", "update-all-entries"];
/// Policy of systemd-pcrlock, which changes with every argument.
const MEASURED: &str = "/var/lib/systemd/pcrlock.json";
const LIMIT_S: u32 = 300;
/// Directories whose files it reads after the file.
const DROP_INS: [&str; 2] = ["/etc/kernel/cmdline.d", "/usr/kernel/cmdline.d"];
/// Directories of loaders on the partition, one of which has the environment block of `grub2-bls`.
const LOADERS: &str = "/boot/efi/EFI";

fn reads_as(facts: &Facts) -> BlsReader {
    match facts.boot {
        BootLoader::Sdbootutil { grub: true } => BlsReader::Grub,
        _ => BlsReader::SystemdBoot,
    }
}

/// Reads both states.
pub fn observe(reader: &dyn Reader, facts: &Facts) -> Observed {
    let as_loader = reads_as(facts);
    let next = match placed_entry(reader, facts) {
        Reading::Known((_, entry)) => line_of(&entry, as_loader),
        Reading::Absent => Reading::Absent,
        Reading::Unknown(why) => Reading::Unknown(why),
    };
    Observed { configured: configured(reader, as_loader), next, remarks: Vec::new() }
}

/// Notes what else hangs on the command line.
pub fn report(context: &Context, section: &mut KindPlan) {
    let is_here = matches!(context.facts.boot, BootLoader::Sdbootutil { .. });
    if is_here && context.reader.exists(MEASURED) == Ok(true) {
        let text = format!(
            "{MEASURED} is there: the key of an encrypted disk may hang on the measured boot. sdbootutil predicts the measurements of \
             the new entries; have the recovery key at hand"
        );
        section.notes.push(Note { kind: NAME, subject: "measured boot".into(), text });
    }
}

fn line_of(entry: &BlsEntry, as_loader: BlsReader) -> Reading<CommandLine> {
    match as_loader {
        BlsReader::SystemdBoot => readable(entry.id(), &entry.systemd_cmdline()),
        BlsReader::Grub => match entry.grub_cmdline(&|_| None) {
            Ok((line, _)) => readable(entry.id(), &line),
            Err(error) => Reading::unknown(format!("{}: {error}", entry.id())),
        },
    }
}

fn configured(reader: &dyn Reader, as_loader: BlsReader) -> Reading<CommandLine> {
    let (path, text) = match source(reader) {
        Ok(Some(source)) => source,
        Ok(None) => return Reading::Absent,
        Err(error) => return Reading::unknown(error),
    };
    match only_source(reader, path, &text) {
        Err(obstacle) => Reading::unknown(obstacle.reason),
        Ok(()) => match kernel_cmdline::cmdline(&text, as_loader) {
            Ok(line) => readable(path, &line),
            Err(error) => Reading::unknown(format!("{path}: {error}")),
        },
    }
}

/// The file that it takes the line from. Without one it would take /proc/cmdline.
fn source(reader: &dyn Reader) -> Result<Option<(&'static str, String)>, ReadError> {
    for path in [KERNEL_CMDLINE, VENDOR_CMDLINE] {
        match raw(reader, path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Refuses what it reads in ways of its own: further files, and lines of comments.
fn only_source(reader: &dyn Reader, path: &str, text: &str) -> Result<(), Obstacle> {
    for directory in DROP_INS {
        let names = match reader.list(directory) {
            Ok(names) => names,
            Err(error) if error.is_absent() => continue,
            Err(error) => return Err(files::unreadable(&error)),
        };
        if let Some(name) = names.first() {
            return Err(Obstacle {
                reason: format!("{directory}/{name} adds arguments to those of {path}"),
                remedy: format!(
                    "move its arguments to {KERNEL_CMDLINE}, remove the file, then plan again"
                ),
            });
        }
    }
    match text.lines().any(|line| line.trim_start().starts_with('#')) {
        true => Err(Obstacle {
            reason: format!("{path} has a line of comment"),
            remedy: format!("remove it from {path}, then plan again"),
        }),
        false => Ok(()),
    }
}

/// The entry that boots by default, with the mount point of the partition that its paths are on.
pub fn placed_entry(reader: &dyn Reader, facts: &Facts) -> Reading<(&'static str, BlsEntry)> {
    for mount in BOOT_MOUNTS {
        let files = match entry_files(reader, &format!("{mount}/loader/entries")) {
            Ok(files) if files.is_empty() => continue,
            Ok(files) => files,
            Err(error) if error.is_absent() => continue,
            Err(error) => return Reading::unknown(error),
        };
        let mut patterns = match chosen::patterns(reader, mount) {
            Reading::Known(patterns) => patterns,
            Reading::Absent => Vec::new(),
            Reading::Unknown(why) => return Reading::Unknown(why),
        };
        let is_grub = reads_as(facts) == BlsReader::Grub;
        if is_grub {
            patterns.extend(of_environment(reader));
        }
        let entries: Vec<BlsEntry> =
            files.into_iter().map(|EntryFile { entry, .. }| entry).collect();
        let patterns: Vec<String> = patterns.into_iter().map(|one| with_ending(&one)).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        return match default_of(&entries, &patterns, is_grub) {
            Some(entry) => Reading::Known((mount, entry.clone())),
            None => {
                Reading::unknown(format!("no entry of {mount}/loader/entries can be the default"))
            }
        };
    }
    Reading::Absent
}

/// GRUB orders by file name alone (sdbootutil, `entry_conf_file`).
fn default_of<'a>(
    entries: &'a [BlsEntry],
    patterns: &[&str],
    is_grub: bool,
) -> Option<&'a BlsEntry> {
    if !is_grub {
        return systemd_default(entries, patterns);
    }
    let order: Vec<BlsEntry> = grub_order(entries).into_iter().cloned().collect();
    let named = |entry: &&BlsEntry| patterns.contains(&format!("{}.conf", entry.id()).as_str());
    let first = order.iter().find(named).or(order.first()).map(BlsEntry::id)?.to_owned();
    entries.iter().find(|entry| entry.id() == first)
}

fn with_ending(id: &str) -> String {
    if id.ends_with(".conf") { id.to_owned() } else { format!("{id}.conf") }
}

/// `default` of the environment block, which `sdbootutil set-default` writes where it cannot set the EFI variable.
fn of_environment(reader: &dyn Reader) -> Option<String> {
    let names = reader.list(LOADERS).unwrap_or_default();
    names.into_iter().find_map(|name| {
        let bytes = reader.read(&format!("{LOADERS}/{name}/grubenv")).ok()?;
        let block = Grubenv::parse(&raw_text::decode(&bytes)).ok()?;
        block.get("default").map(str::to_owned)
    })
}

/// Actions that make both states satisfy the edit.
pub fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    let as_loader = reads_as(context.facts);
    if as_loader == BlsReader::Grub {
        files::carried_by_grub(context)?;
    }
    let source = source(context.reader).map_err(|error| files::unreadable(&error))?;
    let Some((path, base)) = source else {
        return Err(Obstacle {
            reason: format!(
                "{KERNEL_CMDLINE} is not there: sdbootutil would make entries from /proc/cmdline"
            ),
            remedy: format!(
                "write the whole line, with root=, to {KERNEL_CMDLINE}, then plan again"
            ),
        });
    };
    if files::is_blank(&base) {
        return Err(files::blank_line(path));
    }
    only_source(context.reader, path, &base)?;
    let edited = kernel_cmdline::edited(&base, as_loader, edit)
        .map_err(|error| files::cannot(KERNEL_CMDLINE, &error))?;
    carried_by_sed(&edited)?;
    if context.reader.exists(TOOL) != Ok(true) {
        return Err(Obstacle {
            reason: format!(
                "{TOOL} is not there, and nothing else makes boot entries from {KERNEL_CMDLINE}"
            ),
            remedy: "install sdbootutil, then plan again".into(),
        });
    }
    let next = observe(context.reader, context.facts).next;
    let made = kernel_cmdline::cmdline(&edited, as_loader).unwrap_or_default();
    only_in_entry::check_sdbootutil(&next, &CommandLine::parse(&made), edit)?;
    let old = (path == KERNEL_CMDLINE).then_some(base.as_str());
    let mut actions: Vec<Action> =
        replace(KERNEL_CMDLINE, old, Some(&edited)).into_iter().collect();
    match next {
        // An image that has no entries yet.
        Reading::Absent if context.facts.host == HostKind::Image => {}
        Reading::Absent => return Err(files::nothing_to_edit("a boot entry")),
        _ => {
            actions.push(Action::RunTool {
                argv: COMMAND.map(str::to_owned).to_vec(),
                purpose: format!(
                    "take the arguments of {KERNEL_CMDLINE} into every boot entry of this system"
                ),
                touches: touched(context.reader),
                way_back: WayBack::Repeat,
                limit_s: LIMIT_S,
            });
            actions.push(verify(context));
        }
    }
    Ok(Steps { subject: KERNEL_CMDLINE.into(), actions, disrupts: Vec::new() })
}

/// It puts the line into a replacement of sed's as it is (`update_entry_conf`).
fn carried_by_sed(line: &str) -> Result<(), Obstacle> {
    match line.chars().find(|c| matches!(c, '|' | '&' | '\\')) {
        None => Ok(()),
        Some(c) => Err(Obstacle {
            reason: format!("{KERNEL_CMDLINE} would hold `{c}`, which sdbootutil garbles in boot entries (openSUSE/sdbootutil)"),
            remedy: "write the value without that character, or set a module's option by [modules] options".into(),
        }),
    }
}
