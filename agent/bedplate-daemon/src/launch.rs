//! Start of processes that have more rights than the daemon. Under systemd the daemon connects to a socket, and PID 1 starts
//! one unit per connection (`systemd/bedplate-worker@.service` and the like) with the rights that the unit lists. The daemon
//! needs no rights for that. Elsewhere the process is a child.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Split};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build::{Builds, Program};
use super::unit::Unit;

/// First line that a unit sends: it runs. Requests are sent only after it.
pub(crate) const RUNS: &str = "runs";
/// Prefix of the last line of an answer through a socket: how the process ended.
pub const END: &str = "end ";
// Exit statuses between the daemon and its units, from sysexits.h.
/// The task belongs to another unit, or is unknown (`EX_USAGE`).
pub(crate) const USAGE: i32 = 64;
/// A process of an earlier task hangs (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: i32 = 69;
/// The request is from another build of this program; the daemon that sent it exits with the same status (`EX_TEMPFAIL`).
pub const REPLACED: i32 = 75;
/// The operator has installed no profile (`EX_CONFIG`).
pub(crate) const NO_PROFILE: i32 = 78;

/// Method of starting processes.
#[derive(Debug, Clone)]
pub enum Launch {
    /// As children: this program runs `worker`, the running program all other subcommands.
    Children(PathBuf),
    /// By PID 1.
    Sockets {
        /// Directory of the sockets.
        directory: PathBuf,
        /// Builds of the daemon and its units.
        builds: Arc<Builds>,
        /// Has one receiver for each unit that was started and has not ended.
        running: watch::Sender<()>,
    },
}

/// Request to a unit, sent as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Identity of the daemon's program file: both ends must run the same build.
    pub program: String,
    /// Subcommand and its arguments.
    pub arguments: Vec<String>,
    /// Standard input of the subcommand.
    pub input: String,
}

/// How a process ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExitResult {
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The status as text.
    pub status: String,
    /// Its output on stderr.
    pub said: String,
    /// Program of the unit, if it is another build than the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

/// A started process. Dropping it kills the process.
#[derive(Debug)]
pub enum Process {
    /// A child.
    Child {
        /// The process.
        child: Child,
        /// Its answer, by line.
        lines: Split<BufReader<ChildStdout>>,
        /// Its stderr.
        said: JoinHandle<String>,
    },
    /// Process at the other end of a socket; it ends when this end is closed.
    Unit(Connection),
}

/// A connection to a unit.
#[derive(Debug)]
pub struct Connection {
    unit: Unit,
    /// The answer, by line; `None` only during drop.
    lines: Option<Split<BufReader<OwnedReadHalf>>>,
    /// Open for as long as the answer is needed.
    open: Option<OwnedWriteHalf>,
    /// Result, once received.
    ended: Option<ExitResult>,
    builds: Arc<Builds>,
    /// Held until no process of the unit runs; `None` if it never ran.
    running: Option<watch::Receiver<()>>,
}

impl Connection {
    async fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let Some(line) = lines.next_segment().await? else { return Ok(None) };
        let Some(end) = line.strip_prefix(END.as_bytes()) else { return Ok(Some(line)) };
        let mut end: ExitResult = serde_json::from_slice(end)?;
        if end.code != Some(REPLACED) {
            self.builds.note_current_build(self.unit);
        } else if let Some(why) = self.builds.refused(self.unit, end.program.as_ref()) {
            (end.code, end.said) = (Some(1), why);
        }
        self.ended = Some(end);
        Ok(None)
    }
}

impl Drop for Connection {
    /// Closes the connection. systemd closes its side only when no process of the unit runs any more
    /// (service_close_socket_fd); until then the unit counts as running.
    fn drop(&mut self) {
        drop(self.open.take());
        let (lines, running) = (self.lines.take(), self.running.take());
        if let (Some(mut lines), Ok(runtime)) = (lines, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                while let Ok(Some(_)) = lines.next_segment().await {}
                drop(running);
            });
        }
    }
}

impl Launch {
    /// Creates one that uses the sockets in this directory.
    pub fn sockets(directory: PathBuf) -> Self {
        Launch::Sockets { directory, builds: Arc::default(), running: watch::Sender::default() }
    }

    /// Waits until all started units that are no longer needed have ended. Returns `false` on timeout.
    pub async fn all_ended(&self, within: Duration) -> bool {
        let Launch::Sockets { running, .. } = self else { return true };
        tokio::time::timeout(within, running.closed()).await.is_ok()
    }

