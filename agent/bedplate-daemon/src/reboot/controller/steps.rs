//! Steps of a reboot that belong together: once begun they are run to their end, also by a daemon that is told to end.

use tokio::sync::watch;

/// Knows whether such a step is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps(watch::Sender<usize>);

/// One that is under way, until this is dropped. One may hold another.
#[derive(Debug)]
pub(super) struct Step(watch::Sender<usize>);

impl Steps {
    pub(super) fn begin(&self) -> Step {
        self.0.send_modify(|steps| *steps += 1);
        Step(self.0.clone())
    }

    /// Waits until none is under way.
    pub(crate) async fn over(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|steps| *steps == 0).await;
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.send_modify(|steps| *steps = steps.saturating_sub(1));
    }
}
