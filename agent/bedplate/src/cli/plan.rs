//! `bedplate plan`: the dry run. Uses readers only.

use clap::Args;

use super::host::{self, OpenHost};
use super::lints::LintArgs;
use super::{CliError, Exit, HostArgs, ProfileArgs, WithoutArgs, kind_name, output};
use crate::report::{diff, text};
use bedplate_core::documents as json;
use bedplate_core::engine::{self, PreparedPlan, Request};
use bedplate_core::plan::{KindId, RebootNeed};
use bedplate_facts::names::Names;
use bedplate_host::HostKind;

/// `bedplate plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    without: WithoutArgs,
    #[command(flatten)]
    lints: LintArgs,
    /// Print the plan as JSON (schema: `bedplate plan --json-schema`).
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Print a unified diff of files, and one line per register, attribute and tool.
    #[arg(long)]
    diff: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
    /// Show only this resource type (`acs`, `cmdline` …). Repeatable. The last line and the exit status still cover the
    /// whole plan.
    #[arg(long, value_name = "KIND", value_parser = kind_name, conflicts_with = "json")]
    only: Vec<KindId>,
    /// Show every reason with its source, and everything that is unchanged.
    #[arg(long, short)]
    verbose: bool,
    /// Print only the last line: number of changes, and the reboot.
    #[arg(long, short, conflicts_with_all = ["verbose", "json", "diff", "only"])]
    quiet: bool,
    /// Print the read cost to stderr: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
    /// Exit with 2 if there are changes, 4 if blocked, 3 if only a reboot is pending, 6 if the image build must still
    /// run tools, 5 if something could not be read.
    #[arg(long)]
    exit_code: bool,
}

/// Plans every named host.
pub(crate) fn run(args: &PlanArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(json::PLAN_SCHEMA).map(|()| Exit::Done);
    }
    let worst = host::worst(&args.host, |host| Ok(status(&plan_host(args, host)?)))?;
    Ok(if args.exit_code || worst == Exit::Failed { worst } else { Exit::Done })
}

fn plan_host(args: &PlanArgs, host: &OpenHost) -> Result<PreparedPlan, CliError> {
    let reader = host.reader.as_ref();
    let request = Request {
        allowed: &args.lints.allow_lint,
        image: args.without.request(),
        ..args.profile.request()
    };
    let planned = engine::prepare(reader, &request)?;
    let PreparedPlan { facts, loaded, plan, .. } = &planned;
    output::lints(loaded, &args.lints.allow_lint);
    let label = facts.label();
    if args.json {
        output::data(&json::plan_from(host.file.as_deref(), plan, &label)?)?;
    } else {
        let text = if args.diff {
            diff::plan(plan, &args.only)
        } else if args.quiet {
            text::summary(plan)
        } else {
            let names = Names::new(host.reader.as_ref(), facts);
            let detail = text::Detail { verbose: args.verbose, only: &args.only };
            text::with_names(plan, &label, detail, Some(&names))
        };
        let text = format!("{}{text}", host.heading());
        match args.diff || args.quiet {
            true => output::lines(&text)?,
            false => output::report(&text)?,
        }
    }
    if args.cost {
        output::cost(host.reader.cost(), facts);
    }
    Ok(planned)
}

/// Returns the exit status of a plan under `--exit-code`.
pub(super) fn status(planned: &PreparedPlan) -> Exit {
    let PreparedPlan { facts, plan, .. } = planned;
    let is_left = plan.is_empty() && !plan.body.pending_commands.is_empty();
    let is_owed = facts.host == HostKind::Image && (is_left || plan.waits_for_tools());
    if !plan.body.blockers.is_empty() {
        Exit::Blocked
    } else if is_owed {
        Exit::Owed
    } else if !plan.is_empty() {
        Exit::Changes
    } else if plan.reboot != RebootNeed::None {
        Exit::RebootPending
    } else if !plan.body.unknowns.is_empty() {
        // Unreadable items never count as converged (design §5).
        Exit::CannotTell
    } else {
        Exit::Done
    }
}