    /// Whether a unit reported that it runs another build, which the daemon must be restarted as.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Launch::Sockets { builds, .. } if builds.is_replaced())
    }

    /// Starts `bedplate ARGUMENTS` with the rights of `unit`.
    ///
    /// # Errors
    /// The system's error.
    pub async fn start(
        &self,
        unit: Unit,
        arguments: &[String],
        input: &str,
    ) -> std::io::Result<Process> {
        match self {
            Launch::Sockets { directory, builds, running } => {
                let request = Request {
                    program: Program::own()?.id,
                    arguments: arguments.to_vec(),
                    input: input.to_owned(),
                };
                let request = serde_json::to_string(&request)? + "\n";
                let socket = UnixStream::connect(directory.join(unit.name())).await?;
                let (reader, open) = socket.into_split();
                let mut lines = BufReader::new(reader).split(b'\n');
                // PID 1 runs a stop job of the daemon before a start job that has not begun. That start would then
                // wait for the daemon, which waits for the unit's end. So a unit gets no request before it runs, and
                // is not waited for until then.
                let runs = lines.next_segment().await?.is_some();
                let mut connection = Connection {
                    unit,
                    lines: Some(lines),
                    open: Some(open),
                    ended: None,
                    builds: builds.clone(),
                    running: runs.then(|| running.subscribe()),
                };
                // A unit that ended instead has no answer; reading it reports that.
                if let (true, Some(open)) = (runs, &mut connection.open) {
                    open.write_all(request.as_bytes()).await?;
                }
                Ok(Process::Unit(connection))
            }
            Launch::Children(worker) if arguments.first().is_some_and(|word| word == WORKER) => {
                child(worker, arguments, input)
            }
            Launch::Children(_) => child(Path::new("/proc/self/exe"), arguments, input),
        }
    }
}

/// Subcommand that observes and applies.
pub(crate) const WORKER: &str = "worker";
/// Subcommand for the small tasks.
pub(crate) const HELPER: &str = "helper";

/// Starts a child with these arguments, and passes `input` to it.
///
/// # Errors
/// The system's error.
pub(crate) fn child(program: &Path, arguments: &[String], input: &str) -> std::io::Result<Process> {
    let mut command = Command::new(program);
    command.args(arguments);
    // The daemon logs the child's messages itself, with their fields.
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let lost = || std::io::Error::other("cannot read the child's output");
    let stdout = child.stdout.take().ok_or_else(lost)?;
    let mut errors = child.stderr.take().ok_or_else(lost)?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // A child that ends before it has read everything reports why.
        tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    }
    let said = tokio::spawn(async move {
        let mut said = Vec::new();
        // On a read error, the output so far is used.
        let _ = errors.read_to_end(&mut said).await;
        String::from_utf8_lossy(&said).trim().to_owned()
    });
    Ok(Process::Child { child, lines: BufReader::new(stdout).split(b'\n'), said })
}

impl Process {
    /// Returns the next line of the answer; `None` at its end.
    ///
    /// # Errors
    /// The system's error.
    pub async fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        match self {
            Process::Child { lines, .. } => lines.next_segment().await,
            Process::Unit(connection) => connection.line().await,
        }
    }

    /// Returns how the process ended. Call it after the last line.
    ///
    /// # Errors
    /// If the result is unknown.
    pub async fn ended(&mut self) -> std::io::Result<ExitResult> {
        match self {
            Process::Child { child, said, .. } => {
                let status = child.wait().await?;
                let said = said.await.unwrap_or_default();
                Ok(ExitResult {
                    code: status.code(),
                    status: status.to_string(),
                    said,
                    program: None,
                })
            }
            Process::Unit(connection) => {
                let cut = "the process ended early; see `journalctl -b -u 'bedplate-*'`";
                connection.ended.take().ok_or_else(|| std::io::Error::other(cut))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    const SOON: Duration = Duration::from_millis(200);

    /// A unit that PID 1 has not started yet does not delay the daemon's stop. A running one does, until all its processes
    /// ended.
    #[tokio::test(flavor = "current_thread")]
    async fn only_running_units_delay_shutdown() {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::sockets(dir.path().to_owned());
        let pid_1 = UnixListener::bind(dir.path().join("worker")).unwrap();
        let arguments = [WORKER.to_owned()];
        for runs in [false, true] {
            let mut start = std::pin::pin!(launch.start(Unit::Worker, &arguments, ""));
            let started = tokio::time::timeout(SOON, start.as_mut()).await;
            assert!(started.is_err(), "it has not said that it runs: {started:?}");
            let (mut unit, _) = pid_1.accept().await.unwrap();
            if !runs {
                start.set(launch.start(Unit::Worker, &arguments, ""));
                assert!(launch.all_ended(Duration::ZERO).await, "nothing runs");
                // It finds no request when it finally starts.
                let mut asked = Vec::new();
                unit.read_to_end(&mut asked).await.unwrap();
                assert_eq!(asked, b"");
                continue;
            }
            unit.write_all(format!("{RUNS}\n").as_bytes()).await.unwrap();
            drop(start.await.unwrap());
            assert!(!launch.all_ended(SOON).await, "it runs");
            drop(unit);
            launch.all_ended(Duration::MAX).await;
        }
    }
}
