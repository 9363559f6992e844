//! Runs work that the kernel may block forever in a separate thread with a limit: a driver that hangs must not hang its
//! caller.

use std::sync::mpsc;
use std::time::Duration;

/// Reason why there is no result.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// The thread could not be created.
    NotStarted(std::io::Error),
    /// The limit was reached; the work may still finish.
    TimedOut,
}

/// Runs `work` on a thread and returns its result. On timeout the thread keeps running. `name` is the thread's name in
/// process listings.
pub(super) fn run_with_timeout<T: Send + 'static>(
    name: &str,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let (sender, receiver) = mpsc::channel();
    let spawned = std::thread::Builder::new().name(name.into()).spawn(move || {
        // After the limit, no receiver is left.
        let _ = sender.send(work());
    });
    spawned.map_err(Unfinished::NotStarted)?;
    receiver.recv_timeout(limit).map_err(|_| Unfinished::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_limit_times_out() {
        assert!(matches!(run_with_timeout("test", Duration::from_secs(60), || 7), Ok(7)));
        let (_open, never) = mpsc::channel::<()>();
        let hung = run_with_timeout("test", Duration::ZERO, move || never.recv());
        assert!(matches!(hung, Err(Unfinished::TimedOut)));
    }
}
