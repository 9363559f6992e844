//! `bedplate status` and `bedplate reconcile`: clients of the daemon. Where there is none, `status` looks by itself and
//! says so.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jiff::SignedDuration;

use super::{CliError, Exit, agent, output};
use crate::daemon::status::{State, Status, Verdict};
use crate::enforce_hold::{EnforceHold, HOLD};
use crate::host::dir::DirReader;
use crate::reboot::decide::shown;
use crate::reboot::hold::Hold;
use crate::report::status as text;

/// `bedplate status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Machine-readable.
    #[arg(long)]
    json: bool,
    /// Wait until the host is ready, at most so long (default: `ready_timeout` of the profile), and end with 0 in any
    /// case: for units that have to start all the same.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "", value_parser = limit)]
    wait: Option<Limit>,
    /// Where the daemon keeps its files.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    state_root: PathBuf,
}

/// How long to wait; `None`: as long as the profile says.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

fn limit(text: &str) -> Result<Limit, String> {
    if text.is_empty() {
        return Ok(Limit(None));
    }
    let parsed = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
    parsed
        .map(|length| Limit(Some(length)))
        .ok_or_else(|| "it is not a length of time such as `10m`".to_owned())
}

/// Shows where the host stands. Exit status: 0 ready, 3 waiting for a boot, 4 not ready or cannot tell.
pub fn run(args: &StatusArgs) -> Result<Exit, CliError> {
    if let Some(Limit(asked)) = args.wait {
        return wait(asked);
    }
    let (status, live) = match agent::status() {
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
                    output::status(&format!("no daemon answers ({why}): this is a look of its own"));
                    if let Some(remedy) = why.remedy() {
                        output::status(&format!("  {remedy}"));
                    }
                }
                (look()?, false)
            }
        },
    };
    show(&status, args.json, live)
}

/// Prints it; the exit status says where the host stands.
fn show(status: &Status, json: bool, live: bool) -> Result<Exit, CliError> {
    if json {
        let text = serde_json::to_string_pretty(status)
            .map_err(|error| CliError::while_doing("cannot write JSON", error))?;
        output::data(&(text + "\n"))?;
    } else {
        output::report(&text::status(status, live, jiff::Timestamp::now()))?;
    }
    Ok(match (status.verdict, status.state) {
        (Verdict::Ready, _) => Exit::Done,
        (_, State::WaitingForBoot) => Exit::RebootPending,
        _ => Exit::Blocked,
    })
}

/// The word of a daemon that runs and is not on the bus, from its file. One of another boot, of a process that is gone, or
/// past its time is nobody's word.
fn off_the_bus(root: &Path) -> Option<Status> {
    let status = crate::daemon::export::read(root)?;
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", status.pid)).ok()?;
    let is_daemon = command.split('\0').any(|word| word == "daemon");
    let now = jiff::Timestamp::now();
    (is_daemon && status.boot_id == boot_id(root) && status.fresh_until.is_none_or(|until| now < until))
        .then_some(status)
}

fn off_the_bus_words(status: &Status) -> String {
    let said = status.heartbeat.map(|at| format!(", of {}", shown(at))).unwrap_or_default();
    format!(
        "bedplate runs, but it is off the bus (`systemctl status dbus`): this is what it wrote to {}{said}",
        crate::daemon::status::FILE
    )
}

fn boot_id(root: &Path) -> String {
    let path = "proc/sys/kernel/random/boot_id";
    let own =
        std::fs::read_to_string(root.join(path)).or_else(|_| std::fs::read_to_string(format!("/{path}")));
    own.unwrap_or_default().trim().to_owned()
}

/// Without a daemon: the same look, here.
fn look() -> Result<Status, CliError> {
    let mut status = Status::starting(boot_id(Path::new("/")));
    // Only root may look into the directory; others are told nothing of a hold.
    let hidden =
        std::fs::metadata(HOLD).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    status.held = EnforceHold::load(Path::new("/")).filter(|_| !hidden);
    let now = jiff::Timestamp::now();
    let hold = Hold::load(&DirReader::live()).filter(|hold| !hidden && hold.is_in_force(now));
    status.reboot.hold = hold.map(|hold| hold.describe(now));
    let Some(round) = super::round::look_only()? else {
        status.without_profile(super::profile_source::no_own_profile());
        return Ok(status);
    };
    status.take(&round, Vec::new());
    status.reboot.decision = crate::reboot::decide::Decision::Never;
    status.judge(None);
    Ok(status)
}

/// A boot is let go after a time, whatever the host is: said loudly, in the journal of the unit that waits.
fn wait(asked: Option<Duration>) -> Result<Exit, CliError> {
    let limit = asked.unwrap_or_else(|| {
        let seconds =
            super::round::look_only().ok().flatten().map_or(600, |round| round.agent.ready_timeout_s);
        Duration::from_secs(u64::from(seconds))
    });
    let begun = Instant::now();
    let mut last = String::new();
    loop {
        let said = match agent::status() {
            Ok(status) if status.verdict == Verdict::Ready => {
                output::status("this host is ready");
                return Ok(Exit::Done);
            }
            Ok(status) => status.reason,
            Err(why) => format!("no daemon answers: {why}"),
        };
        if said != last {
            output::status(&format!("waiting: {said}"));
            last = said;
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            crate::daemon::journal::start();
            let text =
                format!("released after {} s although this host is not ready: {last}", limit.as_secs());
            crate::daemon::journal::say(crate::daemon::journal::READY_LATE, &text);
            return Ok(Exit::Done);
        }
        // Only while a boot waits.
        std::thread::sleep(Duration::from_millis(500).min(left));
    }
}

/// `bedplate reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// No longer expect GPUs and NICs that were here and are gone: they were taken out for good.
    #[arg(long)]
    forget_missing: bool,
    /// Machine-readable.
    #[arg(long)]
    json: bool,
}

/// Said where the daemon cannot even be asked.
const UNCHANGED: &str = "nothing was changed";

/// Has the daemon forget failures and contests, look, and put right; then says where the host stands, as `status` does.
pub fn reconcile(args: &ReconcileArgs) -> Result<Exit, CliError> {
    if args.forget_missing {
        let said = agent::call(UNCHANGED, |agent| async move { agent.forget_missing().await })?;
        output::status(&said);
    }
    agent::call(UNCHANGED, |agent| async move { agent.reconcile().await })?;
    let status = agent::status()?;
    show(&status, args.json, true)
}
