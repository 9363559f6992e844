//! An observation of the host that anybody may ask for. However many ask, there is one at a time, none soon after another, and
//! it only reads: who cannot wait for one, or finds too many waiting, gets what the last observation found.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// What was seen within this time is not observed again because someone asks.
const FRESH: Duration = Duration::from_secs(10);
/// Longest wait for an observation: one takes milliseconds, and a host whose drivers hang is no reason to hang, too.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is logged when such an observation finds the host other than it was known to be.
pub(crate) const FOUND: &str = "a look that was asked for found another plan";
/// Callers that may wait for one at once.
const MOST: usize = 16;

/// The callers' side.
#[derive(Clone)]
pub struct ObserveRequester {
    wanted: mpsc::Sender<()>,
    observed: watch::Sender<()>,
}

/// The loop's side.
pub(crate) struct ObserveRequests {
    to_wanted: mpsc::Sender<()>,
    wanted: mpsc::Receiver<()>,
    observed: watch::Sender<()>,
    last: Option<Instant>,
    /// Observations so far when the one that is under way was begun.
    under_way: Option<u64>,
}

impl ObserveRequester {
    /// Returns once the host was observed, or what is known has to do.
    pub async fn observe(&self) {
        if self.observed.receiver_count() >= MOST {
            return;
        }
        let mut observed = self.observed.subscribe();
        // Full: it is wanted already.
        let _ = self.wanted.try_send(());
        // Too late, or the daemon is about to end: what is known has to do.
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
    /// For those who ask.
    pub(crate) fn requester(&self) -> ObserveRequester {
        ObserveRequester { wanted: self.to_wanted.clone(), observed: self.observed.clone() }
    }

    /// Waits until an observation is wanted: once, however many want it.
    pub(crate) async fn wait_for_request(&mut self) {
        // There is always a sender: its own.
        let _ = self.wanted.recv().await;
    }

    /// The host was observed, for whatever reason; those who wait have their answer.
    pub(crate) fn note_observed(&mut self, now: Instant) {
        self.last = Some(now);
        self.observed.send_replace(());
    }

    /// Whether an observation has to be begun now, after `observations` in all.
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

    /// It has ended; whether it is newer than what the loop has seen itself meanwhile.
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
        // One more does not wait: nothing here would wake it.
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
