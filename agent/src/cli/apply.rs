//! `bedplate apply`, `revert` and `history`: the only commands that hold a writer.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::host::{self, Opened};
use super::{
    CliError, Exit, HostArgs, ProfileArgs, output, plan as plan_command, profile_source, release,
};
use crate::apply::{self, ApplyReport, Event, Executor};
use crate::checker;
use crate::engine;
use crate::facts::{Depth, Facts};
use crate::host::write::DirWriter;
use crate::host::{HostKind, Reader};
use crate::kind::cmdline;
use crate::ledger::{self, Ledger};
use crate::plan::{Action, Change, Check, Plan, RebootNeed};
use crate::profile::Loaded;
use crate::report::{applied, json, text};
use crate::revert::{self, Step};

const CANNOT: &str = "cannot change this host";

/// Which host to change.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// Change a root directory that is not running (an image, a mounted disk) instead of this machine.
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    root: Option<PathBuf>,
    /// Run the image's own tools (update-grub …) inside it by chroot; without it the report names what has to be run.
    #[arg(long, requires = "root", help_heading = "Host")]
    chroot_tools: bool,
}

/// `bedplate apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Only what acts on the running machine and needs no boot: ACS, VFs, modules.
    #[arg(long, conflicts_with = "root")]
    live_only: bool,
    /// Do not ask. Without a terminal nobody is asked.
    #[arg(long, short)]
    yes: bool,
    /// Name every port and file, however many.
    #[arg(long, short)]
    verbose: bool,
    /// Machine-readable report.
    #[arg(long)]
    json: bool,
}

/// `bedplate revert`.
#[derive(Debug, Args)]
pub struct RevertArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Show what would be put back, and leave.
    #[arg(long)]
    dry_run: bool,
    /// With `--dry-run`: end with 2 if there is anything to put back.
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
    /// Put back what others have changed since, too.
    #[arg(long)]
    force: bool,
    /// Keep the daemon from undoing it: it only observes, over reboots too, until `bedplate release`. Without, a revert is
    /// refused while a daemon enforces the profile.
    #[arg(long, conflicts_with = "root")]
    hold: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Name every port and file, however many.
    #[arg(long, short)]
    verbose: bool,
    /// Machine-readable report.
    #[arg(long)]
    json: bool,
}

/// `bedplate history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Machine-readable.
    #[arg(long)]
    json: bool,
}

impl TargetArgs {
    fn host(&self) -> HostArgs {
        HostArgs { root: self.root.clone(), snapshot: Vec::new(), demo: None }
    }

    fn writer(&self) -> Result<DirWriter, CliError> {
        let opened = match &self.root {
            Some(root) => DirWriter::image(root, self.chroot_tools),
            None => Ok(DirWriter::live()),
        };
        opened.map_err(|error| CliError::while_doing(CANNOT, error))
    }
}

/// Without its ledger bedplate changes nothing: better said before anybody is asked.
fn ledger_can_be_kept(writer: &DirWriter) -> Result<(), CliError> {
    writer.may_write(ledger::DIRECTORY).map_err(|error| CliError::while_doing(CANNOT, error))
}

/// What apply would do, with what it was made from.
struct Planned {
    plan: Plan,
    facts: Facts,
    loaded: Loaded,
}

fn planned(args: &ApplyArgs, host: &Opened) -> Result<Planned, CliError> {
    let mut facts = host.facts(Depth::Plan);
    let loaded = profile_source::load_quietly(&args.profile, host.reader.as_ref(), &facts)?;
    engine::assume_cpu(&mut facts, args.profile.cpu.map(Into::into), &loaded.profile);
    let mut plan =
        engine::plan(&loaded.profile, &facts, host.reader.as_ref(), &host.ledger()?).plan;
    if args.live_only {
        plan.body.changes.retain(Change::is_live);
    }
    Ok(Planned { plan, facts, loaded })
}

