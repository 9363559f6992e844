//! `bedplate revert`.

use clap::Args;

use super::apply::{TargetArgs, confirm, retry_locked, still_running};
use super::{CliError, Exit, hold, host, output};
use crate::report::applied;
use bedplate_core::engine::{self, RevertOutcome, Target};
use bedplate_core::revert::{RevertPlan, Step};

/// `bedplate revert`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 reverted, or nothing to revert; 2 --dry-run --exit-code found something; 3 reverted, and the running \
    kernel keeps the old arguments until the next boot; 4 refused in part or as a whole: a daemon enforces the profile, other tools changed a setting (--force), \
    or boot entries or an initramfs would keep settings; \
    6 reverted in an image, where tools must still be run; 1 some changes failed; 64 usage."
)]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Show what would be reverted, and exit.
    #[arg(long)]
    dry_run: bool,
    /// With `--dry-run`: exit with 2 if there is anything to revert.
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
    /// Also revert settings changed by other tools.
    #[arg(long)]
    force: bool,
    /// Pause the daemon, even across reboots, until `bedplate release`; it then only observes. Without this, a revert
    /// is refused while a daemon enforces the profile.
    #[arg(long, conflicts_with = "root")]
    hold: bool,
    /// Record that a tool left pending by an earlier revert has run in the image: its command or program name.
    /// Repeatable.
    #[arg(
        long,
        value_name = "TOOL",
        requires = "root",
        conflicts_with = "dry_run",
        help_heading = "Host"
    )]
    ran: Vec<String>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
    /// List every port and file.
    #[arg(long, short)]
    verbose: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Restores the settings in the ledger.
pub(crate) fn run(args: &RevertArgs) -> Result<Exit, CliError> {
    let target = args.target.target()?;
    // Warns of parts of an image that are not read.
    host::of_target(&target);
    let shown = RevertOutcome::plan(&target, args.force)?;
    let has_steps = !shown.steps.is_empty();
    if args.dry_run || !(has_steps || RevertOutcome::has_records(&target, &shown)?) {
        note_ran(&target, args)?;
        return only_shown(args, &RevertOutcome::plan(&target, args.force)?);
    }
    // The daemon also undoes a revert with `--root /`.
    if target.is_running_machine()
        && !args.hold
        && let Some(why) = hold::revert_refusal()
    {
        output::status(&why);
        return Ok(Exit::Blocked);
    }
    engine::may_change(&target)?;
    if !args.json {
        // The report lists the tools.
        let steps = RevertPlan { pending_tools: Vec::new(), ..shown };
        output::status(applied::revert_plan(&steps, args.verbose).trim_end());
    }
    if has_steps && !args.yes && !confirm("revert these changes")? {
        return Err(CliError::new("no changes made"));
    }
    note_ran(&target, args)?;
    // Set before the lock: a worker of the daemon that takes the lock next must see the pause.
    let mut hold = hold::HoldGuard::set(args.hold)?;
    let mut locked = || {
        if args.target.is_live() {
            hold.keep();
        }
    };
    let mut watch = |step: &Step| {
        if !args.json && matches!(step, Step::Tool { .. } | Step::Attribute(_)) {
            output::status(&format!("… {}", step.subject()));
        }
    };
    let now = jiff::Timestamp::now();
    let done = retry_locked(|| engine::revert(&target, args.force, &mut locked, &mut watch, now))?;
    output::either(args.json, &done.report, || applied::reverted(&done.report, args.verbose))?;
    for warning in &done.report.warnings {
        output::warn(warning);
    }
    still_running(&done.still_in_effect);
    Ok(match (done.report.succeeded(), done.plan.refused.is_empty()) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Blocked,
        (true, true) if !done.report.pending_tools.is_empty() => Exit::Owed,
        (true, true) if !done.still_in_effect.is_empty() => Exit::RebootPending,
        (true, true) => Exit::Done,
    })
}

/// Records the tools of `--ran`.
fn note_ran(target: &Target, args: &RevertArgs) -> Result<(), CliError> {
    for line in engine::note_ran(target, &args.ran)? {
        output::status(&line);
    }
    Ok(())
}

fn only_shown(args: &RevertArgs, shown: &RevertPlan) -> Result<Exit, CliError> {
    // The pause is set even if there is nothing to revert, because it was requested.
    if !args.dry_run && args.hold {
        hold::HoldGuard::set(true)?.keep();
    }
    output::either(args.json, shown, || applied::revert_plan(shown, args.verbose))?;
    Ok(match (shown.refused.is_empty(), shown.steps.is_empty()) {
        (false, _) => Exit::Blocked,
        (true, false) if args.exit_code => Exit::Changes,
        (true, true) if !shown.pending_tools.is_empty() && (args.exit_code || !args.dry_run) => {
            Exit::Owed
        }
        (true, _) => Exit::Done,
    })
}
