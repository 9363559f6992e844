//! Tracking of reboot steps that must run to their end, even when the daemon is stopped.

use tokio::sync::watch;

/// Counts the running steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps(watch::Sender<usize>);

/// A running step, until dropped. Steps may be nested.
#[derive(Debug)]
pub(super) struct Step(watch::Sender<usize>);

impl Steps {
    pub(super) fn begin(&self) -> Step {
        self.0.send_modify(|steps| *steps += 1);
        Step(self.0.clone())
    }

    /// Waits until no step is running.
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
