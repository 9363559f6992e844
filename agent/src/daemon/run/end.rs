//! The end of the daemon: by a signal, whatever it is at, or because the units that work for it run another build by now.

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Daemon, RunError, received};
use crate::daemon::journal::{self, say};
use crate::daemon::watchdog::notify;

/// What tells it to end.
pub(super) struct Told {
    term: Signal,
    interrupt: Signal,
}

impl Told {
    pub(super) fn new() -> Result<Self, RunError> {
        let of = |kind| signal(kind).map_err(RunError::SetUp);
        Ok(Told { term: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    pub(super) async fn received(&mut self) {
        tokio::select! {
            () = received(&mut self.term) => {}
            () = received(&mut self.interrupt) => {}
        }
    }
}

impl Daemon {
    /// Says so, and has what works for it end first: what is put back after `systemctl stop bedplate` must not meet a change
    /// that is still under way.
    pub(super) async fn end(mut self) -> Result<(), RunError> {
        let launch = self.options.launch.clone();
        notify(&[NotifyState::Stopping]);
        self.looks.stop();
        if !launch.all_ended().await {
            let text = "a process that looks at this host or changes it does not end: `systemctl list-units 'bedplate-*'`";
            say(journal::IMPAIRED, text);
        }
        self.status.stop();
        self.work = None;
        self.publish().await;
        self.leave_bus().await;
        match launch.is_replaced() {
            true => Err(RunError::Replaced),
            false => Ok(()),
        }
    }
}
