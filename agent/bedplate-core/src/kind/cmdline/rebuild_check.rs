//! Check of the boot entries before and after sdbootutil rebuilds the initramfs, because it also makes the entries
//! again.

use super::boot_files::{self, KERNEL_CMDLINE, entry_reader};
use super::kernel_install::BOOT_MOUNTS;
use super::resolve::edit;
use super::sdbootutil::{self, REMAKE, SET_BY_THE_TOOL};
use super::{Context, ObservedLines, Obstacle};
use super::{arch, bls, entry_before, only_in_entry, owned, repair, soundness};
use crate::ledger::Ledger;
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::Action;
use bedplate_base::{OptionalRead as _, Reading};
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::boot::kernel_cmdline;
use bedplate_cmdline::{CommandLine, Edit, Token};
use bedplate_facts::Facts;
use bedplate_host::Reader;

/// File with the boot counter of new entries.
const TRIES: &str = "/etc/kernel/tries";

/// Refuses a rebuild that would change more than the initramfs. Returns the check that must follow the tool, if the
/// default entry is known. `is_pending`: an earlier run left the rebuild pending or was interrupted.
///
/// # Errors
/// As [`check_mkinitrd`]; also if the default entry is faulty, unless the interrupted run may have caused the fault.
pub(crate) fn check_initramfs_rebuild(
    context: &Context,
    is_pending: bool,
) -> Result<Option<Action>, Obstacle> {
    let edit = edit(context)?;
    let by_hand = format!("edit {MODPROBE_PATH} by hand, run `sdbootutil mkinitrd`");
    let observed = check_mkinitrd(context.reader, context.facts, (&edit, &by_hand), is_pending)?;
    // The check after the tool would fail, and each retry would rebuild every initramfs.
    if !is_pending && !soundness(context.reader, context.facts).faults.is_empty() {
        return Err(Obstacle {
            reason: "the default boot entry, which `sdbootutil mkinitrd` remakes, is faulty".into(),
            fix: "correct the faults of the boot entry, then plan again".into(),
        });
    }
    Ok(entry_before::check_of(context, &edit, &observed))
}

/// Refuses the same rebuild as part of a revert, which may remove bedplate's own arguments. The revert itself compares
/// the entry afterwards.
///
/// # Errors
/// As [`check_mkinitrd`].
pub(crate) fn check_initramfs_revert(
    reader: &dyn Reader,
    facts: &Facts,
    ledger: &Ledger,
) -> Result<(), Obstacle> {
    let edit = Edit::new(arch(facts), Vec::<Token>::new());
    let edit = edit.and_then(|edit| edit.without(owned(ledger)));
    let edit = edit.map_err(|error| boot_files::cannot(KERNEL_CMDLINE, &error))?;
    check_mkinitrd(reader, facts, (&edit, "run `bedplate revert --force`"), true).map(drop)
}

/// Refuses `sdbootutil mkinitrd` if it would change more than the initramfs: it also makes the boot entries again.
/// Returns the present lines. `edit` has the arguments that may change; `by_hand` is the operator's way to make the
/// change. `is_repeated`: an earlier run of the tool, which had passed this check, may have been interrupted.
///
/// # Errors
/// If the tool would not rebuild the initramfs, if the disk may stay locked, if entries could not be restored, or if
/// the arguments of the default entry would change, or may change.
fn check_mkinitrd(
    reader: &dyn Reader,
    facts: &Facts,
    (edit, by_hand): (&Edit, &str),
    is_repeated: bool,
) -> Result<ObservedLines, Obstacle> {
    sdbootutil::expect_tool(reader)?;
    builds_initramfs(reader, facts)?;
    sdbootutil::without_measured_boot(reader, "new initramfs", by_hand)?;
    without_boot_counter(reader, by_hand)?;
    let (path, text) = sdbootutil::expect_line(reader)?;
    let observed = sdbootutil::observe(reader, facts);
    if is_repeated && is_cut_short(reader, facts) {
        return Ok(observed);
    }
    if let Reading::Unknown(why) = &observed.next {
        return Err(Obstacle {
            reason: format!(
                "`sdbootutil mkinitrd` also makes the boot entries again, and the default one is unknown: {why}"
            ),
            fix: repair::unknown(facts),
        });
    }
    let made = kernel_cmdline::cmdline(&text, entry_reader(facts)).unwrap_or_default();
    let made = CommandLine::parse(&made);
    only_in_entry::check(&observed.next, &made, edit, &SET_BY_THE_TOOL, REMAKE)?;
    adds_nothing(&observed.next, &made, edit, path)?;
    Ok(observed)
}

