//! The daemon's loop: waits for events, observes the host, publishes the result.

mod background;
mod bus_link;
mod exports;
mod knowledge;
mod readiness;
mod reconcile;
mod requests;
mod shutdown;
mod timers;
mod unusable;
mod watches;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::backoff::Backoff;
use super::bus::{self, BusRequest, LostConnection};
use super::events::Trigger;
use super::helper::Helpers;
use super::journal;
use super::launch::Launch;
use super::release_memory;
use super::status::Status;
use super::watchdog::{self, BusySince, notify};
use crate::reboot::controller::RebootController;
use background::BackgroundObserver;
use bedplate_host::boot_id;
use bus_link::BusLink;
use exports::Exports;
use knowledge::Knowledge;
use shutdown::StopSignal;
use timers::Timers;
use watches::Watches;

/// Settings of a daemon run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Root directory of the daemon's own files (`/`).
    pub root: PathBuf,
    /// How privileged processes are started.
    pub launch: Launch,
    /// Interval between reminders of a manual reboot: a day.
    pub remind_every: Duration,
}

/// Error that ends the daemon.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The runtime cannot be created.
    #[error("cannot set up the daemon")]
    SetUp(#[source] std::io::Error),
    /// Another program owns the bus name.
    #[error("bus name {} is taken; is a second daemon running?", bus::NAME)]
    Name,
    /// The daemon's units run another build by now. systemd restarts the daemon as that build.
    #[error("bedplate was replaced by another build; the daemon must restart")]
    Replaced,
}

/// Runs until stopped by a signal.
///
/// # Errors
/// [`RunError`]; faults of the host are published, not returned.
pub fn run(options: Options) -> Result<(), RunError> {
    journal::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::SetUp)?;
    let done = runtime.block_on(async { Daemon::start(options).await?.serve().await });
    // A hung worker or lock server must not block the daemon's exit.
    runtime.shutdown_background();
    done
}

/// State of the loop, by component.
struct Daemon {
    options: Options,
    /// The system bus: requests, the daemon's object, logind.
    bus: BusLink,
    /// Times at which the loop wakes up without an event.
    timers: Timers,
    /// Events that may have changed the host.
    watches: Watches,
    /// State of the host as last observed, and of the work on it.
    known: Knowledge,
    /// Files, a systemd target and the reboot marker.
    exports: Exports,
    /// Observations outside the loop.
    observer: BackgroundObserver,
    reboot: RebootController,
    backoff: Backoff,
    helpers: Helpers,
    busy: BusySince,
}

impl Daemon {
    async fn start(options: Options) -> Result<Self, RunError> {
        let root = options.root.as_path();
        let boot_id = boot_id::below(root);
        let status = Status::starting(boot_id.clone());
        let helpers = Helpers::new(options.launch.clone(), root);
        let reboot = RebootController::new(root, boot_id, helpers.clone());
        let (watches, observer) = (Watches::new(root), BackgroundObserver::new());
        let mut daemon = Daemon {
            bus: BusLink::new(status.clone(), observer.requester(), watches.sender()),
            timers: Timers::new(options.remind_every),
            watches,
            known: Knowledge::new(root, status, reboot.store().devices()),
            exports: Exports::new(root),
            observer,
            reboot,
            backoff: Backoff::default(),
            helpers,
            busy: BusySince::default(),
            options,
        };
        // Published before the first observation: the status of an earlier daemon is stale.
        daemon.publish().await;
        daemon.connect_first().await?;
        Ok(daemon)
    }

