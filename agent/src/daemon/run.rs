//! The loop: waits for something to happen, has a round done, and tells what came of it. Idle, it sleeps.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, Sender};
use zbus::Connection;

use super::burst::Bursts;
use super::bus::{self, Agent, Asked, Request, Shared, Shown};
use super::devices::{self, Known};
use super::events::{self, Files, Trigger};
use super::export::{self, Written};
use super::fingerprint;
use super::journal::{self, say};
use super::logind::{self, ManagerProxy};
use super::pace::{CLEARS, Pace};
use super::pages;
use super::remind::Reminder;
use super::restart::{Restart, chain};
use super::round::{Round, Watch};
use super::status::{State, Status, Verdict, Work};
use super::told::{self, Told};
use super::watchdog::{self, Busy, notify};
use super::work::{self, Said, WorkError};
use crate::enforce_hold::EnforceHold;
use crate::profile::model::{AgentMode, RebootPolicy};
use crate::reboot::decide::Decision;

/// A profile that cannot be used is tried again by itself, for what was missing may have come.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// A profile that is gone for a shorter time than this is being replaced, by a tool that removes the old file first.
const PROFILE_QUIET: Duration = Duration::from_secs(2);
/// Waits between tries to get back on the bus: the first, and the longest.
const BUS_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

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
    /// While there is no bus: when to try again, and how long to wait after that.
    bus_again: Option<(Instant, Duration)>,
    to_triggers: Sender<Trigger>,
    triggers: Receiver<Trigger>,
    to_asked: Sender<Asked>,
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
    reminder: Reminder,
    /// Why the host cannot be looked at or the profile not be used.
    unusable: Option<String>,
    /// What is being done now: the status of the last look does not count meanwhile.
    work: Option<Work>,
    /// Since when the profile that was enforced is gone.
    profile_gone: Option<Instant>,
    devices: Known,
}

impl Daemon {
    async fn start(options: Options) -> Result<Self, RunError> {
        let boot_id = std::fs::read_to_string(options.root.join("proc/sys/kernel/random/boot_id"))
            .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/random/boot_id"))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let status = Status::starting(boot_id.clone());
        let shown = Arc::new(Mutex::new(Shown { status: status.clone(), plan: String::new() }));
        let (to_asked, asked) = mpsc::channel(16);
        let (to_triggers, triggers) = mpsc::channel(64);
        if let Err(error) = events::uevents(to_triggers.clone()) {
            say(
                journal::IMPAIRED,
                &format!("no kernel events, only the re-check finds what the kernel changes: {error}"),
            );
        }
        let files = Files::new(to_triggers.clone())
            .inspect_err(|error| say(journal::IMPAIRED, &format!("no file events: {error}")))
            .ok();
        let restart = Restart::new(&options.root, boot_id);
        let devices = restart.store().devices();
        let now = Instant::now();
        let mut daemon = Daemon {
            options,
            shown,
            bus: None,
            bus_again: None,
            to_triggers,
            triggers,
            to_asked,
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
            reminder: Reminder::default(),
            unusable: None,
            work: None,
            profile_gone: None,
            devices,
        };
        daemon.watch_own_files();
        if let Err(error) = daemon.connect().await {
            if matches!(error, zbus::Error::NameTaken) {
                return Err(RunError::Name);
            }
            let text = "no system bus: `bedplate status` has only files, and there are no reboots";
            say(journal::IMPAIRED, &format!("{text}: {error}"));
            daemon.bus_again = Some((Instant::now() + BUS_AGAIN.0, BUS_AGAIN.0));
        }
        // Before anything is known: what an earlier daemon said is nobody's word any more.
        daemon.publish().await;
        Ok(daemon)
    }

    /// Onto the bus, with logind.
    async fn connect(&mut self) -> zbus::Result<()> {
        let bus = bus::serve(Agent::new(self.shown.clone(), self.to_asked.clone())).await?;
        let logind = ManagerProxy::new(&bus).await.ok();
        if let Some(logind) = logind.clone() {
            tokio::spawn(logind::watch(logind, self.to_triggers.clone()));
        }
        tokio::spawn(bus::watch(bus.clone(), self.to_triggers.clone()));
        self.restart.set_logind(logind);
        self.bus = Some(bus);
        self.bus_again = None;
        Ok(())
    }

    /// The bus has gone; it comes back when dbus is started again.
    async fn disconnected(&mut self) {
        // A second word about the same connection.
        if self.bus.take().is_none() {
            return;
        }
        self.restart.set_logind(None);
        self.bus_again = Some((Instant::now() + BUS_AGAIN.0, BUS_AGAIN.0));
        say(
            journal::IMPAIRED,
            "the system bus is gone: `bedplate status` has only files, and there are no reboots until it is back",
        );
        self.decide().await;
    }

    async fn connect_again(&mut self) {
        let Some((at, wait)) = self.bus_again else { return };
        if at > Instant::now() {
            return;
        }
        match self.connect().await {
            Ok(()) => {
                say(journal::CONNECTED, "back on the system bus");
                self.decide().await;
            }
            Err(_) => {
                let wait = (wait * 2).min(BUS_AGAIN.1);
                self.bus_again = Some((Instant::now() + wait, wait));
            }
        }
    }

