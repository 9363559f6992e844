//! A look at the host that anybody may ask for. However many ask, there is one look at a time, none soon after another, and
//! it only reads: who cannot wait for one, or finds too many waiting, gets what the last look found.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// What was seen within this time is not looked at again because someone asks.
const FRESH: Duration = Duration::from_secs(10);
/// Longest wait for a look: one takes milliseconds, and a host whose drivers hang is no reason to hang, too.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is logged when such a look finds the host other than it was known to be.
pub(crate) const FOUND: &str = "a look that was asked for found another plan";
/// Callers that may wait for one at once.
const MOST: usize = 16;

/// The callers' side.
#[derive(Clone)]
pub struct ObserveRequester {
    wanted: mpsc::Sender<()>,
    looked: watch::Sender<()>,
}

/// The loop's side.
pub(crate) struct ObserveRequests {
    to_wanted: mpsc::Sender<()>,
    wanted: mpsc::Receiver<()>,
    looked: watch::Sender<()>,
    last: Option<Instant>,
    /// Looks so far when the one that is under way was begun.
    under_way: Option<u64>,
}

impl ObserveRequester {
    /// Returns once the host was looked at, or what is known has to do.
    pub async fn look(&self) {
        if self.looked.receiver_count() >= MOST {
            return;
        }
        let mut looked = self.looked.subscribe();
        // Full: it is wanted already.
        let _ = self.wanted.try_send(());
        // Too late, or the daemon is about to end: what is known has to do.
        let _ = timeout(PATIENCE, looked.changed()).await;
    }
}

impl Default for ObserveRequests {
    fn default() -> Self {
        let (to_wanted, wanted) = mpsc::channel(1);
        ObserveRequests {
            to_wanted,
            wanted,
            looked: watch::Sender::default(),
            last: None,
            under_way: None,
        }
    }
}

impl ObserveRequests {
    /// For those who ask.
    pub(crate) fn asking(&self) -> ObserveRequester {
        ObserveRequester { wanted: self.to_wanted.clone(), looked: self.looked.clone() }
    }

    /// Waits until a look is wanted: once, however many want it.
    pub(crate) async fn wanted(&mut self) {
        // There is always a sender: its own.
        let _ = self.wanted.recv().await;
    }

    /// The host was looked at, for whatever reason; those who wait have their answer.
    pub(crate) fn looked(&mut self, now: Instant) {
        self.last = Some(now);
        self.looked.send_replace(());
    }

    /// Whether a look has to be begun now, after `looks` in all.
    pub(crate) fn begin(&mut self, looks: u64, now: Instant) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        if self.last.is_some_and(|at| now.duration_since(at) < FRESH) {
            self.looked.send_replace(());
            return false;
        }
        self.under_way = Some(looks);
        true
    }

    /// It has ended; whether it is newer than what the loop has seen itself meanwhile.
    pub(crate) fn end(&mut self, looks: u64) -> bool {
        self.under_way.take() == Some(looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_ask_and_one_look_is_made() {
        let mut asked = ObserveRequests::default();
        let asking = std::sync::Arc::new(asked.asking());
        let ask = |_| {
            let asking = asking.clone();
            tokio::spawn(async move { asking.look().await })
        };
        let all: Vec<_> = (0..MOST).map(ask).collect();
        tokio::task::yield_now().await;
        // One more does not wait: nothing here would wake it.
        asking.look().await;
        asked.wanted().await;
        assert!(asked.wanted.try_recv().is_err());
        let now = Instant::now();
        assert!(asked.begin(1, now) && !asked.begin(1, now) && asked.end(1));
        asked.looked(now);
        for one in all {
            one.await.unwrap();
        }
        assert!(!asked.begin(2, now), "it was looked at just now");
        assert!(asked.begin(2, now + FRESH));
        assert!(!asked.end(3), "the loop has looked meanwhile");
    }
}
