//! SUSE with sdbootutil, which makes the `options` of this system's entries from /etc/kernel/cmdline; with snapshots,
//! only those of the current one. It does so for systemd-boot and for a GRUB that reads entries on the EFI system
//! partition (`grub2-bls`; handbook §10.4).

use super::boot_files::{self, KERNEL_CMDLINE, line_of_entry, line_of_file, line_source};
use super::boot_files::{entry_reader, replace, verify};
use super::kernel_install::{self, written_paths};
use super::{Context, ObservedLines, Obstacle, Steps, default_entry, only_in_entry};
use crate::plan::{Action, ToolUndo};
use bedplate_base::{OptionalRead as _, Reading, lossless_text};
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader, grub_order};
use bedplate_cmdline::boot::grubenv::Grubenv;
use bedplate_cmdline::boot::kernel_cmdline;
use bedplate_cmdline::{CommandLine, Edit};
use bedplate_facts::{Facts, os};
use bedplate_host::{HostKind, Reader};

/// Path of sdbootutil. With a TPM, `COMMAND` also predicts measurements again.
pub(crate) const TOOL: &str = "/usr/bin/sdbootutil";
const COMMAND: [&str; 2] = ["sdbootutil", "update-all-entries"];
/// Files of hosts where a disk key may depend on the measured boot, and so on every argument: the policy of
/// systemd-pcrlock, and the key with which pcr-oracle signs its own (openSUSE/sdbootutil `generate_tpm2_predictions`).
const MEASURED: [&str; 2] =
    ["/var/lib/systemd/pcrlock.json", "/etc/systemd/tpm2-pcr-public-key.pem"];
const LIMIT_S: u32 = 300;
/// Arguments that sdbootutil sets itself (`sedrootflags`).
pub(super) const SET_BY_THE_TOOL: [&str; 2] = ["root", "rootflags"];
/// Command that regenerates entries without arguments that are no longer needed.
pub(super) const REMAKE: &str = "sdbootutil update-all-entries";
/// Directories whose files sdbootutil reads after /etc/kernel/cmdline.
const DROP_INS: [&str; 2] = ["/etc/kernel/cmdline.d", "/usr/kernel/cmdline.d"];
/// Parent of the loader directories on the partition, one of which has the environment block of `grub2-bls`.
const LOADERS: &str = "/boot/efi/EFI";
/// Characters that sed interprets: sdbootutil puts the line unescaped into a sed replacement (`update_entry_conf`).
pub(crate) const SED_SPECIAL: [char; 3] = ['|', '&', '\\'];

/// Reads both states.
pub(super) fn observe(reader: &dyn Reader, facts: &Facts) -> ObservedLines {
    let as_loader = entry_reader(facts);
    let next = placed_entry(reader, facts).and_then(|(_, entry)| line_of_entry(&entry, as_loader));
    ObservedLines { configured: configured(reader, as_loader), next, remarks: Vec::new() }
}

/// Refuses a change of `what` that may leave an encrypted disk locked. The tool's exit status does not show whether it
/// could predict the measurements of the new entries, and the daemon's unit has no TPM. `by_hand` is the operator's way
/// to make the change.
pub(super) fn without_measured_boot(
    reader: &dyn Reader,
    what: &str,
    by_hand: &str,
) -> Result<(), Obstacle> {
    for path in MEASURED {
        if reader.exists(path).optional()? == Some(true) {
            return Err(Obstacle {
                reason: format!(
                    "{path} exists: a disk encryption key may depend on the measured boot, which every {what} changes"
                ),
                fix: format!(
                    "have the recovery key ready, {by_hand} and `sdbootutil update-predictions`, and reboot; bedplate then \
                     has nothing to change"
                ),
            });
        }
    }
    Ok(())
}

/// Whether a command is sdbootutil's, which makes all boot entries again.
pub(crate) fn makes_all_entries(argv: &[String]) -> bool {
    argv.first().is_some_and(|program| program == COMMAND[0])
}

pub(super) fn expect_tool(reader: &dyn Reader) -> Result<(), Obstacle> {
    match reader.exists(TOOL) {
        Ok(true) => Ok(()),
        _ => Err(Obstacle {
            reason: format!(
                "{TOOL} is not installed, and no other tool makes boot entries from {KERNEL_CMDLINE}"
            ),
            fix: "install sdbootutil, then plan again".into(),
        }),
    }
}

/// Returns the file that has the command line, as path and text.
///
/// # Errors
/// If no file has the line, or it is empty; also as [`only_source`].
pub(super) fn expect_line(reader: &dyn Reader) -> Result<(&'static str, String), Obstacle> {
    let (path, text) = line_source(reader)?.ok_or_else(|| Obstacle {
        reason: format!(
            "{KERNEL_CMDLINE} does not exist: sdbootutil would make entries from /proc/cmdline"
        ),
        fix: format!("write the whole line, with root=, to {KERNEL_CMDLINE}, then plan again"),
    })?;
    // From an empty file, the tool would make entries without root=.
    if boot_files::is_blank(&text) {
        return Err(boot_files::blank_line(path));
    }
    only_source(reader, path, &text)?;
    Ok((path, text))
}

fn configured(reader: &dyn Reader, as_loader: BlsReader) -> Reading<CommandLine> {
    let (path, text) = match line_source(reader) {
        Ok(Some(source)) => source,
        Ok(None) => return Reading::Absent,
        Err(error) => return Reading::unknown(error),
    };
    match only_source(reader, path, &text) {
        Err(obstacle) => Reading::unknown(obstacle.reason),
        Ok(()) => line_of_file(path, &text, as_loader),
    }
}

