//! `bedplate verify --since-boot`: the daemon's last verdict, without reading the host.

use std::path::PathBuf;

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::cli::{CliError, Exit, output};
use crate::report::status as text;
use bedplate_base::{Recovery, duration, format_utc};
use bedplate_core::documents as json;
use bedplate_core::verify::{Answer, Report, Stage};
use bedplate_daemon::last_verdict::{self, NoVerdict};
use bedplate_daemon::status::{StageVerdict, Status, Verdict};
use bedplate_facts::Depth;
use bedplate_host::{DirReader, boot_id, machine_id};

/// Options of `bedplate verify` for the daemon's last verdict.
#[derive(Debug, Args)]
pub(crate) struct LastVerdictArgs {
    /// Print the daemon's last verdict in this boot instead of reading the host: takes milliseconds, for job prologs and
    /// repair tools. Unknown if no daemon runs, if it is working, or if the verdict is older than two intervals.
    #[arg(
        long,
        conflicts_with_all = ["which_host", "profile", "cpu", "check", "skip", "cost", "verbose"],
        help_heading = "Last verdict"
    )]
    pub since_boot: bool,
    /// Unknown if the verdict is older than this. The daemon confirms its verdict once per `interval` of the profile
    /// (default: 15m), so with less it is unknown at times.
    #[arg(long, value_name = "TIME", value_parser = age, requires = "since_boot", help_heading = "Last verdict")]
    max_age: Option<SignedDuration>,
    /// Root directory of the daemon's files.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = super::absolute(), hide = true)]
    state_root: PathBuf,
}

fn age(text: &str) -> Result<SignedDuration, String> {
    duration::parse(text).ok_or_else(|| "expected a duration such as `5m`".to_owned())
}

/// Form of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub json: bool,
    pub quiet: bool,
}

/// Prints the verdict on a stage. `exit`: exit status of a report.
pub(crate) fn run(
    args: &LastVerdictArgs,
    stage: Stage,
    form: Form,
    exit: impl Fn(&Report) -> Exit,
) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let found = last_verdict::running(&args.state_root);
    let checked = found.as_ref().map_err(NoVerdict::clone);
    let checked = checked.and_then(|status| last_verdict::check(status, args.max_age, now));
    let report = match &checked {
        Ok(status) => last_verdict::report(status, stage),
        Err(why) => no_verdict(why, stage),
    };
    let status = found.ok();
    let exit = exit(&report);
    if form.json {
        output::data(&document(&report, status.as_ref(), exit)?)?;
        return Ok(exit);
    }
    let shown = match checked {
        Ok(status) => status.verdict_on(stage),
        Err(why) => StageVerdict { verdict: Verdict::CannotTell, reason: why.to_string() },
    };
    output::lines(&text::verdict(&shown))?;
    let at = status.as_ref().and_then(|status| status.evaluated_at);
    if let (false, Some(at)) = (form.quiet, at) {
        let ago = duration::format_rounded(now.duration_since(at));
        let at = format_utc(at);
        output::lines(&format!("  evaluated  {at}, {ago} ago (details: `bedplate status`)\n"))?;
    }
    Ok(exit)
}

/// Returns the report if there is no verdict.
fn no_verdict(why: &NoVerdict, stage: Stage) -> Report {
    Report {
        answer: Answer::CannotTell,
        reason: Some(why.to_string()),
        next: None,
        decided_by: Vec::new(),
        warned_by: Vec::new(),
        recovery: Recovery::None,
        partial: false,
        stage: Some(stage).filter(|stage| *stage != Stage::default()),
        image: false,
        needs_profile: false,
        checks: Vec::new(),
    }
}

fn document(report: &Report, status: Option<&Status>, exit: Exit) -> Result<String, CliError> {
    let reader = DirReader::live();
    let version = status.map(|status| status.version.as_str()).filter(|text| !text.is_empty());
    let moment = json::Moment {
        evaluated_at: status.and_then(|status| status.evaluated_at).map(format_utc),
        program_version: version.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
        machine_id: machine_id::read(&reader),
        boot_id: boot_id::read(&reader).ok(),
    };
    let label = bedplate_core::engine::observe(&reader, Depth::Identity).label();
    let frame = json::JudgementFrame {
        file: None,
        host: &label,
        exit_status: exit as u8,
        moment: Some(moment),
    };
    Ok(json::verify(frame, report)?)
}
