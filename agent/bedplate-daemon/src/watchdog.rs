//! systemd's watchdog: it is told that the loop comes around, as long as it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Longest time in which the loop may not come around: what an observation may take, and some.
const STALLED: Duration = Duration::from_secs(25 * 60);

/// Since when the loop has been at something, in milliseconds after it began; 0: it waits for something to do.
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

    /// The loop begins something.
    pub(crate) fn begin(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    /// And is done with it.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn is_stalled(&self) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && Duration::from_millis(self.now().saturating_sub(since)) > STALLED
    }
}

/// Tells systemd, twice in the time it gives, that the loop comes around.
pub(crate) async fn watch(busy: BusySince) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    loop {
        tokio::time::sleep(interval / 2).await;
        if !busy.is_stalled() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Tells systemd something about this service.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    // Not started by systemd: nobody to tell.
    let _ = sd_notify::notify(state);
}
