//! End of the daemon: by a signal, at any moment, or because its units run another build by now.
//!
//! systemd kills the daemon 30 seconds after the signal (`TimeoutStopSec=` of bedplate.service). A reboot step in progress
//! gets the first half of that. Such a step starts a unit, makes two writes to sysfs or a request to the BMC, writes small
//! files and makes two requests to logind. Each takes milliseconds; only the operator's command may take longer. Units get
//! the rest of the first 20 seconds, and the last messages on the bus at most seven more.

use std::pin::pin;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Daemon, RunError, received};
use crate::journal::{self, log_message};
use crate::reboot::controller::Steps;
use crate::watchdog::notify;

/// Time limit after the signal for a reboot step.
const STEP: Duration = Duration::from_secs(15);
/// Time limit after the signal for the end of all units.
const ENDING: Duration = Duration::from_secs(20);

/// Signals that stop the daemon.
pub(super) struct StopSignal {
    term: Signal,
    interrupt: Signal,
    at: Option<Instant>,
}

impl StopSignal {
    pub(super) fn new() -> Result<Self, RunError> {
        let of = |kind| signal(kind).map_err(RunError::SetUp);
        let (term, interrupt) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
        Ok(StopSignal { term, interrupt, at: None })
    }

    pub(super) async fn received(&mut self) {
        tokio::select! {
            () = received(&mut self.term) => {}
            () = received(&mut self.interrupt) => {}
        }
        self.at = Some(Instant::now());
    }
}

/// Runs `work` until it is done (`false`) or a stop signal arrives (`true`), which cuts the work.
///
/// Observations, changes and waits may be cut: they must survive a power cut at any moment. The working process
/// ends with the daemon, and the ledger records its changes. Requests to the lock server may be cut too: they are
/// recorded before they are sent.
///
/// A reboot step must not be cut between its action and the record of it. After a power cut /run is empty and no method is
/// armed. But the next daemon of this boot would find a scheduled reboot that was never made, mistake its own cancellation
/// for an operator's, or assume that a command ran.
pub(super) async fn cut_if_told(
    told: &mut StopSignal,
    steps: &Steps,
    work: impl Future<Output = ()>,
) -> bool {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        () = told.received() => {}
        () = &mut work => return false,
    }
    tokio::select! {
        biased;
        () = steps.over() => {}
        () = &mut work => {}
        () = tokio::time::sleep(STEP) => {
            let text = format!(
                "a reboot step did not end within {} s of the stop signal and was cut; `bedplate reboot status` shows \
                 the result once the daemon runs again",
                STEP.as_secs()
            );
            log_message(journal::REBOOT_FAILED, &text);
        }
    }
    true
}

impl Daemon {
    /// Ends the daemon after all its units. What is restored after `systemctl stop bedplate` must not race with a running
    /// change.
    pub(super) async fn end(mut self, told: &StopSignal) -> Result<(), RunError> {
        let launch = self.options.launch.clone();
        let since = told.at.map_or(Duration::ZERO, |at| at.elapsed());
        notify(&[NotifyState::Stopping]);
        self.observer.stop();
        if !launch.all_ended(ENDING.saturating_sub(since)).await {
            let text =
                "an observation or change does not end; see `systemctl list-units 'bedplate-*'`";
            log_message(journal::IMPAIRED, text);
        }
        if !launch.is_replaced()
            && let Some(text) = self.reboot.pending_reboot_text()
        {
            log_message(journal::REBOOT_SCHEDULED, &text);
        }
        self.known.status.stop();
        self.known.work = None;
        self.publish().await;
        self.bus.leave().await;
        match launch.is_replaced() {
            true => Err(RunError::Replaced),
            false => Ok(()),
        }
    }
}
