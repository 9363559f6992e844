//! Whether this host is well after its reboot, and how giving its slot back is reported.

use crate::observation::Observation;
use crate::reboot::state::RebootState;
use crate::status::Status;
use bedplate_core::plan::RebootNeed;

/// What people have to deal with on this host, and what cannot be read of it.
pub(super) fn faults(observation: &Observation) -> Vec<String> {
    let blockers = observation.blockers.iter().map(|one| (&one.subject, &one.reason));
    let troubles =
        blockers.chain(observation.unknowns.iter().map(|one| (&one.subject, &one.reason)));
    troubles.map(|(subject, reason)| format!("{subject}: {reason}")).collect()
}

/// Whether nothing is wrong with this host but what was known `before` it was rebooted.
pub(super) fn has_no_new_fault(
    status: &Status,
    observation: &Observation,
    before: &[String],
) -> bool {
    observation.changes.is_empty()
        && observation.pending.is_empty()
        && observation.need == RebootNeed::None
        && observation.failure().is_none()
        && status.contested.is_empty()
        && !matches!(status.reboot.state, RebootState::Stuck { .. })
        && faults(observation).iter().all(|trouble| before.contains(trouble))
}

/// What is said of a slot that was given back: in the journal, and in the status. `held_none`: the server's words, where it says that
/// there was none.
pub(super) fn format_release(held_none: Option<&str>, url: &str, well: bool) -> (String, String) {
    let (journal, status) = match (held_none, well) {
        (Some(said), _) => (
            format!(
                "{url} says that this host holds no slot, so there is none to give back ({said})"
            ),
            "this host holds no slot",
        ),
        (None, true) => (
            format!("reported to {url} that this host is well"),
            "this host is well, and holds no slot",
        ),
        (None, false) => (
            format!("gave the slot back to {url}: no reboot is due"),
            "given back: no reboot is due",
        ),
    };
    (journal, status.to_owned())
}
