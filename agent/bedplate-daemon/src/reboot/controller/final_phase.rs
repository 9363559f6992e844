//! The last seconds before a scheduled reboot. Its boot entry is read first; slow facts such as `busy_command` must not delay
//! that. If the entry is not read in time, the reboot is cancelled.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::RebootController;
use crate::reboot::state::Veto;
use crate::reboot::step::FINAL_PHASE_LENGTH;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Phase};

/// Lead time by which the boot entry must be read, so that logind can still cancel.
const CANCEL_LEAD_TIME: Duration = Duration::from_secs(3);
/// Lead time from which an entry that was read in the final phase is not read again.
const REREAD_LEAD_TIME: Duration = Duration::from_millis(500);
/// Largest age of a `busy_command` answer that is used if no newer one arrives in time.
const RECENT: Duration = Duration::from_secs(180);

/// Processes that use devices, and the answer of `busy_command`.
#[derive(Debug, Clone)]
pub(super) struct BusyAnswer {
    /// When it arrived.
    pub(super) at: Instant,
    /// Duration of the commands.
    pub(super) took: Duration,
    /// Reasons against a reboot.
    pub(super) vetoes: Vec<Veto>,
}

impl BusyAnswer {
    pub(super) fn is_recent(&self) -> bool {
        self.at.elapsed() <= RECENT
    }
}

/// Returns the length of the final phase before the due time.
pub(super) fn final_phase() -> Duration {
    Duration::try_from(FINAL_PHASE_LENGTH).unwrap_or_default()
}

/// Returns the time until the scheduled reboot is due; `None` if nothing is scheduled or it is due.
pub(super) fn time_left(phase: &Phase, now: Timestamp) -> Option<Duration> {
    let Phase::Scheduled { arranged } = phase else { return None };
    time_until(arranged, now)
}

fn time_until(arranged: &ArrangedReboot, now: Timestamp) -> Option<Duration> {
    Duration::try_from(arranged.at().duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// Returns the time limit of the busy commands, if any. `answered`: a recent answer exists.
pub(super) fn busy_limit(left: Option<Duration>, answered: bool) -> Option<Duration> {
    // The final phase is reserved for the boot entry.
    let end = if answered { final_phase() } else { CANCEL_LEAD_TIME };
    left.map(|left| left.saturating_sub(end))
}

/// Whether a reading of this age was made in the final phase.
pub(super) fn is_of_the_final_phase(age: Option<Duration>, left: Option<Duration>) -> bool {
    age.zip(left).is_some_and(|(age, left)| age + left <= final_phase())
}

/// Returns the time limit of reading the boot entry, if any. `answered`: it was read in the final phase.
pub(super) fn entry_limit(left: Option<Duration>, answered: bool) -> Option<Duration> {
    let end = if answered { REREAD_LEAD_TIME } else { CANCEL_LEAD_TIME };
    left.map(|left| left.saturating_sub(end))
}

impl RebootController {
    /// Returns the time until the final phase of the scheduled reboot, zero if its cancellation has failed; `None` if logind
    /// has no reboot of bedplate.
    pub(crate) fn until_final_phase(&self) -> Option<Duration> {
        match self.at_logind()? {
            (left, Phase::Scheduled { .. }) => Some(left.saturating_sub(final_phase())),
            _ => Some(Duration::ZERO),
        }
    }

    /// Returns the time limit of an observation: half of the time until the reboot, the other half is for the boot entry.
    pub(crate) fn observation_limit(&self) -> Option<Duration> {
        self.at_logind().map(|(left, _)| left / 2)
    }

    /// Returns the time until the reboot that logind may have, and its phase.
    fn at_logind(&self) -> Option<(Duration, Phase)> {
        let phase = self.record().ok()?.phase;
        let (Phase::Scheduled { arranged } | Phase::Cancelling { arranged, .. }) = &phase else {
            return None;
        };
        Some((time_until(arranged, Timestamp::now())?, phase))
    }
}

/// Awaits `work` for at most `limit`; does not start it if `limit` is zero.
pub(crate) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        None => Some(work.await),
        Some(Duration::ZERO) => None,
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn busy_command_ends_before_the_final_phase() {
        assert_eq!(busy_limit(None, true), None);
        assert_eq!(busy_limit(seconds(40), true), seconds(25));
        assert_eq!(busy_limit(seconds(15), true), seconds(0));
        assert_eq!(busy_limit(seconds(10), false), seconds(7), "nothing is known of it");
        assert_eq!(busy_limit(seconds(2), false), seconds(0));
    }

    #[test]
    fn entry_is_read_three_seconds_before_the_reboot() {
        assert_eq!(entry_limit(None, false), None);
        assert_eq!(entry_limit(seconds(15), false), seconds(12));
        assert_eq!(entry_limit(seconds(2), false), seconds(0));
        assert_eq!(entry_limit(seconds(2), true), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn entry_read_before_the_final_phase_is_stale() {
        assert!(!is_of_the_final_phase(None, seconds(2)));
        assert!(!is_of_the_final_phase(seconds(3), seconds(15)));
        assert!(is_of_the_final_phase(seconds(9), seconds(5)));
        assert!(!is_of_the_final_phase(seconds(9), None));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn work_with_zero_limit_is_not_started() {
        assert_eq!(within(seconds(0), async { 1 }).await, None);
        assert_eq!(within(seconds(9), async { 1 }).await, Some(1));
        let limit = Some(Duration::from_millis(5));
        assert_eq!(within(limit, std::future::pending::<()>()).await, None);
    }
}
