//! `bedplate verify`: checks whether this host is ready for GPUDirect RDMA.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use jiff::Timestamp;

#[cfg(feature = "daemon")]
use super::daemon::{last_verdict, repeat};
use super::host::{self, OpenHost};
use super::words::{STAGES, one_of};
use super::{CliError, Exit, HostArgs, VENDORS, WithoutArgs, output};
use crate::report::verify as text;
use crate::report::verify::{HostResult, Tally};
use bedplate_base::{CpuVendor, chain, format_utc};
use bedplate_core::documents as json;
use bedplate_core::engine::profile_source::{Choice, SourceError};
use bedplate_core::engine::{self, EngineError, Request, VerifyOutcome};
use bedplate_core::profile::nearest;
use bedplate_core::verify::{Answer, CHECKS, NOT_LOOKED_AT, Report, SelectError, Selection, Stage};
#[cfg(feature = "daemon")]
use bedplate_daemon::worker_task;
use bedplate_host::{HostKind, boot_id, machine_id};

/// Lowest level with exit status 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Host not ready.
    Fail,
    /// Any warning.
    Warn,
}

/// `bedplate verify`.
#[derive(Debug, Args)]
#[command(
    after_help = format!("Not checked: {NOT_LOOKED_AT}.\n\nExit status: 0 ready; 4 not ready, or with `--fail-on warn` \
        ready with a warning; 5 unknown: something could not be read; 1 error; 64 usage. For an image (`--root`), only its files are checked: \
        boot entry, files of the profile, tools of the build, units. For several hosts: 1 if one could not be \
        checked, otherwise the first of 4, 5, 0 that applies.")
)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Also check against this profile: name of a shipped profile, a TOML file, or a directory of TOML files (the best
    /// match is used). Default: the profile in /etc/bedplate of the host, if any.
    #[arg(long, short, value_name = "NAME|FILE|DIR", help_heading = "Profile")]
    profile: Option<String>,
    /// CPU vendor to assume for an image, which has no CPU of its own.
    #[arg(long, value_name = "VENDOR", value_parser = one_of(&VENDORS), help_heading = "Profile")]
    cpu: Option<CpuVendor>,
    #[command(flatten)]
    without: WithoutArgs,
    /// Run only these checks: an id, a group, or a pattern such as 'pcie.link-*'. Repeatable.
    #[arg(long, value_name = "ID", value_parser = CheckPattern, hide_possible_values = true, help_heading = "Checks")]
    check: Vec<String>,
    /// Skip these checks: an id, a group, or a pattern. Repeatable.
    #[arg(long, value_name = "ID", value_parser = CheckPattern, hide_possible_values = true, help_heading = "Checks")]
    skip: Vec<String>,
    /// Stage to verify. A GPU Operator that installs the driver waits for `host` at most, jobs for `gpudirect`.
    #[arg(long, value_name = "STAGE", value_parser = one_of(&STAGES), default_value = "gpudirect", help_heading = "Checks")]
    stage: Stage,
    /// Exit with status 4 if the host is not ready (`fail`), or also for a warning (`warn`).
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Fail, help_heading = "Checks")]
    fail_on: FailOn,
    /// Explain checks: what they read, why, how, sources. An id, a group, a pattern, or `all`.
    #[arg(
        long,
        value_name = "ID",
        value_parser = CheckPattern,
        hide_possible_values = true,
        exclusive = true,
        help_heading = "Checks"
    )]
    explain: Option<String>,
    /// List the checks, one line each, and exit.
    #[arg(long, exclusive = true, help_heading = "Checks")]
    list: bool,
    /// Print JSON (schema: `bedplate verify --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
    /// Also show passed checks, and all evidence.
    #[arg(long, short)]
    verbose: bool,
    /// Print only the answer.
    #[arg(long, short, conflicts_with_all = ["verbose", "json"])]
    quiet: bool,
    /// Print the read cost to stderr: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
    #[cfg(feature = "daemon")]
    #[command(flatten)]
    last: super::daemon::last_verdict::LastVerdictArgs,
    #[cfg(feature = "daemon")]
    #[command(flatten)]
    repeat: super::daemon::repeat::RepeatArgs,
}

