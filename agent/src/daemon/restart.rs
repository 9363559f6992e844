//! The reboot as the daemon sees to it: gathers what [`decide`] has to know, does what it says, and remembers that before
//! doing it. Everything that fails on the way leaves the host running.

mod announce;
mod armed;
mod error;
mod fire;
mod last_boot;
mod lock;
mod obstacles;
mod operator;

pub use error::RestartError;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::helper::Helpers;
use super::journal::{self, say};
use super::logind::{self, ManagerProxy, Stage};
use super::observation::Observation;
use super::status::Status;
use super::store::{Store, StoreError};
use crate::enforce_hold::EnforceHold;
use crate::kind::cmdline::diagnosis::Cause;
use crate::plan::RebootNeed;
use crate::profile::model::RebootPolicy;
use crate::reboot::decide::{Scheduled, Situation, decide};
use crate::reboot::last_boot::LastBoot;
use crate::reboot::record::Record;
use crate::reboot::state::{Reason, RebootState, UNFINISHED, WaitsFor, joined};
use crate::utc::shown;

/// How often vetoes that nobody signals (open devices, a command) are looked at while they are in the way.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What is remembered between two steps.
pub struct Restart {
    root: PathBuf,
    store: Store,
    boot_id: String,
    /// The bus, if there is one; without it there is no reboot.
    logind: Option<ManagerProxy<'static>>,
    inhibited_since: Option<Instant>,
    /// When logind was last seen with bedplate's own announcement.
    seen_ours: Option<Timestamp>,
    lock: lock::Lock,
    helpers: Helpers,
    /// What is still armed for a reboot that does not come, as it was last said.
    armed: Option<String>,
    asked_for: u64,
    /// Which reboot this boot follows, once that is known.
    came: Option<LastBoot>,
    last: Option<RebootState>,
}

impl Restart {
    /// For the host below `root`.
    pub fn new(root: &Path, boot_id: String, helpers: Helpers) -> Self {
        Restart {
            root: root.to_owned(),
            store: Store::new(root),
            boot_id,
            logind: None,
            inhibited_since: None,
            seen_ours: None,
            lock: lock::Lock::default(),
            helpers,
            armed: None,
            asked_for: 0,
            came: None,
            last: None,
        }
    }

    /// The bus has come or gone.
    pub fn set_logind(&mut self, logind: Option<ManagerProxy<'static>>) {
        self.logind = logind;
    }

