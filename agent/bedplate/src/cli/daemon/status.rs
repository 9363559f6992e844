//! `bedplate status`: shows the daemon's status. Without a daemon, inspects the host directly and says so.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::block_on;
use super::client;
use crate::cli::words::{STAGES, one_of};
use crate::cli::{CliError, Exit, output};
use crate::report::status as text;
use bedplate_base::{ReadError, duration, format_utc};
use bedplate_core::enforce_hold::{EnforceHold, HOLD};
use bedplate_core::engine::EngineError;
use bedplate_core::reboot_hold::Hold;
use bedplate_core::verify::Stage;
use bedplate_daemon::last_verdict;
use bedplate_daemon::launch::Launch;
use bedplate_daemon::observation::Observation;
use bedplate_daemon::status::{StageVerdict, State, Status, Verdict};
use bedplate_daemon::worker_task::{self, ObserveError};
use bedplate_daemon::{KnownDevices, Store, worker};
use bedplate_host::{DirReader, Reader as _, boot_id};

/// Limit for reading the profile, which takes milliseconds.
const SETTINGS_LIMIT: Duration = Duration::from_secs(60);
/// Default if the profile cannot be read.
const READY_TIMEOUT: Duration = Duration::from_secs(600);

/// `bedplate status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 ready; 3 reboot pending; 4 not ready; 5 unknown; 1 error; 64 usage. With --wait: \
    always 0."
)]
pub(crate) struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Redraw every second until interrupted. Without a terminal, print each change.
    #[arg(long, short, conflicts_with_all = ["json", "wait", "quiet"])]
    watch: bool,
    /// Print only the first line: the verdict and its reason.
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Wait until the host is ready, at most this long (default: `ready_timeout` of the profile). Always exits with 0,
    /// so that waiting units start in any case.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "", value_parser = limit)]
    wait: Option<Limit>,
    /// Stage to wait for: `host` needs no GPU driver, `gpudirect` is everything.
    #[arg(long, value_name = "STAGE", value_parser = one_of(&STAGES), default_value = "gpudirect", hide_possible_values = true, requires = "wait")]
    stage: Stage,
    /// Root directory of the daemon's files.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
    /// Program that reads the profile for `--wait`.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    worker: Option<PathBuf>,
}

/// Maximum wait; `None` uses the limit of the profile.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

fn limit(text: &str) -> Result<Limit, String> {
    if text.is_empty() {
        return Ok(Limit(None));
    }
    let parsed = duration::parse(text).and_then(|length| Duration::try_from(length).ok());
    parsed
        .map(|length| Limit(Some(length)))
        .ok_or_else(|| "expected a duration such as `10m`".to_owned())
}

/// Shows the status of the host. Exit status: 0 ready, 3 reboot pending, 4 not ready, 5 unknown.
pub(crate) fn run(args: &StatusArgs) -> Result<Exit, CliError> {
    if let Some(Limit(asked)) = args.wait {
        return wait(asked, args.stage, args.worker.as_deref());
    }
    if args.watch {
        return watch(&args.state_root);
    }
    let (status, live) = match client::status() {
        Ok(status) => (status, true),
        Err(why) => match off_the_bus(&args.state_root) {
            Some(status) => {
                if !args.json {
                    output::status(&off_the_bus_words(&status));
                }
                (status, true)
            }
            None => {
                if !args.json {
                    output::status(&format!(
                        "daemon unreachable ({why}); inspected the host directly"
                    ));
                    if let Some(fix) = why.fix() {
                        output::status(&format!("  {fix}"));
                    }
                }
                let mut status = observe(&args.state_root)?;
                if let Some(state) = super::reboot::without_daemon::line(&args.state_root) {
                    status.reboot.state = state;
                }
                (status, false)
            }
        },
    };
    if args.quiet {
        output::lines(&text::answer(&status))?;
        return Ok(exit(&status));
    }
    show(&status, args.json, live)
}

