//! One running node: its QEMU process, and all operations on it.

pub mod bmc;
mod guest;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::bmc::Bmc;
use super::machine::{Machine, OWN_BMC};
use super::qmp::Qmp;
use super::{Result, fail, tally};

// These limits are for x86_64: see [`Node::patience`].
/// Limit after which a command in the guest counts as hung.
const COMMAND: Duration = Duration::from_secs(180);
/// Limit after which a boot counts as hung.
const BOOT: Duration = Duration::from_secs(600);
/// Silence of the guest after which its kernel counts as hung. A boot takes 20 s here; an orderly shutdown before it
/// takes up to 90 s if a unit does not stop.
const SILENCE: Duration = Duration::from_secs(150);
/// Limit for the first answer of the guest's agent.
const ANSWER: Duration = Duration::from_secs(3);

/// A node that runs, or is off between two starts. Dropping it ends QEMU.
pub struct Node {
    /// Machine type.
    pub machine: Machine,
    dir: PathBuf,
    qemu: PathBuf,
    // Socket paths are limited to 107 bytes, which is too few for a deep checkout.
    sockets: tempfile::TempDir,
    process: RefCell<Option<Child>>,
    qmp: RefCell<Option<Qmp>>,
    extra: RefCell<Vec<String>>,
    bmc: RefCell<Option<Bmc>>,
    began: Cell<Instant>,
}

impl Node {
    /// Creates a node that is off, with its disk in `dir`.
    pub(super) fn new(machine: Machine, qemu: &Path, dir: &Path) -> Result<Self> {
        Ok(Self {
            machine,
            dir: dir.to_owned(),
            qemu: qemu.to_owned(),
            sockets: tempfile::Builder::new().prefix("bedplate-vm-").tempdir()?,
            process: RefCell::new(None),
            qmp: RefCell::new(None),
            extra: RefCell::new(Vec::new()),
            bmc: RefCell::new(None),
            began: Cell::new(Instant::now()),
        })
    }

    /// Adds QEMU arguments to all future starts.
    pub fn with(&self, arguments: &[&str]) {
        self.extra.borrow_mut().extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }

    /// Removes the arguments of [`Node::with`].
    pub fn without_extras(&self) {
        self.extra.borrow_mut().clear();
    }

    /// Scales a time limit to the speed of this architecture.
    pub fn patience(&self, limit: Duration) -> Duration {
        limit * self.machine.arch.time_factor()
    }

    /// Directory of its disk and logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unix socket of its serial console.
    pub fn console(&self) -> PathBuf {
        self.sockets.path().join("console")
    }

    // ---- power -----------------------------------------------------------------------------------------------------

