//! The end of the daemon: by a signal, whatever it is at, or because the units that work for it run another build by now.
//!
//! systemd kills it 30 seconds after the signal (`TimeoutStopSec=` of bedplate.service). A step of a reboot that has begun gets
//! the first half of that: it is a unit that is started, two writes to sysfs or a word with the BMC, small files and two
//! questions to logind, each over in milliseconds; only the operator's command may take longer. Units get what is left of
//! the first 20, and the last words on the bus at most seven more.

use std::pin::pin;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Daemon, RunError, received};
use crate::journal::{self, log_message};
use crate::reboot::controller::Steps;
use crate::watchdog::notify;

/// After the signal, what a step of a reboot may take.
const STEP: Duration = Duration::from_secs(15);
/// After the signal, when all units have ended.
const ENDING: Duration = Duration::from_secs(20);

/// What tells it to end.
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

/// Works until that is done, or the daemon is told to end (`true`): then the work is cut.
///
/// Cut are observations, changes and waits, which are ready for a power cut at any moment (the process at work ends with the daemon,
/// and the ledger knows what it did), and questions to the lock server, which the record knows of before they are asked. Not
/// cut is a step of a reboot between what it does and what it keeps of that: after a power cut /run is empty and nothing is
/// armed, but the next daemon of this boot would find an announcement that was never made, take its own cancel for that of
/// people, or a command for run that was not.
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
                "a step of the reboot has not ended within {} s of the daemon being told to, and is cut: `bedplate reboot \
                 status` shows what the next daemon makes of it",
                STEP.as_secs()
            );
            log_message(journal::REBOOT_FAILED, &text);
        }
    }
    true
}

impl Daemon {
    /// Says so, and has what works for it end first: what is put back after `systemctl stop bedplate` must not meet a change
    /// that is still under way.
    pub(super) async fn end(mut self, told: &StopSignal) -> Result<(), RunError> {
        let launch = self.options.launch.clone();
        let since = told.at.map_or(Duration::ZERO, |at| at.elapsed());
        notify(&[NotifyState::Stopping]);
        self.observer.stop();
        if !launch.all_ended(ENDING.saturating_sub(since)).await {
            let text = "a process that looks at this host or changes it does not end: `systemctl list-units 'bedplate-*'`";
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
