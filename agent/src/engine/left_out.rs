//! Kinds that an image build sees to itself: a plan leaves them alone.

use crate::plan::{KindName, KindPlan, Note};

/// Takes everything about these kinds out of a plan, and adds a note for each.
pub fn leave_out(body: &mut KindPlan, kinds: &[KindName]) {
    let stays = |kind: &KindName| !kinds.contains(kind);
    body.changes.retain(|change| stays(&change.kind));
    body.blockers.retain(|blocker| stays(&blocker.kind));
    body.unknowns.retain(|unknown| stays(&unknown.kind));
    body.settled.retain(|settled| stays(&settled.kind));
    body.notes.retain(|note| stays(&note.kind));
    body.pending.retain(|pending| stays(&pending.kind));
    body.paid.retain(|paid| stays(&paid.kind));
    body.orphans.retain(|orphan| stays(&orphan.kind));
    body.unseen.retain(|unseen| body.changes.iter().any(|change| change.id == unseen.change));
    body.notes.extend(kinds.iter().map(|kind| Note {
        kind,
        subject: "left out".into(),
        text: format!("`--without {kind}`: the image build sees to it"),
    }));
}
