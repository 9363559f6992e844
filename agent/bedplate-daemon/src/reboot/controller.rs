//! Reboot controller of the daemon: gathers the facts for [`step`](crate::reboot::step) and performs its effects. Any failure
//! leaves the host running.

mod current_record;
mod display;
mod drive;
mod effects;
pub(crate) mod error;
mod fast_facts;
mod final_phase;
mod last_boot;
mod lock;
mod offline;
mod operator;
mod slow_facts;
mod steps;

pub use error::RebootError;
pub(crate) use final_phase::within;
pub use offline::{AtLogind, Offline};
pub(crate) use steps::Steps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use self::drive::DriveResult;
use crate::helper::Helpers;
use crate::journal::{self, log_message};
use crate::logind::ManagerProxy;
use crate::observation::Observation;
use crate::reboot::state::{RebootState, Veto, WaitsFor};
use crate::reboot::step::{Event, FINAL_PHASE_LENGTH, MissingInput};
use crate::status::Status;
use crate::store::Store;
use bedplate_core::plan::NextBoot;
use bedplate_core::reboot_record::Record;
use bedplate_core::reboot_record::last_boot::LastBoot;
use bedplate_core::reboot_record::phase::Phase;

/// Interval of polling vetoes that cause no event (open devices, a command) while they block a reboot.
pub(crate) const OBSERVE_AGAIN: Duration = Duration::from_secs(30);
/// Most passes of one decision: a fresh boot entry, a slot, a failed effect, a moved reboot.
const MAX_OBSERVATIONS: usize = 8;

/// In-memory data between two decisions. The persistent state is in the record.
pub(crate) struct RebootController {
    root: PathBuf,
    store: Store,
    kept: current_record::RecordCache,
    boot_id: String,
    /// logind, if the bus is connected; without it no reboot is possible.
    logind: Option<ManagerProxy<'static>>,
    inhibited_since: Option<Instant>,
    /// When bedplate's own scheduled reboot was last seen at logind.
    last_ours: Option<Timestamp>,
    /// The boot entry, if it was read after the last observation.
    inspected: Option<NextBoot>,
    /// When the boot entry was last read for a reboot.
    inspected_at: Option<Instant>,
    /// When to read an unknown boot entry again; `None` if it was known or has not been read since the last observation.
    inspect_again: Option<Instant>,
    /// Last answer of the busy commands.
    busy: Option<final_phase::BusyAnswer>,
    lock: lock::Lock,
    helpers: Helpers,
    steps: Steps,
    /// Failures already in the journal, cleared when effects succeed again.
    logged_failures: BTreeSet<String>,
    /// Reboots requested from logind, as a counter.
    requested: u64,
    /// Cause of the last boot, once known.
    last_boot: Option<LastBoot>,
    last: Option<RebootState>,
}

impl RebootController {
    /// Creates a controller for the host below `root`.
    pub(crate) fn new(root: &Path, boot_id: String, helpers: Helpers) -> Self {
        RebootController {
            root: root.to_owned(),
            store: Store::new(root),
            kept: current_record::RecordCache::default(),
            boot_id,
            logind: None,
            inhibited_since: None,
            last_ours: None,
            inspected: None,
            inspected_at: None,
            inspect_again: None,
            busy: None,
            lock: lock::Lock::default(),
            helpers,
            steps: Steps::default(),
            logged_failures: BTreeSet::new(),
            requested: 0,
            last_boot: None,
            last: None,
        }
    }

    /// Sets or clears the logind proxy.
    pub(crate) fn set_logind(&mut self, logind: Option<ManagerProxy<'static>>) {
        self.logind = logind;
    }

    /// Returns a handle that tells whether a reboot step is running that must not be cut.
    pub(crate) fn steps(&self) -> Steps {
        self.steps.clone()
    }

    /// Returns the store of the daemon's state files.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the duration of the busy commands.
    fn busy_took(&self) -> SignedDuration {
        let took = self.busy.as_ref().map(|busy| busy.took).unwrap_or_default();
        SignedDuration::try_from(took).unwrap_or(SignedDuration::ZERO)
    }

    /// Records that the host was observed: its boot entry is the one in the observation.
    pub(crate) fn observed(&mut self) {
        (self.inspected, self.inspect_again) = (None, None);
    }

