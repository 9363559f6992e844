//! The loop: waits for something to happen, has the host observed, and tells what came of it. Idle, it sleeps.

mod background;
mod bus_connection;
mod clock;
mod publish;
mod readiness;
mod reconcile;
mod requests;
mod shutdown;
mod unusable;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use zbus::Connection;

use super::backoff::Backoff;
use super::bus::{self, BusRequest, BusState, LostConnection, Shared};
use super::debounce::Debounce;
use super::devices::KnownDevices;
use super::events::{self, Files, Trigger};
use super::export::WrittenFiles;
use super::helper::Helpers;
use super::interface_monitor::InterfaceMonitor;
use super::journal::{self, log_message};
use super::launch::Launch;
use super::log_changes::LogState;
use super::logind::ManagerProxy;
use super::observation::Observation;
use super::ready_target::ReadyTarget;
use super::release_memory;
use super::reminder::Reminder;
use super::status::{State, Status, Work};
use super::watchdog::{self, BusySince, notify};
use crate::reboot::controller::RebootController;
use background::BackgroundObserver;
use bedplate_core::kind::Watch;
use bedplate_host::boot_id;
use shutdown::StopSignal;

const NO_BUS: &str = "no system bus: `bedplate status` has only files, and there are no reboots";

/// How the daemon is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Below which directory its own files lie (`/`).
    pub root: PathBuf,
    /// How processes with rights are started.
    pub launch: Launch,
    /// Time between two reminders of a reboot that is left to people: a day.
    pub remind_every: Duration,
}

/// Why it cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The runtime cannot be had.
    #[error("cannot set up the daemon")]
    SetUp(#[source] std::io::Error),
    /// Another program has its name.
    #[error("{} is taken on the bus: is a second daemon running?", bus::NAME)]
    Name,
    /// The units that do its work run another build by now. systemd starts the daemon again, as that build.
    #[error(
        "bedplate was replaced by another build after the daemon was started: it has to start again"
    )]
    Replaced,
}

/// Runs until it is told to stop.
///
/// # Errors
/// [`RunError`]; whatever happens to the host is reported, not an error.
pub fn run(options: Options) -> Result<(), RunError> {
    journal::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::SetUp)?;
    let done = runtime.block_on(async { Daemon::start(options).await?.serve().await });
    // A worker or a lock server that hangs must not keep the daemon from ending.
    runtime.shutdown_background();
    done
}

struct Daemon {
    options: Options,
    shown: Shared,
    /// Where others ask.
    bus: Option<Connection>,
    /// Where the daemon asks others.
    own_bus: Option<Connection>,
    /// While there is no bus: when to try again, and how long to wait after that.
    bus_again: Option<(Instant, Duration)>,
    /// A message has arrived on either.
    message: Arc<Notify>,
    /// Says what is no longer heard: apart from triggers, of which one may be dropped.
    to_lost: Sender<LostConnection>,
    lost: Receiver<LostConnection>,
    /// logind on this bus.
    logind: Option<ManagerProxy<'static>>,
    /// Listens to signals of logind for as long as there is this bus.
    listening: Option<JoinHandle<()>>,
    /// Asks a logind that did not answer.
    probing: Option<JoinHandle<()>>,
    /// That they do not arrive was logged.
    unheard: bool,
    to_triggers: Sender<Trigger>,
    triggers: Receiver<Trigger>,
    to_asked: Sender<BusRequest>,
    asked: Receiver<BusRequest>,
    observer: BackgroundObserver,
    files: Option<Files>,
    interface_monitor: Option<InterfaceMonitor>,
    reboot: RebootController,
    backoff: Backoff,
    status: Status,
    observation: Option<Observation>,
    written: WrittenFiles,
    ready_target: ReadyTarget,
    unmarked: Option<publish::MarkerFailure>,
    born: Instant,
    seen: u64,
    retry: Option<Instant>,
    decide_again: Option<Instant>,
    recheck: Instant,
    debounce: Debounce,
    busy: BusySince,
    logged: LogState,
    reminder: Reminder,
    helpers: Helpers,
    /// Why the host cannot be observed or the profile not be used.
    unusable: Option<String>,
    /// What is being done now: the status of the last observation does not count meanwhile.
    work: Option<Work>,
    /// Since when the profile that was enforced is gone.
    profile_gone: Option<Instant>,
    devices: KnownDevices,
}

/// Hears of what the kernel and other programs change; what cannot be heard is found by the re-check only.
fn listen(to_triggers: &Sender<Trigger>) -> (Option<Files>, Option<InterfaceMonitor>) {
    if let Err(error) = events::uevents(to_triggers.clone()) {
        let text = "no kernel events: only the periodic check finds what the kernel changes";
        log_message(journal::IMPAIRED, &format!("{text}: {error}"));
    }
    let links = InterfaceMonitor::new(to_triggers.clone())
        .inspect_err(|error| log_message(journal::IMPAIRED, &format!("no link events: {error}")));
    let files = Files::new(to_triggers.clone())
        .inspect_err(|error| log_message(journal::IMPAIRED, &format!("no file events: {error}")));
    (files.ok(), links.ok())
}