    /// The daemon's small files.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Decides and acts, once; writes what came of it into the status. Returns when to come again, if nothing else
    /// happens before.
    pub async fn step(
        &mut self,
        status: &mut Status,
        observation: &Observation,
    ) -> Option<Duration> {
        status.reboot.hold = self.hold(Timestamp::now());
        if let Err(error) = self.fire(status, observation).await {
            say(journal::REBOOT_FAILED, &error.to_string());
        }
        let mut record = self.store.record();
        if let Ok(record) = &mut record {
            status.reboot.came = self.came(record, observation).await;
            self.forget_attempts(record, status, observation);
        }
        let (mut again, mut taking) = (None, false);
        // Taking the lock and taking an announcement back are followed by another decision; that is all the turns there are.
        for _ in 0..3 {
            let decision = self.decide(&mut record, status, observation).await;
            status.reboot.state = decision.clone();
            taking = decision == RebootState::TakingLock;
            let acted = match (&decision, &mut record) {
                (RebootState::TakingLock, Ok(record)) => self.take_lock(record, observation).await,
                (RebootState::Announcing { at }, Ok(record)) => {
                    self.announce(record, status, observation, *at).await
                }
                (RebootState::CallingOff { why }, Ok(record)) => {
                    self.cancel(record, &why.join("; "), Stage::TakenBack).await
                }
                (RebootState::CallingOff { why }, Err(_)) => {
                    let (mut none, why) = (Record::default(), why.join("; "));
                    self.cancel(&mut none, &why, Stage::TakenBack).await
                }
                _ => Ok(false),
            };
            match acted {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    let why = error.to_string();
                    if matches!(decision, RebootState::Announcing { .. }) {
                        self.lock.in_vain(&why);
                    }
                    again = Some(self.lock.again().unwrap_or(LOOK_AGAIN));
                    status.reboot.state = RebootState::waiting(error.waits_for(), why);
                }
            }
            break;
        }
        self.tell(status, observation);
        self.note_wait(&mut record, &status.reboot.state);
        status.reboot.called_off =
            self.store.announced().and_then(|announced| match announced.stage {
                Stage::CalledOff { by } => Some(by),
                _ => None,
            });
        if let Ok(record) = &record {
            status.reboot.attempts = record.in_a_row(&self.boot_id);
        }
        let lock_again = self.give_back(status, Some(observation), taking).await;
        status.reboot.asked_for = self.asked_for;
        let again = come_again(&status.reboot.state, again);
        let armed_again = self.is_armed().then_some(LOOK_AGAIN);
        again.into_iter().chain(lock_again).chain(armed_again).chain(self.watch_command()).min()
    }

    /// A request that something was in the way of is remembered as one: an operator who lifts a hold hours later does not
    /// expect the machine to go down at once.
    fn note_wait(&self, record: &mut Result<Record, StoreError>, state: &RebootState) {
        if !matches!(state, RebootState::Waiting { .. }) {
            return;
        }
        let Ok(record) = record else { return };
        let Some(asked) = record.asked.as_mut().filter(|asked| !asked.waited) else { return };
        asked.waited = true;
        if let Err(error) = self.store.keep(record) {
            say(journal::IMPAIRED, &error.to_string());
        }
    }

    /// A host that is right forgets what was tried.
    fn forget_attempts(&self, record: &mut Record, status: &Status, observation: &Observation) {
        let before = record.clone();
        record.booted(&self.boot_id);
        // Attempts are counted for settings: what checks find beside them, a cable that is out, keeps none.
        if observation.is_right() && status.is_as_the_profile_says() {
            record.forget_earlier(&self.boot_id);
        }
        if *record != before
            && let Err(error) = self.store.keep(record)
        {
            say(journal::IMPAIRED, &error.to_string());
        }
    }

    /// Which method would restart this host, and why none would now.
    async fn no_way(
        &self,
        status: &mut Status,
        observation: &Observation,
        rehearsed: bool,
    ) -> Vec<Reason> {
        let (method, said) = self.helpers.methods(observation.need).await;
        status.reboot.methods = said;
        status.reboot.method = method;
        let mut why = Vec::new();
        if rehearsed {
            // Before a slot is asked for that nothing would come of.
            let text = "it was rehearsed in this boot; `rehearse = false` in [reboot] does it";
            why.push(Reason::new(WaitsFor::Rehearsal, text));
        }
        if method.is_none() {
            let text = "no method of the profile can restart this host";
            why.push(Reason::new(WaitsFor::Method, text));
        }
        why
    }

    /// What forbids a reboot now, and who inhibits it.
    async fn in_the_way(
        &self,
        status: &mut Status,
        observation: &Observation,
        asked: bool,
        rehearsed: bool,
    ) -> (Vec<Reason>, Vec<String>) {
        let mut vetoes = self.vetoes(&observation.reboot, Timestamp::now()).await;
        // What an operator has put back is no cause for a boot; what an operator asks for is.
        vetoes.extend(status.held.as_ref().filter(|_| !asked).map(enforce_hold));
        // Beside each other, so that people are answered sooner; after the commands, which may take a minute.
        let no_way = self.no_way(status, observation, rehearsed);
        let listed = async {
            match &self.logind {
                None => Err(Reason::new(WaitsFor::Logind, NO_LOGIND)),
                Some(logind) => {
                    logind.list_inhibitors().await.map_err(|error| no_inhibitors(&error))
                }
            }
        };
        let (no_way, listed) = tokio::join!(no_way, listed);
        vetoes.extend(no_way);
        let inhibitors = match listed {
            Ok(all) => logind::in_the_way(&all),
            Err(unknown) => {
                vetoes.push(unknown);
                Vec::new()
            }
        };
        (vetoes, inhibitors)
    }

    async fn decide(
        &mut self,
        record: &mut Result<Record, StoreError>,
        status: &mut Status,
        observation: &Observation,
    ) -> RebootState {
        let decision = self.weigh(record, status, observation).await;
        if !matches!(decision, RebootState::CallingOff { .. }) {
            return decision;
        }
        // Looking takes its time, and may have failed because the machine goes down: PID 1 starts nothing any more.
        match self.scheduled().await {
            Ok(Scheduled::Ours(at)) if self.machine_stops().await => RebootState::UnderWay { at },
            Ok(Scheduled::Ours(_)) | Err(_) => decision,
            // By now it is under way, gone, or another one.
            Ok(_) => self.weigh(record, status, observation).await,
        }
    }

    /// One look at everything that counts, and what follows from it.
    async fn weigh(
        &mut self,
        record: &mut Result<Record, StoreError>,
        status: &mut Status,
        observation: &Observation,
    ) -> RebootState {
        let now = Timestamp::now();
        let scheduled = self.scheduled().await;
        let armed = self.disarm().await;
        // A reboot that was called off takes an operator's request out of the record.
        if record.is_ok() {
            *record = self.store.record();
        }
        let asked = record.as_ref().is_ok_and(|record| record.asked.is_some());
        let wanted = asked
            || (observation.need != RebootNeed::None
                && observation.reboot.policy == RebootPolicy::Schedule);
        let (mut vetoes, mut inhibitors) = (Vec::new(), Vec::new());
        if wanted || matches!(scheduled, Ok(Scheduled::Ours(_))) {
            let rehearsed = observation.reboot.rehearse
                && matches!(scheduled, Ok(Scheduled::Nothing))
                && record
                    .as_ref()
                    .is_ok_and(|record| record.rehearsed(&self.boot_id, &observation.hash));
            (vetoes, inhibitors) = self.in_the_way(status, observation, asked, rehearsed).await;
        }
        // What it would be made ready from is not what the host was found with.
        vetoes.extend(armed.map(|text| Reason::new(WaitsFor::Method, text)));
        if self.helpers.is_replaced() {
            // Nothing could be looked at: the next daemon decides. It comes at once.
            return match scheduled {
                Ok(Scheduled::Ours(at)) => RebootState::Announced { at },
                _ => RebootState::waiting(WaitsFor::Logind, REPLACED),
            };
        }
        let scheduled = scheduled.unwrap_or_else(|error| {
            vetoes.push(Reason::new(error.waits_for(), error.to_string()));
            Scheduled::Nothing
        });
        let since = (!inhibitors.is_empty()).then(Instant::now);
        self.inhibited_since = since.map(|now| self.inhibited_since.unwrap_or(now));
        let inhibited = self.inhibited_since.map_or(Duration::ZERO, |since| since.elapsed());
        let texts = vetoes.iter().map(Reason::to_string).chain(inhibitors.iter().cloned());
        status.reboot.vetoes = texts.collect();
        let unreadable = record.as_ref().err().map(StoreError::to_string);
        let locked = observation.reboot.fleetlock.as_ref().map(|server| {
            let held = record.as_ref().ok().and_then(|record| record.lock.as_ref());
            held.is_some_and(|held| held.certain && held.server == *server)
        });
        decide(&Situation {
            need: observation.need,
            plan: &observation.hash,
            unfinished: observation.stopped || !observation.changes.is_empty(),
            refused: matches!(observation.cause, Some(Cause::Rejected { .. })),
            boot_id: &self.boot_id,
            now,
            settings: &observation.reboot,
            record: record.as_ref().map_err(|_| unreadable.as_deref().unwrap_or_default()),
            vetoes: &vetoes,
            called_off: self.called_off(),
            inhibitors: &inhibitors,
            inhibited_for: SignedDuration::try_from(inhibited).unwrap_or(SignedDuration::MAX),
            scheduled,
            locked,
        })
    }

    /// Says what is new.
    fn tell(&mut self, status: &Status, observation: &Observation) {
        let state = &status.reboot.state;
        if self.last.as_ref() == Some(state) {
            return;
        }
        match state {
            RebootState::Stuck { why } => {
                let cause = observation.cause.as_ref().map(Cause::describe).unwrap_or_default();
                say(journal::STUCK, &format!("{why}: {cause}"));
            }
            RebootState::Waiting { why, until, overdue } => {
                let until = until.map(|at| format!(" (until {})", shown(at))).unwrap_or_default();
                let late = if *overdue { "for longer than `inhibitor_wait`: " } else { "" };
                say(
                    journal::REBOOT_WAITS,
                    &format!("a reboot waits: {late}{}{until}", joined(why)),
                );
            }
            RebootState::Converging => {
                say(journal::REBOOT_WAITS, &format!("a reboot waits: {UNFINISHED}"));
            }
            RebootState::CalledOff { .. } => say(journal::REBOOT_WAITS, &state.to_string()),
            _ => {}
        }
        self.last = Some(state.clone());
    }
}

