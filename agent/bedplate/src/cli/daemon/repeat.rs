//! `bedplate verify --every`: verifies again and again, and publishes both stages in files, for a container next to Node
//! Problem Detector and Node Feature Discovery.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use super::block_on;
use crate::cli::{CliError, Context as _, Exit, conclude, output};
use crate::report::verify::verdict_line;
use bedplate_base::terminal::one_line;
use bedplate_base::{chain, duration};
use bedplate_core::verify::{Answer, Report, Stage};
use bedplate_daemon::checks;
use bedplate_daemon::export::{self, Labels};

/// Rounds that may fail before what was published expires.
const VALID_ROUNDS: u32 = 3;
/// Shortest interval: each round reads config space.
const SHORTEST: Duration = Duration::from_secs(10);

/// Options of `bedplate verify` for repeated runs.
#[derive(Debug, Args)]
pub(crate) struct RepeatArgs {
    /// Verify again after this time (at least 10s), until terminated, and print each change of the answers on both stages.
    #[arg(long, value_name = "TIME", value_parser = interval, conflicts_with_all = ["json", "since_boot", "snapshot", "root", "demo", "check", "skip", "stage", "fail_on", "verbose", "quiet", "cost"], help_heading = "Repeated runs")]
    pub every: Option<Duration>,
    /// Write the answer on each stage to DIR/host and DIR/gpudirect: end of validity in seconds since 1970, then
    /// `ready: …`, `not ready: …` or `unknown: …`.
    #[arg(long, value_name = "DIR", requires = "every", help_heading = "Repeated runs")]
    conditions: Option<PathBuf>,
    /// Write labels to this file, in the format of Node Feature Discovery.
    #[arg(long, value_name = "FILE", requires = "every", help_heading = "Repeated runs")]
    labels: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).and_then(|length| Duration::try_from(length).ok());
    parsed
        .filter(|length| *length >= SHORTEST)
        .ok_or_else(|| "expected a duration of at least 10s, such as `1m`".to_owned())
}

/// Result of one round: facts for labels, and the report on each stage.
pub(crate) struct Round {
    pub labels: BTreeMap<String, String>,
    pub host: Report,
    pub gpudirect: Report,
}

/// Repeats `verify` until the process is terminated.
pub(crate) fn run(
    args: &RepeatArgs,
    every: Duration,
    verify: impl Fn() -> Result<Round, CliError>,
) -> Result<Exit, CliError> {
    block_on(async {
        // The first process of a container ignores signals without a handler.
        let mut ended = signal(SignalKind::terminate()).context("cannot wait for signals")?;
        let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
        let mut said = (String::new(), [None, None]);
        loop {
            let round = verify();
            let until = Timestamp::now().checked_add(every.saturating_mul(VALID_ROUNDS));
            let until = until.unwrap_or(Timestamp::MAX);
            publish_conditions(args, &round, until)?;
            // The conditions go on, also while the disk of the host is full.
            let labels = publish_labels(args, &round, until);
            let answers = Stage::ALL.map(|stage| format!("{stage}: {}\n", answer(&round, stage)));
            let errors = [round.as_ref().err(), labels.as_ref().err()];
            let now = (answers.concat(), errors.map(|error| error.map(|error| chain(error))));
            if now != said {
                output::lines(&now.0)?;
                errors.into_iter().flatten().for_each(conclude::print);
                said = now;
            }
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = ended.recv() => return Ok(Exit::Done),
                _ = interrupted.recv() => return Ok(Exit::Done),
            }
        }
    })
    .context("cannot wait")?
}

/// Returns the answer on a stage in one line; a round that failed is unknown.
fn answer(round: &Result<Round, CliError>, stage: Stage) -> String {
    match (round, stage) {
        (Ok(round), Stage::Host) => verdict_line(&round.host),
        (Ok(round), Stage::Gpudirect) => verdict_line(&round.gpudirect),
        (Err(error), _) => format!("unknown: {}", one_line(&chain(error))),
    }
}

fn publish_conditions(
    args: &RepeatArgs,
    round: &Result<Round, CliError>,
    until: Timestamp,
) -> Result<(), CliError> {
    let Some(dir) = &args.conditions else { return Ok(()) };
    for stage in Stage::ALL {
        let line = format!("{} {}\n", until.as_second(), answer(round, stage));
        replace(&dir.join(stage.name()), &line)?;
    }
    Ok(())
}

fn publish_labels(
    args: &RepeatArgs,
    round: &Result<Round, CliError>,
    until: Timestamp,
) -> Result<(), CliError> {
    let Some(file) = &args.labels else { return Ok(()) };
    let is_ready = |report: &Report| report.answer == Answer::Ready;
    let checks = round.as_ref().ok().map(|round| checks::public(&round.gpudirect));
    let facts = round.as_ref().map(|round| round.labels.clone());
    let labels = Labels {
        until: Some(until),
        ready: round.as_ref().is_ok_and(|round| is_ready(&round.gpudirect)),
        host_ready: round.as_ref().is_ok_and(|round| is_ready(&round.host)),
        state: None,
        checks: checks.as_deref(),
        facts: &facts.unwrap_or_default(),
    };
    replace(file, &export::labels(&labels))
}

/// Replaces a file that other containers read: they see the old text or the new one.
fn replace(file: &Path, text: &str) -> Result<(), CliError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.new"));
    let write = || {
        // A killed run may have left its own. A link of that name must not be followed.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = fs::File::create_new(&temporary)?;
        new.write_all(text.as_bytes())?;
        new.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&temporary, file)
    };
    write().context(format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, target) = (dir.path().join("host"), dir.path().join("target"));
        fs::write(&target, "t").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".host.new")).unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        replace(&file, "1 ready: x\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 ready: x\n");
        assert_eq!(fs::read_to_string(&target).unwrap(), "t");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn failed_round_is_unknown() {
        let round = Err(CliError::new("no\nprofile"));
        assert_eq!(answer(&round, Stage::Host), "unknown: no\\nprofile");
    }
}
