//! Reboot lock: takes a slot of the lock server before a reboot, and releases it as soon as no reboot will follow. After a
//! failure the server is retried on a timer, without any event.
//!
//! An unused slot blocks the fleet. So it is released whenever the reboot is cancelled (by an operator, a hold, an inhibitor,
//! a busy device or a closed window), and taken again later. It is retained while a reboot is scheduled or in progress, and
//! by a host that has a new fault after its reboot: the same reboot might break the next host too.

mod wellness;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::{OBSERVE_AGAIN, RebootController, RebootError};
use crate::journal::{self, log_message};
use crate::observation::Observation;
use crate::reboot::fleetlock::{self, Client};
use crate::reboot::identity;
use crate::reboot::state::WaitsFor;
use crate::status::Status;
use bedplate_base::{chain, mask};
use bedplate_core::profile::model::FleetLock;
use bedplate_core::reboot_record::phase::{GOING_DOWN_US, Phase};
use bedplate_core::reboot_record::{LockSlot, Record};
use bedplate_host::file;
use wellness::{faults, format_release, has_no_new_fault};

/// Time limit of a request to a lock server.
const SERVER_LIMIT: Duration = Duration::from_secs(20);

/// Returns the server's URL with its path masked: the path may be a secret.
fn mask_server(server: &FleetLock) -> String {
    mask::server(&server.url)
}

/// Longest wait for an answer inside the loop, which also serves operators. The next step fetches a later answer.
const PATIENCE: Duration = Duration::from_millis(600);
/// Time until that step.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// A request to a lock server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Take a slot.
    PreReboot,
    /// Release a slot.
    SteadyState,
}

/// Its answer; `Some` is the server's message that there was no slot to release.
type Answer = Option<String>;

/// Reason for a missing answer.
#[derive(Debug, thiserror::Error)]
enum LockError {
    /// The request is still pending.
    #[error("the lock server has not answered yet")]
    Pending,
    /// The request failed.
    #[error("{0}")]
    Failed(String),
}

/// A pending request, run outside the loop.
#[derive(Debug)]
struct Pending {
    server: FleetLock,
    question: Question,
    task: JoinHandle<Result<Answer, String>>,
}

/// State of the lock client between two steps.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pending: Option<Pending>,
    take: RetryDelay,
    give: RetryDelay,
    /// Whether this host was reported as healthy to the server in this boot.
    reported_well: bool,
    /// Last logged reason why no slot could be released; each reason is logged once.
    logged: Option<String>,
    /// Result of the last request, for the status.
    said: Option<String>,
}

/// Retry delay after failures, growing with each.
#[derive(Debug, Default)]
struct RetryDelay {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl RetryDelay {
    fn failed(&mut self, why: &str) {
        self.until = Some(Instant::now() + fleetlock::backoff(self.failures, random()));
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
    }

    fn time_left(&self) -> Option<Duration> {
        self.until
            .map(|at| at.saturating_duration_since(Instant::now()))
            .filter(|left| !left.is_zero())
    }
}

impl Lock {
    /// Returns when the server may be asked for a slot again after a failure.
    pub(super) fn retry_at(&self) -> Option<Duration> {
        if self.pending.is_some() {
            return Some(POLL);
        }
        self.take.time_left().or_else(|| self.give.time_left())
    }

    /// Whether the server has not answered the last request yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.task.is_finished())
    }

    /// Records that a reboot could not be scheduled although a slot was taken: the slot is released and not taken again at
    /// once. poseidon/fleetlock drains the node each time.
    pub(super) fn note_failed_reboot(&mut self, why: &str) {
        self.take.failed(why);
    }

    /// Records that the release of a slot failed. `held`: the server has, or may have, a slot of this host.
    fn not_given_back(&mut self, server: &FleetLock, held: bool, why: &str) {
        self.give.failed(why);
        let what = match held {
            true => format!("slot of {} not released yet", mask_server(server)),
            false => format!("cannot report this host as healthy to {}", mask_server(server)),
        };
        self.log_unreleased_slot(&format!("{what}; retrying: {why}"));
        self.said = Some(format!("{what}: {why}"));
    }

    /// Logs why a slot is not released, once for each reason.
    fn log_unreleased_slot(&mut self, why: &str) {
        if self.logged.as_deref() != Some(why) {
            log_message(journal::LOCK_KEPT, why);
            self.logged = Some(why.to_owned());
        }
    }
}

