//! The reboot as the daemon sees to it: gathers what [`decide`] has to know, does what it says, and remembers that before
//! doing it. Everything that fails on the way leaves the host running.

mod around;
mod came;
mod fire;
mod lock;
mod operator;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::journal::{self, say};
use super::logind::{self, Announced, ManagerProxy};
use super::methods;
use super::round::Round;
use super::status::{Status, Verdict};
use super::store::Store;
use crate::enforce_hold::EnforceHold;
use crate::plan::RebootNeed;
use crate::profile::model::RebootPolicy;
use crate::reboot::came::Came;
use crate::reboot::decide::{Decision, Scheduled, Situation, decide, shown};
use crate::reboot::record::{Attempt, Record};
use crate::reboot::stuck::Cause;

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
    asked_for: u64,
    /// Which reboot this boot follows, once that is known.
    came: Option<Came>,
    last: Option<Decision>,
}

impl Restart {
    /// For the host below `root`.
    pub fn new(root: &Path, boot_id: String) -> Self {
        Restart {
            root: root.to_owned(),
            store: Store::new(root),
            boot_id,
            logind: None,
            inhibited_since: None,
            seen_ours: None,
            lock: lock::Lock::default(),
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
    pub async fn step(&mut self, status: &mut Status, round: &Round) -> Option<Duration> {
        status.reboot.hold = self.hold(Timestamp::now());
        if let Err(why) = self.fire(status, round).await {
            say(journal::REBOOT_FAILED, &why);
        }
        let mut record = self.store.record();
        if let Ok(record) = &mut record {
            status.reboot.came = self.came(record, round).await;
            self.settle(record, status, round);
        }
        let (mut again, mut taking) = (None, false);
        // Deciding to take the lock is followed by deciding anew; that is all the turns there are.
        for _ in 0..3 {
            let decision = self.decide(&mut record, status, round).await;
            status.reboot.decision = decision.clone();
            taking = decision == Decision::TakeLock;
            let acted = match (&decision, &mut record) {
                (Decision::TakeLock, Ok(record)) => self.take_lock(record, round).await,
                (Decision::Schedule { at }, Ok(record)) => {
                    self.announce(record, status, round, *at).await
                }
                (Decision::Cancel { why }, Ok(record)) => {
                    self.cancel(record, &why.join("; ")).await
                }
                (Decision::Cancel { why }, Err(_)) => {
                    self.cancel(&mut Record::default(), &why.join("; ")).await
                }
                _ => Ok(false),
            };
            match acted {
                Ok(true) => continue,
                Ok(false) => {}
                Err(why) => {
                    if matches!(decision, Decision::Schedule { .. }) {
                        self.lock.in_vain(&why);
                    }
                    again = Some(self.lock.again().unwrap_or(LOOK_AGAIN));
                    status.reboot.decision =
                        Decision::Wait { why: vec![why], until: None, overdue: false };
                }
            }
            break;
        }
        self.tell(status, round);
        self.note_wait(&mut record, &status.reboot.decision);
        status.reboot.called_off = self
            .store
            .announced()
            .filter(|announced| announced.called_off)
            .and_then(|one| one.called_off_by);
        if let Ok(record) = &record {
            status.reboot.attempts = record.in_a_row(&self.boot_id);
        }
        let lock_again = self.give_back(status, Some(round), taking).await;
        status.reboot.asked_for = self.asked_for;
        let again = match &status.reboot.decision {
            Decision::Wait { until, .. } => {
                let opens = until.map(|until| {
                    let wait = until.duration_since(Timestamp::now());
                    Duration::try_from(wait).unwrap_or(Duration::ZERO).max(Duration::from_secs(1))
                });
                // The wall clock may be set: never sleep so long that it would matter.
                let opens = opens.map(|wait| wait.min(Duration::from_secs(600)));
                again.or(opens).or(Some(LOOK_AGAIN))
            }
            // What is announced is called off when something comes in the way.
            Decision::Announced { .. } | Decision::Schedule { .. } => Some(LOOK_AGAIN),
            _ => again,
        };
        again.into_iter().chain(lock_again).chain(self.watch_command()).min()
    }

    /// A request that something was in the way of is remembered as one: whoever lifts a hold hours later does not expect
    /// the machine to go down at once.
    fn note_wait(&self, record: &mut Result<Record, String>, decision: &Decision) {
        if !matches!(decision, Decision::Wait { .. }) {
            return;
        }
        let Ok(record) = record else { return };
        let Some(asked) = record.asked.as_mut().filter(|asked| !asked.waited) else { return };
        asked.waited = true;
        if let Err(why) = self.store.keep(record) {
            say(journal::IMPAIRED, &why);
        }
    }

    /// A host that is right forgets what was tried.
    fn settle(&self, record: &mut Record, status: &Status, round: &Round) {
        let before = record.clone();
        record.booted(&self.boot_id);
        if round.is_right() && status.verdict == Verdict::Ready {
            record.settle(&self.boot_id);
        }
        if *record != before
            && let Err(why) = self.store.keep(record)
        {
            say(journal::IMPAIRED, &why);
        }
    }

    async fn decide(
        &mut self,
        record: &mut Result<Record, String>,
        status: &mut Status,
        round: &Round,
    ) -> Decision {
        let now = Timestamp::now();
        let scheduled = self.scheduled().await;
        // A reboot that was called off takes an operator's request out of the record.
        if record.is_ok() {
            *record = self.store.record();
        }
        let asked = record.as_ref().is_ok_and(|record| record.asked.is_some());
        let wanted = asked
            || (round.need != RebootNeed::None && round.reboot.policy == RebootPolicy::Schedule);
        let (mut vetoes, mut inhibitors) = (Vec::new(), Vec::new());
        if wanted || matches!(scheduled, Ok(Scheduled::Ours(_))) {
            vetoes = self.vetoes(&round.reboot, asked, now).await;
            // What an operator has put back is no cause for a boot; what an operator asks for is.
            vetoes.extend(status.held.as_ref().filter(|_| !asked).map(EnforceHold::describe));
            let (method, said) = methods::taken(&self.root, &round.reboot, round.need);
            status.reboot.methods = said;
            status.reboot.method = method;
            let rehearsed =
                record.as_ref().is_ok_and(|record| record.rehearsed(&self.boot_id, &round.hash));
            if round.reboot.rehearse && rehearsed && scheduled == Ok(Scheduled::Nothing) {
                // Before a slot is asked for that nothing would come of.
                vetoes.push(
                    "it was rehearsed in this boot; `rehearse = false` in [reboot] does it".into(),
                );
            }
            if method.is_none() {
                vetoes.push("no method of the profile can restart this host".into());
            }
            match &self.logind {
                None => {
                    vetoes.push("there is no systemd-logind on the bus to reboot through".into())
                }
                Some(logind) => match logind.list_inhibitors().await {
                    Ok(all) => inhibitors = logind::in_the_way(&all),
                    Err(error) => vetoes.push(format!("cannot ask logind for inhibitors: {error}")),
                },
            }
        }
        let scheduled = scheduled.unwrap_or_else(|why| {
            vetoes.push(why);
            Scheduled::Nothing
        });
        self.inhibited_since = match inhibitors.is_empty() {
            true => None,
            false => self.inhibited_since.or_else(|| Some(Instant::now())),
        };
        let inhibited = self.inhibited_since.map_or(Duration::ZERO, |since| since.elapsed());
        status.reboot.vetoes = vetoes.iter().chain(&inhibitors).cloned().collect();
        let locked = round.reboot.fleetlock.as_ref().map(|server| {
            let held = record.as_ref().ok().and_then(|record| record.lock.as_ref());
            held.is_some_and(|held| held.certain && held.server == *server)
        });
        decide(&Situation {
            need: round.need,
            plan: &round.hash,
            unfinished: !round.changes.is_empty(),
            refused: matches!(round.cause, Some(Cause::Rejected { .. })),
            boot_id: &self.boot_id,
            now,
            settings: &round.reboot,
            record: record.as_ref().map_err(|why| why.as_str()),
            vetoes: &vetoes,
            inhibitors: &inhibitors,
            inhibited_for: SignedDuration::try_from(inhibited).unwrap_or(SignedDuration::MAX),
            scheduled,
            locked,
        })
    }

    async fn announce(
        &mut self,
        record: &mut Record,
        status: &mut Status,
        round: &Round,
        at: Timestamp,
    ) -> Result<bool, String> {
        let Some(logind) = self.logind.clone() else { return Ok(false) };
        let Some(method) = status.reboot.method else { return Ok(false) };
        let settings = &round.reboot;
        // Remembered before it is asked for: a power cut in between costs an attempt, never a loop.
        record.attempt(Attempt {
            plan: round.hash.clone(),
            boot_id: self.boot_id.clone(),
            at: Timestamp::now(),
            due: Some(at),
            method,
            rehearsal: settings.rehearse,
            passthrough: round.pending.iter().any(|pending| {
                pending.subject.starts_with("iommu=")
                    || pending.subject.starts_with("iommu.passthrough")
            }),
            followed: false,
        });
        self.store.keep(record)?;
        let prepared = match settings.rehearse {
            true => Ok(None),
            false => methods::ready(&self.root, method, settings, &round.hash, at).map(Some),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                record.call_off(&self.boot_id);
                self.store.keep(record)?;
                return Err(why);
            }
        };
        let announced = Announced {
            kind: methods::kind(prepared.as_ref()),
            usec: logind::usec(at),
            plan: round.hash.clone(),
            called_off: false,
            called_off_by: None,
            prepared,
        };
        self.store.announce(Some(&announced))?;
        let why = reason(round, record);
        let wall = format!(
            "bedplate reboots this host at {}: {why} (`bedplate reboot status`)",
            shown(at)
        );
        let asked = async {
            logind.set_wall_message(&wall, true).await?;
            logind.schedule_shutdown(&announced.kind, announced.usec).await
        };
        if let Err(error) = asked.await {
            methods::take_back(&self.root, announced.prepared.as_ref());
            self.store.announce(None)?;
            record.call_off(&self.boot_id);
            self.store.keep(record)?;
            return Err(format!("logind does not schedule the reboot: {error}"));
        }
        self.seen_ours = Some(Timestamp::now());
        self.asked_for += 1;
        say(
            journal::REBOOT_SCHEDULED,
            &format!("a reboot is announced for {} ({}): {why}", shown(at), method),
        );
        status.reboot.decision = Decision::Announced { at };
        Ok(false)
    }

    /// Takes bedplate's own announcement back.
    async fn cancel(&mut self, record: &mut Record, why: &str) -> Result<bool, String> {
        let Some(logind) = self.logind.clone() else { return Ok(false) };
        logind
            .cancel_scheduled_shutdown()
            .await
            .map_err(|error| format!("logind does not take the reboot back: {error}"))?;
        if let Some(announced) = self.store.announced() {
            methods::take_back(&self.root, announced.prepared.as_ref());
        }
        record.call_off(&self.boot_id);
        if let Some(asked) = &mut record.asked {
            // It is announced again when it can be, and then with the whole delay.
            asked.waited = true;
        }
        self.store.keep(record)?;
        self.store.announce(None)?;
        say(journal::REBOOT_CANCELLED, &format!("the announced reboot is taken back: {why}"));
        Ok(true)
    }

    /// Says what is new.
    fn tell(&mut self, status: &Status, round: &Round) {
        let decision = &status.reboot.decision;
        if self.last.as_ref() == Some(decision) {
            return;
        }
        match decision {
            Decision::Stuck { why } => {
                let cause = round.cause.as_ref().map(Cause::words).unwrap_or_default();
                say(journal::STUCK, &format!("{why}: {cause}"));
            }
            Decision::Wait { why, until, overdue } => {
                let until = until.map(|at| format!(" (until {})", shown(at))).unwrap_or_default();
                let late = if *overdue { "for longer than `inhibitor_wait`: " } else { "" };
                say(
                    journal::REBOOT_WAITS,
                    &format!("a reboot waits: {late}{}{until}", why.join("; ")),
                );
            }
            _ => {}
        }
        self.last = Some(decision.clone());
    }
}

fn reason(round: &Round, record: &Record) -> String {
    if let Some(asked) = &record.asked {
        return asked.why.clone();
    }
    let subjects: Vec<&str> =
        round.pending.iter().map(|pending| pending.subject.as_str()).collect();
    match subjects.as_slice() {
        [] => format!("profile {}", round.profile),
        [first] => format!("{first} of profile {}", round.profile),
        [first, more @ ..] => {
            format!("{first} and {} more of profile {}", more.len(), round.profile)
        }
    }
}