/// Parser of check patterns. Any pattern is accepted; ids and groups are only suggested by shell completion.
#[derive(Debug, Clone, Copy)]
struct CheckPattern;

impl TypedValueParser for CheckPattern {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let groups: BTreeSet<&str> = CHECKS.iter().map(|check| check.group.name()).collect();
        let ids = CHECKS.iter().map(|check| PossibleValue::new(check.id));
        Some(Box::new(ids.chain(groups.into_iter().map(PossibleValue::new))))
    }
}

/// Verifies every named host.
pub(crate) fn run(args: &VerifyArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(json::VERIFY_SCHEMA).map(|()| Exit::Done);
    }
    if args.list {
        return output::lines(&text::list()).map(|()| Exit::Done);
    }
    if let Some(word) = &args.explain {
        return explain(word).map(|()| Exit::Done);
    }
    let selection =
        Selection::new(&args.check, &args.skip, args.stage).map_err(|error| unknown(&error))?;
    #[cfg(feature = "daemon")]
    if args.last.since_boot {
        let form = last_verdict::Form { json: args.json, quiet: args.quiet };
        let exit = |report: &Report| status(args.fail_on, report);
        return last_verdict::run(&args.last, args.stage, form, exit);
    }
    #[cfg(feature = "daemon")]
    if let Some(every) = args.repeat.every {
        return repeated(args, every);
    }
    let mut worst = Exit::Done;
    let mut tally = Tally::new();
    let unusable = host::each(&args.host, |opened| {
        let report = verify_host(args, opened, &selection)?;
        worst = worst.worst(status(args.fail_on, &report));
        tally.extend(opened.file.clone().map(|file| (HostResult::from(&report), file)));
        Ok(())
    })?;
    if !unusable.is_empty() {
        worst = Exit::Failed;
    }
    tally.extend(unusable.into_iter().map(|file| (HostResult::Unusable, file)));
    if !args.json && !tally.is_empty() {
        output::report(&text::tally(&tally))?;
    }
    Ok(worst)
}

/// Verifies this host again and again, on both stages.
#[cfg(feature = "daemon")]
fn repeated(args: &VerifyArgs, every: std::time::Duration) -> Result<Exit, CliError> {
    // Warns of missing rights once, and fails at once if the host cannot be read.
    host::open_one(&args.host)?;
    let [host, gpudirect] = [Stage::Host, Stage::Gpudirect].map(Selection::of_stage);
    repeat::run(&args.repeat, every, || {
        // Mounts may have changed since the last round.
        let opened = host::open_again(&args.host)?;
        let reader = opened.reader.as_ref();
        let verified = engine::verify_by(reader, &request(args), [&host, &gpudirect])?;
        warn_of_profile(verified.unusable.as_ref());
        let [host, gpudirect] = verified.report;
        let labels = worker_task::labels(&verified.facts, reader);
        Ok(repeat::Round { labels, host, gpudirect })
    })
}

fn request(args: &VerifyArgs) -> Request<'_> {
    Request {
        cpu: args.cpu,
        image: args.without.request(),
        ..Request::dry_run(choice(args.profile.as_deref()))
    }
}

/// Returns the exit status for one host.
fn status(fail_on: FailOn, report: &Report) -> Exit {
    match report.answer {
        Answer::NotReady => Exit::Blocked,
        _ if fail_on == FailOn::Warn && report.warns() => Exit::Blocked,
        Answer::CannotTell => Exit::CannotTell,
        Answer::Ready => Exit::Done,
    }
}

/// Runs the checks on a running host, with the named profile or the host's own.
pub(crate) fn verified(
    opened: &OpenHost,
    profile: Option<&str>,
    selection: &Selection,
) -> Result<VerifyOutcome, CliError> {
    if opened.reader.kind() == HostKind::Image {
        return Err(not_running());
    }
    Ok(engine::verify(opened.reader.as_ref(), &Request::dry_run(choice(profile)), selection)?)
}

