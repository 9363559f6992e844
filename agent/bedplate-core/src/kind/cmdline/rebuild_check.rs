//! Check of the boot entries before and after sdbootutil rebuilds the initramfs, because it also makes the entries
//! again.

use super::boot_files::{self, KERNEL_CMDLINE};
use super::resolve::edit;
use super::sdbootutil::check_mkinitrd;
use super::{Context, Obstacle, arch, entry_before, owned, soundness};
use crate::ledger::Ledger;
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::Action;
use bedplate_cmdline::{Edit, Token};
use bedplate_facts::Facts;
use bedplate_host::Reader;

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
