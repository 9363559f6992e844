//! The loop: waits for something to happen, has a round done, and tells what came of it. Idle, it sleeps.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};
use zbus::Connection;

use super::burst::Bursts;
use super::bus::{self, Agent, Asked, Request, Shared, Shown};
use super::events::{self, Files, Trigger};
use super::export::{self, Written};
use super::fingerprint;
use super::journal::{self, say};
use super::logind::{self, ManagerProxy};
use super::pace::{CLEARS, Pace};
use super::pages;
use super::restart::{Restart, chain};
use super::round::{Round, Watch};
use super::status::{State, Status, Verdict};
use super::told::{self, Told};
use super::watchdog::{self, Busy, notify};
use super::work;
use crate::enforce_hold::EnforceHold;
use crate::plan::RebootNeed;
use crate::profile::model::{AgentMode, RebootPolicy};

/// A profile that cannot be used is tried again by itself, for what was missing may have come.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// How the daemon is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Below which directory its own files lie (`/`).
    pub root: PathBuf,
    /// The program that does rounds: this one.
    pub worker: PathBuf,
}

/// Why it cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The runtime cannot be had.
    #[error("cannot set up the daemon")]
    SetUp(#[source] std::io::Error),
    /// Somebody has its name.
    #[error("{} is taken on the bus: is a second daemon running?", bus::NAME)]
    Name,
}

/// Runs until it is told to stop.
///
/// # Errors
/// [`RunError`]; whatever happens to the host is reported, not an error.
pub fn run(options: Options) -> Result<(), RunError> {
    journal::start();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::SetUp)?;
    let done = runtime.block_on(async { Daemon::start(options).await?.serve().await });
    // A worker or a lock server that hangs must not keep the daemon from ending.
    runtime.shutdown_background();
    done
}

struct Daemon {
    options: Options,
    shown: Shared,
    bus: Option<Connection>,
    triggers: Receiver<Trigger>,
    asked: Receiver<Asked>,
    files: Option<Files>,
    restart: Restart,
    pace: Pace,
    status: Status,
    round: Option<Round>,
    written: Written,
    born: Instant,
    seen: u64,
    retry: Option<Instant>,
    decide_again: Option<Instant>,
    recheck: Instant,
    bursts: Bursts,
    busy: Busy,
    told: Told,
    /// Why the host cannot be looked at or the profile not be used.
    unusable: Option<String>,
}

impl Daemon {
    async fn start(options: Options) -> Result<Self, RunError> {
        let boot_id = std::fs::read_to_string(options.root.join("proc/sys/kernel/random/boot_id"))
            .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/random/boot_id"))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let mut status = Status::starting(boot_id.clone());
        status.reboot.owed = export::read(&options.root)
            .filter(|before| before.boot_id == boot_id)
            .map_or(RebootNeed::None, |before| before.reboot.owed);
        let shown = Arc::new(Mutex::new(Shown { status: status.clone(), plan: String::new() }));
        let (to_asked, asked) = mpsc::channel(16);
        let (to_triggers, triggers) = mpsc::channel(64);
        let bus = match bus::serve(Agent::new(shown.clone(), to_asked)).await {
            Ok(connection) => Some(connection),
            Err(zbus::Error::NameTaken) => return Err(RunError::Name),
            Err(error) => {
                let text = "no system bus: `bedplate status` has only files, and there are no reboots";
                say(journal::IMPAIRED, &format!("{text}: {error}"));
                None
            }
        };
        let logind = match &bus {
            Some(bus) => ManagerProxy::new(bus).await.ok(),
            None => None,
        };
        if let Some(logind) = logind.clone() {
            tokio::spawn(logind::watch(logind, to_triggers.clone()));
        }
        if let Err(error) = events::uevents(to_triggers.clone()) {
            say(
                journal::IMPAIRED,
                &format!("no kernel events, only the re-check finds what the kernel changes: {error}"),
            );
        }
        let files = Files::new(to_triggers)
            .inspect_err(|error| say(journal::IMPAIRED, &format!("no file events: {error}")))
            .ok();
        if let Some(files) = &files {
            let at = |path: &str| options.root.join(path).display().to_string();
            let directories =
                ["etc/bedplate", "etc/bedplate/profile.d", "var/lib/bedplate", "run/systemd/shutdown"];
            files.set(&Watch { directories: directories.map(at).to_vec(), attributes: Vec::new() });
        }
        let restart = Restart::new(&options.root, boot_id, logind);
        let now = Instant::now();
        Ok(Daemon {
            options,
            shown,
            bus,
            triggers,
            asked,
            files,
            restart,
            pace: Pace::default(),
            status,
            round: None,
            written: Written::new(),
            born: now,
            seen: 0,
            retry: None,
            decide_again: None,
            recheck: now,
            bursts: Bursts::default(),
            busy: Busy::default(),
            told: Told::default(),
            unusable: None,
        })
    }