impl RebootController {
    /// Handles an unreadable record: a slot is then unknown to bedplate, but the fleet still waits for it.
    fn cannot_keep(
        &mut self,
        status: &mut Status,
        observation: Option<&Observation>,
        why: &str,
    ) -> Option<Duration> {
        observation.and_then(|observation| observation.reboot.fleetlock.as_ref())?;
        let text = format!("a reboot lock slot may be held and cannot be released: {why}");
        self.lock.log_unreleased_slot(&text);
        status.reboot.lock_message = Some(text);
        Some(OBSERVE_AGAIN)
    }

    /// Sends one request to the lock server, never two at a time: a server may process them in either order.
    async fn ask(&mut self, server: &FleetLock, question: Question) -> Result<Answer, LockError> {
        if let Some(earlier) = self.lock.pending.take() {
            let is_same = earlier.server == *server && earlier.question == question;
            let answer = self.wait(earlier).await;
            if is_same || matches!(answer, Err(LockError::Pending)) {
                return answer;
            }
        }
        let id = self.fleetlock_id().map_err(LockError::Failed)?;
        let asked = server.clone();
        let task = tokio::task::spawn_blocking(move || {
            let client = Client::new(&asked.url, &asked.group, id, SERVER_LIMIT)?;
            let answer = match question {
                Question::PreReboot => client.pre_reboot().map(|()| None),
                Question::SteadyState => client.steady_state(),
            };
            answer.map_err(|error| chain(&error))
        });
        self.wait(Pending { server: server.clone(), question, task }).await
    }

    async fn wait(&mut self, mut pending: Pending) -> Result<Answer, LockError> {
        match tokio::time::timeout(PATIENCE, &mut pending.task).await {
            Ok(answer) => {
                answer.unwrap_or_else(|error| Err(error.to_string())).map_err(LockError::Failed)
            }
            Err(_) => {
                self.lock.pending = Some(pending);
                Err(LockError::Pending)
            }
        }
    }

    /// Returns the id of this host at lock servers.
    fn fleetlock_id(&self) -> Result<String, String> {
        let text = file::text(&self.root.join("etc/machine-id")).map_err(|e| e.to_string())?;
        let machine_id = identity::parse_machine_id(text.trim())?;
        Ok(identity::hex(identity::app_specific(machine_id, identity::FLEETLOCK_APP_ID)))
    }

    /// Takes a slot. Returns `false` if the server has not answered yet.
    pub(super) async fn take_lock(
        &mut self,
        observation: &Observation,
    ) -> Result<bool, RebootError> {
        let Some(server) = observation.reboot.fleetlock.clone() else { return Ok(true) };
        if self.lock.take.time_left().is_some() {
            return Err(RebootError::new(WaitsFor::Lock, self.lock.take.why.clone()));
        }
        // The record holds one slot: a slot of a server that the profile no longer names would be lost.
        let mut record = self.record()?;
        if let Some(old) =
            record.lock.as_ref().map(|held| held.server.clone()).filter(|old| *old != server)
        {
            self.release(&mut record, &old, false).await.map_err(|why| {
                let (old, new) = (mask_server(&old), mask_server(&server));
                let why =
                    format!("the slot of {old} must be released before {new} is asked: {why}");
                RebootError::new(WaitsFor::Lock, why)
            })?;
        }
        // Record first: a lost answer may have granted a slot, which must be released later.
        let held = LockSlot {
            server: server.clone(),
            certain: false,
            since: Timestamp::now(),
            boot_id: self.boot_id.clone(),
            before: faults(observation),
        };
        self.update(|record| record.lock = Some(held.clone())).await?;
        match self.ask(&server, Question::PreReboot).await {
            Ok(_) => {
                self.update(|record| record.lock = Some(LockSlot { certain: true, ..held }))
                    .await?;
                self.lock.said = Some(format!("slot granted by {}", mask_server(&server)));
                log_message(
                    journal::LOCK,
                    &format!("reboot slot granted by {}", mask_server(&server)),
                );
                Ok(true)
            }
            Err(LockError::Pending) => Ok(false),
            Err(LockError::Failed(why)) => {
                let waits = format!("no reboot lock slot yet: {why}");
                self.lock.take.failed(&waits);
                self.lock.said = Some(why);
                Err(RebootError::new(WaitsFor::Lock, waits))
            }
        }
    }

