//! Connection to the system bus and to logind on it, with reconnection after a restart of dbus.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zbus::Connection;
use zbus::names::UniqueName;

use super::{Daemon, RunError};
use crate::bus::{self, Agent, Authority, BusRequest, BusState, LostConnection, Shared};
use crate::events::Trigger;
use crate::journal::{self, log_message};
use crate::lock;
use crate::logind::{self, ManagerProxy};
use crate::observe_requests::ObserveRequester;
use crate::status::Status;

/// Time limit of connecting to and leaving the bus.
const BUS_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for the signals of one change.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);
/// Wait before subscribing to signals of logind again.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// A caller whose request is not older than this is assumed to still be on the bus.
const JUST_NOW: Duration = Duration::from_millis(500);
const NO_BUS: &str =
    "no system bus: `bedplate status` reads files only, and no reboots are possible";
const UNHEARD: &str = "no signals from systemd-logind: inhibitors and cancelled shutdowns are noticed late, and \
    reboots may be impossible";
/// Waits between attempts to reconnect to the bus: the first, and the longest.
const BUS_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub(super) struct BusLink {
    /// Content of the daemon's object.
    shown: Shared,
    to_requests: Sender<BusRequest>,
    pub(super) requests: Receiver<BusRequest>,
    /// For clients that request a plan.
    observe_requester: ObserveRequester,
    /// Takes events of logind.
    triggers: Sender<Trigger>,
    /// `None` without a bus.
    connections: Option<Connections>,
    /// While there is no bus: time of the next attempt, and the current wait.
    reconnect: Option<(Instant, Duration)>,
    /// Notified when a message arrives on either connection.
    pub(super) message: Arc<Notify>,
    to_lost: Sender<LostConnection>,
    /// Lost connections; a separate channel, because triggers may be dropped.
    pub(super) lost: Receiver<LostConnection>,
    /// logind on this bus.
    logind: Option<ManagerProxy<'static>>,
    /// Listens to signals of logind as long as this bus exists.
    listening: Option<JoinHandle<()>>,
    /// Polls a logind that did not answer.
    probing: Option<JoinHandle<()>>,
    /// Whether missing signals of logind were logged.
    unheard: bool,
}

struct Connections {
    /// Serves requests of other programs.
    served: Connection,
    /// Carries the daemon's own requests.
    own: Connection,
}

impl BusLink {
    /// Creates a link without a bus yet.
    pub(super) fn new(
        status: Status,
        observe_requester: ObserveRequester,
        triggers: Sender<Trigger>,
    ) -> Self {
        let (to_requests, requests) = mpsc::channel(16);
        let (to_lost, lost) = mpsc::channel(4);
        BusLink {
            shown: Arc::new(Mutex::new(BusState::new(status))),
            to_requests,
            requests,
            observe_requester,
            triggers,
            connections: None,
            reconnect: None,
            message: Arc::default(),
            to_lost,
            lost,
            logind: None,
            listening: None,
            probing: None,
            unheard: false,
        }
    }

    /// Connects to the bus, with logind.
    async fn connect(&mut self) -> zbus::Result<()> {
        let connecting = async {
            let own = bus::connect().await?;
            let authority = Authority::new(own.clone());
            let requester = self.observe_requester.clone();
            let to_requests = self.to_requests.clone();
            let agent = Agent::new(self.shown.clone(), to_requests, requester, authority);
            let served = bus::serve(agent.clone()).await?;
            if let Err(error) = bus::serve_operators(&own, agent).await {
                let text = "operators share one queue with all clients";
                log_message(
                    journal::IMPAIRED,
                    &format!("{text}: cannot acquire {}: {error}", bus::OPERATORS),
                );
            }
            let logind = logind::manager(&own).await.ok();
            Ok::<_, zbus::Error>((Connections { served, own }, logind))
        };
        // A bus that accepts and never answers must not block the loop.
        let (connections, logind) = timeout(BUS_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| Err(zbus::Error::Failure("the bus does not answer".into())))?;
        for connection in [&connections.served, &connections.own] {
            let message = self.message.clone();
            tokio::spawn(bus::watch(connection.clone(), message, self.to_lost.clone()));
        }
        self.listen(logind);
        (self.connections, self.reconnect) = (Some(connections), None);
        Ok(())
    }

    fn listen(&mut self, logind: Option<ManagerProxy<'static>>) {
        let (triggers, lost) = (self.triggers.clone(), self.to_lost.clone());
        self.logind.clone_from(&logind);
        self.listening = Some(tokio::spawn(async move {
            // Without a client, wait only for the next attempt.
            if let Some(logind) = logind {
                logind::watch(logind, triggers).await;
            }
            // The usual reason is the end of the bus, which aborts this task during the sleep.
            tokio::time::sleep(LISTEN_AGAIN).await;
            // The loop listens for as long as it runs.
            let _ = lost.send(LostConnection::LogindSignals).await;
        }));
    }

