//! `bedplate reboot`: shows the pending reboot, and schedules, cancels or holds it.

pub(super) mod without_daemon;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};

use super::client::{self, CallError};
use crate::cli::error::AS_ROOT;
use crate::cli::{CliError, Context as _, Exit, output};
use crate::report::holders;
use crate::report::status as text;
use bedplate_base::{duration, format_utc};
use bedplate_core::plan::RebootNeed;
use bedplate_core::reboot_hold::{self, Hold, HoldError};
use bedplate_daemon::reboot::busy;
use bedplate_daemon::reboot::method::bmc;
use bedplate_daemon::reboot::method::ipmi::Device;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::Status;
use bedplate_host::write::{remove_own_file, replace_own_file};
use bedplate_host::{DirReader, Reader as _, file, process};

/// `bedplate reboot`.
#[derive(Debug, Subcommand)]
pub(crate) enum RebootCommand {
    /// Show whether a reboot is needed, why, how, when and what blocks it, and the last reboot.
    Status(StatusArgs),
    /// Reboot this host as its profile configures. Holds, busy devices, inhibitors and the reboot lock still apply.
    Schedule(ScheduleArgs),
    /// Cancel a reboot that bedplate scheduled.
    Cancel(HostArgs),
    /// Keep bedplate from rebooting this host.
    Hold(HoldArgs),
    /// Release a hold.
    Release(HostArgs),
    /// Cycle the power through the BMC, as the last step of a shutdown that the daemon scheduled.
    #[command(hide = true)]
    PowerCycle,
}

/// `bedplate reboot status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 no reboot needed; 3 reboot needed; 5 unknown; 1 error; 64 usage."
)]
pub(crate) struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// Location of the host's files.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Root directory of the daemon's files.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
}

/// `bedplate reboot schedule`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 the reboot is scheduled or has begun; 4 blocked (the request stays until the next boot); \
    1 error; 64 usage."
)]
pub(crate) struct ScheduleArgs {
    /// Wait at least this long: `now` or 0, 30s, 10m, 2h (default: `delay` of the profile).
    #[arg(long = "in", value_name = "TIME", conflicts_with = "at", value_parser = delay)]
    after: Option<SignedDuration>,
    /// Not before this time: 2026-03-03T03:00Z, or with an offset.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Timestamp>,
    /// Reason, shown to all logged-in users.
    #[arg(long, value_name = "TEXT", default_value = "requested by an operator", value_parser = parse_reason)]
    why: String,
    /// Reboot even if the next boot entry is not known to be sound; the host may not come back. Applies to this request
    /// only.
    #[arg(long)]
    force: bool,
}

/// `bedplate reboot hold`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 the hold is in force, and logind confirmed that a scheduled reboot is cancelled; 1 error, with the \
    state of the hold; 64 usage."
)]
pub(crate) struct HoldArgs {
    /// Duration: 30m, 4h, 2d. Default: until released.
    #[arg(long = "for", value_name = "TIME", value_parser = reboot_hold::parse_length)]
    length: Option<SignedDuration>,
    /// Reason, shown in the status and the log.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    why: String,
    #[command(flatten)]
    host: HostArgs,
}

/// Runs the command.
pub(crate) fn run(command: &RebootCommand) -> Result<Exit, CliError> {
    match command {
        RebootCommand::Status(args) => status(args),
        RebootCommand::Schedule(args) => schedule(args),
        RebootCommand::Cancel(args) => cancel(&args.state_root),
        RebootCommand::Hold(args) => hold(args),
        RebootCommand::Release(args) => release(&args.state_root),
        RebootCommand::PowerCycle => power_cycle(),
    }
}

fn status(args: &StatusArgs) -> Result<Exit, CliError> {
    let status = match client::status() {
        Ok(status) => status,
        Err(why) => match without_daemon::status(&args.host.state_root)? {
            Some(status) => {
                let fix = why.fix().map(|fix| format!("; {fix}")).unwrap_or_default();
                output::status(&format!("daemon unreachable ({why}); showing saved state{fix}"));
                status
            }
            None => return Err(why.kept_from("reboot status requires the daemon: ")),
        },
    };
    output::either(args.json, &status.reboot, || text::reboot(&status))?;
    if !args.json {
        // Printed last, because reading the command line of a process that hangs in a driver may also hang.
        output::report(&holders(&status))?;
    }
    Ok(match status.reboot.need {
        None if status.reboot.state.is_coming() => Exit::RebootPending,
        None => Exit::CannotTell,
        Some(RebootNeed::None) if status.reboot.state == RebootState::WaitingForChanges => {
            Exit::RebootPending
        }
        Some(RebootNeed::None) => Exit::Done,
        Some(_) => Exit::RebootPending,
    })
}

/// Lists the processes that use the devices, with command lines. Only for root, and only while a reboot may wait for
/// them.
fn holders(status: &Status) -> String {
    if !status.reboot.is_needed() || !nix::unistd::geteuid().is_root() {
        return String::new();
    }
    // The daemon's reasons explain why the list is unknown.
    busy::holders(Path::new("/proc"), &[])
        .map(|in_use| holders::format_holders(&in_use, process::describe))
        .unwrap_or_default()
}

