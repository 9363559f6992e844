//! Observations that others ask for, or the clock. Such an observation is made beside the loop, which goes on meanwhile; nothing follows from
//! it but an observation of the loop's own, where it found the host other than it was known to be.

use std::time::Instant;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use super::Daemon;
use crate::events::Trigger;
use crate::launch::Launch;
use crate::observation::Observation;
use crate::observe_requests::{self, ObserveRequester, ObserveRequests};
use crate::worker;

/// What was found; `None`: the host could not be observed.
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

    /// For those who ask.
    pub(super) fn requester(&self) -> ObserveRequester {
        self.asked.requester()
    }

    /// Both senders live as long as this.
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
            // The loop listens for as long as it lives.
            let _ = to.send(seen).await;
        }));
    }

    /// Nobody is answered any more.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.under_way.take() {
            task.abort();
        }
    }

    /// The loop has observed the host.
    pub(super) fn note_observed(&mut self) {
        self.asked.note_observed(Instant::now());
    }
}

impl Daemon {
    pub(super) async fn on_observe_event(&mut self, event: ObserveEvent) {
        match event {
            ObserveEvent::Wanted => self.observe_in_background(),
            ObserveEvent::Seen(seen) => {
                // What the loop has seen since counts, not this.
                let newest = self.observer.asked.end(self.known.status.observations);
                if newest && self.known.is_news(seen.as_deref()) {
                    // Those who wait are answered after the observation that follows.
                    let what = observe_requests::FOUND.to_owned();
                    return self.on_trigger(Trigger { what, profile: false }).await;
                }
                self.observer.note_observed();
            }
        }
    }

    /// Begins an observation beside the loop, unless one is under way or was made just now.
    pub(super) fn observe_in_background(&mut self) {
        if self.observer.asked.begin(self.known.status.observations, Instant::now()) {
            self.observer.begin(&self.options.launch);
        }
    }
}