    /// The files that ask for a look whatever the profile says. A directory that comes back has to be watched again.
    fn watch_own_files(&self) {
        let Some(files) = &self.files else { return };
        let at = |path: &str| self.options.root.join(path).display().to_string();
        let directories = [
            "etc/bedplate",
            "etc/bedplate/profile.d",
            "etc/bedplate/profiles",
            "var/lib/bedplate",
            "run/systemd/shutdown",
        ];
        files.set(&Watch { directories: directories.map(at).to_vec(), attributes: Vec::new() });
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
                Happened::Trigger(trigger) => self.heard(trigger).await,
                Happened::Due => self.due().await,
            }
            self.remind();
            self.busy.end();
        }
        notify(&[NotifyState::Stopping]);
        self.status.stop();
        self.work = None;
        self.publish().await;
        Ok(())
    }

    /// Something has happened. From here until it was looked at, nothing that was said of the host counts.
    async fn heard(&mut self, trigger: Trigger) {
        if trigger.what == bus::LOST {
            return self.disconnected().await;
        }
        self.gather(trigger);
        if self.work.is_none() && self.bursts.is_of_the_host() {
            self.at_work("looking at what has changed").await;
        }
        self.burst_over().await;
    }

    /// Adds an event, and those that came with it, to the burst.
    fn gather(&mut self, trigger: Trigger) {
        let now = Instant::now();
        self.bursts.add(&trigger, now);
        while let Ok(more) = self.triggers.try_recv() {
            if more.what == bus::LOST {
                // For the loop, which will be here soon.
                let _ = self.to_triggers.try_send(more);
                break;
            }
            self.bursts.add(&more, now);
        }
    }

    /// Says that something is under way, and what.
    async fn at_work(&mut self, what: &str) {
        let since = Timestamp::now();
        self.work = Some(Work { what: what.to_owned(), since });
        self.publish().await;
    }

    /// Once a day, by the re-checks: a reboot that is left to people is still due.
    fn remind(&mut self) {
        let Some(round) = &self.round else { return };
        if let Some(text) = self.reminder.due(&self.status, &round.reboot, Instant::now()) {
            say(journal::REBOOT_OWED, &text);
        }
    }

    /// When the loop comes around although nothing happens.
    fn wake(&self) -> Instant {
        [self.retry, self.decide_again, self.bursts.ends(), self.bus_again.map(|(at, _)| at)]
            .into_iter()
            .flatten()
            .fold(self.recheck, Instant::min)
    }

    async fn due(&mut self) {
        self.connect_again().await;
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
            self.beat();
            self.publish().await;
        }
        if self.decide_again.is_some_and(|at| at <= now) {
            self.decide().await;
        }
    }

    /// What is said counts from now on for two intervals.
    fn beat(&mut self) {
        let now = Timestamp::now();
        let seconds = self.round.as_ref().map_or(900, |round| round.agent.interval_s);
        self.status.heartbeat = Some(now);
        self.status.fresh_until = now.checked_add(SignedDuration::from_secs(2 * i64::from(seconds))).ok();
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
                self.settle().await;
                self.unusable.clone().map_or_else(|| Ok(self.status.state.name().to_owned()), Err)
            }
            Request::Reload => {
                self.reload().await;
                self.unusable.clone().map_or_else(|| Ok(String::new()), Err)
            }
            Request::ScheduleReboot { why, usec } => {
                let at = (usec != 0).then(|| super::logind::time(usec));
                self.schedule(why, at).await
            }
            Request::CancelReboot { uid } => {
                let said = self.restart.unwish(uid).await;
                self.decide().await;
                said
            }
            Request::ForgetMissing => self.forget_missing().await,
        }
    }

    /// Sees to the events of what was just done, so that whoever asked is told of a host that was looked at after it.
    async fn settle(&mut self) {
        for _ in 0..3 {
            while let Ok(more) = self.triggers.try_recv() {
                self.gather(more);
            }
            let Some(quiet) = self.bursts.ends() else { return };
            tokio::time::sleep_until(quiet.into()).await;
            self.burst_over().await;
        }
    }

    async fn schedule(&mut self, why: String, at: Option<Timestamp>) -> Result<String, String> {
        let refused = |why: &str| format!("no reboot can be announced, and the request is not kept: {why}");
        if let Some(why) = &self.unusable {
            return Err(refused(why));
        }
        let Some(round) = &self.round else { return Err(refused("the host has not been looked at yet")) };
        self.restart.wish(why, at, round.reboot.delay_s)?;
        self.decide().await;
        let words = self.status.reboot.decision.words();
        Ok(match self.status.reboot.decision {
            Decision::Wait { .. } => format!(
                "{words}\nThe request stays, for this boot: once nothing is in the way the reboot is announced, with the \
                 profile's whole delay. `bedplate reboot cancel` withdraws it."
            ),
            _ => words,
        })
    }

    async fn forget_missing(&mut self) -> Result<String, String> {
        let Some(round) = &self.round else { return Err("the host has not been looked at yet".into()) };
        let gone = self.devices.update(&round.devices);
        if gone.is_empty() {
            return Ok("no GPU or NIC is missing".into());
        }
        self.devices.forget(&gone);
        self.restart.store().keep_devices(&self.devices)?;
        self.look(true).await;
        self.settle().await;
        let names: Vec<String> = gone.iter().map(|(address, what)| format!("{what} at {address}")).collect();
        Ok(format!("no longer expected: {}", names.join(", ")))
    }

    fn plan(&self) -> String {
        self.round.as_ref().map(|round| round.plan_json.clone()).unwrap_or_default()
    }

    /// Looks at the host; in mode `enforce`, and if `act`, puts right what may be put right now.
    async fn look(&mut self, act: bool) {
        let begun = Instant::now();
        self.status.looks += 1;
        let act = act && !self.held();
        let round = match work::look(&self.options.worker).await {
            Ok(seen) if act && seen.agent.mode == AgentMode::Enforce && self.worth_a_try(&seen) => {
                Ok(self.put_right(seen).await)
            }
            seen => seen,
        };
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.status.last_round_ms = took;
        self.work = None;
        match round {
            Ok(round) => self.take(round).await,
            Err(WorkError::NoProfile(why)) => self.without_profile(why).await,
            Err(error) => {
                let why = chain(&error);
                if self.unusable.as_ref() != Some(&why) {
                    say(journal::UNUSABLE, &why);
                }
                self.restart.give_up(&mut self.status, &why).await;
                self.status.fail(why.clone());
                self.unusable(why).await;
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

    /// The operator's profile is not there. Nothing is enforced on a guess; what was decided before does not act either.
    async fn without_profile(&mut self, why: String) {
        let enforced = self.round.is_some() && self.status.state != State::NoProfile;
        if enforced {
            let gone = *self.profile_gone.get_or_insert_with(Instant::now);
            if gone.elapsed() < PROFILE_QUIET {
                self.retry = Some(gone + PROFILE_QUIET);
                return self.at_work("the profile is gone: waiting for it to come back").await;
            }
        }
        if self.unusable.as_ref() != Some(&why) {
            say(journal::NO_PROFILE, &why);
        }
        self.restart.give_up(&mut self.status, &why).await;
        self.status.without_profile(why.clone());
        self.unusable(why).await;
    }

    async fn unusable(&mut self, why: String) {
        self.unusable = Some(why);
        self.retry = Some(Instant::now() + TRY_AGAIN);
        self.decide_again = None;
        self.watch_own_files();
        self.beat();
        self.publish().await;
    }

    async fn put_right(&mut self, seen: Round) -> Round {
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
        let done = match self.apply(&admitted.now).await {
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

    async fn apply(&mut self, only: &[String]) -> Result<Round, WorkError> {
        self.at_work("putting the host right").await;
        let mut work = work::apply(&self.options.worker, only)?;
        loop {
            match work.next().await {
                Said::At(what) => self.at_work(&what).await,
                Said::Ended(end) => return end,
            }
        }
    }

    /// GPUs and NICs that the profile was about and that are gone are for people.
    fn miss(&mut self, round: &mut Round) {
        let before = self.devices.clone();
        let gone = self.devices.update(&round.devices);
        round.blockers.extend(gone.iter().map(devices::obstacle));
        if self.devices != before
            && let Err(why) = self.restart.store().keep_devices(&self.devices)
        {
            say(journal::IMPAIRED, &why);
        }
    }

    async fn take(&mut self, mut round: Round) {
        if round.agent.mode == AgentMode::Observe {
            // Who only looks reboots nothing either.
            round.reboot.policy = RebootPolicy::Never;
        }
        self.unusable = None;
        self.profile_gone = None;
        self.miss(&mut round);
        let was = self.status.verdict;
        self.status.failed = self.pace.failed(&round.changes);
        self.status.take(&round, self.pace.contested());
        if let Some(files) = &self.files {
            files.set(&round.watch);
        }
        self.watch_own_files();
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
        self.beat();
        // What happened meanwhile is not in what was just seen.
        if let Ok(more) = self.triggers.try_recv() {
            self.gather(more);
        }
        if self.bursts.is_of_the_host() {
            self.work = Some(Work { what: "looking at what has changed".into(), since: Timestamp::now() });
        }
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
        let now = match &self.work {
            Some(work) => self.status.at_work(work),
            None => self.status.clone(),
        };
        for wrong in export::write(&self.options.root, &now, &mut self.written) {
            say(journal::IMPAIRED, &wrong);
        }
        let before = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.plan = self.plan();
            std::mem::replace(&mut shown.status, now.clone())
        };
        let line = format!("{}: {}", now.state.name(), now.reason);
        notify(&[NotifyState::Status(&line)]);
        if let Some(bus) = &self.bus
            && let Ok(object) = bus.object_server().interface::<_, Agent>(bus::PATH).await
        {
            let agent = object.get().await;
            // A bus that does not take a signal is no reason to stop.
            let _ = bus::tell(object.signal_emitter(), &agent, &before, &now).await;
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
