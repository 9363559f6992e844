//! Plans the change of the kernel command line, or reports why it cannot be made now.

use super::generated_menu::LostMenu;
use super::pending_tools::PendingTools;
use super::resolve::needed;
use super::tuned::Tuned;
use super::{
    Backend, Context, NAME, ObservedLines, Obstacle, Steps, block, bls, comparison, entry_before,
    length, only_in_entry, owned_arguments, soundness,
};
use crate::plan::{Change, KindPlan};
use bedplate_cmdline::Edit;
use bedplate_host::package_lock;

/// Reasons for a change.
pub(crate) struct ChangeReasons<'a> {
    /// Differences of the lines.
    pub comparison: &'a comparison::Comparison,
    /// Configured line and line of the default boot entry.
    pub observed: &'a ObservedLines,
    /// Arguments that TuneD adds.
    pub tuned: Option<&'a Tuned>,
    /// Boot menu that is empty or absent.
    pub lost: Option<&'a LostMenu>,
    /// Edit on which `comparison` is based.
    pub edit: &'a Edit,
    /// Tools that an earlier run left pending.
    pub owed: &'a PendingTools<'a>,
}

/// Adds the change of configuration and boot entry, or a blocker. Adds nothing for a broken boot entry, whose faults
/// are reported elsewhere.
pub(super) fn plan(
    context: &Context,
    due: &ChangeReasons<'_>,
    backend: &Backend,
    section: &mut KindPlan,
) {
    // A tool that regenerates entries must not run over a broken entry: the operator repairs it first. Pending tools of
    // an earlier run are the exception.
    let is_broken = || !soundness(context.reader, context.facts).faults.is_empty();
    if !due.owed.is_due() && is_broken() {
        return;
    }
    if let Some(lock) = package_lock::held(context.reader) {
        let fix =
            "wait for it to finish; then run `bedplate apply`, or let the daemon apply the change";
        let reason = package_lock::reason(lock);
        return block(section, Obstacle { reason, fix: fix.into() });
    }
    // The plan must not write arguments that it does not show, so those satisfied by a kernel default are left out.
    let steps = needed(context, due.comparison)
        .and_then(|edit| {
            due.tuned.map_or(Ok(()), |tuned| tuned.check(&edit, context))?;
            length::check_changed(context, &edit, due.observed)?;
            let steps = (backend.steps)(context, &edit)?;
            only_in_entry::check_menu(context, due.observed, &edit)?;
            section.notes.extend(only_in_entry::note(context, due.observed, &edit));
            section.notes.extend(bls::order_note(context, &steps));
            Ok(steps)
        })
        .and_then(|steps| match due.lost {
            Some(lost) => lost.complete(context, steps),
            None => Ok(steps),
        });
    match steps {
        Ok(mut steps) => {
            entry_before::note(context, due.edit, due.observed, &mut steps);
            section.settled_tools = due.owed.settled(Some((&id(&steps), &steps)));
            let mut change = change(context, due.comparison, steps);
            change.items.splice(0..0, due.lost.map(LostMenu::item));
            change.items.extend(due.owed.items());
            section.iommu.changes = due.comparison.changes_iommu();
            section.changes.push(change);
        }
        Err(obstacle) => block(section, obstacle),
    }
}

fn change(context: &Context, comparison: &comparison::Comparison, steps: Steps) -> Change {
    let items = comparison.items(&context.desired.cmdline);
    Change {
        id: id(&steps),
        kind: NAME,
        subject: steps.subject.into(),
        effect: comparison.effect(),
        items,
        actions: steps.actions,
        disrupts: steps.disrupts,
        needs: Vec::new(),
        owns: Some(owned_arguments::owns(context)),
        deferred: None,
    }
}

fn id(steps: &Steps) -> String {
    format!("{NAME}/{}", steps.subject.trim_start_matches('/'))
}
