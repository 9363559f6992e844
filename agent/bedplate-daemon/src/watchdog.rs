//! systemd watchdog: notifies systemd as long as the loop makes progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Longest time that one step of the loop may take: more than any observation may take.
const STALLED: Duration = Duration::from_secs(25 * 60);

/// Time at which the loop started its current step, in milliseconds since `born`; 0 while the loop waits for events.
#[derive(Clone)]
pub(crate) struct BusySince {
    born: Instant,
    since: Arc<AtomicU64>,
}

impl Default for BusySince {
    fn default() -> Self {
        BusySince { born: Instant::now(), since: Arc::default() }
    }
}

impl BusySince {
    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Marks the start of a step.
    pub(crate) fn begin(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    /// Marks the end of the step.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn is_stalled(&self) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && Duration::from_millis(self.now().saturating_sub(since)) > STALLED
    }
}

/// Notifies systemd twice per watchdog interval, unless the loop is stalled.
pub(crate) async fn watch(busy: BusySince) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    loop {
        tokio::time::sleep(interval / 2).await;
        if !busy.is_stalled() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Sends a notification about this service to systemd.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    // Not started by systemd: no receiver.
    let _ = sd_notify::notify(state);
}