/// Time between two reads of the daemon's status.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Shows the daemon's status again and again, with its running step.
fn watch(root: &Path) -> Result<Exit, CliError> {
    let mut screen = output::Screen::new();
    loop {
        let now = jiff::Timestamp::now();
        let text = match client::status() {
            Ok(status) => text::status(&status, true, now),
            Err(why) => match off_the_bus(root) {
                Some(status) => {
                    let shown = text::status(&status, true, now);
                    format!("{}\n{shown}", off_the_bus_words(&status))
                }
                None => format!("daemon unreachable: {why}\n"),
            },
        };
        screen.draw(&text)?;
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// Prints the status and returns it as exit status.
pub(super) fn show(status: &Status, json: bool, live: bool) -> Result<Exit, CliError> {
    output::either(json, status, || text::status(status, live, jiff::Timestamp::now()))?;
    Ok(exit(status))
}

fn exit(status: &Status) -> Exit {
    match (status.verdict, status.state) {
        (Verdict::Ready, _) => Exit::Done,
        (_, State::WaitingForBoot) => Exit::RebootPending,
        (Verdict::CannotTell, _) => Exit::CannotTell,
        (Verdict::NotReady, _) => Exit::Blocked,
    }
}

/// Returns the status file of a daemon that runs without the bus. Ignores a file of another boot, of a process that is
/// gone, or past its validity.
fn off_the_bus(root: &Path) -> Option<Status> {
    let status = last_verdict::running(root).ok()?;
    let now = jiff::Timestamp::now();
    status.fresh_until.is_none_or(|until| now < until).then_some(status)
}

fn off_the_bus_words(status: &Status) -> String {
    let said =
        status.heartbeat.map(|at| format!(", written {}", format_utc(at))).unwrap_or_default();
    format!(
        "the daemon is running without the system bus (see `systemctl status dbus`); showing {}{said}",
        bedplate_daemon::status::FILE
    )
}

/// Observes the host without a daemon. The host may be ready at this moment; the field `daemon` shows that no daemon
/// keeps it ready.
fn observe(root: &Path) -> Result<Status, CliError> {
    let mut status = Status::starting(boot_id::below(Path::new("/")));
    (status.daemon, status.pid) = (false, 0);
    // Only root can read the directory, so other users get no information about a hold.
    let hidden = matches!(DirReader::live().exists(HOLD), Err(ReadError::Denied { .. }));
    status.pause = EnforceHold::load(Path::new("/")).filter(|_| !hidden);
    let now = jiff::Timestamp::now();
    let hold = Hold::load(&DirReader::live()).filter(|hold| !hidden && hold.is_in_force(now));
    status.reboot.hold = hold.map(|hold| hold.describe(now));
    let observation = match worker_task::observe(true) {
        Ok(observation) => observation,
        Err(ObserveError::Engine(error @ EngineError::NoProfile)) => {
            status.without_profile(error.to_string());
            return Ok(status);
        }
        Err(ObserveError::Engine(error)) => return Err(error.into()),
        Err(error) => return Err(CliError::while_doing("cannot inspect this host", error)),
    };
    // Only root can read which devices were here before, so other users get no information about missing devices.
    judged(&mut status, observation, Store::new(root).devices());
    Ok(status)
}

/// Checks for the devices that the daemon expects: a missing device is not a difference from the profile. Does not
/// write the daemon's records.
fn judged(status: &mut Status, mut observation: Observation, mut known: KnownDevices) {
    known.report_missing(&mut observation);
    status.take(&observation, Vec::new());
    status.reboot.state = bedplate_daemon::reboot::state::RebootState::Manual;
    status.update_verdict(None);
}

/// Waits for readiness. After the limit it logs to the journal of the waiting unit and succeeds, so that the boot
/// continues.
fn wait(asked: Option<Duration>, stage: Stage, worker: Option<&Path>) -> Result<Exit, CliError> {
    let begun = Instant::now();
    let limit = asked.unwrap_or_else(|| ready_timeout(worker, SETTINGS_LIMIT));
    let mut last = String::new();
    loop {
        let said = match client::status() {
            Ok(status) => {
                let StageVerdict { verdict, reason } = status.verdict_on(stage);
                if verdict == Verdict::Ready {
                    output::status("this host is ready");
                    return Ok(Exit::Done);
                }
                reason
            }
            Err(why) => format!("daemon unreachable: {why}"),
        };
        if said != last {
            output::status(&format!("waiting: {said}"));
            last = said;
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            bedplate_daemon::journal::start();
            let text = format!(
                "this host is not ready after {} s ({last}); continuing, as `status --wait` always does",
                limit.as_secs()
            );
            bedplate_daemon::journal::log_message(bedplate_daemon::journal::READY_LATE, &text);
            return Ok(Exit::Done);
        }
        // Polls only while a boot waits.
        std::thread::sleep(Duration::from_millis(500).min(left));
    }
}

/// Reads `ready_timeout` of the profile in a child, within `limit`: a driver that hangs in sysfs must not block the
/// boot.
fn ready_timeout(worker: Option<&Path>, limit: Duration) -> Duration {
    let read = || {
        let program = worker.unwrap_or(Path::new("/proc/self/exe"));
        block_on(worker::settings(&Launch::Children(program.to_owned()), limit)).ok()?.ok()
    };
    read().map_or(READY_TIMEOUT, |agent| Duration::from_secs(agent.ready_timeout_s.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_daemon::observation::Device;

    fn gpu() -> Device {
        Device { address: "0000:18:00.0".into(), what: "GPU 10de:2330".into(), selected: true }
    }

    fn observed(devices: Option<Vec<Device>>) -> Observation {
        serde_json::from_value(serde_json::json!({
            "profile": "p",
            "agent": { "mode": "observe", "interval_s": 900, "boot_timeout_s": 5, "ready_timeout_s": 600 },
            "reboot": {
                "policy": "never", "methods": ["ordinary"], "windows": [], "attempts": 1, "delay_s": 0, "jitter_s": 0,
                "inhibitor_wait_s": 0, "busy_devices": false, "idle_holders": [], "busy_command": [], "command": [], "rtc_wakes": false,
                "dry_run": false, "fleetlock": null
            },
            "done": [], "warnings": [], "changes": [], "blockers": [], "unknowns": [], "pending": [],
            "need": "none", "next_boot": { "state": "sound" }, "hash": "", "cause": null, "watch": { "directories": [], "attributes": [] },
            "devices": devices, "facts": {}, "checks": [], "plan_json": "",
        }))
        .unwrap()
    }

    #[test]
    fn missing_device_blocks_ready_without_daemon() {
        let mut known = KnownDevices::default();
        known.update(&[gpu()]);
        let mut status = Status::starting("b".into());
        judged(&mut status, observed(Some(Vec::new())), known.clone());
        assert_eq!((status.verdict, status.blockers.len()), (Verdict::NotReady, 1));
        judged(&mut status, observed(Some(vec![gpu()])), known);
        assert_eq!(status.verdict, Verdict::Ready);
    }

    #[test]
    fn unreadable_devices_are_neither_missing_nor_forgotten() {
        let mut known = KnownDevices::default();
        known.update(&[gpu()]);
        let before = known.clone();
        let mut unread = observed(None);
        known.report_missing(&mut unread);
        assert_eq!((&known, unread.blockers.len()), (&before, 0));
        let mut status = Status::starting("b".into());
        judged(&mut status, unread, known);
        assert_eq!(status.verdict, Verdict::CannotTell);
    }

    #[test]
    fn hanging_profile_read_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let worker = dir.path().join("worker");
        std::fs::write(&worker, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&worker, mode).unwrap();
        assert_eq!(ready_timeout(Some(&worker), Duration::from_millis(50)), READY_TIMEOUT);
    }
}