    /// Decides and acts once, and writes the result into the status. Returns when to decide again if no event happens before.
    pub(crate) async fn step(
        &mut self,
        status: &mut Status,
        observation: &Observation,
    ) -> Option<Duration> {
        status.reboot.last_boot = self.last_boot(observation).await;
        self.forget_attempts(status, observation).await;
        // Vetoes from small files cancel a reboot before the slow facts are gathered.
        let mut failed = match self.drive(|seen| Event::Polled(seen), None).await {
            Ok((driven, _)) => driven.failed,
            // Reported below.
            Err(_) => None,
        };
        if self.until_final_phase().is_none() && self.lock.is_waiting() {
            // Facts gathered now would have to be gathered again after the answer.
            self.show(status);
            return Some(lock::POLL);
        }
        let (mut again, mut taking, mut fresh) = (None, false, false);
        for _ in 0..MAX_OBSERVATIONS {
            let (wanted, closely) = self.gather(status, observation, fresh).await;
            let decided =
                self.drive(|seen| Event::Observed(seen, Ok(&wanted)), failed.clone()).await;
            let (driven, seen) = match decided {
                Ok(decided) => decided,
                Err(error) => {
                    status.reboot.state =
                        RebootState::waiting(error.waits_for(), error.to_string());
                    again = Some(OBSERVE_AGAIN);
                    break;
                }
            };
            self.show_vetoes(status, &seen, (&wanted, closely), failed.as_ref());
            match self.follow(status, observation, driven, &mut failed).await {
                Next::Observe { fresh: again } => fresh = again,
                Next::Done { taking: asked, again: after } => {
                    (taking, again) = (asked, after);
                    break;
                }
            }
        }
        self.log_changes(status, observation);
        self.show(status);
        let lock_again = self.release_slot(status, Some(observation), taking).await;
        status.reboot.requested = self.requested;
        let record = self.record().unwrap_or_default();
        let again = retry_delay(status, again);
        again
            .into_iter()
            .chain(lock_again)
            .chain(next_check(&record.phase, Timestamp::now(), self.busy_took()))
            .min()
    }

    /// Handles the result of one pass: finishes, or requests another pass.
    async fn follow(
        &mut self,
        status: &mut Status,
        observation: &Observation,
        driven: DriveResult,
        failed: &mut Option<Veto>,
    ) -> Next {
        if let Some(why) = &driven.failed {
            if driven.has_failed {
                self.lock.note_failed_reboot(&why.text);
            }
            let again = Next::Observe { fresh: false };
            if failed.replace(why.clone()).is_none() {
                return again;
            }
        }
        match driven.missing {
            Some(MissingInput::FreshEntry) => return Next::Observe { fresh: true },
            Some(MissingInput::Slot) => {
                status.reboot.state = RebootState::TakingLock;
                return match self.take_lock(observation).await {
                    Ok(true) => Next::Observe { fresh: false },
                    Ok(false) => Next::Done { taking: true, again: self.lock.retry_at() },
                    Err(error) => {
                        status.reboot.state =
                            RebootState::waiting(error.waits_for(), error.to_string());
                        self.note_wait().await;
                        let again = self.lock.retry_at().unwrap_or(OBSERVE_AGAIN);
                        Next::Done { taking: true, again: Some(again) }
                    }
                };
            }
            None => {}
        }
        let again = failed.is_some().then(|| self.lock.retry_at().unwrap_or(OBSERVE_AGAIN));
        if let Some(why) = driven.unwritten.filter(|_| !is_going_down(&driven.record)) {
            status.reboot.state = RebootState::waiting(WaitsFor::Record, why);
            return Next::Done { taking: false, again: Some(OBSERVE_AGAIN) };
        }
        match driven.shown {
            Some(state) => {
                status.reboot.state = state;
                Next::Done { taking: false, again }
            }
            None => Next::Observe { fresh: false },
        }
    }

    /// Records that a request has waited for a slot.
    async fn note_wait(&mut self) {
        let waits = |record: &mut Record| {
            if let Some(asked) = &mut record.asked {
                asked.waited = true;
            }
        };
        if let Err(error) = self.update(waits).await {
            log_message(journal::IMPAIRED, &error.to_string());
        }
    }

    /// Clears the attempts of a converged host.
    async fn forget_attempts(&mut self, status: &Status, observation: &Observation) {
        // Attempts are counted for settings only; a failed check, such as an unplugged cable, does not retain them.
        if !observation.is_converged() || !status.is_as_the_profile_says() {
            return;
        }
        let boot_id = self.boot_id.clone();
        // Without a record there are no attempts to clear.
        let Ok(mut record) = self.record() else { return };
        let before = record.clone();
        record.forget_earlier(&boot_id);
        if record != before
            && let Err(error) = self.update(|record| record.forget_earlier(&boot_id)).await
        {
            log_message(journal::IMPAIRED, &error.to_string());
        }
    }
}