/// Plan, ask, lock, plan again under the lock, do it, look again.
pub fn run(args: &ApplyArgs) -> Result<Exit, CliError> {
    let host = host::open_one(&args.target.host())?;
    let guessed = args.target.root.is_none()
        && profile_source::is_guessed(&args.profile, host.reader.as_ref())?;
    if guessed && (args.yes || !can_be_asked()) {
        return Err(CliError::Plain(profile_source::no_profile_named()));
    }
    let first = planned(args, &host)?;
    profile_source::print_lints(&first.loaded);
    if first.plan.is_empty() {
        return nothing(args, &first);
    }
    let mut writer = args.target.writer()?;
    ledger_can_be_kept(&writer)?;
    if !args.json {
        output::status(
            text::plan(
                &first.plan,
                &host::label(&first.facts),
                text::Detail { verbose: args.verbose },
            )
            .trim_end(),
        );
    }
    let question = match guessed {
        true => {
            let name = &first.loaded.profile.name;
            format!(
                "no profile is in /etc/bedplate: {name} was picked by hardware match. Apply this plan"
            )
        }
        false => "apply this plan".to_owned(),
    };
    if !args.yes && !agreed(&question)? {
        return Err(CliError::Plain("nothing was changed".into()));
    }
    let _lock = writer.lock().map_err(|error| CliError::while_doing("cannot start", error))?;
    // Somebody may have changed the host between the question and the lock.
    let host = host::open_one(&args.target.host())?;
    let Planned { plan, facts, .. } = planned(args, &host)?;
    if plan.body != first.plan.body && !args.yes && can_be_asked() {
        // What was agreed to is not what would be done.
        return Err(CliError::Plain(
            "the host has changed since this plan was shown: run apply again".into(),
        ));
    }
    let mut ledger = host.ledger()?;
    let check = |check: &Check, reader: &dyn Reader| checker::check(reader, &facts, check);
    let mut watch = |event: Event<'_>| progress(args.json, &event);
    let executor = Executor {
        reader: host.reader.as_ref(),
        writer: &mut writer,
        checker: &check,
        watch: &mut watch,
    };
    let owned = owned_arguments(&ledger);
    let report = apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::now());
    // What the host is now, read afresh: an open reader may know directories that are gone.
    let again = host::open_one(&args.target.host())
        .and_then(|host| planned(args, &host).map(|after| (host, after)));
    let (host, mut after) = again.inspect_err(|_| {
        // The host was changed, whatever became of looking at it: that must not go unsaid.
        output::status(applied::changes(&report, args.verbose).trim_end());
    })?;
    // No later plan can tell of what was taken off the command line. It is in effect until the boot all the same.
    if still_running(&host, &after.facts, &owned) {
        after.plan.reboot = after.plan.reboot.max(plan.reboot);
    }
    finish(args, &report, &after)
}

/// The kernel arguments that are bedplate's own.
fn owned_arguments(ledger: &Ledger) -> Vec<String> {
    ledger.owned.get(cmdline::NAME).cloned().unwrap_or_default()
}

/// Whether arguments that were taken off the command line are still in effect; says which.
fn still_running(host: &Opened, facts: &Facts, owned: &[String]) -> bool {
    if host.reader.kind() != HostKind::Live {
        return false;
    }
    let still = cmdline::gone_at_next_boot(host.reader.as_ref(), facts, owned);
    if !still.is_empty() {
        output::status(&format!(
            "the running kernel keeps {} until it is booted again",
            still.join(" ")
        ));
    }
    !still.is_empty()
}

fn nothing(args: &ApplyArgs, planned: &Planned) -> Result<Exit, CliError> {
    let report = ApplyReport { changes: Vec::new(), warnings: Vec::new() };
    if args.json {
        output::data(&json::applied(&report, &planned.plan).map_err(bad_json)?)?;
    } else {
        output::report(&text::plan(
            &planned.plan,
            &host::label(&planned.facts),
            text::Detail { verbose: args.verbose },
        ))?;
    }
    Ok(exit(&report, &planned.plan))
}

fn finish(args: &ApplyArgs, report: &ApplyReport, after: &Planned) -> Result<Exit, CliError> {
    if args.json {
        output::data(&json::applied(report, &after.plan).map_err(bad_json)?)?;
    } else {
        output::report(&applied::text(report, &after.plan, args.verbose))?;
    }
    for warning in &report.warnings {
        output::warn(warning);
    }
    Ok(exit(report, &after.plan))
}

/// Blockers and waiting boots count after a successful apply; failures count before all.
fn exit(report: &ApplyReport, after: &Plan) -> Exit {
    if !report.succeeded() {
        Exit::Failed
    } else if !after.body.blockers.is_empty() {
        Exit::Blocked
    } else if after.reboot != RebootNeed::None {
        Exit::RebootPending
    } else {
        match plan_command::status(after) {
            // What is still to do after everything succeeded did not hold.
            Exit::Changes => Exit::Failed,
            other => other,
        }
    }
}

