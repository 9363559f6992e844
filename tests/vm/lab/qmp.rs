//! QEMU's monitor: commands, and reported events.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Result, fail};

/// A connection. Records events from its start.
pub struct Qmp {
    stream: UnixStream,
    replies: Receiver<Value>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Qmp {
    /// Connects to the monitor at `socket`. Also appends every event to `log`, one line each.
    ///
    /// # Errors
    /// QEMU does not answer.
    pub fn connect(socket: &Path, log: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let events = Arc::new(Mutex::new(Vec::new()));
        let (sender, replies) = channel();
        let mut log = std::fs::File::options().create(true).append(true).open(log)?;
        let (reader, kept) = (BufReader::new(stream.try_clone()?), Arc::clone(&events));
        // The thread ends with the connection.
        std::thread::spawn(move || {
            for line in reader.lines().map_while(std::result::Result::ok) {
                let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
                if said.get("event").is_some() {
                    // A failed log write must not lose the event.
                    let _ = writeln!(log, "{line}");
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(said);
                } else if sender.send(said).is_err() {
                    break;
                }
            }
        });
        let mut qmp = Self { stream, replies, events };
        qmp.reply("greeting")?;
        qmp.command("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Runs one command.
    ///
    /// # Errors
    /// QEMU rejects it, or does not answer for a minute.
    pub fn command(&mut self, name: &str, arguments: &Value) -> Result<Value> {
        let mut line = json!({ "execute": name, "arguments": arguments }).to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes())?;
        let reply = self.reply(name)?;
        match reply.get("error") {
            Some(error) => fail(format!("QEMU refuses {name}: {}", error["desc"])),
            None => Ok(reply["return"].clone()),
        }
    }

    /// Runs a command of the human monitor, the only one that saves snapshots in one step. Any output is an error.
    ///
    /// # Errors
    /// The command prints something.
    pub fn human(&mut self, line: &str) -> Result<()> {
        let said = self.command("human-monitor-command", &json!({ "command-line": line }))?;
        match said.as_str().unwrap_or_default().trim() {
            "" => Ok(()),
            complaint => fail(format!("QEMU refuses {line}: {complaint}")),
        }
    }

    /// Number of events with this name.
    pub fn count(&self, event: &str) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|seen| seen["event"] == event).count()
    }

    fn reply(&self, to: &str) -> Result<Value> {
        self.replies
            .recv_timeout(Duration::from_secs(60))
            .or_else(|err| fail(format!("QEMU gives no answer to {to}: {err}")))
    }
}
