//! Commands and files in the guest, through its agent.

use std::time::Duration;

use super::super::agent::{Agent, Output};
use super::super::{Result, fail};
use super::{ANSWER, COMMAND, Node};

impl Node {
    /// Runs `command` with a shell in the guest.
    ///
    /// # Errors
    /// The command cannot be run or hangs; a failing command is not an error.
    pub fn run(&self, command: &str) -> Result<Output> {
        self.run_for(command, self.patience(COMMAND))
    }

    /// [`Node::run`] with another time limit.
    ///
    /// # Errors
    /// As for [`Node::run`].
    pub fn run_for(&self, command: &str, limit: Duration) -> Result<Output> {
        let socket = self.sockets.path().join("agent");
        let output = Agent::connect(&socket, self.patience(ANSWER))
            .and_then(|mut agent| agent.run(command, limit))?;
        self.note(&format!("$ {command}\n{}{}[{}]", output.stdout, output.stderr, output.status));
        Ok(output)
    }

    /// Runs a command that must exit with `status`; returns its output.
    ///
    /// # Errors
    /// The exit status differs.
    pub fn expect(&self, status: i64, command: &str) -> Result<String> {
        let output = self.run(command)?;
        if output.status == status {
            return Ok(output.stdout);
        }
        fail(format!(
            "{command}\nexits with {}, not {status}:\n{}{}",
            output.status, output.stdout, output.stderr
        ))
    }

    /// Runs a command that must succeed; returns its output without the trailing line end.
    ///
    /// # Errors
    /// The command fails.
    pub fn ok(&self, command: &str) -> Result<String> {
        Ok(self.expect(0, command)?.trim_end_matches('\n').to_owned())
    }

    /// Id of the running boot (/proc/sys/kernel/random/boot_id).
    ///
    /// # Errors
    /// The guest does not answer.
    pub fn boot_id(&self) -> Result<String> {
        self.ok("cat /proc/sys/kernel/random/boot_id")
    }

    /// Writes a world-readable file in the guest atomically (rename), with its directory.
    ///
    /// # Errors
    /// The guest cannot.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let socket = self.sockets.path().join("agent");
        let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
        self.ok(&format!("mkdir -p '{directory}'"))?;
        Agent::connect(&socket, self.patience(ANSWER))?
            .write(&format!("{path}.put"), content.as_ref())?;
        self.ok(&format!("chmod 644 '{path}.put' && mv '{path}.put' '{path}'"))?;
        Ok(())
    }

    /// [`Node::put`] for a program.
    ///
    /// # Errors
    /// As for [`Node::put`].
    pub fn put_program(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        self.put(path, content)?;
        self.ok(&format!("chmod 755 '{path}'"))?;
        Ok(())
    }

    /// Content of a file in the guest.
    ///
    /// # Errors
    /// The guest cannot read it.
    pub fn get(&self, path: &str) -> Result<Vec<u8>> {
        let socket = self.sockets.path().join("agent");
        Agent::connect(&socket, self.patience(ANSWER))?.read(path)
    }
}
