//! What the daemon shows: files, the bus, systemd, the marker for other programs.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::Daemon;
use crate::bus::{self, Agent};
use crate::export;
use crate::journal::{self, log_message};
use crate::ready_target;
use crate::reboot::controller::OBSERVE_AGAIN;
use crate::reboot_required;
use crate::status::Status;
use crate::watchdog::notify;
use bedplate_base::chain;

/// What the bus may take for the signals of one change.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);

/// A marker that could not be set, or taken back.
pub(super) struct MarkerFailure {
    wanted: bool,
    /// Not tried before: each try costs a unit.
    pub(super) until: Instant,
    /// Why, as it was said.
    said: String,
}

impl Daemon {
    /// Sets the marker that asks others for a reboot, or takes it back: only where that is not so yet.
    async fn mark(&mut self, now: &Status) {
        let Some(wanted) = reboot_required::is_wanted(now) else {
            self.unmarked = None;
            return;
        };
        if reboot_required::is_set(&self.options.root, wanted).is_ok_and(|is_so| is_so) {
            self.unmarked = None;
            return;
        }
        let failed = self.unmarked.as_ref().filter(|failed| failed.wanted == wanted);
        if failed.is_some_and(|failed| failed.until > Instant::now()) {
            return;
        }
        let Err(error) = self.helpers.marker(wanted).await else {
            self.unmarked = None;
            return;
        };
        let said = format!("cannot write {}: {}", reboot_required::REQUIRED, chain(&error));
        if self.unmarked.as_ref().is_none_or(|before| before.said != said) {
            log_message(journal::IMPAIRED, &said);
        }
        self.unmarked = Some(MarkerFailure { wanted, until: Instant::now() + OBSERVE_AGAIN, said });
    }

    pub(super) async fn publish(&mut self) {
        let now = match &self.work {
            Some(work) => self.status.working_on(work),
            None => self.status.clone(),
        };
        for wrong in export::write(&self.options.root, &now, &mut self.written) {
            log_message(journal::IMPAIRED, &wrong);
        }
        if let Err(error) = self.ready_target.publish(&now) {
            log_message(
                journal::IMPAIRED,
                &format!("cannot write {}: {error}", ready_target::MARKER),
            );
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