    /// Releases a slot that no reboot will use, and reports to the server once per boot that this host is well, because the
    /// server may have a slot that is no longer recorded. `taking`: a slot is being requested. Returns when to call again.
    pub(super) async fn release_slot(
        &mut self,
        status: &mut Status,
        observation: Option<&Observation>,
        taking: bool,
    ) -> Option<Duration> {
        // A reboot is scheduled, so the earlier obstacle is gone.
        if status.reboot.state.is_coming() {
            self.lock.take = RetryDelay::default();
        }
        let is_well = |before: &[String]| {
            observation.is_some_and(|observation| has_no_new_fault(status, observation, before))
        };
        let (mut unused, mut well, mut again) = (None, false, None);
        let kept = match self.record() {
            Ok(record) => record.lock,
            Err(error) => return self.cannot_keep(status, observation, &error.to_string()),
        };
        match kept {
            Some(held) => {
                well = is_well(&held.before);
                if held.certain && held.boot_id != self.boot_id && !well {
                    self.lock.said =
                        Some("kept until this host is healthy after its reboot".into());
                } else if !taking {
                    again = Some(OBSERVE_AGAIN);
                    unused = (!self.goes_down().await).then_some(held.server);
                }
            }
            None if !self.lock.reported_well && is_well(&[]) => {
                well = true;
                unused = observation.and_then(|observation| observation.reboot.fleetlock.clone());
            }
            None => {}
        }
        // Read again: the cancellation of a reboot may have been found only now.
        let mut record = match self.record() {
            Ok(record) => record,
            Err(error) => return self.cannot_keep(status, observation, &error.to_string()),
        };
        if let Some(server) = unused {
            // The failure is in the journal.
            let done = self.release(&mut record, &server, well).await;
            again = done.is_err().then(|| self.lock.retry_at().unwrap_or(OBSERVE_AGAIN));
        }
        status.reboot.lock = record.lock.map(|mut held| {
            held.server.url = mask_server(&held.server);
            held
        });
        status.reboot.lock_message.clone_from(&self.lock.said);
        again
    }

    /// Reports to a server that this host needs no slot, and removes it from the record.
    async fn release(
        &mut self,
        record: &mut Record,
        server: &FleetLock,
        well: bool,
    ) -> Result<(), String> {
        if self.lock.give.time_left().is_some() {
            return Err(self.lock.give.why.clone());
        }
        let held = record.lock.is_some();
        if let Some(held) = record.lock.as_mut().filter(|held| held.certain) {
            // Record first: a lost answer may have confirmed the release, and without a slot no reboot is allowed.
            held.certain = false;
            let uncertain = record.lock.clone();
            if let Err(error) = self.update(|record| record.lock = uncertain).await {
                let why = error.to_string();
                self.lock.not_given_back(server, true, &why);
                return Err(why);
            }
        }
        match self.ask(server, Question::SteadyState).await {
            Ok(held_none) => {
                record.lock = None;
                self.lock.reported_well |= well;
                (self.lock.give, self.lock.logged) = (RetryDelay::default(), None);
                let (journal, status) =
                    format_release(held_none.as_deref(), &mask_server(server), well);
                log_message(journal::LOCK, &journal);
                self.lock.said = Some(status);
                if held && let Err(error) = self.update(|record| record.lock = None).await {
                    log_message(journal::IMPAIRED, &error.to_string());
                }
                Ok(())
            }
            Err(pending @ LockError::Pending) => Err(pending.to_string()),
            Err(LockError::Failed(why)) => {
                self.lock.not_given_back(server, held, &why);
                Err(why)
            }
        }
    }

    /// Whether this host is about to reboot, as far as known. Its slot must then not go to another host.
    async fn goes_down(&mut self) -> bool {
        let phase = self.record().map(|record| record.phase).unwrap_or_default();
        let seen = self.see(&phase, None).await;
        let at_logind = phase.at_logind().is_some();
        if at_logind && seen.goes_down {
            return true;
        }
        match (&seen.schedule, &phase) {
            (_, Phase::GoingDown { .. } | Phase::Scheduling { .. }) => true,
            (_, Phase::CommandRun { arranged, .. }) => arranged.late(seen.now) < GOING_DOWN_US,
            // Its result is unknown: logind cannot be asked.
            (Err(_), _) => at_logind || self.logind.is_some(),
            (Ok(Some((kind, usec))), phase) => {
                // This host will be away, by any program's request. A poweroff has no known end, so it does not count.
                let ours = phase.at_logind().is_some_and(|arranged| arranged.is(kind, *usec));
                ours || ["reboot", "kexec", "soft-reboot"].contains(&kind.as_str())
            }
            (Ok(None), _) => false,
        }
    }
}

/// Returns a random number for jitter only.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without random numbers there is no jitter.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}
