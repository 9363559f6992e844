//! Guest agent: runs commands and transfers files without a network (docs/interop/qemu-ga-ref of QEMU).

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Result, fail};

/// Result of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit status; 128 plus the signal number if a signal ended it.
    pub status: i64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A connection for one exchange: every reboot ends the agent, and a new one answers on the same port.
pub struct Agent {
    reader: BufReader<UnixStream>,
}

/// Bytes per message: far below the agent's limit, and large enough that the number of messages does not matter.
const CHUNK: usize = 2 << 20;

impl Agent {
    /// Connects, and makes sure that the next answers belong to this connection.
    ///
    /// # Errors
    /// The agent does not answer within `patience`.
    pub fn connect(socket: &Path, patience: Duration) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        let mut agent = Self { reader: BufReader::new(stream) };
        // 0xff makes the agent drop a partial message from an earlier connection.
        let tag = u64::from(std::process::id());
        agent.send(b"\xff")?;
        agent.send(
            json!({ "execute": "guest-sync-delimited", "arguments": { "id": tag } })
                .to_string()
                .as_bytes(),
        )?;
        agent.send(b"\n")?;
        loop {
            let line = agent.line()?;
            let answer = line.rsplit(|byte| *byte == 0xff).next().unwrap_or_default();
            if serde_json::from_slice::<Value>(answer).is_ok_and(|said| said["return"] == tag) {
                return Ok(agent);
            }
        }
    }

    /// Runs `command` with a shell, waits for it, and kills it after `limit`.
    ///
    /// # Errors
    /// The agent disappears (a reboot), or the limit is reached.
    pub fn run(&mut self, command: &str, limit: Duration) -> Result<Output> {
        self.reader.get_ref().set_read_timeout(Some(Duration::from_secs(30)))?;
        let pid = self.ask(
            "guest-exec",
            &json!({
                "path": "/bin/sh", "arg": ["-c", command], "capture-output": true,
                "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "COLUMNS=1000"],
            }),
        )?["pid"]
            .clone();
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(10);
        loop {
            let now = self.ask("guest-exec-status", &json!({ "pid": pid }))?;
            if now["exited"] == true {
                let text = |key: &str| {
                    let bytes =
                        BASE64.decode(now[key].as_str().unwrap_or_default()).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).into_owned()
                };
                let signal = now["signal"].as_i64().map(|signal| 128 + signal);
                let status = now["exitcode"].as_i64().or(signal).unwrap_or(-1);
                return Ok(Output { status, stdout: text("out-data"), stderr: text("err-data") });
            }
            if Instant::now() > end {
                self.ask(
                    "guest-exec",
                    &json!({ "path": "/bin/kill", "arg": ["-9", pid.to_string()] }),
                )?;
                return fail(format!("still running after {} s: {command}", limit.as_secs()));
            }
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_millis(250));
        }
    }

    /// Writes `content` to the file `path`, replacing its content.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn write(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.reader.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
        let handle = self.ask("guest-file-open", &json!({ "path": path, "mode": "w" }))?;
        for part in content.chunks(CHUNK) {
            self.ask(
                "guest-file-write",
                &json!({ "handle": handle, "buf-b64": BASE64.encode(part) }),
            )?;
        }
        self.ask("guest-file-close", &json!({ "handle": handle }))?;
        Ok(())
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>> {
        self.reader.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
        let handle = self.ask("guest-file-open", &json!({ "path": path, "mode": "r" }))?;
        let mut content = Vec::new();
        loop {
            let part = self.ask("guest-file-read", &json!({ "handle": handle, "count": CHUNK }))?;
            content.extend(BASE64.decode(part["buf-b64"].as_str().unwrap_or_default())?);
            if part["eof"] == true {
                break;
            }
        }
        self.ask("guest-file-close", &json!({ "handle": handle }))?;
        Ok(content)
    }

    fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.send(line.as_bytes())?;
        let answer: Value = serde_json::from_slice(&self.line()?)?;
        match answer.get("error") {
            Some(error) => {
                fail(format!("the guest agent refuses {command} {arguments}: {}", error["desc"]))
            }
            None => Ok(answer["return"].clone()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.reader.get_mut().write_all(bytes)?)
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            return fail("the guest agent is gone");
        }
        Ok(line)
    }
}