    /// Starts QEMU, in the saved state `snapshot` if given, and waits for its monitor.
    pub(super) fn launch(&self, snapshot: Option<&str>) -> Result<()> {
        self.off();
        let sockets = self.sockets.path();
        for socket in ["qmp", "console", "agent", "bmc"] {
            let _ = std::fs::remove_file(sockets.join(socket));
        }
        let arguments = self.arguments(snapshot);
        std::fs::write(self.dir.join("qemu.args"), arguments.join("\n"))?;
        let said = File::options().create(true).append(true).open(self.dir.join("qemu.log"))?;
        // QEMU must end with this process, even if that is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.qemu)
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .map_err(|err| format!("starting QEMU by setpriv: {err}"))?;
        *self.process.borrow_mut() = Some(child);
        self.began.set(Instant::now());
        let socket = sockets.join("qmp");
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if !self.is_on() {
                let log = std::fs::read_to_string(self.dir.join("qemu.log")).unwrap_or_default();
                return fail(format!("QEMU ended at its start:\n{log}"));
            }
            match Qmp::connect(&socket, &self.dir.join("events.jsonl")) {
                Ok(qmp) => {
                    *self.qmp.borrow_mut() = Some(qmp);
                    return self
                        .bmc
                        .borrow()
                        .as_ref()
                        .map_or(Ok(()), |bmc| bmc.attach(&sockets.join("bmc")));
                }
                Err(err) if Instant::now() > end => {
                    return fail(format!("QEMU's monitor does not answer: {err}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn arguments(&self, snapshot: Option<&str>) -> Vec<String> {
        let sockets = self.sockets.path();
        let mut arguments = self.machine.arguments(&self.dir, sockets);
        if self.bmc.borrow().is_some() {
            let own = arguments.iter_mut().filter(|argument| *argument == OWN_BMC);
            own.for_each(|argument| *argument = "ipmi-bmc-extern,id=bmc,chardev=bmc".into());
            let socket = format!("socket,id=bmc,path={}/bmc,server=on,wait=off", sockets.display());
            arguments.extend(["-chardev".into(), socket]);
        }
        arguments.extend(self.extra.borrow().iter().cloned());
        if let Some(tag) = snapshot {
            arguments.extend(["-loadvm".into(), tag.into()]);
        }
        arguments
    }

    /// Powers on and waits until systemd has started everything.
    ///
    /// # Errors
    /// The node does not boot.
    pub fn boot(&self) -> Result<()> {
        self.launch(None)?;
        self.wait_for_boot("")
    }

    /// Whether QEMU runs.
    pub fn is_on(&self) -> bool {
        let mut process = self.process.borrow_mut();
        process.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether QEMU aborted, as a failed assertion does.
    fn has_crashed(&self) -> bool {
        let mut process = self.process.borrow_mut();
        let status = process.as_mut().and_then(|child| child.try_wait().ok().flatten());
        status.and_then(|status| status.signal()) == Some(nix::sys::signal::Signal::SIGABRT as i32)
    }

    /// Cuts the power: data that the guest has not written to its disk is lost. [`Node::boot`] starts it again.
    ///
    /// # Errors
    /// QEMU does not end.
    pub fn power_cut(&self) -> Result<()> {
        // QEMU closes the connection before it answers.
        let _ = self.qmp("quit", &json!({}));
        self.wait_for_off(Duration::from_secs(20))
    }

    /// Powers off orderly and starts again with empty memory: the closest equivalent of a cold power cycle.
    ///
    /// # Errors
    /// The guest does not power off or does not boot.
    pub fn cold_cycle(&self) -> Result<()> {
        self.step("power off and on");
        self.shut_down()?;
        self.boot()
    }

    /// Powers off orderly.
    ///
    /// # Errors
    /// The guest does not power off.
    pub fn shut_down(&self) -> Result<()> {
        let _ = self.run_for("systemctl --no-block poweroff", Duration::from_secs(10));
        self.wait_for_off(self.patience(BOOT))
    }

    /// Runs `systemctl reboot` and waits for the next complete boot.
    ///
    /// # Errors
    /// The node does not boot again.
    pub fn reboot(&self) -> Result<()> {
        let before = self.boot_id()?;
        self.step("reboot");
        // The agent may end before it answers.
        let _ = self.run_for("systemctl --no-block reboot", Duration::from_secs(10));
        self.wait_for_boot(&before)
    }

    /// Presses the reset button and waits for the next complete boot.
    ///
    /// # Errors
    /// The node does not boot again.
    pub fn reset(&self) -> Result<()> {
        let before = self.boot_id()?;
        self.step("reset");
        self.qmp("system_reset", &json!({}))?;
        self.wait_for_boot(&before)
    }

    /// Waits for a complete boot that a program in the guest requests; `before` is the boot that it ends.
    ///
    /// # Errors
    /// The boot does not happen.
    pub fn wait_for_another_boot(&self, before: &str) -> Result<()> {
        self.wait_for_boot(before)
    }

    fn wait_for_off(&self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while self.is_on() {
            if Instant::now() > end {
                return fail(format!("the node is still on after {} s", limit.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        *self.qmp.borrow_mut() = None;
        Ok(())
    }

    /// Waits for a complete boot other than `other`.
    pub(super) fn wait_for_boot(&self, other: &str) -> Result<()> {
        tally::boot();
        let began = Instant::now();
        let (limit, silence) = (self.patience(BOOT), self.patience(SILENCE));
        let mut state = String::new();
        let (mut silent_since, mut restarts) = (Instant::now(), 0);
        while began.elapsed() < limit {
            // QEMU 10.0 occasionally fails an internal assertion (hw/pci/msix.c) while a kernel starts, and a kernel
            // occasionally hangs before its first message. To the guest a restart is a power cycle.
            let crashed = self.has_crashed();
            if !self.is_on() && !crashed {
                return fail("the node switched itself off instead of booting");
            }
            if crashed || silent_since.elapsed() > silence {
                if restarts == 2 {
                    return fail(
                        "the third start in a row that came to nothing; see qemu.log and serial.log",
                    );
                }
                restarts += 1;
                let why = if crashed { "QEMU crashed" } else { "the kernel stands still" };
                self.step(&format!("{why}: starting it again"));
                tally::restart(why);
                self.launch(None)?;
                silent_since = Instant::now();
            }
            let booted = self.boot_id().is_ok_and(|id| !id.is_empty() && id != other);
            if booted && let Ok(output) = self.run("systemctl is-system-running --wait") {
                state = output.stdout.trim().to_owned();
                if state == "running" || state == "degraded" {
                    // No unit waits for udev, which may still be loading drivers.
                    self.run("udevadm settle")?;
                    self.step(&format!("{state} after {:.1} s", began.elapsed().as_secs_f32()));
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        fail(format!(
            "no complete boot within {} s (state: {state:?}); see serial.log",
            limit.as_secs()
        ))
    }

    /// Ends QEMU immediately.
    pub(super) fn off(&self) {
        *self.qmp.borrow_mut() = None;
        if let Some(mut child) = self.process.borrow_mut().take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    // ---- QEMU ------------------------------------------------------------------------------------------------------

    /// Runs a command of QEMU's monitor.
    ///
    /// # Errors
    /// QEMU rejects it.
    pub fn qmp(&self, command: &str, arguments: &Value) -> Result<Value> {
        match self.qmp.borrow_mut().as_mut() {
            Some(qmp) => qmp.command(command, arguments),
            None => fail("the node is off"),
        }
    }

    /// Number of times that QEMU has reported `event` since the node was last powered on.
    pub fn events(&self, event: &str) -> usize {
        self.qmp.borrow().as_ref().map_or(0, |qmp| qmp.count(event))
    }

    /// Waits until QEMU has reported `event`.
    ///
    /// # Errors
    /// It does not within a minute.
    pub fn wait_for_event(&self, event: &str) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(60);
        while self.events(event) == 0 {
            if Instant::now() > end {
                return fail(format!("no event {event} within a minute"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Process id of QEMU, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.borrow().as_ref().map(Child::id)
    }

    /// Saves the running state, replacing an older one with this name.
    pub(super) fn save(&self, tag: &str) -> Result<()> {
        match self.qmp.borrow_mut().as_mut() {
            Some(qmp) => qmp.human(&format!("savevm {tag}")),
            None => fail("the node is off"),
        }
    }

    /// Deletes a saved state.
    pub(super) fn forget(&self, tag: &str) -> Result<()> {
        match self.qmp.borrow_mut().as_mut() {
            Some(qmp) => qmp.human(&format!("delvm {tag}")),
            None => fail("the node is off"),
        }
    }

    // ---- logs ------------------------------------------------------------------------------------------------------

    /// Logs a step on stderr and in the node's log.
    pub fn step(&self, what: &str) {
        eprintln!(
            "{:7.1} s  {}: {what}",
            self.began.get().elapsed().as_secs_f32(),
            self.machine.name
        );
        self.note(&format!("== {what}"));
    }

    fn note(&self, text: &str) {
        use std::io::Write as _;
        // A failed log write must not fail the test.
        if let Ok(mut log) =
            File::options().create(true).append(true).open(self.dir.join("commands.log"))
        {
            let _ = writeln!(log, "{text}");
        }
    }

    /// Saves the journal of the running boot, if the guest still answers.
    pub(super) fn save_journal(&self) {
        if self.is_on()
            && let Ok(journal) =
                self.run_for("journalctl --boot --no-pager --output=short-monotonic", COMMAND)
        {
            let _ = std::fs::write(self.dir.join("journal.log"), journal.stdout);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.off();
    }
}
