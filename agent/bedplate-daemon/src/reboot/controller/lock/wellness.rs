//! Health of this host after its reboot, and messages about the release of its slot.

use crate::observation::Observation;
use crate::reboot::state::RebootState;
use crate::status::Status;
use bedplate_core::plan::RebootNeed;

/// Returns the blockers and unreadable values of this host.
pub(super) fn faults(observation: &Observation) -> Vec<String> {
    let blockers = observation.blockers.iter().map(|one| (&one.subject, &one.reason));
    let troubles =
        blockers.chain(observation.unknowns.iter().map(|one| (&one.subject, &one.reason)));
    troubles.map(|(subject, reason)| format!("{subject}: {reason}")).collect()
}

/// Whether this host has no fault except those known `before` its reboot.
pub(super) fn has_no_new_fault(
    status: &Status,
    observation: &Observation,
    before: &[String],
) -> bool {
    observation.changes.is_empty()
        && observation.pending.is_empty()
        && observation.need == RebootNeed::None
        && observation.failure().is_none()
        && status.conflicts.is_empty()
        && !matches!(status.reboot.state, RebootState::AttemptsExhausted { .. })
        && faults(observation).iter().all(|trouble| before.contains(trouble))
}

/// Returns the journal message and the status text about a released slot. `held_none`: the server's message that there was no
/// slot.
pub(super) fn format_release(held_none: Option<&str>, url: &str, well: bool) -> (String, String) {
    let (journal, status) = match (held_none, well) {
        (Some(said), _) => (
            format!("{url} reports that this host holds no slot; nothing to release ({said})"),
            "no slot held",
        ),
        (None, true) => {
            (format!("reported this host as healthy to {url}"), "healthy, no slot held")
        }
        (None, false) => {
            (format!("slot of {url} released: no reboot is due"), "released: no reboot is due")
        }
    };
    (journal, status.to_owned())
}
