//! The system bus, with logind on it: onto it, and back onto it when dbus was restarted.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Daemon;
use crate::bus::{self, Agent, Authority, LostConnection};
use crate::journal::{self, log_message};
use crate::logind::{self, ManagerProxy};
use crate::reboot::state::{RebootState, WaitsFor};

/// A bus that takes longer is as good as none.
const BUS_LIMIT: Duration = Duration::from_secs(5);
/// Wait before signals of logind are subscribed to again.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
const UNHEARD: &str = "signals of systemd-logind do not arrive: inhibitors and cancelled shutdowns are noticed late, \
    and there may be no reboots";
/// Waits between tries to get back on the bus: the first, and the longest.
pub(super) const BUS_AGAIN: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(60));

impl Daemon {
    /// Onto the bus, with logind.
    pub(super) async fn connect(&mut self) -> zbus::Result<()> {
        let connecting = async {
            let own = bus::connect().await?;
            let authority = Authority::new(own.clone());
            let requester = self.observer.requester();
            let agent = Agent::new(self.shown.clone(), self.to_asked.clone(), requester, authority);
            let bus = bus::serve(agent.clone()).await?;
            if let Err(error) = bus::serve_operators(&own, agent).await {
                let text = "operators are in one queue with everybody who asks";
                log_message(
                    journal::IMPAIRED,
                    &format!("{text}: {} is not to be had: {error}", bus::OPERATORS),
                );
            }
            let logind = logind::manager(&own).await.ok();
            Ok::<_, zbus::Error>((bus, own, logind))
        };
        // One that accepts and stays silent must not keep the loop from the host.
        let (bus, own, logind) = timeout(BUS_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| Err(zbus::Error::Failure("it does not answer".into())))?;
        for connection in [&bus, &own] {
            let message = self.message.clone();
            tokio::spawn(bus::watch(connection.clone(), message, self.to_lost.clone()));
        }
        self.listen(logind);
        self.ready_target.connected(Some(own.clone()));
        (self.bus, self.own_bus) = (Some(bus), Some(own));
        self.bus_again = None;
        Ok(())
    }

    fn listen(&mut self, logind: Option<ManagerProxy<'static>>) {
        let (triggers, lost) = (self.to_triggers.clone(), self.to_lost.clone());
        let watched = logind.clone();
        self.listening = Some(tokio::spawn(async move {
            // Without a client there is nothing to wait for but the next try.
            if let Some(logind) = watched {
                logind::watch(logind, triggers).await;
            }
            // The end of the bus, which is the usual reason, ends this task meanwhile.
            tokio::time::sleep(LISTEN_AGAIN).await;
            // The loop listens for as long as it lives.
            let _ = lost.send(LostConnection::LogindSignals).await;
        }));
        self.logind.clone_from(&logind);
        self.reboot.set_logind(logind);
    }

    /// Has logind asked until it answers, where the reboot waits for that.
    pub(super) fn probe_logind(&mut self) {
        let waits = match &self.status.reboot.state {
            RebootState::Waiting { why, .. } => {
                why.iter().any(|reason| reason.waits_for == WaitsFor::Logind)
            }
            _ => false,
        };
        let probing = self.probing.as_ref().is_some_and(|task| !task.is_finished());
        if let Some(logind) = self.logind.as_ref().filter(|_| waits && !probing) {
            let probe = logind::probe(logind.clone(), self.to_triggers.clone());
            self.probing = Some(tokio::spawn(probe));
        }
    }

    /// The bus is there and has refused a subscription, say. A client that has failed at one stays useless: another one.
    pub(super) async fn listen_again(&mut self) {
        let Some(bus) = &self.own_bus else { return };
        if !std::mem::replace(&mut self.unheard, true) {
            log_message(journal::IMPAIRED, UNHEARD);
        }
        let logind = logind::manager(bus).await.ok();
        self.listen(logind);
        self.decide().await;
    }

    /// The bus has gone; it comes back when dbus is started again.
    pub(super) async fn disconnected(&mut self) {
        // `None`: a second word about the same bus.
        let Some(bus) = self.bus.take() else { return };
        // Of two connections one may be left, with the name.
        let _ = bus.close().await;
        self.own_bus = None;
        for task in [self.listening.take(), self.probing.take()].into_iter().flatten() {
            task.abort();
        }
        self.logind = None;
        self.ready_target.connected(None);
        self.reboot.set_logind(None);
        self.bus_again = Some((Instant::now() + BUS_AGAIN.0, BUS_AGAIN.0));
        log_message(
            journal::IMPAIRED,
            "the system bus is gone: `bedplate status` has only files, and there are no reboots until it is back",
        );
        self.decide().await;
    }

    /// What was said last is written before the daemon ends.
    pub(super) async fn leave_bus(&mut self) {
        let Some(bus) = self.bus.take() else { return };
        let written = async {
            let _ = bus.close().await;
            while self.lost.recv().await.is_some_and(|lost| lost != LostConnection::Bus) {}
        };
        let _ = timeout(BUS_LIMIT, written).await;
    }

    pub(super) async fn connect_again(&mut self) {
        let Some((at, wait)) = self.bus_again else { return };
        if at > Instant::now() {
            return;
        }
        match self.connect().await {
            Ok(()) => {
                log_message(journal::CONNECTED, "back on the system bus");
                self.decide().await;
            }
            Err(_) => {
                let wait = (wait * 2).min(BUS_AGAIN.1);
                self.bus_again = Some((Instant::now() + wait, wait));
            }
        }
    }
}
