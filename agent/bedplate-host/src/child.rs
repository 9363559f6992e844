//! Runs a program to its end: time and output are limited, the environment is clean, and at the limit all processes
//! that it started are killed. Knows nothing about specific programs. The daemon runs its own children (its worker,
//! `udevadm settle`) on tokio instead, because it works concurrently and reads the worker's lines as they arrive.

use std::ffi::OsStr;
use std::io::{Error, PipeReader, PipeWriter, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Directories that are searched for programs, and their PATH, independent of the caller's PATH.
pub const STANDARD: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Wait for output after the program has ended: a background process may keep the pipe open.
const AFTERMATH: Duration = Duration::from_millis(500);
/// Interval between checks for the program's end.
const TICK: Duration = Duration::from_millis(10);
/// Bytes per read.
const CHUNK: usize = 16 << 10;

/// Part of a program's output to keep; limits in bytes.
#[derive(Debug, Clone, Copy)]
pub enum KeptOutput {
    /// The end of stdout and stderr together, in order of arrival.
    Tail(usize),
    /// The start of stdout and the start of stderr. The rest is read and discarded: a full pipe would block the
    /// program.
    Heads(usize),
    /// The start of stdout. Then the pipe is closed, which ends a program that writes more.
    Head(usize),
}

/// Result of a program that was started.
#[derive(Debug)]
pub struct ChildResult {
    /// How the program ended.
    pub end: ChildEnd,
    /// Kept part of stdout; with [`KeptOutput::Tail`], of stderr too.
    pub output: Vec<u8>,
    /// Kept part of stderr.
    pub errors: Vec<u8>,
}

/// How a program ended.
#[derive(Debug)]
pub enum ChildEnd {
    /// It ended by itself or by an external signal.
    Status(ExitStatus),
    /// It was killed at the limit, with all processes that it had started.
    TimedOut,
    /// It was killed because waiting for it failed.
    Lost(Error),
}

/// Reason why a program was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// The pipe for its output could not be created.
    Pipe(Error),
    /// The system could not start it.
    Spawn(Error),
    /// The thread that reads its output could not be created; the program was killed.
    Thread(Error),
}

/// Runs `program` in `/`, with empty standard input and the environment `PATH`, `LC_ALL=C` and `HOME=/root`.
///
/// # Errors
/// [`NotStarted`] if the program was not started.
pub fn run(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    limit: Duration,
    keep: KeptOutput,
) -> Result<ChildResult, NotStarted> {
    run_in(Path::new("/"), program, arguments, limit, keep)
}

/// Like [`run`], in another directory.
///
/// # Errors
/// [`NotStarted`] if the program was not started.
pub(crate) fn run_in(
    directory: &Path,
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    limit: Duration,
    keep: KeptOutput,
) -> Result<ChildResult, NotStarted> {
    let pipe = || std::io::pipe().map_err(NotStarted::Pipe);
    let (output, output_end) = pipe()?;
    let (errors, errors_end): (Option<PipeReader>, Option<PipeWriter>) = match keep {
        KeptOutput::Tail(_) => (None, Some(output_end.try_clone().map_err(NotStarted::Pipe)?)),
        KeptOutput::Heads(_) => pipe().map(|(errors, end)| (Some(errors), Some(end)))?,
        KeptOutput::Head(_) => (None, None),
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs([("PATH", STANDARD.join(":").as_str()), ("LC_ALL", "C"), ("HOME", "/root")])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(output_end)
        .stderr(errors_end.map_or_else(Stdio::null, Stdio::from))
        .process_group(0);
    let spawned = command.spawn();
    // The command holds the write ends of the pipes: until they are closed here, the output has no end.
    drop(command);
    let mut child = spawned.map_err(NotStarted::Spawn)?;
    let readers = PipeBuffer::read(output, keep).and_then(|output| {
        Ok((output, errors.map(|from| PipeBuffer::read(from, keep)).transpose()?))
    });
    let (output, errors) = match readers {
        Ok(readers) => readers,
        Err(error) => {
            kill_group(&mut child);
            return Err(NotStarted::Thread(error));
        }
    };
    let end = wait(&mut child, limit);
    let deadline = Instant::now() + AFTERMATH;
    let errors = errors.map(|errors| errors.by(deadline)).unwrap_or_default();
    Ok(ChildResult { end, output: output.by(deadline), errors })
}

/// A program that is not installed.
#[derive(Debug, thiserror::Error)]
#[error("{program} is not installed (searched {})", STANDARD.join(", "))]
pub struct NotInstalled {
    program: String,
}

/// Finds a program in the standard directories, independent of the caller's PATH. Accepts an absolute path.
///
/// # Errors
/// [`NotInstalled`] if no directory has an executable of this name.
pub fn find(program: &str) -> Result<PathBuf, NotInstalled> {
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let places = STANDARD.iter().map(|directory| Path::new(directory).join(program));
    places.into_iter().find(runs).ok_or_else(|| NotInstalled { program: program.to_owned() })
}

fn wait(child: &mut Child, limit: Duration) -> ChildEnd {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return ChildEnd::Status(status),
            // Compare this way round: an instant that far ahead may not be representable.
            Ok(None) if started.elapsed() < limit => std::thread::sleep(TICK),
            Ok(None) => {
                kill_group(child);
                return ChildEnd::TimedOut;
            }
            Err(error) => {
                kill_group(child);
                return ChildEnd::Lost(error);
            }
        }
    }
}

