//! What PID 1 starts for a connection of the daemon: takes one request from the socket, runs it as a child with the rights
//! of this unit, and sends back what the child says and how it ended. Ends when the daemon hangs up, and systemd ends with it
//! whatever is left in the unit.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::launch::{self, Ended, HELPER, Process, REPLACED, Request, WORKER};

/// Longest request: a profile's reboot commands, and the ids of a plan's changes.
const LONGEST: u64 = 4 << 20;

/// Serves the connection that is this process's standard input. `worker`: the program that does rounds.
///
/// # Errors
/// The system's own, where it has no answer for the daemon.
pub async fn serve(worker: &Path) -> std::io::Result<()> {
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
    let done = answer(worker, BufReader::new(reader), &mut writer).await;
    // Not shut down: the daemon takes the end of the connection for the end of the whole unit, which systemd sees to.
    writer.forget();
    done
}

async fn answer(
    worker: &Path,
    mut reader: BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    (&mut reader).take(LONGEST).read_until(b'\n', &mut line).await?;
    let request: Request = serde_json::from_slice(&line)?;
    // Started late: a unit whose start comes while the daemon is stopped is started after that.
    if tokio::time::timeout(Duration::ZERO, hung_up(&mut reader)).await.is_ok() {
        return Ok(());
    }
    let mut process = match start(worker, &request)? {
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
        () = hung_up(&mut reader) => Ok(()),
    }
}

/// The child, or why there is none.
fn start(worker: &Path, request: &Request) -> std::io::Result<Result<Process, Ended>> {
    let refuse = |code, why: &str| {
        Ok(Err(Ended { code: Some(code), status: "refused".to_owned(), said: why.to_owned() }))
    };
    if request.program != launch::build()? {
        return refuse(REPLACED, "the program was replaced after the daemon was started");
    }
    let program = match request.arguments.first().map(String::as_str) {
        Some(WORKER) => worker.to_owned(),
        Some(HELPER) => PathBuf::from("/proc/self/exe"),
        // Nothing else of this program is for the daemon to run.
        _ => return refuse(64, "this is no task of the daemon's"),
    };
    launch::child(&program, &request.arguments, &request.input).map(Ok)
}

fn last(ended: &Ended) -> std::io::Result<Vec<u8>> {
    Ok(format!("{}{}\n", launch::END, serde_json::to_string(ended)?).into_bytes())
}

async fn hung_up(reader: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 64];
    // Nothing more is expected: whatever comes counts for nothing until the end.
    while matches!(reader.read(&mut more).await, Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a daemon asked for that has ended since is not even begun.
    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_done_for_a_daemon_that_is_gone() {
        let request = Request {
            program: launch::build().unwrap(),
            arguments: vec![WORKER.to_owned()],
            input: String::new(),
        };
        let line = serde_json::to_string(&request).unwrap() + "\n";
        // Whoever starts it gets an error.
        let worker = Path::new("/nonexistent");
        for (gone, fails) in [(true, false), (false, true)] {
            let (mut daemon, unit) = UnixStream::pair().unwrap();
            daemon.write_all(line.as_bytes()).await.unwrap();
            if gone {
                daemon.shutdown().await.unwrap();
            }
            let (reader, mut writer) = unit.into_split();
            let done = answer(worker, BufReader::new(reader), &mut writer).await;
            assert_eq!(done.is_err(), fails, "gone: {gone}");
        }
    }
}
