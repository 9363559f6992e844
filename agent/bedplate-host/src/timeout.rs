//! Work that the kernel may hold up for ever, in a thread of its own and with a limit: a driver that hangs must not hang
//! its caller.

use std::sync::mpsc;
use std::time::Duration;

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// There is no thread to do it in.
    NotStarted(std::io::Error),
    /// It had not ended by then. It may yet.
    TimedOut,
}

/// What `work` comes to, if it ends in time; it goes on by itself if not. The thread's name is for those who look at the
/// process.
pub(super) fn run_with_timeout<T: Send + 'static>(
    name: &str,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let (sender, receiver) = mpsc::channel();
    let spawned = std::thread::Builder::new().name(name.into()).spawn(move || {
        // After the limit nobody receives it.
        let _ = sender.send(work());
    });
    spawned.map_err(Unfinished::NotStarted)?;
    receiver.recv_timeout(limit).map_err(|_| Unfinished::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_ends_in_time_has_a_result() {
        assert!(matches!(run_with_timeout("test", Duration::from_secs(60), || 7), Ok(7)));
        let (_open, never) = mpsc::channel::<()>();
        let hung = run_with_timeout("test", Duration::ZERO, move || never.recv());
        assert!(matches!(hung, Err(Unfinished::TimedOut)));
    }
}