/// Whether the default entry, or every entry, names no kernel, as an interrupted tool may leave them. Such an entry has
/// no arguments to keep.
fn is_cut_short(reader: &dyn Reader, facts: &Facts) -> bool {
    let names_kernel = |entry: &BlsEntry| entry.image().is_some();
    let files = |mount: &&str| {
        let files = bls::entry_files(reader, &format!("{mount}/loader/entries")).ok()?;
        (!files.is_empty()).then_some(files)
    };
    match sdbootutil::placed_entry(reader, facts) {
        Reading::Known((_, entry)) => !names_kernel(&entry),
        // GRUB skips these entries, so none is the default.
        Reading::Unknown(_) => {
            let found = BOOT_MOUNTS.iter().find_map(files).unwrap_or_default();
            !found.is_empty() && !found.iter().any(|file| names_kernel(&file.entry))
        }
        Reading::Absent => false,
    }
}

/// Refuses a file with arguments that the default entry lacks and the edit does not add: a rebuild of the initramfs
/// would put them into the entries.
fn adds_nothing(
    next: &Reading<CommandLine>,
    made: &CommandLine,
    edit: &Edit,
    path: &str,
) -> Result<(), Obstacle> {
    let target = next.known().and_then(|entry| edit.apply(entry).ok());
    let Some(target) = target else { return Ok(()) };
    let mut added = only_in_entry::lost_arguments(made, &target, edit);
    added.retain(|token| !SET_BY_THE_TOOL.contains(&token.folded_name().as_str()));
    match added.is_empty() {
        true => Ok(()),
        false => Err(Obstacle {
            reason: format!(
                "{path} has `{}`, which the default boot entry lacks; regenerating the entry would add this",
                only_in_entry::named(&added)
            ),
            fix: format!(
                "remove these arguments from {path}, or add them to the boot entries with `{REMAKE}`; then plan again"
            ),
        }),
    }
}

/// Refuses boot counters. With one, the tool replaces entries by files with other names and removes the old initrds, so
/// that the old entries could not be restored (`install_kernel`).
fn without_boot_counter(reader: &dyn Reader, by_hand: &str) -> Result<(), Obstacle> {
    let tries = reader.text(TRIES).optional()?.unwrap_or_default();
    match tries.trim().parse::<u32>() {
        Err(_) => Ok(()),
        Ok(_) => Err(Obstacle {
            reason: format!(
                "{TRIES} sets a boot counter: `sdbootutil mkinitrd` would rename the boot entries, and bedplate could \
                 not restore them"
            ),
            fix: by_hand.to_owned(),
        }),
    }
}

/// Refuses kernels with an initramfs next to their modules: sdbootutil runs no dracut for them (`install_kernel`).
fn builds_initramfs(reader: &dyn Reader, facts: &Facts) -> Result<(), Obstacle> {
    for release in &facts.os.installed_kernels {
        let path = format!("/lib/modules/{release}/initrd");
        if reader.exists(&path)? {
            return Err(Obstacle {
                reason: format!(
                    "{path} exists: sdbootutil copies that file instead of building an initramfs, so a change of module \
                     options would not reach it"
                ),
                fix: format!(
                    "if no package owns {path} (`rpm -qf {path}`), remove it; then plan again"
                ),
            });
        }
    }
    Ok(())
}
