//! The fleet's turn: asks the lock server, remembers what may be held, and leaves a server that fails alone for a while.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Restart, chain};
use crate::daemon::journal::{self, say};
use crate::daemon::status::Status;
use crate::profile::model::{FleetLock, Reboot};
use crate::reboot::fleetlock::{self, Client};
use crate::reboot::identity;
use crate::reboot::record::{Held, Record};

/// A lock server that takes longer is as good as none.
const SERVER_LIMIT: Duration = Duration::from_secs(20);

impl Restart {
    /// One request to the lock server, away from the loop.
    pub(super) async fn ask(&self, server: &FleetLock, take: bool) -> Result<(), String> {
        let machine_id =
            std::fs::read_to_string(self.root.join("etc/machine-id")).map_err(|e| e.to_string())?;
        let machine_id = identity::parse_machine_id(machine_id.trim()).map_err(|error| error.to_string())?;
        let id = identity::hex(identity::app_specific(machine_id, identity::FLEETLOCK_APP_ID));
        let server = server.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let client = Client::new(&server.url, &server.group, id, SERVER_LIMIT)
                .map_err(|error| error.to_string())?;
            let done = if take { client.pre_reboot() } else { client.steady_state() };
            done.map_err(|error| chain(&error))
        });
        asked.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// `Ok(true)`: held; decide again.
    pub(super) async fn take_lock(
        &mut self,
        record: &mut Record,
        status: &mut Status,
        settings: &Reboot,
    ) -> Result<bool, String> {
        let Some(server) = settings.fleetlock.clone() else { return Ok(false) };
        if self.lock_wait().is_some() {
            let said = status.reboot.lock_said.clone().unwrap_or_default();
            return Err(format!("no slot of the fleet's lock yet: {said}"));
        }
        // Kept first: an answer that gets lost may have been yes, and such a slot has to be given back.
        let held = Held { server: server.clone(), certain: false, since: Timestamp::now() };
        record.lock = Some(held.clone());
        self.store.keep(record)?;
        match self.ask(&server, true).await {
            Ok(()) => {
                record.lock = Some(Held { certain: true, ..held });
                self.store.keep(record)?;
                (self.lock_failures, self.lock_again) = (0, None);
                status.reboot.lock_said = Some(format!("{} gave this host a slot", server.url));
                say(journal::LOCK, &format!("{} gave this host a slot to reboot", server.url));
                Ok(true)
            }
            Err(why) => {
                self.lock_failed();
                status.reboot.lock_said = Some(why.clone());
                Err(format!("no slot of the fleet's lock yet: {why}"))
            }
        }
    }

    pub(super) fn lock_failed(&mut self) {
        self.lock_again = Some(Instant::now() + fleetlock::backoff(self.lock_failures, random()));
        self.lock_failures = self.lock_failures.saturating_add(1);
    }

    /// How long the server is still left alone.
    pub(super) fn lock_wait(&self) -> Option<Duration> {
        self.lock_again.map(|at| at.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }
}

/// For jitter only.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without random numbers the jitter is none.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}
