//! Client-requested observations: read-only, one at a time, rate-limited. A caller that times out, or finds too many callers
//! waiting, gets the previous result.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Minimum interval between client-requested observations.
const FRESH: Duration = Duration::from_secs(10);
/// Longest wait for an observation. One takes milliseconds; a host whose drivers hang must not block its callers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Logged when a requested observation differs from the last one.
pub(crate) const FOUND: &str = "a requested observation found another plan";
/// Callers that may wait at once.
const MOST: usize = 16;

/// Callers' end.
#[derive(Clone)]
pub struct ObserveRequester {
    wanted: mpsc::Sender<()>,
    observed: watch::Sender<()>,
}

/// The loop's end.
pub(crate) struct ObserveRequests {
    to_wanted: mpsc::Sender<()>,
    wanted: mpsc::Receiver<()>,
    observed: watch::Sender<()>,
    last: Option<Instant>,
    /// Count of observations at the start of the current requested one.
    under_way: Option<u64>,
}

impl ObserveRequester {
    /// Returns after the next observation, or on timeout.
    pub async fn observe(&self) {
        if self.observed.receiver_count() >= MOST {
            return;
        }
        let mut observed = self.observed.subscribe();
        // Full: an observation is already requested.
        let _ = self.wanted.try_send(());
        // On timeout, or if the daemon is about to end, the previous result is used.
        let _ = timeout(PATIENCE, observed.changed()).await;
    }
}

impl Default for ObserveRequests {
    fn default() -> Self {
        let (to_wanted, wanted) = mpsc::channel(1);
        ObserveRequests {
            to_wanted,
            wanted,
            observed: watch::Sender::default(),
            last: None,
            under_way: None,
        }
    }
}

impl ObserveRequests {
    /// Returns a callers' end.
    pub(crate) fn requester(&self) -> ObserveRequester {
        ObserveRequester { wanted: self.to_wanted.clone(), observed: self.observed.clone() }
    }

    /// Waits until an observation is requested; concurrent requests count once.
    pub(crate) async fn wait_for_request(&mut self) {
        // There is always a sender: its own.
        let _ = self.wanted.recv().await;
    }

    /// Records that the host was observed, for any reason, and wakes the waiting callers.
    pub(crate) fn note_observed(&mut self, now: Instant) {
        self.last = Some(now);
        self.observed.send_replace(());
    }

    /// Whether an observation must start now. `observations` is the count so far.
    pub(crate) fn begin(&mut self, observations: u64, now: Instant) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        if self.last.is_some_and(|at| now.duration_since(at) < FRESH) {
            self.observed.send_replace(());
            return false;
        }
        self.under_way = Some(observations);
        true
    }

    /// Ends the current observation. Returns whether it is newer than the loop's own last one.
    pub(crate) fn end(&mut self, observations: u64) -> bool {
        self.under_way.take() == Some(observations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_requests_share_one_observation() {
        let mut asked = ObserveRequests::default();
        let asking = std::sync::Arc::new(asked.requester());
        let ask = |_| {
            let asking = asking.clone();
            tokio::spawn(async move { asking.observe().await })
        };
        let all: Vec<_> = (0..MOST).map(ask).collect();
        tokio::task::yield_now().await;
        // One more caller does not wait; it would never wake here.
        asking.observe().await;
        asked.wait_for_request().await;
        assert!(asked.wanted.try_recv().is_err());
        let now = Instant::now();
        assert!(asked.begin(1, now) && !asked.begin(1, now) && asked.end(1));
        asked.note_observed(now);
        for one in all {
            one.await.unwrap();
        }
        assert!(!asked.begin(2, now), "it was observed just now");
        assert!(asked.begin(2, now + FRESH));
        assert!(!asked.end(3), "the loop has observed meanwhile");
    }
}
