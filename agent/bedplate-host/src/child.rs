//! Running a program to its end: bounded in time and output, with a clean environment, and everything it started killed
//! at the limit. No knowledge of what the programs are. The daemon's own children (its worker, `udevadm settle`) run on
//! tokio instead: it goes on with its other work meanwhile, and reads the worker's lines as they come.

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

/// Where programs are looked for, and the PATH they get, whatever that of the caller.
pub const STANDARD: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// How long to wait for output once the program has ended: something it left in the background may hold the pipe.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How often to look whether it has ended.
const TICK: Duration = Duration::from_millis(10);
/// How much is read at once.
const CHUNK: usize = 16 << 10;

/// How much of what a program prints is kept, in bytes.
#[derive(Debug, Clone, Copy)]
pub enum KeptOutput {
    /// The end of output and errors together, as they came.
    Tail(usize),
    /// The start of the output, and that of the errors. The rest is read and dropped: a full pipe would stop the program.
    Heads(usize),
    /// The start of the output. Then the pipe is closed, which ends a program that has more to say.
    Head(usize),
}

/// Result of a program that was started.
#[derive(Debug)]
pub struct ChildResult {
    /// How it ended.
    pub end: ChildEnd,
    /// What is kept of its output; with [`KeptOutput::Tail`], of its errors too.
    pub output: Vec<u8>,
    /// What is kept of its errors.
    pub errors: Vec<u8>,
}

/// How a program ended.
#[derive(Debug)]
pub enum ChildEnd {
    /// By itself, or by a signal from outside.
    Status(ExitStatus),
    /// It was killed at the limit, with everything it had started.
    TimedOut,
    /// It was killed, as it could not be waited for.
    Lost(Error),
}

/// Why a program was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no pipe for its output.
    Pipe(Error),
    /// The system does not start it.
    Spawn(Error),
    /// There is no thread to read its output; it was killed.
    Thread(Error),
}

/// Run `program`. Standard input is empty, the environment is `PATH`, `LC_ALL=C` and `HOME=/root`, the directory `/`.
///
/// # Errors
/// It was not started.
pub fn run(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    limit: Duration,
    keep: KeptOutput,
) -> Result<ChildResult, NotStarted> {
    run_in(Path::new("/"), program, arguments, limit, keep)
}

/// The same in another directory.
///
/// # Errors
/// It was not started.
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
    // The command holds the pipes' writing ends: while they are open here, the output has no end.
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

/// A program that the host lacks.
#[derive(Debug, thiserror::Error)]
#[error("{program} is not installed (looked in {})", STANDARD.join(", "))]
pub struct NotInstalled {
    program: String,
}

/// The program in the standard directories, whatever the PATH of the caller. An absolute path is itself.
///
/// # Errors
/// [`NotInstalled`].
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
            // Compared this way round: an instant that far ahead need not exist.
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

/// Kills what runs in the program's process group and takes its status, so that no zombie stays.
fn kill_group(child: &mut Child) {
    // The leader has not been reaped, so the group's number is still its own.
    if let Ok(pid) = i32::try_from(child.id()).map(Pid::from_raw) {
        // ESRCH: all of it has ended already.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    // SIGKILL ends it, unless it hangs in the kernel: then nothing can, and it must not hang us as well.
    let deadline = Instant::now() + AFTERMATH;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(TICK);
    }
}

/// What is kept of a pipe, which a thread reads.
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

    /// What there is at the end of the pipe, or at the deadline.
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
    fn each_way_keeps_what_it_promises() {
        let script = "printf 123; printf abc >&2; printf 456; printf def >&2";
        let ran = sh(script, 30, KeptOutput::Tail(8));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"3abc456def"[2..], &b""[..]));
        let ran = sh(script, 30, KeptOutput::Heads(4));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"1234"[..], &b"abcd"[..]));
        let ran = sh(script, 30, KeptOutput::Head(100));
        assert_eq!((ran.output.as_slice(), ran.errors.as_slice()), (&b"123456"[..], &b""[..]));
    }

    #[test]
    fn one_that_says_more_than_is_wanted_ends() {
        let ran = sh("exec yes", 300, KeptOutput::Head(5));
        assert_eq!(ran.output, b"y\ny\ny");
        let ChildEnd::Status(status) = ran.end else { panic!("{:?}", ran.end) };
        // SIGPIPE; where the tests' parent ignores it, an error of its own.
        assert!(status.signal() == Some(13) || status.code() == Some(1), "{status}");
    }

    #[test]
    fn one_that_hangs_is_killed_with_what_it_started() {
        let ran = sh("sleep 300 & echo $!; wait", 1, KeptOutput::Heads(100));
        assert!(matches!(ran.end, ChildEnd::TimedOut), "{:?}", ran.end);
        let started = String::from_utf8(ran.output).unwrap();
        let gone = (0..500).any(|_| {
            std::thread::sleep(TICK);
            // A zombie that nobody has reaped yet is dead all the same.
            std::fs::read_to_string(format!("/proc/{}/stat", started.trim()))
                .map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(gone, "process {started} is still there");
    }

    #[test]
    fn what_was_said_before_the_limit_is_kept() {
        let ran = sh("echo begun; sleep 300", 1, KeptOutput::Heads(100));
        assert!(matches!(ran.end, ChildEnd::TimedOut), "{:?}", ran.end);
        assert_eq!(ran.output, b"begun\n");
    }
}
