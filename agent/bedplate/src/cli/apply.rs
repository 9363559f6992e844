//! `bedplate apply`.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::lints::LintArgs;
use super::{
    CliError, Context as _, Exit, ProfileArgs, WithoutArgs, host, output, plan as plan_command,
};
use crate::report::{applied, text};
use bedplate_core::apply::{self, ApplyReport, Event};
use bedplate_core::documents as json;
use bedplate_core::engine::{
    self, EngineError, ImageRequest, PreparedPlan, Request, Target, profile_source,
};
use bedplate_core::plan::RebootNeed;
use bedplate_facts::names::Names;
use bedplate_host::{LockError, Reader};

/// Host to change.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArgs {
    /// Change a root directory that is not running (an image, a mounted disk) instead of this machine.
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    root: Option<PathBuf>,
    /// Run the image's own tools (update-grub …) in it by chroot. Otherwise the report lists the tools to run.
    #[arg(long, requires = "root", help_heading = "Host")]
    chroot_tools: bool,
}

/// `bedplate apply`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 applied, or no changes; 3 applied, reboot pending; 4 something is blocked, or an error-level lint; \
    5 something could not be read; 6 tools must still be run in the image; 1 some changes failed; 64 usage."
)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    lints: LintArgs,
    /// Record that a tool left pending by an earlier apply has run in the image: its command or program name.
    /// Repeatable.
    #[arg(long, value_name = "TOOL", requires = "root", help_heading = "Host")]
    ran: Vec<String>,
    #[command(flatten)]
    without: WithoutArgs,
    /// Apply only runtime changes that need no reboot: modules, sysctls, ACS, VFs.
    #[arg(long, conflicts_with = "root")]
    live_only: bool,
    /// Show the plan and stop with exit status 0, as `bedplate plan` does.
    #[arg(long, conflicts_with_all = ["yes", "json", "ran"])]
    dry_run: bool,
    /// Do not ask for confirmation. Without a terminal, apply never asks.
    #[arg(long, short)]
    yes: bool,
    /// List every port and file.
    #[arg(long, short)]
    verbose: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl TargetArgs {
    /// Returns the host to change.
    ///
    /// # Errors
    /// If the directory cannot be opened, or if other users could change it during the run.
    pub(super) fn target(&self) -> Result<Target, CliError> {
        match &self.root {
            Some(root) => Ok(Target::image(root, self.chroot_tools)?),
            None => Ok(Target::Live),
        }
    }

    /// Whether the host is the running machine.
    pub(super) fn is_live(&self) -> bool {
        self.root.is_none()
    }
}

/// Plans, asks for confirmation, locks, plans again under the lock, applies, and observes the host again.
pub(crate) fn run(args: &ApplyArgs) -> Result<Exit, CliError> {
    let request = Request {
        live_only: args.live_only,
        // A dry run works without the rights to read the ledger.
        needs_ledger: !args.dry_run,
        allowed: &args.lints.allow_lint,
        image: ImageRequest { ran: &args.ran, ..args.without.request() },
        ..args.profile.request()
    };
    let target = args.target.target()?;
    let host = host::of_target(&target);
    if args.dry_run {
        return show_plan(args, host.reader.as_ref(), &request);
    }
    let guessed =
        args.target.is_live() && profile_source::is_guessed(request.choice, host.reader.as_ref())?;
    if guessed && (args.yes || !can_be_asked()) {
        return Err(CliError::new(profile_source::no_profile_named()));
    }
    let first = engine::prepare(host.reader.as_ref(), &request)?;
    output::lints(&first.loaded, request.allowed);
    first.may_be_applied()?;
    // Finishes an interrupted apply even if the plan has no changes left.
    let body = &first.plan.body;
    let is_adopted = !body.orphans.iter().any(|orphan| orphan.is_adoptable());
    let is_settled = body.settled_tools.is_empty() && is_adopted && !first.ledger.was_cut_short();
    if first.plan.is_empty() && is_settled {
        return report_no_changes(args, host.reader.as_ref(), &first);
    }
    engine::may_change(&target)?;
    if !args.json {
        output::status(format_plan(args, host.reader.as_ref(), &first).trim_end());
    }
    if !args.yes && !confirm(&question(&first, guessed))? {
        return Err(CliError::new("no changes made"));
    }
    let mut as_shown = |again: &mut PreparedPlan| {
        // An operator may have changed the host between the question and the lock.
        match again.plan.body != first.plan.body && !args.yes && can_be_asked() {
            true => Err(EngineError::HostChanged),
            false => Ok(()),
        }
    };
    let mut watch = |event: Event<'_>| progress(args.json, &event);
    let now = jiff::Timestamp::now();
    let done = retry_locked(|| engine::apply(&target, &request, &mut as_shown, &mut watch, now))?;
    let after = done.after.inspect_err(|_| {
        // The host was changed, so the changes must be reported even if the observation afterwards fails.
        output::status(applied::changes(&done.report, args.verbose).trim_end());
    })?;
    still_running(&done.still_in_effect);
    for line in applied::left_behind(&done.report, &first.plan.body.changes, &after.plan.body.notes)
    {
        output::status(&line);
    }
    for tool in newly_run_commands(&done.before, &after) {
        output::status(&format!("{tool}: recorded as run"));
    }
    finish(args, &done.report, &after)
}