    /// Subscribes to the signals of logind again, for example after the bus refused a subscription. A client that failed once
    /// stays unusable, so a new one is created. Returns `false` if the bus is gone too.
    async fn listen_again(&mut self) -> bool {
        let Some(Connections { own, .. }) = &self.connections else { return false };
        if !std::mem::replace(&mut self.unheard, true) {
            log_message(journal::IMPAIRED, UNHEARD);
        }
        let logind = logind::manager(own).await.ok();
        self.listen(logind);
        true
    }

    /// Polls logind until it answers.
    pub(super) fn probe_logind(&mut self) {
        let probing = self.probing.as_ref().is_some_and(|task| !task.is_finished());
        if let Some(logind) = self.logind.as_ref().filter(|_| !probing) {
            let probe = logind::probe(logind.clone(), self.triggers.clone());
            self.probing = Some(tokio::spawn(probe));
        }
    }

    /// Drops a bus connection that has ended. Returns `false` if it was dropped before.
    async fn disconnect(&mut self) -> bool {
        let Some(Connections { served, .. }) = self.connections.take() else { return false };
        // One of the two connections may still be open and own the name.
        let _ = served.close().await;
        for task in [self.listening.take(), self.probing.take()].into_iter().flatten() {
            task.abort();
        }
        self.logind = None;
        self.retry_first();
        log_message(
            journal::IMPAIRED,
            "system bus lost: `bedplate status` reads files only, and no reboots are possible until it is back",
        );
        true
    }

    fn retry_first(&mut self) {
        self.reconnect = Some((Instant::now() + BUS_AGAIN.0, BUS_AGAIN.0));
    }

    /// Returns when to try to connect again; `None` if connected.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.reconnect.map(|(at, _)| at)
    }

    /// Waits until the last messages are written, before the daemon ends.
    pub(super) async fn leave(&mut self) {
        // Only the end of the serving connection means that it has written all messages.
        let Some(Connections { served, own: _own }) = self.connections.take() else { return };
        let written = async {
            let _ = served.close().await;
            while self.lost.recv().await.is_some_and(|lost| lost != LostConnection::Bus) {}
        };
        let _ = timeout(BUS_LIMIT, written).await;
    }

    /// Whether a caller with a request of this time has left the bus since.
    pub(super) async fn has_left(&self, caller: &UniqueName<'static>, at: Instant) -> bool {
        match &self.connections {
            Some(Connections { own, .. }) if at.elapsed() > JUST_NOW => {
                bus::has_left(own, caller).await
            }
            _ => false,
        }
    }

    /// Publishes a status on the bus, and signals its changes.
    pub(super) async fn publish(&self, now: &Status, plan: String, unusable: Option<String>) {
        let before = {
            let mut shown = lock(&self.shown);
            (shown.plan, shown.unusable) = (plan, unusable);
            shown.replace(now.clone())
        };
        if let Some(Connections { served, .. }) = &self.connections
            && let Ok(object) = served.object_server().interface::<_, Agent>(bus::PATH).await
        {
            let agent = object.get().await;
            // A bus that rejects or delays a signal must not stop the loop.
            let signals = bus::signal_changes(object.signal_emitter(), &agent, &before, now);
            let _ = timeout(SIGNAL_LIMIT, signals).await;
        }
    }
}

impl Daemon {
    /// Connects to the bus, and schedules a retry if there is none.
    pub(super) async fn connect_first(&mut self) -> Result<(), RunError> {
        match self.connect().await {
            Ok(()) => {}
            Err(zbus::Error::NameTaken) => return Err(RunError::Name),
            Err(error) => {
                log_message(journal::IMPAIRED, &format!("{NO_BUS}: {error}"));
                self.bus.retry_first();
            }
        }
        Ok(())
    }

    async fn connect(&mut self) -> zbus::Result<()> {
        self.bus.connect().await?;
        let own = self.bus.connections.as_ref().map(|connections| connections.own.clone());
        self.exports.ready_target.connected(own);
        self.reboot.set_logind(self.bus.logind.clone());
        Ok(())
    }

    pub(super) async fn connect_again(&mut self) {
        let Some((_, wait)) = self.bus.reconnect.filter(|(at, _)| *at <= Instant::now()) else {
            return;
        };
        match self.connect().await {
            Ok(()) => {
                log_message(journal::CONNECTED, "reconnected to the system bus");
                self.decide().await;
            }
            Err(_) => {
                let wait = (wait * 2).min(BUS_AGAIN.1);
                self.bus.reconnect = Some((Instant::now() + wait, wait));
            }
        }
    }

    /// Handles the end of the bus connection or of logind's signals.
    pub(super) async fn lost(&mut self, lost: LostConnection) {
        let is_new = match lost {
            LostConnection::LogindSignals => self.bus.listen_again().await,
            LostConnection::Bus => self.bus.disconnect().await,
        };
        // Both connections report the end of the bus.
        if !is_new {
            return;
        }
        if lost == LostConnection::Bus {
            self.exports.ready_target.connected(None);
        }
        self.reboot.set_logind(self.bus.logind.clone());
        self.decide().await;
    }
}
