//! A daemon in a fake environment: its own bus with a fake logind, a worker that returns the test's answers and records its
//! calls, and a directory in place of `/`.

mod bus;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bedplate_daemon::bus::Agent1Proxy;
use bedplate_daemon::status::Status;
use bedplate_tests::{fixtures, program};
use serde_json::{Value, json};

use super::logind::{Login, serve as serve_logind};

/// Maximum wait for an expected event. No step here takes a second by itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// The daemon's trust store. It does not exist until a test writes it.
pub const AUTHORITIES: &str = "etc/authorities.pem";

/// The persisted state of reboots.
pub const RECORD: &str = "var/lib/bedplate/daemon/reboot.json";

/// Key by which the daemon requests [`difference`] from the worker.
pub const KEY: &str = "0123456789abcdef";

/// The host's profile.
const PROFILE: &str = "etc/bedplate/profile.toml";

pub struct Rig {
    pub dir: tempfile::TempDir,
    pub login: Arc<Mutex<Login>>,
    pub logind: zbus::Connection,
    pub runtime: tokio::runtime::Runtime,
    /// More arguments of the daemon.
    pub args: Vec<&'static str>,
    /// Program started as the daemon.
    pub program: PathBuf,
    /// Whether the daemon connects to `helpers/NAME` instead of starting children.
    pub sockets: bool,
    bus: Child,
    pub daemon: Option<Child>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.kill();
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

impl Rig {
    /// A bus with a fake logind, and no daemon yet.
    pub fn new() -> Self {
        fixtures::tool("dbus-daemon");
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("bus.conf");
        let text = format!(
            "<busconfig><type>system</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow receive_sender=\"*\"/><allow own=\"*\"/>\
             <allow user=\"*\"/></policy></busconfig>",
            dir.path().join("bus").display()
        );
        std::fs::write(&config, text).expect("ours");
        let bus = bus::start(&config);
        // The socket exists a moment before the bus listens.
        let socket = dir.path().join("bus");
        until("the bus is there", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let login = Arc::new(Mutex::new(Login::default()));
        let address = format!("unix:path={}", dir.path().join("bus").display());
        let logind = serve_logind(&runtime, &address, &login);
        let rig = Rig {
            dir,
            login,
            logind,
            runtime,
            args: Vec::new(),
            program: program::path(),
            sockets: false,
            bus,
            daemon: None,
        };
        rig.write("proc/sys/kernel/random/boot_id", "boot-1\n");
        rig.write("sys/kernel/kexec_loaded", "0\n");
        rig.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        rig.write(PROFILE, "");
        rig.worker();
        rig
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let file = self.path(path);
        std::fs::create_dir_all(file.parent().expect("below the root")).expect("ours");
        // Renamed into place: the worker may be reading the file.
        let new = file.with_extension("rig-new");
        std::fs::write(&new, text).expect("ours");
        std::fs::rename(new, file).expect("ours");
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Writes an executable file.
    pub fn program(&self, path: &str, text: &str) {
        self.write(path, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(path), mode).expect("ours");
    }

    /// Writes a worker that records its arguments and prints `after.json` for `--only` (the next observation then finds
    /// `next.json`), and `look.json` otherwise. If `fails` exists, the worker fails with that text. While `wait` exists, an
    /// observation hangs.
    fn worker(&self) {
        let text = format!(
            "#!/bin/sh\ncd {} || exit 1\necho \"$*\" >>calls\n\
             if [ -e fails ]; then cat fails >&2; exit 1; fi\n\
             if [ -e no-profile ]; then echo 'there is no profile' >&2; exit 78; fi\n\
             case \"$*\" in *--only*) if [ -e at ]; then cat at; while [ -e at ]; do sleep 0.02; done; fi ;; *) while [ -e wait ]; do sleep 0.02; done ;; esac\n\
             if [ -e slow ]; then sleep \"$(cat slow)\"; fi\n\
             case \"$*\" in *--settings*) sed 's/.*\"agent\":\\({{[^}}]*}}\\).*/\\1/' look.json ;; *--only*) cp next.json look.json.new; mv look.json.new look.json; cat after.json ;; \
             *) cat look.json ;; esac\n",
            self.dir.path().display()
        );
        self.program("worker", &text);
    }

    /// Sets the result of the next observation, and causes one.
    pub fn look(&self, seen: &Value) {
        self.write("look.json", &seen.to_string());
        // Only if the profile differs: each write is an event.
        if self.read(PROFILE) != self.profile() {
            self.touch();
        }
    }

    /// The profile as read by helper tasks, with the settings of `look.json`.
    fn profile(&self) -> String {
        let seen: Value = serde_json::from_str(&self.read("look.json")).unwrap_or_default();
        let reboot = |key: &str| format!("{key} = {}\n", seen["reboot"][key]);
        let keys = ["methods", "busy_command", "command", "rtc_wakes"].map(reboot).concat();
        format!("schema = 1\nname = \"test\"\n[reboot]\n{keys}")
    }

    /// Sets the result of applying the change.
    pub fn after(&self, seen: &Value) {
        self.write("after.json", &seen.to_string());
        let mut next = seen.clone();
        next["done"] = json!([]);
        self.write("next.json", &next.to_string());
    }

    /// Arguments of the worker's calls, one line per call.
    pub fn calls(&self) -> Vec<String> {
        self.read("calls").lines().map(str::to_owned).collect()
    }

    /// Starts the daemon and waits for its first observation.
    pub fn start(&mut self) {
        self.start_blindly();
        until("the daemon has looked", || {
            self.status().is_some_and(|status| status.state.name() != "starting")
        });
    }

    /// Sends SIGTERM and waits for the daemon's end.
    pub fn stop(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let pid = nix::unistd::Pid::from_raw(daemon.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        assert!(daemon.wait().expect("it ends").success());
    }

    /// Restarts logind alone: another connection owns its name, on the same bus.
    pub fn restart_logind(&mut self) {
        for name in ["org.freedesktop.login1", "org.freedesktop.systemd1"] {
            self.runtime.block_on(self.logind.release_name(name)).expect("it has the name");
        }
        self.logind = serve_logind(&self.runtime, &self.address(), &self.login);
    }

    pub fn start_blindly(&mut self) {
        assert!(self.daemon.is_none());
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("ours");
        let daemon = Command::new(&self.program)
            .arg("daemon")
            .arg(format!("--state-root={}", self.dir.path().display()))
            .arg(match self.sockets {
                true => format!("--sockets={}", self.path("helpers").display()),
                false => format!("--worker={}", self.path("worker").display()),
            })
            .args(&self.args)
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.address())
            .env("SSL_CERT_FILE", self.path(AUTHORITIES))
            .env_remove("SSL_CERT_DIR")
            // The user's proxy must not see requests to loopback.
            .env("NO_PROXY", "*")
            .env_remove("no_proxy")
            .env_remove("JOURNAL_STREAM")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the daemon starts");
        self.daemon = Some(daemon);
    }

    /// Runs a command next to this daemon. Returns its exit status and output.
    pub fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = program::bedplate(args)
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.address())
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    pub fn address(&self) -> String {
        format!("unix:path={}", self.path("bus").display())
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Simulates a reboot: new boot id, empty /run, no schedule.
    pub fn reboot(&mut self, boot_id: &str) {
        self.kill();
        self.write("proc/sys/kernel/random/boot_id", &format!("{boot_id}\n"));
        let _ = std::fs::remove_dir_all(self.path("run"));
        let mut login = self.login.lock().expect("not poisoned");
        login.scheduled = None;
        login.calls.clear();
        drop(login);
        self.start();
    }

    /// The daemon's status, read through the bus.
    pub fn status(&self) -> Option<Status> {
        let asked = async {
            let asked = async { self.agent().await?.status_json().await };
            tokio::time::timeout(PATIENCE, asked).await.expect("the daemon answers")
        };
        let text = self.runtime.block_on(asked).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub async fn agent(&self) -> zbus::Result<Agent1Proxy<'static>> {
        // The rig's own connection: the bus sees root or this user as the caller.
        Agent1Proxy::builder(&self.logind)
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
    }

    /// Waits for a status that satisfies `good`.
    pub fn until(&self, what: &str, good: impl Fn(&Status) -> bool) -> Status {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.clone().filter(|status| good(status)) {
                return status;
            }
            let log = self.read("log");
            assert!(begun.elapsed() < PATIENCE, "not so: {what}\n{status:#?}\nlog:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The persisted state of reboots.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.read(RECORD)).unwrap_or_default()
    }

    /// Changes the persisted state.
    pub fn edit_record(&self, change: impl FnOnce(&mut Value)) {
        let mut record = self.record();
        change(&mut record);
        self.write(RECORD, &record.to_string());
    }

    /// The phase of the arranged reboot, by name.
    pub fn phase(&self) -> String {
        self.record()["phase"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Causes an event that makes the daemon observe the host.
    pub fn touch(&self) {
        self.write(PROFILE, &self.profile());
    }

    pub fn logged(&self, text: &str) -> bool {
        self.read("log").contains(text)
    }

    /// Calls to logind that change something.
    pub fn asked_of_logind(&self) -> Vec<String> {
        self.login.lock().expect("not poisoned").calls.clone()
    }

    pub fn settle(&self) {
        std::thread::sleep(Duration::from_millis(1500));
    }
}

/// Waits until `good` holds.
pub fn until(what: &str, good: impl Fn() -> bool) {
    let begun = Instant::now();
    while !good() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An observation without differences: enforce mode, policy schedule without windows, and a long delay.
pub fn right(rig: &Rig) -> Value {
    json!({
        "profile": "test",
        "agent": { "mode": "enforce", "interval_s": 900, "boot_timeout_s": 5, "ready_timeout_s": 600 },
        "reboot": {
            "policy": "schedule", "methods": ["ordinary"], "windows": [], "attempts": 1, "delay_s": 3600,
            "jitter_s": 0, "inhibitor_wait_s": 3600, "busy_devices": false, "idle_holders": [], "busy_command": [], "command": [],
            "rtc_wakes": false, "dry_run": false, "fleetlock": null
        },
        "done": [], "warnings": [], "changes": [], "blockers": [], "unknowns": [], "pending": [], "need": "none", "next_boot": {"state": "sound"},
        "hash": "nothing", "cause": null,
        "watch": { "directories": [rig.path("watched").display().to_string()], "attributes": [] },
        "facts": { "iommu": "identity", "vfs": "7" },
        "checks": [{ "id": "acs.path", "outcome": "pass", "severity": "fail" }],
        "plan_json": "{\"bedplate_plan\":1}\n"
    })
}

/// The observation with these GPUs and NICs, each `WHAT ADDRESS`.
pub fn with_devices(mut seen: Value, devices: &[&str]) -> Value {
    let device = |text: &&str| {
        let (what, address) = text.rsplit_once(' ').expect("two words");
        json!({ "address": address, "what": what, "selected": true })
    };
    seen["devices"] = devices.iter().map(device).collect();
    seen
}

/// The observation of a converged host with one more check, which has this outcome.
pub fn with_check(mut seen: Value, id: &str, outcome: &str, text: &str) -> Value {
    let check = json!({ "id": id, "outcome": outcome, "severity": "fail", "text": text, "fix": "look at it" });
    seen["checks"].as_array_mut().expect("a list").push(check);
    seen
}

/// A change to a drifted port.
pub fn difference() -> Value {
    json!({
        "key": KEY, "id": "acs/0000:22:00.0", "kind": "acs", "subject": "port 0000:22:00.0", "effect": "every-boot", "live": true,
        "items": [{ "subject": "ACS control", "before": "001d", "after": "0011", "why": [] }]
    })
}

/// An observation with a difference.
pub fn drifted(rig: &Rig) -> Value {
    let mut seen = right(rig);
    seen["changes"] = json!([difference()]);
    seen["checks"] = json!(null);
    seen
}

/// An observation whose change has failed.
pub fn failed(rig: &Rig) -> Value {
    let mut seen = drifted(rig);
    seen["done"] = json!([{ "change": difference(), "failure": "no such port" }]);
    seen
}

/// An observation whose change was applied.
pub fn fixed(rig: &Rig) -> Value {
    let mut seen = right(rig);
    seen["done"] = json!([{ "change": difference(), "failure": null }]);
    seen
}

/// An observation with a change that is pending until a cold boot.
pub fn waiting(rig: &Rig) -> Value {
    let mut seen = right(rig);
    seen["pending"] = json!([{
        "kind": "cmdline", "subject": "iommu=pt", "running": null, "next": "iommu=pt", "effect": "cold-boot"
    }]);
    seen["passthrough"] = json!(true);
    seen["need"] = json!("cold");
    seen["hash"] = json!("waits");
    seen["cause"] = json!({ "cause": "other-entry" });
    seen
}
