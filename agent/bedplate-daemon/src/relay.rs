//! What PID 1 starts for a connection of the daemon: says that it runs, takes one request from the socket, runs it as a child
//! with the rights of this unit, and sends back what the child says and how it ended. Ends when the daemon hangs up, and systemd ends with it
//! whatever is left in the unit. A task that is another unit's is refused: the rights of this one are not for it.

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

/// Longest request: a profile's reboot commands, and the keys of a plan's changes.
const LONGEST: u64 = 4 << 20;

/// One side of a connection: what its unit file says, which the request cannot.
#[derive(Debug)]
pub struct Relay {
    /// Whose rights this process has.
    pub unit: Unit,
    /// The program that does rounds.
    pub worker: PathBuf,
    /// Below this directory is the host, for the small tasks.
    pub root: PathBuf,
}

/// Serves the connection that is this process's standard input.
///
/// # Errors
/// The system's own, where it has no answer for the daemon.
pub async fn serve(relay: &Relay) -> std::io::Result<()> {
    let connection =
        std::os::unix::net::UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    connection.set_nonblocking(true)?;
    let connection = UnixStream::from_std(connection)?;
    // Beside the socket's mode, which a drop-in may have opened: the daemon is root, or who runs this.
    let peer = connection.peer_cred()?.uid();
    if peer != 0 && peer != rustix::process::getuid().as_raw() {
        return Err(std::io::Error::other(format!("user {peer} is not the daemon")));
    }
    let (reader, mut writer) = connection.into_split();
    let done = answer(relay, BufReader::new(reader), &mut writer).await;
    // Not shut down: the daemon takes the end of the connection for the end of the whole unit, which systemd sees to.
    writer.forget();
    done
}

async fn answer(
    relay: &Relay,
    mut reader: BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    // It may come late: a unit whose start comes while the daemon is stopped is started after that.
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
        // Nobody waits for it any more. The child is killed with this.
        () = wait_for_disconnect(&mut reader) => Ok(()),
    }
}

impl Relay {
    /// The child, or why there is none.
    fn start(&self, request: &Request) -> std::io::Result<Result<Process, ExitResult>> {
        let refused = |code, said, program| {
            let status = "refused".to_owned();
            Ok(Err(ExitResult { code: Some(code), status, said, program }))
        };
        let own = Program::own()?;
        if request.program != own.id {
            let said = "the program was replaced after the daemon was started".to_owned();
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

    /// What is run for a request. Of a helper's arguments none is the daemon's: with another root it would do its task there.
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
                        "bedplate-{name} does not do this task: bedplate-{other} does"
                    ));
                }
                let root = format!("--state-root={}", self.root.display());
                Ok(("/proc/self/exe".into(), vec![HELPER.to_owned(), root]))
            }
            // Nothing else of this program is for the daemon to run.
            _ => Err("this is no task of the daemon's".to_owned()),
        }
    }
}

fn last(ended: &ExitResult) -> std::io::Result<Vec<u8>> {
    Ok(format!("{}{}\n", launch::END, serde_json::to_string(ended)?).into_bytes())
}

async fn wait_for_disconnect(reader: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 64];
    // Nothing more is expected: whatever comes counts for nothing until the end.
    while matches!(reader.read(&mut more).await, Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is begun for a daemon that has ended since it asked, or is about to.
    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_done_for_a_daemon_that_is_gone() {
        let request = Request {
            program: Program::own().unwrap().id,
            arguments: vec![WORKER.to_owned()],
            input: String::new(),
        };
        let line = serde_json::to_string(&request).unwrap() + "\n";
        // Whoever starts it gets an error.
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