/// Refuses input that sdbootutil reads in its own way: additional files, and comment lines.
fn only_source(reader: &dyn Reader, path: &str, text: &str) -> Result<(), Obstacle> {
    for directory in DROP_INS {
        let names = reader.list(directory).optional()?.unwrap_or_default();
        if let Some(name) = names.first() {
            return Err(Obstacle {
                reason: format!("{directory}/{name} adds arguments to those of {path}"),
                fix: format!(
                    "move its arguments to {KERNEL_CMDLINE}, remove the file, then plan again"
                ),
            });
        }
    }
    match text.lines().any(|line| line.trim_start().starts_with('#')) {
        true => Err(Obstacle {
            reason: format!("{path} has a comment line"),
            fix: format!("remove it from {path}, then plan again"),
        }),
        false => Ok(()),
    }
}

/// Returns the default entry with the mount point of the partition that its paths are on.
pub(crate) fn placed_entry(
    reader: &dyn Reader,
    facts: &Facts,
) -> Reading<(&'static str, BlsEntry)> {
    match entry_reader(facts) {
        BlsReader::SystemdBoot => kernel_install::placed_entry(reader),
        BlsReader::Grub => kernel_install::placed_by(reader, |_, entries| {
            chosen_by_grub(reader).map(|patterns| grub_default(entries, &patterns).cloned())
        }),
    }
}

/// Returns the ids of entries that `grub2-bls` tries, in order: those of EFI variables, else that of its environment
/// block.
fn chosen_by_grub(reader: &dyn Reader) -> Reading<Vec<String>> {
    match default_entry::variables(reader) {
        Reading::Known(chosen) if chosen.is_empty() => {}
        chosen => return chosen,
    }
    // sdbootutil installs into the directory named by the first word of NAME, or into the fallback.
    let name = os::release_value(reader, "NAME").unwrap_or_default().to_lowercase();
    let own = name.split_whitespace().next().map(str::to_owned);
    for directory in own.into_iter().chain(["BOOT".to_owned()]) {
        let path = format!("{LOADERS}/{directory}/grubenv");
        return match Reading::from_result(reader.read(&path)) {
            Reading::Absent => continue,
            Reading::Unknown(why) => Reading::Unknown(why),
            Reading::Known(bytes) => match Grubenv::parse(&lossless_text::decode(&bytes)) {
                Ok(block) => {
                    Reading::Known(block.get("default").map(str::to_owned).into_iter().collect())
                }
                Err(error) => Reading::unknown(format!("{path}: {error}")),
            },
        };
    }
    Reading::Known(Vec::new())
}

/// Returns the first chosen entry that exists, else GRUB's first entry. GRUB orders them by file name alone
/// (sdbootutil, `entry_conf_file`).
fn grub_default<'a>(entries: &'a [BlsEntry], chosen: &[String]) -> Option<&'a BlsEntry> {
    let bare = |id: &str| id.strip_suffix(".conf").unwrap_or(id).to_owned();
    let find = |id: &String| entries.iter().find(|entry| bare(entry.id()) == bare(id));
    chosen.iter().find_map(find).or_else(|| grub_order(entries).first().copied())
}

/// Plans the actions that make both states satisfy the edit.
pub(crate) fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    let as_loader = entry_reader(context.facts);
    if as_loader == BlsReader::Grub {
        boot_files::carried_by_grub(context)?;
    }
    let (path, base) = expect_line(context.reader)?;
    let edited = kernel_cmdline::edited(&base, as_loader, edit)
        .map_err(|error| boot_files::cannot(KERNEL_CMDLINE, &error))?;
    carried_by_sed(&edited)?;
    expect_tool(context.reader)?;
    let by_hand =
        format!("write the arguments to {KERNEL_CMDLINE}, run `sdbootutil update-all-entries`");
    without_measured_boot(context.reader, "argument", &by_hand)?;
    let next = observe(context.reader, context.facts).next;
    let made = kernel_cmdline::cmdline(&edited, as_loader).unwrap_or_default();
    only_in_entry::check(&next, &CommandLine::parse(&made), edit, &SET_BY_THE_TOOL, REMAKE)?;
    let old = (path == KERNEL_CMDLINE).then_some(base.as_str());
    let mut actions: Vec<Action> =
        replace(KERNEL_CMDLINE, old, Some(&edited)).into_iter().collect();
    match next {
        // An image that has no entries yet.
        Reading::Absent if context.facts.host == HostKind::Image => {}
        Reading::Absent => return Err(boot_files::nothing_to_edit("a boot entry")),
        _ => {
            actions.push(Action::RunTool {
                argv: COMMAND.map(str::to_owned).to_vec(),
                purpose: format!(
                    "copy the arguments of {KERNEL_CMDLINE} to this system's boot entries"
                ),
                touches: written_paths(context.reader),
                undo: ToolUndo::Repeat,
                limit_s: LIMIT_S,
            });
            actions.push(verify(context));
        }
    }
    Ok(Steps { subject: KERNEL_CMDLINE.into(), actions, disrupts: Vec::new() })
}

/// Refuses a line with one of [`SED_SPECIAL`].
fn carried_by_sed(line: &str) -> Result<(), Obstacle> {
    match line.chars().find(|c| SED_SPECIAL.contains(c)) {
        None => Ok(()),
        Some(c) => Err(Obstacle {
            reason: format!(
                "{KERNEL_CMDLINE} would contain `{c}`, which sdbootutil garbles in boot entries (openSUSE/sdbootutil)"
            ),
            fix: "write the value without that character, or set a module option in [modules] options".into(),
        }),
    }
}
