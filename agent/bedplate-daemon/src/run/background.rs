//! Observations requested by clients or by a timer. They run outside the loop and lead to an observation of the loop itself
//! if the host differs from its known state.

use std::time::Instant;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use super::Daemon;
use crate::events::Trigger;
use crate::launch::Launch;
use crate::observation::Observation;
use crate::observe_requests::{self, ObserveRequester, ObserveRequests};
use crate::worker;

/// Result of an observation; `None` if the host could not be observed.
type ObserveResult = Option<Box<Observation>>;

pub(super) struct BackgroundObserver {
    asked: ObserveRequests,
    to_seen: Sender<ObserveResult>,
    under_way: Option<JoinHandle<()>>,
    seen: Receiver<ObserveResult>,
}

pub(super) enum ObserveEvent {
    Wanted,
    Seen(ObserveResult),
}

impl BackgroundObserver {
    pub(super) fn new() -> Self {
        let (to_seen, seen) = mpsc::channel(1);
        BackgroundObserver { asked: ObserveRequests::default(), to_seen, under_way: None, seen }
    }

    /// Returns the callers' end.
    pub(super) fn requester(&self) -> ObserveRequester {
        self.asked.requester()
    }

    /// Waits for the next event. Both channels stay open as long as this object exists.
    pub(super) async fn next(&mut self) -> ObserveEvent {
        tokio::select! {
            Some(seen) = self.seen.recv() => ObserveEvent::Seen(seen),
            () = self.asked.wait_for_request() => ObserveEvent::Wanted,
        }
    }

    fn begin(&mut self, launch: &Launch) {
        let (launch, to) = (launch.clone(), self.to_seen.clone());
        self.under_way = Some(tokio::spawn(async move {
            let seen = worker::observe(&launch).await.ok().map(Box::new);
            // The loop listens for as long as it runs.
            let _ = to.send(seen).await;
        }));
    }

    /// Aborts the current observation; its callers get no answer.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.under_way.take() {
            task.abort();
        }
    }

    /// Records that the loop has observed the host.
    pub(super) fn note_observed(&mut self) {
        self.asked.note_observed(Instant::now());
    }
}

impl Daemon {
    pub(super) async fn on_observe_event(&mut self, event: ObserveEvent) {
        match event {
            ObserveEvent::Wanted => self.observe_in_background(),
            ObserveEvent::Seen(seen) => {
                // An observation of the loop that ended since is newer than this one.
                let newest = self.observer.asked.end(self.known.status.observations);
                if newest && self.known.is_news(seen.as_deref()) {
                    // Waiting callers are answered after the observation that follows.
                    let what = observe_requests::FOUND.to_owned();
                    return self.on_trigger(Trigger { what, profile: false }).await;
                }
                self.observer.note_observed();
                if newest && seen.is_some() {
                    self.known.note_evaluated();
                    self.publish().await;
                }
            }
        }
    }

    /// Starts an observation outside the loop, unless one is running or the last is too recent.
    pub(super) fn observe_in_background(&mut self) {
        if self.observer.asked.begin(self.known.status.observations, Instant::now()) {
            self.observer.begin(&self.options.launch);
        }
    }
}