/// Shows the plan without applying it.
fn show_plan(
    args: &ApplyArgs,
    reader: &dyn Reader,
    request: &Request<'_>,
) -> Result<Exit, CliError> {
    let planned = engine::prepare(reader, request)?;
    output::lints(&planned.loaded, request.allowed);
    output::report(&format_plan(args, reader, &planned))?;
    Ok(Exit::Done)
}

fn question(planned: &PreparedPlan, guessed: bool) -> String {
    let name = &planned.loaded.profile.name;
    match guessed {
        true => format!(
            "no profile in /etc/bedplate; {name} was chosen by hardware match. Apply this plan"
        ),
        false => "apply this plan".to_owned(),
    }
}

/// Returns the commands that were pending and have run since.
fn newly_run_commands(before: &PreparedPlan, after: &PreparedPlan) -> Vec<String> {
    let paid = before.plan.body.settled_tools.iter().filter(|tool| tool.after.is_none());
    let settled = paid.filter(|tool| !after.ledger.owes(tool.kind, &tool.argv));
    settled.map(|tool| tool.argv.join(" ")).collect()
}

/// Maximum wait for another bedplate process. A daemon that retries a change which runs a tool takes the lock every few
/// seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Retries `act` while another bedplate process has the host's lock.
///
/// # Errors
/// The errors of `act`. Lock errors are returned only after [`PATIENCE`].
pub(crate) fn retry_locked<T>(
    mut act: impl FnMut() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let began = Instant::now();
    let mut is_said = false;
    loop {
        match act() {
            Err(EngineError::Lock(LockError::Held { by })) if began.elapsed() < PATIENCE => {
                if !std::mem::replace(&mut is_said, true) {
                    let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
                    output::status(&format!(
                        "… waiting for another bedplate process on this host{by}"
                    ));
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            done => return done,
        }
    }
}

/// Reports the arguments that were removed from the command line and are still in effect.
pub(crate) fn still_running(arguments: &[String]) {
    if !arguments.is_empty() {
        output::status(&format!(
            "the running kernel keeps {} until the next reboot",
            arguments.join(" ")
        ));
    }
}

fn format_plan(args: &ApplyArgs, reader: &dyn Reader, planned: &PreparedPlan) -> String {
    let detail = text::Detail { verbose: args.verbose, only: &[] };
    let names = Names::new(reader, &planned.facts);
    text::with_names(&planned.plan, &planned.facts.label(), detail, Some(&names))
}

fn report_no_changes(
    args: &ApplyArgs,
    reader: &dyn Reader,
    planned: &PreparedPlan,
) -> Result<Exit, CliError> {
    let report = ApplyReport { changes: Vec::new(), warnings: Vec::new() };
    if args.json {
        output::data(&json::applied(&report, &planned.plan)?)?;
    } else {
        output::report(&format_plan(args, reader, planned))?;
    }
    Ok(exit(&report, planned))
}

fn finish(args: &ApplyArgs, report: &ApplyReport, after: &PreparedPlan) -> Result<Exit, CliError> {
    if args.json {
        output::data(&json::applied(report, &after.plan)?)?;
    } else {
        let is_owed = exit(report, after) == Exit::Owed;
        output::report(&applied::text(report, &after.plan, is_owed, args.verbose))?;
    }
    for warning in &report.warnings {
        output::warn(warning);
    }
    Ok(exit(report, after))
}

/// Returns the exit status. Failures take precedence; blockers and pending reboots count only after a successful apply.
fn exit(report: &ApplyReport, after: &PreparedPlan) -> Exit {
    let PreparedPlan { plan, .. } = after;
    if !report.succeeded() {
        Exit::Failed
    } else if !plan.body.blockers.is_empty() {
        Exit::Blocked
    } else if plan.reboot != RebootNeed::None {
        Exit::RebootPending
    } else {
        match plan_command::status(after) {
            // Every change succeeded, so a remaining change did not take effect.
            Exit::Changes => Exit::Failed,
            other => other,
        }
    }
}

fn progress(quiet: bool, event: &Event<'_>) {
    if let Event::Action(_, action) = event
        && !quiet
        && apply::may_take_long(action)
    {
        output::status(&format!("… {}", apply::describe(action)));
    }
}

pub(crate) fn can_be_asked() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on a terminal. Without a terminal, running the command is the confirmation.
pub(crate) fn confirm(what: &str) -> Result<bool, CliError> {
    if !can_be_asked() {
        return Ok(true);
    }
    let failed = "cannot ask for confirmation";
    let mut terminal = std::io::stderr();
    write!(terminal, "{what}? [y/N] ").and_then(|()| terminal.flush()).context(failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
