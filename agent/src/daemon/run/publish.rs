//! What the daemon shows: files, the bus, systemd, the marker for other programs.

use std::sync::PoisonError;
use std::time::Duration;

use sd_notify::NotifyState;

use super::Daemon;
use crate::daemon::bus::{self, Agent};
use crate::daemon::export;
use crate::daemon::journal::{self, say};
use crate::daemon::reboot_required;
use crate::daemon::status::Status;
use crate::daemon::watchdog::notify;
use crate::error_chain::chain;

/// What the bus may take for the signals of one change.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);

impl Daemon {
    /// Sets the marker that asks others for a reboot, or takes it back: only where that is not so yet.
    async fn mark(&self, now: &Status) {
        let Some(wanted) = reboot_required::is_wanted(now) else { return };
        if reboot_required::is_set(&self.options.root, wanted).is_ok_and(|is_so| is_so) {
            return;
        }
        if let Err(error) = self.helpers.marker(wanted).await {
            let text = format!("cannot write {}: {}", reboot_required::REQUIRED, chain(&error));
            say(journal::IMPAIRED, &text);
        }
    }

    pub(super) async fn publish(&mut self) {
        let now = match &self.work {
            Some(work) => self.status.working_on(work),
            None => self.status.clone(),
        };
        for wrong in export::write(&self.options.root, &now, &mut self.written) {
            say(journal::IMPAIRED, &wrong);
        }
        self.mark(&now).await;
        let before = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.plan = self.plan();
            shown.unusable.clone_from(&self.unusable);
            shown.replace(now.clone())
        };
        let line = format!("{}: {}", now.state.name(), now.reason);
        notify(&[NotifyState::Status(&line)]);
        if let Some(bus) = &self.bus
            && let Ok(object) = bus.object_server().interface::<_, Agent>(bus::PATH).await
        {
            let agent = object.get().await;
            // A bus that does not take a signal is no reason to stop, nor one that takes its time.
            let signals = bus::signal_changes(object.signal_emitter(), &agent, &before, &now);
            let _ = tokio::time::timeout(SIGNAL_LIMIT, signals).await;
        }
    }
}