fn bad_json(error: serde_json::Error) -> CliError {
    CliError::while_doing("cannot write JSON", error)
}

/// Tools take their time: what is going on is said before it happens.
fn progress(quiet: bool, event: &Event<'_>) {
    if quiet {
        return;
    }
    if let Event::Action(
        _,
        action @ (Action::RunTool { .. }
        | Action::WriteAttribute { .. }
        | Action::LoadModule { .. }),
    ) = event
    {
        output::status(&format!("… {}", apply::describe(action)));
    }
}

fn can_be_asked() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on a terminal; where nobody can answer, the command itself was the answer.
fn agreed(what: &str) -> Result<bool, CliError> {
    if !can_be_asked() {
        return Ok(true);
    }
    let failed = |error| CliError::while_doing("cannot ask", error);
    let mut terminal = std::io::stderr();
    write!(terminal, "{what}? [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Puts back what the ledger recorded.
pub fn revert(args: &RevertArgs) -> Result<Exit, CliError> {
    let host = host::open_one(&args.target.host())?;
    let mut writer = args.target.writer()?;
    let shown = revert::plan(&host.ledger()?, host.reader.as_ref(), &writer, args.force);
    if args.dry_run || shown.steps.is_empty() {
        // Asked for all the same: the daemon leaves this host as it is from here on.
        if !args.dry_run && args.hold {
            release::Setting::set(true)?.stays();
        }
        if args.json {
            output::data(&json::document(&shown).map_err(bad_json)?)?;
        } else {
            output::report(&applied::revert_plan(&shown, args.verbose))?;
        }
        return Ok(match (shown.refused.is_empty(), shown.steps.is_empty()) {
            (false, _) => Exit::Blocked,
            (true, false) if args.exit_code => Exit::Changes,
            (true, _) => Exit::Done,
        });
    }
    let here = args.target.root.is_none();
    if here
        && !args.hold
        && let Some(why) = release::refusal()
    {
        output::status(&why);
        return Ok(Exit::Blocked);
    }
    ledger_can_be_kept(&writer)?;
    if !args.json {
        output::status(applied::revert_plan(&shown, args.verbose).trim_end());
    }
    if !args.yes && !agreed("put this back")? {
        return Err(CliError::Plain("nothing was changed".into()));
    }
    // Before the lock: a round of the daemon that gets it next has to see the hold.
    let mut hold = release::Setting::set(args.hold)?;
    let _lock = writer.lock().map_err(|error| CliError::while_doing("cannot start", error))?;
    if here {
        hold.stays();
    }
    // Somebody may have changed the host between the question and the lock.
    let host = host::open_one(&args.target.host())?;
    let mut ledger = host.ledger()?;
    let owned = owned_arguments(&ledger);
    let plan = revert::plan(&ledger, host.reader.as_ref(), &writer, args.force);
    let mut watch = |step: &Step| {
        if !args.json && matches!(step, Step::Tool { .. } | Step::Attribute { .. }) {
            output::status(&format!("… {}", step.subject()));
        }
    };
    let now = jiff::Timestamp::now();
    let report =
        revert::run(&plan, &mut ledger, host.reader.as_ref(), &mut writer, &mut watch, now);
    if args.json {
        output::data(&json::document(&report).map_err(bad_json)?)?;
    } else {
        output::report(&applied::reverted(&report, args.verbose))?;
    }
    for warning in &report.warnings {
        output::warn(warning);
    }
    let host = host::open_one(&args.target.host())?;
    let waits = still_running(&host, &host.facts(Depth::Plan), &owned);
    Ok(match (report.succeeded(), plan.refused.is_empty()) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Blocked,
        (true, true) if waits => Exit::RebootPending,
        (true, true) => Exit::Done,
    })
}

/// Shows what was done.
pub fn history(args: &HistoryArgs) -> Result<Exit, CliError> {
    let ledger = host::open_one(&args.host)?.ledger()?;
    if args.json {
        output::data(&json::document(&ledger.history).map_err(bad_json)?)?;
    } else {
        output::report(&applied::history(&ledger))?;
    }
    Ok(Exit::Done)
}