impl Daemon {
    async fn start(options: Options) -> Result<Self, RunError> {
        let boot_id = boot_id::below(&options.root);
        let status = Status::starting(boot_id.clone());
        let shown = Arc::new(Mutex::new(BusState::new(status.clone())));
        let (to_asked, asked) = mpsc::channel(16);
        let (to_triggers, triggers) = mpsc::channel(64);
        let (to_lost, lost) = mpsc::channel(4);
        let (files, interface_monitor) = listen(&to_triggers);
        let helpers = Helpers::new(options.launch.clone(), &options.root);
        let reboot = RebootController::new(&options.root, boot_id, helpers.clone());
        let now = Instant::now();
        let mut daemon = Daemon {
            reminder: Reminder::new(options.remind_every),
            ready_target: ReadyTarget::new(&options.root),
            options,
            shown,
            bus: None,
            own_bus: None,
            bus_again: None,
            message: Arc::default(),
            to_lost,
            lost,
            logind: None,
            listening: None,
            probing: None,
            unheard: false,
            to_triggers,
            triggers,
            to_asked,
            asked,
            observer: BackgroundObserver::new(),
            files,
            interface_monitor,
            devices: reboot.store().devices(),
            reboot,
            backoff: Backoff::default(),
            status,
            observation: None,
            written: WrittenFiles::new(),
            unmarked: None,
            born: now,
            seen: 0,
            retry: None,
            decide_again: None,
            recheck: now,
            debounce: Debounce::default(),
            busy: BusySince::default(),
            logged: LogState::default(),
            helpers,
            unusable: None,
            work: None,
            profile_gone: None,
        };
        daemon.watch_own_files();
        // Before anything is known: what an earlier daemon said is nobody's word any more.
        daemon.publish().await;
        daemon.connect_first().await?;
        Ok(daemon)
    }

    /// Goes on the bus. Where there is none, it is tried again.
    async fn connect_first(&mut self) -> Result<(), RunError> {
        let Err(error) = self.connect().await else { return Ok(()) };
        if matches!(error, zbus::Error::NameTaken) {
            return Err(RunError::Name);
        }
        log_message(journal::IMPAIRED, &format!("{NO_BUS}: {error}"));
        self.bus_again =
            Some((Instant::now() + bus_connection::BUS_AGAIN.0, bus_connection::BUS_AGAIN.0));
        Ok(())
    }

    /// The files that ask for an observation whatever the profile says. A directory that comes back has to be watched again.
    fn watch_own_files(&self) {
        let Some(files) = &self.files else { return };
        let at = |path: &str| self.options.root.join(path).display().to_string();
        // A profile that others may write is refused: a `chmod` is all that such a profile needs.
        let of_profiles = ["etc/bedplate", "etc/bedplate/profile.d", "etc/bedplate/profiles"];
        files.set_trusted(&of_profiles.map(at));
        let directories = ["var/lib/bedplate", "run/systemd/shutdown"];
        files.set(&Watch { directories: directories.map(at).to_vec(), ..Watch::default() });
    }

    async fn serve(mut self) -> Result<(), RunError> {
        let mut told = StopSignal::new()?;
        let mut hangup = signal(SignalKind::hangup()).map_err(RunError::SetUp)?;
        tokio::spawn(watchdog::watch(self.busy.clone()));
        tokio::spawn(release_memory::after_bursts(self.message.clone()));
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
            if self.debounce.ends().is_none() {
                release_memory::release_memory();
            }
            let wake = self.wake();
            event = tokio::select! {
                // People first: events may never end.
                biased;
                () = told.received() => break,
                () = received(&mut hangup) => LoopEvent::Reload,
                Some(asked) = self.asked.recv() => LoopEvent::Asked(asked),
                event = self.observer.next() => LoopEvent::Observe(event),
                Some(lost) = self.lost.recv() => LoopEvent::Lost(lost),
                Some(trigger) = self.triggers.recv() => LoopEvent::Trigger(trigger),
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
            LoopEvent::Lost(LostConnection::Bus) => self.disconnected().await,
            LoopEvent::Lost(LostConnection::LogindSignals) => self.listen_again().await,
            LoopEvent::Trigger(trigger) => self.on_trigger(trigger).await,
            LoopEvent::Due => self.due().await,
        }
        self.remind();
    }

    /// Something has happened. From here until it was observed, nothing that was said of the host counts.
    async fn on_trigger(&mut self, trigger: Trigger) {
        self.gather(trigger);
        if self.work.is_none() && self.debounce.is_of_the_host() {
            self.working_on("observing what has changed").await;
        }
        self.debounced().await;
    }

    /// Adds an event, and those that came with it, to the burst.
    fn gather(&mut self, trigger: Trigger) {
        let now = Instant::now();
        self.debounce.add(&trigger, now);
        while let Ok(more) = self.triggers.try_recv() {
            self.debounce.add(&more, now);
        }
    }

    /// Says that something is under way, and what.
    async fn working_on(&mut self, what: &str) {
        let since = Timestamp::now();
        self.work = Some(Work { what: what.to_owned(), since });
        self.publish().await;
    }

    /// Does what a burst asks for once there is quiet, or when it has gone on for too long.
    async fn debounced(&mut self) {
        let Some(batch) = self.debounce.over(Instant::now()) else { return };
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
        // systemd wants to know when a reload begins, by its own clock (sd_notify(3)).
        let begun = sd_notify::NotifyState::monotonic_usec_now();
        match begun {
            Ok(begun) => notify(&[NotifyState::Reloading, begun]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
        self.backoff.forget();
        self.working_on("observing the host").await;
        self.observe().await;
        notify(&[NotifyState::Ready]);
    }

    /// Sees to the reboot, and tells everybody where the host stands.
    async fn decide(&mut self) {
        self.is_enforcement_held();
        self.reboot.show(&mut self.status);
        if let Some(observation) = &self.observation
            && self.unusable.is_none()
            // What was decided on a profile that may be gone does not act.
            && self.profile_gone.is_none()
        {
            let again = self.reboot.step(&mut self.status, observation).await;
            self.decide_again = again.map(|wait| Instant::now() + wait);
            self.status.update_verdict(observation.failure());
            if self.status.state == State::Stuck
                && let Some(cause) = &observation.cause
            {
                self.status.reason = format!("{}: {}", self.status.reason, cause.describe());
            }
            self.probe_logind();
        }
        self.publish().await;
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