/// Continuation after a pass.
enum Next {
    Observe { fresh: bool },
    Done { taking: bool, again: Option<Duration> },
}

fn is_going_down(record: &Record) -> bool {
    matches!(record.phase, Phase::GoingDown { .. })
}

/// Returns when to decide again in a state. `again`: retry time after a failure.
fn retry_delay(status: &Status, again: Option<Duration>) -> Option<Duration> {
    match &status.reboot.state {
        RebootState::Waiting { until, .. } => {
            let opens = until.map(|until| {
                let wait = until.duration_since(Timestamp::now());
                Duration::try_from(wait).unwrap_or(Duration::ZERO).max(Duration::from_secs(1))
            });
            // The wall clock may be set: never sleep long enough for that to matter.
            let opens = opens.map(|wait| wait.min(Duration::from_secs(600)));
            again.or(opens).or(Some(OBSERVE_AGAIN))
        }
        // A new obstacle must cancel a scheduled reboot.
        RebootState::Scheduling { .. }
        | RebootState::Scheduled { .. }
        | RebootState::UnderWay { .. } => Some(OBSERVE_AGAIN),
        RebootState::WaitingForChanges if !status.reboot.is_needed() => again,
        // Other obstacles are refreshed in the status.
        RebootState::Cancelled { .. } | RebootState::WaitingForChanges => {
            again.or(Some(OBSERVE_AGAIN))
        }
        _ => again,
    }
}

/// Lead times before a reboot at which it is checked again; then it is polled closely until well after its time.
const CHECK_LEAD_TIMES: [SignedDuration; 3] =
    [FINAL_PHASE_LENGTH, SignedDuration::from_secs(5), SignedDuration::from_millis(1500)];
/// Slack for the busy commands beyond the duration of their last run, before the final phase.
const BUSY_SLACK: SignedDuration = SignedDuration::from_secs(2);
const DUE_POLL_INTERVAL: Duration = Duration::from_secs(1);
const DUE_POLL_DURATION: SignedDuration = SignedDuration::from_secs(10);

/// Returns when to check a scheduled reboot again. `busy`: duration of the busy commands, which run before the final phase.
fn next_check(phase: &Phase, now: Timestamp, busy: SignedDuration) -> Option<Duration> {
    match phase {
        Phase::Scheduled { arranged } => {
            let left = arranged.at().duration_since(now);
            if left < -DUE_POLL_DURATION {
                return Some(OBSERVE_AGAIN);
            }
            let busy = (busy > BUSY_SLACK / 2).then(|| busy + FINAL_PHASE_LENGTH + BUSY_SLACK);
            let next = CHECK_LEAD_TIMES.into_iter().chain(busy).map(|before| left - before);
            let next = next.filter_map(|wait| Duration::try_from(wait).ok()).min();
            // A moment later, so that the time has certainly passed.
            let next = next.map_or(DUE_POLL_INTERVAL, |wait| wait + Duration::from_millis(50));
            Some(next.min(OBSERVE_AGAIN))
        }
        Phase::Arming { .. }
        | Phase::Scheduling { .. }
        | Phase::Cancelling { .. }
        | Phase::Disarming { .. } => Some(OBSERVE_AGAIN),
        Phase::Rest | Phase::CommandRun { .. } | Phase::GoingDown { .. } | Phase::Ended { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_core::profile::model::RebootMethod;
    use bedplate_core::reboot_record::phase::{ArrangedReboot, Shutdown, usec};

    fn scheduled(at: Timestamp) -> Phase {
        let arranged = ArrangedReboot {
            boot_id: "b".into(),
            kind: Shutdown::Reboot,
            usec: usec(at),
            plan: "p".into(),
            method: RebootMethod::Ordinary,
            request: None,
            userspace: None,
            prepared: None,
        };
        Phase::Scheduled { arranged }
    }

    #[test]
    fn slow_busy_command_runs_before_the_final_phase() {
        let now: Timestamp = "2026-03-03T03:00:00Z".parse().unwrap();
        let phase = scheduled(now + SignedDuration::from_secs(60));
        let wait =
            |busy| next_check(&phase, now, SignedDuration::from_secs(busy)).unwrap().as_secs();
        assert_eq!(wait(25), 18, "25 s, some slack, and 15 s are left then");
        assert_eq!(wait(0), 30);
        let phase = scheduled(now + SignedDuration::from_secs(20));
        assert_eq!(next_check(&phase, now, SignedDuration::from_secs(25)).unwrap().as_secs(), 5);
    }
}