fn choice(profile: Option<&str>) -> Choice<'_> {
    profile.map_or(Choice::HostOnly, Choice::Named)
}

/// Returns the error for an image without a profile: an image is checked only against its profile.
fn no_profile() -> CliError {
    CliError::new(
        "an image is checked against its profile, and this image has none in /etc/bedplate",
    )
    .hinting("pass --profile")
}

/// Reports problems of the host's profile, and that the host was checked without it.
pub(crate) fn warn_of_profile(unusable: Option<&EngineError>) {
    match unusable {
        Some(EngineError::Profile(SourceError::Invalid(findings))) => {
            output::diagnostics(&output::findings(findings));
            output::warn("unusable profile on this host; checked without it");
        }
        Some(error) => {
            let why = chain(error);
            output::warn(&format!("this host is checked without its profile: {why}"));
        }
        None => {}
    }
}

/// Returns the error for an image, which cannot be checked here.
pub(crate) fn not_running() -> CliError {
    let what = "an image is not running: it has no registers, IOMMU groups or drivers to report";
    let hint = "check the files of an image with `bedplate verify --root DIR`; report on the machine that runs it";
    CliError::new(what).hinting(hint)
}

fn verify_host(
    args: &VerifyArgs,
    opened: &OpenHost,
    selection: &Selection,
) -> Result<Report, CliError> {
    let request = request(args);
    let verified = engine::verify(opened.reader.as_ref(), &request, selection)?;
    warn_of_profile(verified.unusable.as_ref());
    let has_profile = verified.loaded.is_some() || verified.unusable.is_some();
    if opened.reader.kind() == HostKind::Image && !has_profile {
        return Err(no_profile());
    }
    let VerifyOutcome { facts, loaded, report, .. } = verified;
    if let Some(loaded) = &loaded {
        output::lints(loaded, &[]);
    }
    let label = facts.label();
    if args.json {
        let judging = json::JudgementFrame {
            file: opened.file.as_deref(),
            host: &label,
            exit_status: status(args.fail_on, &report) as u8,
            moment: moment(opened),
        };
        output::data(&json::verify(judging, &report)?)?;
    } else {
        let heading = opened.heading();
        match args.quiet {
            true => output::lines(&format!("{heading}{}", text::answer(&report)))?,
            false => {
                let text = text::verify(&report, &label, args.verbose);
                output::report(&format!("{heading}{text}"))?;
            }
        }
    }
    if args.cost {
        output::cost(opened.reader.cost(), &facts);
    }
    Ok(report)
}

/// Returns the time of the checks and the boot id of a running host.
fn moment(opened: &OpenHost) -> Option<json::Moment> {
    let reader = opened.reader.as_ref();
    (reader.kind() == HostKind::Live).then(|| json::Moment {
        evaluated_at: Some(format_utc(Timestamp::now())),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine_id: machine_id::read(reader),
        boot_id: boot_id::read(reader).ok(),
    })
}

fn explain(word: &str) -> Result<(), CliError> {
    let words = if word == "all" { "*" } else { word };
    let selection = Selection::new(&[words.to_owned()], &[], Stage::default())
        .map_err(|error| unknown(&error))?;
    let texts = CHECKS.iter().filter(|check| selection.has(check)).map(text::explain);
    output::report(&texts.collect::<Vec<_>>().join("\n"))
}

fn unknown(error: &SelectError) -> CliError {
    let groups = CHECKS.iter().map(|check| check.group.name());
    let ids = CHECKS.iter().map(|check| check.id).chain(groups);
    let near = match error {
        SelectError::Unknown { word } => nearest(word, ids),
        SelectError::Nothing => None,
    };
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "run `bedplate verify --list` for all checks".to_owned(),
    };
    CliError::new(error.to_string()).hinting(hint)
}
