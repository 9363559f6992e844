//! Observation of the host, remediation, and the follow-up to both.

use std::pin::pin;
use std::time::{Duration, Instant};

use super::Daemon;
use crate::backoff::CLEARS;
use crate::journal::{self, log_message};
use crate::log_changes;
use crate::observation::{ChangeKey, Observation, PlannedChange};
use crate::reboot::controller::{OBSERVE_AGAIN, within};
use crate::status::Status;
use crate::worker::{self, WorkError, WorkerMessage};
use bedplate_base::chain;
use bedplate_core::profile::model::{AgentMode, RebootPolicy};

/// Reason for cancelling a reboot that an earlier daemon has scheduled.
const NOT_OBSERVED: &str = "this host was not observed in time before the reboot";
/// Reason for cancelling a reboot while changes are applied.
const CHANGING: &str =
    "bedplate is changing this host; its boot entry can only be checked afterwards";
/// Wait before a change is applied that appeared during an apply.
const APPEARED: Duration = Duration::from_secs(5);
/// Wait before another attempt to cancel it.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

impl Daemon {
    /// Observes the host, and publishes that it does.
    pub(super) async fn observe_now(&mut self) {
        self.working_on("observing the host").await;
        self.observe().await;
    }

    /// Observes the host; in mode `enforce`, applies the changes that are due.
    pub(super) async fn observe(&mut self) {
        self.observe_and_remediate().await;
        self.observer.note_observed();
    }

    async fn observe_and_remediate(&mut self) {
        let begun = Instant::now();
        self.known.status.observations += 1;
        let act = !self.known.is_enforcement_held();
        let limit = self.reboot.observation_limit();
        let Some(observed) = within(limit, worker::observe(&self.options.launch)).await else {
            return self.observe_later().await;
        };
        let observation = match observed {
            Ok(seen) if self.known.old_profile_may_come_back(&seen) => Ok(seen),
            Ok(seen)
                if act && seen.agent.mode == AgentMode::Enforce && self.may_remediate(&seen) =>
            {
                Ok(self.remediate(seen).await)
            }
            seen => seen,
        };
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.known.status.last_observation_ms = took;
        self.known.work = None;
        match observation {
            Ok(observation) if self.known.old_profile_may_come_back(&observation) => {
                self.wait_for_profile().await
            }
            Ok(observation) => self.take(observation).await,
            Err(WorkError::NoProfile(why)) => self.without_profile(why).await,
            // The profile used temporarily need not even be usable.
            Err(_) if self.known.old_profile_is_gone() => self.wait_for_profile().await,
            // Not a fault of the host: this daemon is about to end, and the next one takes over its scheduled reboot.
            Err(WorkError::Replaced) => {}
            Err(_) if self.reboot.machine_stops().await => self.decide().await,
            Err(error) => self.unusable(chain(&error), journal::UNUSABLE, Status::fail).await,
        }
    }

    /// Handles an observation that was cut: the last seconds before a scheduled reboot are reserved for the check of its boot
    /// entry. A host that was never observed is not known to be sound, so its reboot is cancelled.
    async fn observe_later(&mut self) {
        self.known.work = None;
        if self.known.observation.is_none() {
            self.reboot.cancel_unverified(&mut self.known.status, NOT_OBSERVED).await;
        }
        let soon = self.reboot.until_final_phase().is_some_and(|left| left.is_zero());
        self.timers.retry = Some(Instant::now() + if soon { CANCEL_AGAIN } else { OBSERVE_AGAIN });
        self.decide().await;
    }

    /// Whether there is work: differences, or conflicts, which may be resolved by now.
    fn may_remediate(&self, seen: &Observation) -> bool {
        !seen.changes.is_empty() || self.backoff.has_conflicts()
    }

    async fn remediate(&mut self, seen: Observation) -> Observation {
        self.known.logged.differences(&seen);
        let admitted = self.backoff.admit(&seen.changes, self.timers.age());
        for conflict in &admitted.conflicts {
            let text = format!(
                "{} was reverted {} times and is left alone; last value: {}; {CLEARS}",
                conflict.id, conflict.times, conflict.found
            );
            log_message(journal::CONFLICT, &text);
        }
        self.timers.retry_at_age(admitted.next);
        if admitted.now.is_empty() {
            return seen;
        }
        let done = match self.apply(&seen, &admitted.now).await {
            Ok(done) => done,
            // No change was tried; the next daemon does it.
            Err(WorkError::Replaced) => return seen,
            // Another bedplate process is running, or a tool hangs. The observation itself is still valid.
            Err(error) => seen.clone().failed(&admitted.now, &chain(&error)),
        };
        let next = self.backoff.note(&done.done, self.timers.age());
        self.timers.retry_by_age(next);
        // No event need follow a change that appeared meanwhile: the first apply begins before the watches, and some settings
        // cause none.
        let is_new = |change: &PlannedChange| seen.changes.iter().all(|one| one.key != change.key);
        if done.changes.iter().any(is_new) {
            self.timers.retry_by_age(Some(self.timers.age() + APPEARED));
        }
        log_changes::ended(&seen.hash, &done);
        done
    }

    async fn apply(
        &mut self,
        seen: &Observation,
        only: &[ChangeKey],
    ) -> Result<Observation, WorkError> {
        self.working_on("applying the profile").await;
        let launch = self.options.launch.clone();
        let mut work = self.changing(worker::apply(&launch, seen, only)).await?;
        loop {
            match self.changing(work.next()).await {
                WorkerMessage::At(what) => self.working_on(&what).await,
                WorkerMessage::Ended(end) => return end,
            }
        }
    }

    /// Awaits work that changes the host. Cancels a scheduled reboot whenever its final phase begins before the work ends.
    async fn changing<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut limit = self.reboot.until_final_phase();
        loop {
            if let Some(done) = within(limit, work.as_mut()).await {
                return done;
            }
            self.reboot.cancel_unverified(&mut self.known.status, CHANGING).await;
            limit = self.reboot.until_final_phase().map(|left| left.max(CANCEL_AGAIN));
        }
    }

    /// Adds blockers for GPUs and NICs that the profile covers and that are missing.
    fn report_missing(&mut self, observation: &mut Observation) {
        let before = self.known.devices.clone();
        self.known.devices.report_missing(observation);
        if self.known.devices != before
            && let Err(error) = self.reboot.store().keep_devices(&self.known.devices)
        {
            log_message(journal::IMPAIRED, &error.to_string());
        }
    }

    async fn take(&mut self, mut observation: Observation) {
        if observation.agent.mode == AgentMode::Observe {
            // Observe mode must never reboot the host.
            observation.reboot.policy = RebootPolicy::Never;
        }
        self.report_missing(&mut observation);
        self.watches.set(&observation.watch);
        let before = self.known.take(observation, &self.backoff);
        self.timers.reobserve.note_status(&self.known.status);
        if before.is_none_or(|before| before.agent.interval_s != self.known.interval_s()) {
            self.timers.recheck = Instant::now() + self.interval();
        }
        self.reboot.observed();
        // Events during the observation are not covered by it.
        self.watches.gather_arrived();
        if self.watches.burst.is_of_the_host() {
            self.known.begin("observing changes");
        }
        self.decide().await;
    }
}