fn schedule(args: &ScheduleArgs) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    if let Some(past) = args.at.filter(|at| *at <= now) {
        return Err(CliError::new(format!(
            "{} is in the past; reboot not scheduled",
            format_utc(past)
        )));
    }
    let at = args.after.map(|after| now + after).or(args.at);
    let usec = at.map_or(0, bedplate_daemon::logind::usec);
    let (why, force) = (args.why.clone(), args.force);
    let (state, said) = client::call("reboot not scheduled", move |agent| async move {
        match force {
            true => agent.force_reboot(&why, usec).await,
            false => agent.schedule_reboot(&why, usec).await,
        }
    })?;
    output::report(&format!("{said}\n"))?;
    // With `--in 0` the reboot may be under way by now.
    let coming = ["scheduled", "under-way"].contains(&state.as_str());
    Ok(if coming { Exit::Done } else { Exit::Blocked })
}

/// Parses the delay before a reboot, which may be zero, unlike the length of a hold.
fn delay(text: &str) -> Result<SignedDuration, HoldError> {
    match (text, duration::parse(text)) {
        ("now" | "0", _) | (_, Some(SignedDuration::ZERO)) => Ok(SignedDuration::ZERO),
        _ => reboot_hold::parse_length(text),
    }
}

fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a time such as 2026-03-03T03:00:00Z".to_owned())
}

/// Requires a reason: the next operator has nothing else to decide by.
fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a hold needs a reason".to_owned()),
        _ => parse_reason(text),
    }
}

/// Limits the length of a reason, because it is stored, logged, and shown to other users.
fn parse_reason(text: &str) -> Result<String, String> {
    match text.chars().count() <= reboot_hold::LONGEST_REASON {
        true => Ok(text.to_owned()),
        false => Err(format!("reason is longer than {} characters", reboot_hold::LONGEST_REASON)),
    }
}

/// Cancels through the daemon, or directly through logind if no daemon is running.
fn cancel(root: &Path) -> Result<Exit, CliError> {
    let said = match client::ask(None, |agent| async move { agent.cancel_reboot().await }) {
        Err(CallError::NoBus | CallError::NotRunning) => without_daemon::cancel(root)?,
        said => said?,
    };
    output::report(&format!("{said}\n"))?;
    Ok(Exit::Done)
}

/// Sets a hold. Must work without a daemon and take effect before a daemon acts: writes the file first, then cancels at
/// logind and verifies, then has the daemon decide again.
fn hold(args: &HoldArgs) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let hold = Hold::starting(now, args.length, &args.why, &crate::cli::hold::operator())
        .context("cannot hold reboots")?;
    let failed = |error| {
        CliError::while_doing(format!("cannot write {}", reboot_hold::HOLD), error).hinting(AS_ROOT)
    };
    let json = hold.to_json().context("cannot hold reboots")?;
    let root = &args.host.state_root;
    // The directory has the mode that apply uses, because it contains copies of other files.
    replace_own_file(&below(root), json.as_bytes(), 0o644, 0o700).map_err(failed)?;
    let cancelled = without_daemon::reconcile(root, "the hold is in force for bedplate")?;
    without_daemon::tell_daemon();
    if let Some(at) = cancelled {
        output::status(&format!("cancelled the reboot scheduled for {}", format_utc(at)));
    }
    output::report(&format!("{}\n", hold.describe(now)))?;
    Ok(Exit::Done)
}

/// Returns the path of the hold's file below `root`.
fn below(root: &Path) -> PathBuf {
    file::under(root, reboot_hold::HOLD)
}

/// Cycles the power through the BMC, for the shutdown hook only. While services run and file systems are mounted, it would
/// have the effect of a power loss.
fn power_cycle() -> Result<Exit, CliError> {
    // systemd-shutdown replaces the first process. Its name is truncated to 15 bytes (prctl(2), PR_SET_NAME).
    let first = DirReader::live().text("/proc/1/comm").unwrap_or_default();
    if !first.starts_with("systemd-shutdow") && first.trim() != "shutdown" {
        return Err(CliError::new("the machine is not shutting down; power not cycled"));
    }
    let failed = bmc::power_cycle(Path::new("/"), &Device::first(), bmc::ACTS_WITHIN);
    Err(CliError::while_doing("the BMC did not cycle the power", failed))
}

/// Releases the hold. A reboot that logind scheduled against the hold must not start because of the release.
fn release(root: &Path) -> Result<Exit, CliError> {
    let file = below(root);
    if file.exists() {
        without_daemon::reconcile(root, "hold not released")?;
    }
    let removed = remove_own_file(&file).map_err(|error| {
        CliError::while_doing(format!("cannot remove {}", reboot_hold::HOLD), error)
            .hinting(AS_ROOT)
    })?;
    without_daemon::tell_daemon();
    output::report(if removed { "hold released\n" } else { "no hold in force\n" })?;
    Ok(Exit::Done)
}