    async fn serve(mut self) -> Result<(), RunError> {
        let stop = |kind| signal(kind).map_err(RunError::SetUp);
        let (mut term, mut interrupt) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
        let mut hangup = stop(SignalKind::hangup())?;
        tokio::spawn(watchdog::watch(self.busy.clone()));
        notify(&[NotifyState::Ready, NotifyState::Status("looking at the host")]);
        self.look(true).await;
        loop {
            if self.bursts.ends().is_none() {
                pages::give_back();
            }
            let wake = self.wake();
            let happened = tokio::select! {
                // People first: events may never end.
                biased;
                () = received(&mut term) => break,
                () = received(&mut interrupt) => break,
                () = received(&mut hangup) => Happened::Reload,
                Some(asked) = self.asked.recv() => Happened::Asked(asked),
                Some(trigger) = self.triggers.recv() => Happened::Trigger(trigger),
                () = tokio::time::sleep_until(wake.into()) => Happened::Due,
            };
            self.busy.begin();
            match happened {
                Happened::Reload => self.reload().await,
                Happened::Asked((request, answer)) => {
                    let said = self.answer(request).await;
                    // Whoever asked may have gone.
                    let _ = answer.send(said);
                }
                Happened::Trigger(trigger) => {
                    self.bursts.add(&trigger, Instant::now());
                    self.burst_over().await;
                }
                Happened::Due => self.due().await,
            }
            self.busy.end();
        }
        notify(&[NotifyState::Stopping]);
        Ok(())
    }

    /// When the loop comes around although nothing happens.
    fn wake(&self) -> Instant {
        [self.retry, self.decide_again, self.bursts.ends()]
            .into_iter()
            .flatten()
            .fold(self.recheck, Instant::min)
    }

