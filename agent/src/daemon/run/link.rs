//! The system bus, with logind on it: onto it, and back onto it when dbus was restarted.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Daemon;
use crate::daemon::bus::{self, Agent};
use crate::daemon::journal::{self, say};
use crate::daemon::logind::{self, ManagerProxy};

/// A bus that takes longer is as good as none.
const BUS_LIMIT: Duration = Duration::from_secs(5);
/// Waits between tries to get back on the bus: the first, and the longest.
pub(super) const BUS_AGAIN: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(60));

impl Daemon {
    /// Onto the bus, with logind.
    pub(super) async fn connect(&mut self) -> zbus::Result<()> {
        let connecting = async {
            let bus = bus::serve(Agent::new(self.shown.clone(), self.to_asked.clone())).await?;
            let logind = ManagerProxy::new(&bus).await.ok();
            Ok::<_, zbus::Error>((bus, logind))
        };
        // One that accepts and stays silent must not keep the loop from the host.
        let (bus, logind) = timeout(BUS_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| Err(zbus::Error::Failure("it does not answer".into())))?;
        if let Some(logind) = logind.clone() {
            tokio::spawn(logind::watch(logind, self.to_triggers.clone()));
        }
        tokio::spawn(bus::watch(bus.clone(), self.to_lost.clone()));
        self.restart.set_logind(logind);
        self.bus = Some(bus);
        self.bus_again = None;
        Ok(())
    }

    /// The bus has gone; it comes back when dbus is started again.
    pub(super) async fn disconnected(&mut self) {
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

    pub(super) async fn connect_again(&mut self) {
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
}
