//! Resource types that an image build handles itself: a plan omits them. Pending tools stay pending in any case.

use crate::ledger::{Ledger, PendingTool};
use crate::plan::{Action, IommuPlan, KindId, KindPlan};
use bedplate_host::HostKind;

/// Removes everything about `kinds` from a plan except tools that have run, and adds a note for each resource type.
pub(crate) fn leave_out(body: &mut KindPlan, kinds: &[KindId]) {
    let stays = |kind: &KindId| !kinds.contains(kind);
    body.changes.retain(|change| stays(&change.kind));
    body.blockers.retain(|blocker| stays(&blocker.kind));
    body.unknowns.retain(|unknown| stays(&unknown.kind));
    body.unchanged.retain(|setting| stays(&setting.kind));
    body.notes.retain(|note| stays(&note.kind));
    body.pending.retain(|pending| stays(&pending.kind));
    if !stays(&KindId::Cmdline) {
        body.iommu = IommuPlan::default();
    }
    body.orphans.retain(|orphan| stays(&orphan.kind));
    body.overridden.retain(|overridden| stays(&overridden.kind));
    body.pending_until_boot
        .retain(|unseen| body.changes.iter().any(|change| change.id == unseen.change));
    body.notes.extend(kinds.iter().map(|kind| {
        kind.note("omitted", format!("`--without {kind}`: the image build handles it"))
    }));
}

/// Notes the pending tools of an image that the plan does not run.
pub(crate) fn note_owed(body: &mut KindPlan, ledger: &Ledger, host: HostKind) {
    if host != HostKind::Image {
        return;
    }
    let has_run = |tool: &PendingTool| {
        body.settled_tools.iter().any(|paid| {
            let after = paid.after.as_ref();
            let is_planned = |id: &String| body.changes.iter().any(|change| change.id == *id);
            tool.kind == paid.kind && paid.argv == tool.argv && after.is_none_or(is_planned)
        })
    };
    let runs = |tool: &PendingTool| {
        let doable = body.changes.iter().filter(|change| change.deferred.is_none());
        let mut tools =
            doable.flat_map(|change| &change.actions).filter_map(|action| match action {
                Action::RunTool { argv, .. } => Some(argv),
                _ => None,
            });
        tools.any(|argv| *argv == tool.argv)
    };
    let owed = ledger.owed.iter().filter(|tool| !has_run(tool) && !runs(tool));
    let owed: Vec<(KindId, String)> = owed.map(|tool| (tool.kind, tool.argv.join(" "))).collect();
    for (kind, command) in owed {
        body.notes.push(kind.note(
            command.clone(),
            "must still run in the image; `apply --root DIR --ran TOOL` records that it has",
        ));
        body.pending_commands.push(command);
    }
}