    async fn due(&mut self) {
        self.burst_over().await;
        let now = Instant::now();
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            return self.look(true).await;
        }
        if self.recheck <= now {
            self.recheck = now + self.interval();
            // A look reads config space; without any sign of a change there is no need.
            if fingerprint::of(&self.options.root, self.round.as_ref().map(|round| &round.watch)) != self.seen
            {
                return self.look(true).await;
            }
        }
        if self.decide_again.is_some_and(|at| at <= now) {
            self.decide().await;
        }
    }

    /// The time between re-checks, a tenth more or less, so that a fleet started at once spreads out.
    fn interval(&self) -> Duration {
        let seconds = u64::from(self.round.as_ref().map_or(900, |round| round.agent.interval_s));
        let mut hasher = DefaultHasher::new();
        (self.status.boot_id.as_str(), self.born.elapsed().as_secs()).hash(&mut hasher);
        Duration::from_secs(seconds * 9 / 10)
            + Duration::from_millis(hasher.finish() % (seconds * 200).max(1))
    }

    /// Does what a burst asks for once there is quiet, or when it has gone on for too long.
    async fn burst_over(&mut self) {
        let Some(burst) = self.bursts.over(Instant::now()) else { return };
        tracing::debug!("{} events, the first: {}", burst.count, burst.first);
        if burst.profile {
            self.pace.forget();
        }
        match burst.other {
            true => self.look(true).await,
            false => self.decide().await,
        }
    }

    async fn reload(&mut self) {
        // systemd wants to know when a reload begins, by its own clock (sd_notify(3)).
        let begun = sd_notify::NotifyState::monotonic_usec_now();
        match begun {
            Ok(begun) => notify(&[NotifyState::Reloading, begun]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
        self.pace.forget();
        self.look(true).await;
        notify(&[NotifyState::Ready]);
    }

    async fn answer(&mut self, request: Request) -> Result<String, String> {
        match request {
            Request::Plan => {
                self.look(false).await;
                self.unusable.clone().map_or_else(|| Ok(self.plan()), Err)
            }
            Request::Reconcile => {
                self.pace.forget();
                self.retry = None;
                self.look(true).await;
                self.unusable.clone().map_or_else(|| Ok(self.status.state.name().to_owned()), Err)
            }
            Request::Reload => {
                self.reload().await;
                self.unusable.clone().map_or_else(|| Ok(String::new()), Err)
            }
            Request::ScheduleReboot { why, usec } => {
                let delay = self.round.as_ref().map_or(300, |round| round.reboot.delay_s);
                let at = (usec != 0).then(|| super::logind::time(usec));
                self.restart.wish(why, at, delay)?;
                self.decide().await;
                Ok(self.status.reboot.decision.words())
            }
            Request::CancelReboot => {
                let said = self.restart.unwish().await;
                self.decide().await;
                said
            }
        }
    }

    fn plan(&self) -> String {
        self.round.as_ref().map(|round| round.plan_json.clone()).unwrap_or_default()
    }

    /// Looks at the host; in mode `enforce`, and if `act`, puts right what may be put right now.
    async fn look(&mut self, act: bool) {
        let begun = Instant::now();
        self.status.looks += 1;
        let act = act && !self.held();
        let round = match work::round(&self.options.worker, &[]).await {
            Ok(seen) if act && seen.agent.mode == AgentMode::Enforce && self.worth_a_try(&seen) => {
                Ok(self.mend(seen).await)
            }
            seen => seen,
        };
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.status.last_round_ms = took;
        match round {
            Ok(round) => self.take(round).await,
            Err(error) => {
                self.retry = Some(Instant::now() + TRY_AGAIN);
                let why = chain(&error);
                if self.unusable.as_ref() != Some(&why) {
                    say(journal::UNUSABLE, &why);
                }
                self.unusable = Some(why.clone());
                self.restart.give_up(&why).await;
                self.status.fail(why);
                self.publish().await;
            }
        }
    }

    /// Whether an operator holds enforcement; says so when that changes.
    fn held(&mut self) -> bool {
        let held = EnforceHold::load(&self.options.root);
        told::held(self.status.held.as_ref(), held.as_ref());
        self.status.held = held;
        self.status.held.is_some()
    }

    /// What is contested may also be right by now, and no longer contested.
    fn worth_a_try(&self, seen: &Round) -> bool {
        !seen.changes.is_empty() || self.pace.is_contested()
    }

    async fn mend(&mut self, seen: Round) -> Round {
        self.told.differences(&seen);
        let admitted = self.pace.admit(&seen.changes, self.born.elapsed());
        for contested in &admitted.contested {
            let text = format!(
                "{} was changed back {} times and is left alone; last seen: {}; {CLEARS}",
                contested.id, contested.times, contested.found
            );
            say(journal::CONTESTED, &text);
        }
        self.retry = admitted.next.map(|next| self.born + next);
        if admitted.now.is_empty() {
            return seen;
        }
        notify(&[NotifyState::Status("putting the host right")]);
        let done = match work::round(&self.options.worker, &admitted.now).await {
            Ok(done) => done,
            // Another bedplate is at it, or a tool hangs: what the host is, is known all the same.
            Err(error) => seen.clone().failed(&admitted.now, &chain(&error)),
        };
        if let Some(next) = self.pace.note(&done.done, self.born.elapsed()) {
            let next = self.born + next;
            self.retry = Some(self.retry.map_or(next, |retry| retry.min(next)));
        }
        told::ended(&seen.hash, &done);
        done
    }

    async fn take(&mut self, mut round: Round) {
        if round.agent.mode == AgentMode::Observe {
            // Who only looks reboots nothing either.
            round.reboot.policy = RebootPolicy::Never;
        }
        // Some of what was done shows nowhere before the boot that it waits for (a blacklist, options of a loaded module):
        // only the round that did it knows.
        if !round.done.is_empty() && round.pending.is_empty() {
            self.status.reboot.owed = self.status.reboot.owed.max(round.need);
        }
        round.need = round.need.max(self.status.reboot.owed);
        self.unusable = None;
        let was = self.status.verdict;
        self.status.failed = self.pace.failed(&round.changes);
        self.status.take(&round, self.pace.contested());
        if let Some(files) = &self.files {
            files.set(&round.watch);
        }
        self.told.differences(&round);
        self.told.blockers(&round);
        self.told.need(round.need, &self.status.reason);
        self.told.unknowns(&round);
        if self.status.verdict == Verdict::Ready {
            self.status.last_converged = Some(Timestamp::now());
            if was != Verdict::Ready {
                say(journal::CONVERGED, &format!("this host is what profile {} says", round.profile));
            }
        }
        if self.round.as_ref().map(|old| old.agent.interval_s) != Some(round.agent.interval_s) {
            self.round = Some(round.clone());
            self.recheck = Instant::now() + self.interval();
        }
        self.round = Some(round);
        self.seen = fingerprint::of(&self.options.root, self.round.as_ref().map(|round| &round.watch));
        self.decide().await;
    }

    /// Sees to the reboot, and tells everybody where the host stands.
    async fn decide(&mut self) {
        if let Some(round) = &self.round
            && self.unusable.is_none()
        {
            let again = self.restart.step(&mut self.status, round).await;
            self.decide_again = again.map(|wait| Instant::now() + wait);
            self.status.judge(round.failure());
            if self.status.state == State::Stuck
                && let Some(cause) = &round.cause
            {
                self.status.reason = format!("{}: {}", self.status.reason, cause.words());
            }
        }
        self.publish().await;
    }

    async fn publish(&mut self) {
        for wrong in export::write(&self.options.root, &self.status, &mut self.written) {
            say(journal::IMPAIRED, &wrong);
        }
        let before = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.plan = self.plan();
            std::mem::replace(&mut shown.status, self.status.clone())
        };
        let line = format!("{}: {}", self.status.state.name(), self.status.reason);
        notify(&[NotifyState::Status(&line)]);
        if let Some(bus) = &self.bus
            && let Ok(object) = bus.object_server().interface::<_, Agent>(bus::PATH).await
        {
            let agent = object.get().await;
            // A bus that does not take a signal is no reason to stop.
            let _ = bus::tell(object.signal_emitter(), &agent, &before, &self.status).await;
        }
    }
}

async fn received(signal: &mut Signal) {
    // `None`: the runtime is about to end.
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

enum Happened {
    Reload,
    Asked(Asked),
    Trigger(Trigger),
    Due,
}