/// Kills the program's process group and reaps the program, so that no zombie stays.
fn kill_group(child: &mut Child) {
    // The leader has not been reaped, so the group number still belongs to it.
    if let Ok(pid) = i32::try_from(child.id()).map(Pid::from_raw) {
        // ESRCH: the whole group has ended already.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    // SIGKILL ends it, unless it hangs in the kernel. Nothing can end it then, so stop waiting.
    let deadline = Instant::now() + AFTERMATH;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(TICK);
    }
}

/// Kept part of a pipe's data, filled by a thread.
struct PipeBuffer {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl PipeBuffer {
    fn read(mut from: PipeReader, keep: KeptOutput) -> std::io::Result<Self> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let thread = std::thread::Builder::new().name("child output".into()).spawn(move || {
            let mut buffer = vec![0; CHUNK];
            while let Ok(got @ 1..) = from.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..got]);
                match keep {
                    KeptOutput::Tail(most) => {
                        let surplus = kept.len().saturating_sub(most);
                        kept.drain(..surplus);
                    }
                    KeptOutput::Heads(most) => kept.truncate(most),
                    KeptOutput::Head(most) if kept.len() >= most => return kept.truncate(most),
                    KeptOutput::Head(_) => {}
                }
            }
        })?;
        Ok(PipeBuffer { bytes, thread })
    }

    /// Returns the data at the end of the pipe, or at the deadline.
    fn by(self, deadline: Instant) -> Vec<u8> {
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sh(script: &str, limit: u64, keep: KeptOutput) -> ChildResult {
        run(Path::new("/bin/sh"), ["-c", script], Duration::from_secs(limit), keep).unwrap()
    }

    #[test]
    fn kept_output_matches_requested_part() {
        let script = "printf 123; printf abc >&2; printf 456; printf def >&2";
        let ran = sh(script, 30, KeptOutput::Tail(8));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"3abc456def"[2..], &b""[..]));
        let ran = sh(script, 30, KeptOutput::Heads(4));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"1234"[..], &b"abcd"[..]));
        let ran = sh(script, 30, KeptOutput::Head(100));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"123456"[..], &b""[..]));
    }

    #[test]
    fn program_with_excess_output_is_ended() {
        let ran = sh("exec yes", 300, KeptOutput::Head(5));
        assert_eq!(ran.output, b"y\ny\ny");
        let ChildEnd::Status(status) = ran.end else { panic!("{:?}", ran.end) };
        // SIGPIPE; if the tests' parent ignores it, an error status instead.
        assert!(status.signal() == Some(13) || status.code() == Some(1), "{status}");
    }

    #[test]
    fn hung_program_is_killed_with_its_children() {
        let ran = sh("sleep 300 & echo $!; wait", 1, KeptOutput::Heads(100));
        assert!(matches!(ran.end, ChildEnd::TimedOut), "{:?}", ran.end);
        let started = String::from_utf8(ran.output).unwrap();
        let gone = (0..500).any(|_| {
            std::thread::sleep(TICK);
            // An unreaped zombie is dead too.
            std::fs::read_to_string(format!("/proc/{}/stat", started.trim()))
                .map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(gone, "process {started} is still there");
    }

    #[test]
    fn output_before_timeout_is_kept() {
        let ran = sh("echo begun; sleep 300", 1, KeptOutput::Heads(100));
        assert!(matches!(ran.end, ChildEnd::TimedOut), "{:?}", ran.end);
        assert_eq!(ran.output, b"begun\n");
    }
}
