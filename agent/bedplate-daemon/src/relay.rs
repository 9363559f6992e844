//! Unit side of a connection of the daemon, started by PID 1. It announces that it runs, reads one request from the socket,
//! runs it as a child with the unit's rights, and returns the child's output and result. It ends when the daemon disconnects;
//! systemd then kills the rest of the unit. A task of another unit is refused, because the unit's rights are not meant for it.

use std::os::fd::AsFd as _;
use std::path::PathBuf;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::build::Program;
use super::launch::{
    self, ExitResult, HELPER, Process, REPLACED, Request, UNAVAILABLE, USAGE, WORKER,
};
use super::unit::Unit;
use super::{helper, stuck_workers, worker};

/// Longest request in bytes: a profile's reboot commands, and the keys of a plan's changes.
const LONGEST: u64 = 4 << 20;

/// Settings from the unit file, which a request cannot change.
#[derive(Debug)]
pub struct Relay {
    /// Unit that this process runs as.
    pub unit: Unit,
    /// The program for `worker` requests.
    pub worker: PathBuf,
    /// Root directory of the host for the small tasks.
    pub root: PathBuf,
}

/// Serves the connection that is this process's standard input.
///
/// # Errors
/// The system's error, if no answer can be sent to the daemon.
pub async fn serve(relay: &Relay) -> std::io::Result<()> {
    let connection =
        std::os::unix::net::UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    connection.set_nonblocking(true)?;
    let connection = UnixStream::from_std(connection)?;
    // In addition to the socket's mode, which a drop-in may have relaxed: the daemon is root or this process's user.
    let peer = connection.peer_cred()?.uid();
    if peer != 0 && peer != rustix::process::getuid().as_raw() {
        return Err(std::io::Error::other(format!("user {peer} is not the daemon")));
    }
    let (reader, mut writer) = connection.into_split();
    let done = answer(relay, BufReader::new(reader), &mut writer).await;
    // Not shut down: the daemon takes the end of the connection for the end of the whole unit, which systemd causes.
    writer.forget();
    done
}

async fn answer(
    relay: &Relay,
    mut reader: BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    // The start may be late: a unit whose start is queued while the daemon stops is started after that.
    if writer.write_all(format!("{}\n", launch::RUNS).as_bytes()).await.is_err() {
        return Ok(());
    }
    let mut line = Vec::new();
    let length = (&mut reader).take(LONGEST).read_until(b'\n', &mut line).await?;
    if (length as u64) < LONGEST && !line.ends_with(b"\n") {
        return Ok(());
    }
    let request: Request = serde_json::from_slice(&line)?;
    let mut process = match relay.start(&request)? {
        Ok(process) => process,
        Err(refused) => return writer.write_all(&last(&refused)?).await,
    };
    let answer = async {
        while let Some(mut line) = process.line().await? {
            line.push(b'\n');
            writer.write_all(&line).await?;
        }
        let end = process.ended().await?;
        writer.write_all(&last(&end)?).await
    };
    tokio::select! {
        done = answer => done,
        // The daemon disconnected. The child is killed on drop.
        () = wait_for_disconnect(&mut reader) => Ok(()),
    }
}

impl Relay {
    /// Starts the child, or returns the refusal.
    fn start(&self, request: &Request) -> std::io::Result<Result<Process, ExitResult>> {
        let refused = |code, said, program| {
            let status = "refused".to_owned();
            Ok(Err(ExitResult { code: Some(code), status, said, program }))
        };
        let own = Program::own()?;
        if request.program != own.id {
            let said = "the program was replaced after the daemon started".to_owned();
            return refused(REPLACED, said, Some(own));
        }
        if request.arguments.first().is_some_and(|word| word == WORKER)
            && let Some(why) = stuck_workers::find_stuck_worker(&self.root)
        {
            return refused(UNAVAILABLE, why, None);
        }
        match self.command(request) {
            Ok((program, arguments)) => launch::child(&program, &arguments, &request.input).map(Ok),
            Err(why) => refused(USAGE, why, None),
        }
    }

    /// Returns the command for a request. The daemon supplies no argument of a helper: another root would redirect its task.
    fn command(&self, request: &Request) -> Result<(PathBuf, Vec<String>), String> {
        let name = self.unit.name();
        let words: Vec<&str> = request.arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            [WORKER, arguments @ ..] => match worker::is_for(self.unit, arguments) {
                true => Ok((self.worker.clone(), request.arguments.clone())),
                false => Err(format!("bedplate-{name} does not do this task")),
            },
            [HELPER] => {
                let unit = helper::unit(&request.input)?;
                if unit != self.unit {
                    let other = unit.name();
                    return Err(format!(
                        "bedplate-{name} does not do this task; bedplate-{other} does"
                    ));
                }
                let root = format!("--state-root={}", self.root.display());
                Ok(("/proc/self/exe".into(), vec![HELPER.to_owned(), root]))
            }
            // The daemon may run no other subcommand.
            _ => Err("unknown task".to_owned()),
        }
    }
}

fn last(ended: &ExitResult) -> std::io::Result<Vec<u8>> {
    Ok(format!("{}{}\n", launch::END, serde_json::to_string(ended)?).into_bytes())
}

async fn wait_for_disconnect(reader: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 64];
    // No further request is expected; all data before the end is ignored.
    while matches!(reader.read(&mut more).await, Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No task is started for a daemon that ended after its request, or is about to end.
    #[tokio::test(flavor = "current_thread")]
    async fn request_of_a_disconnected_daemon_is_ignored() {
        let request = Request {
            program: Program::own().unwrap().id,
            arguments: vec![WORKER.to_owned()],
            input: String::new(),
        };
        let line = serde_json::to_string(&request).unwrap() + "\n";
        // A start of this worker fails with an error.
        let relay = Relay {
            unit: Unit::Observer,
            worker: "/nonexistent".into(),
            root: "/nonexistent".into(),
        };
        for (sent, open, fails) in
            [(0, false, false), (0, true, false), (9, true, false), (line.len(), true, true)]
        {
            let (mut daemon, unit) = UnixStream::pair().unwrap();
            daemon.write_all(&line.as_bytes()[..sent]).await.unwrap();
            daemon.shutdown().await.unwrap();
            let daemon = open.then_some(daemon);
            let (reader, mut writer) = unit.into_split();
            let done = answer(&relay, BufReader::new(reader), &mut writer).await;
            assert_eq!(done.is_err(), fails, "{sent} bytes of {}: {done:?}", line.len());
            drop(daemon);
        }
    }
}