/// What is said where there is no bus, or no logind on it.
const NO_LOGIND: &str = "there is no systemd-logind on the bus to reboot through";

const REPLACED: &str = "the daemon is replaced by another build";

/// When to come again in a state; `again`: what has failed is tried again by then.
fn come_again(state: &RebootState, again: Option<Duration>) -> Option<Duration> {
    match state {
        RebootState::Waiting { until, .. } => {
            let opens = until.map(|until| {
                let wait = until.duration_since(Timestamp::now());
                Duration::try_from(wait).unwrap_or(Duration::ZERO).max(Duration::from_secs(1))
            });
            // The wall clock may be set: never sleep so long that it would matter.
            let opens = opens.map(|wait| wait.min(Duration::from_secs(600)));
            again.or(opens).or(Some(LOOK_AGAIN))
        }
        // What is announced is called off when something comes in the way.
        RebootState::Announcing { .. }
        | RebootState::Announced { .. }
        | RebootState::UnderWay { .. } => Some(LOOK_AGAIN),
        // What else is in the way is shown as it is.
        RebootState::CalledOff { .. } | RebootState::Converging => again.or(Some(LOOK_AGAIN)),
        _ => again,
    }
}

fn enforce_hold(hold: &EnforceHold) -> Reason {
    Reason::new(WaitsFor::EnforceHold, hold.describe())
}

fn no_inhibitors(error: &zbus::Error) -> Reason {
    Reason::new(WaitsFor::Logind, format!("cannot ask logind for inhibitors: {error}"))
}