    async fn serve(mut self) -> Result<(), RunError> {
        let mut told = StopSignal::new()?;
        let mut hangup = signal(SignalKind::hangup()).map_err(RunError::SetUp)?;
        tokio::spawn(watchdog::watch(self.busy.clone()));
        tokio::spawn(release_memory::after_bursts(self.bus.message.clone()));
        notify(&[NotifyState::Ready, NotifyState::Status("observing the host")]);
        let steps = self.reboot.steps();
        let mut event = LoopEvent::Begun;
        loop {
            self.busy.begin();
            if shutdown::cut_if_told(&mut told, &steps, self.handle(event)).await {
                break;
            }
            self.busy.end();
            if self.options.launch.is_replaced() {
                break;
            }
            if self.watches.burst.ends().is_none() {
                release_memory::release_memory();
            }
            let wake = self.wake();
            event = tokio::select! {
                // Signals and operators' requests first: the stream of events may never end.
                biased;
                () = told.received() => break,
                () = received(&mut hangup) => LoopEvent::Reload,
                Some(asked) = self.bus.requests.recv() => LoopEvent::Asked(asked),
                event = self.observer.next() => LoopEvent::Observe(event),
                Some(lost) = self.bus.lost.recv() => LoopEvent::Lost(lost),
                Some(trigger) = self.watches.next() => LoopEvent::Trigger(trigger),
                () = tokio::time::sleep_until(wake.into()) => LoopEvent::Due,
            };
        }
        self.end(&told).await
    }

    async fn handle(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Begun => return self.observe().await,
            LoopEvent::Reload => self.reload().await,
            LoopEvent::Asked(asked) => self.answer(asked).await,
            LoopEvent::Observe(event) => self.on_observe_event(event).await,
            LoopEvent::Lost(lost) => self.lost(lost).await,
            LoopEvent::Trigger(trigger) => self.on_trigger(trigger).await,
            LoopEvent::Due => self.due().await,
        }
        self.remind();
    }

    /// Handles an event. Any earlier result about the host is stale until the host has been observed again.
    async fn on_trigger(&mut self, trigger: Trigger) {
        self.watches.gather(&trigger);
        if self.known.work.is_none() && self.watches.burst.is_of_the_host() {
            self.working_on("observing changes").await;
        }
        self.debounced().await;
    }

    /// Publishes the work in progress.
    async fn working_on(&mut self, what: &str) {
        self.known.begin(what);
        self.publish().await;
    }

    /// Handles a burst of events once it is quiet or has exceeded its time limit.
    async fn debounced(&mut self) {
        let Some(batch) = self.watches.burst.over(Instant::now()) else { return };
        tracing::debug!("{} events, the first: {}", batch.count, batch.first);
        if batch.profile {
            self.backoff.forget();
        }
        match batch.other {
            true => self.observe().await,
            false => self.decide().await,
        }
    }

    async fn reload(&mut self) {
        // systemd needs the start time of a reload by its own clock (sd_notify(3)).
        let begun = sd_notify::NotifyState::monotonic_usec_now();
        match begun {
            Ok(begun) => notify(&[NotifyState::Reloading, begun]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
        self.backoff.forget();
        self.observe_now().await;
        notify(&[NotifyState::Ready]);
    }

    /// Decides about the reboot and publishes the status.
    async fn decide(&mut self) {
        self.known.is_enforcement_held();
        self.reboot.show(&mut self.known.status);
        if self.known.is_current()
            && let Some(observation) = &self.known.observation
        {
            let again = self.reboot.step(&mut self.known.status, observation).await;
            self.timers.decide_again = again.map(|wait| Instant::now() + wait);
            self.known.update_verdict();
            if self.known.waits_for_logind() {
                self.bus.probe_logind();
            }
        }
        self.publish().await;
    }

    /// Publishes the status: in files, to systemd, and on the bus.
    async fn publish(&mut self) {
        let now = self.known.shown();
        self.exports.publish(&now, &self.helpers).await;
        let line = format!("{}: {}", now.state.name(), now.reason);
        notify(&[NotifyState::Status(&line)]);
        self.bus.publish(&now, self.known.plan(), self.known.unusable.clone()).await;
    }
}

async fn received(signal: &mut Signal) {
    // `None`: the runtime is about to end.
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

enum LoopEvent {
    Begun,
    Reload,
    Asked(BusRequest),
    Observe(background::ObserveEvent),
    Lost(LostConnection),
    Trigger(Trigger),
    Due,
}
