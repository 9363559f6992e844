//! The daemon's last verdict on the host, for callers that must not wait for an observation: a job prolog, a health check.
//! Reads only the status file.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use crate::checks::Checked;
use crate::export;
use crate::ready_target::GRACE;
use crate::status::host_stage::has_check;
use crate::status::{FILE, State, Status, Verdict, Work};
use bedplate_base::duration;
use bedplate_base::{Recovery, format_utc};
use bedplate_core::verify::{
    Answer, Check, Judged, Report, Severity, Stage, Verdict as Outcome, find,
};
use bedplate_host::{DirReader, Reader as _, boot_id};

/// Id of the check for a host that does not match its profile.
const IN_EFFECT: &str = "profile.in-effect";
/// A verdict may be this much later than the caller's clock, which may have been set back since.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// Why there is no verdict to rely on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// No status file, or one of another format.
    #[error("no daemon has published a verdict in {FILE}; start bedplate.service")]
    Unpublished,
    /// The file is from another boot, or its daemon is gone.
    #[error("the daemon that wrote {FILE} is not running; start bedplate.service")]
    DaemonGone,
    /// The daemon has not observed the host yet.
    #[error("the daemon has not observed the host yet")]
    NotObserved,
    /// A change or an observation is running.
    #[error("the daemon is working: {what}")]
    Working {
        /// The step.
        what: String,
    },
    /// The verdict is too old.
    #[error("the daemon's last verdict is of {at}, more than {limit} ago")]
    TooOld {
        /// Time of the verdict.
        at: String,
        /// Largest age.
        limit: String,
    },
    /// The verdict is from the future: the clock was set back.
    #[error("the daemon's last verdict is of {at}, in the future; is the clock right?")]
    Future {
        /// Time of the verdict.
        at: String,
    },
}

/// Returns the status of a daemon that is running in this boot.
///
/// # Errors
/// [`NoVerdict::Unpublished`], [`NoVerdict::DaemonGone`].
pub fn running(root: &Path) -> Result<Status, NoVerdict> {
    let status = export::read(root).ok_or(NoVerdict::Unpublished)?;
    let command = DirReader::live().text(&format!("/proc/{}/cmdline", status.pid));
    let is_daemon = command.is_ok_and(|command| command.split('\0').any(|word| word == "daemon"));
    match is_daemon && status.boot_id == boot_id::below(root) {
        true => Ok(status),
        false => Err(NoVerdict::DaemonGone),
    }
}

/// Returns a status with the last verdicts, if they hold at `now`. `max_age`: largest age; `None`: two intervals of the
/// daemon. During a short observation or change the verdicts before it hold, as for bedplate-is-ready.target: each event
/// leads to an observation.
///
/// # Errors
/// [`NoVerdict`].
pub fn check(
    status: &Status,
    max_age: Option<SignedDuration>,
    now: Timestamp,
) -> Result<Status, NoVerdict> {
    if status.state == State::Stopped {
        return Err(NoVerdict::DaemonGone);
    }
    let status = before_short_work(status.clone(), now)?;
    let Some(at) = status.evaluated_at.filter(|_| status.state != State::Starting) else {
        return Err(NoVerdict::NotObserved);
    };
    let age = now.duration_since(at);
    if age < -CLOCK_TOLERANCE {
        return Err(NoVerdict::Future { at: format_utc(at) });
    }
    // Each heartbeat renews the status, also while an observation hangs in a driver: its length of validity counts from
    // the evaluation.
    let beat = status.heartbeat.zip(status.fresh_until);
    let validity = beat.map(|(beat, until)| until.duration_since(beat));
    let limit = max_age.or(validity).unwrap_or(SignedDuration::MAX);
    // A daemon that hangs renews nothing: its verdict ends even if the caller accepts an older one.
    let is_renewed = status.fresh_until.is_none_or(|until| now < until);
    match age <= limit && is_renewed {
        true => Ok(status),
        false => {
            let limit = validity.unwrap_or(limit).min(limit);
            Err(NoVerdict::TooOld { at: format_utc(at), limit: duration::format_rounded(limit) })
        }
    }
}

fn before_short_work(mut status: Status, now: Timestamp) -> Result<Status, NoVerdict> {
    if status.state != State::Working {
        return Ok(status);
    }
    let is_short = |work: &Work| now.duration_since(work.since).unsigned_abs() < GRACE;
    match (status.work.take_if(|work| is_short(work)), status.before_work.take()) {
        (Some(_), Some(before)) => {
            (status.verdict, status.reason) = (before.gpudirect.verdict, before.gpudirect.reason);
            status.host_stage = before.host;
            Ok(status)
        }
        _ => Err(NoVerdict::Working { what: status.reason }),
    }
}

/// Returns the verdict on a stage as the report of `bedplate verify`, without evidence.
pub fn report(status: &Status, stage: Stage) -> Report {
    let verdict = status.verdict_on(stage);
    let (answer, outcome) = match verdict.verdict {
        Verdict::Ready => (Answer::Ready, Outcome::Pass),
        Verdict::NotReady => (Answer::NotReady, Outcome::Fail),
        Verdict::CannotTell => (Answer::CannotTell, Outcome::Unknown),
    };
    let of_stage = |checked: &&Checked| has_check(stage, checked);
    let mut checks: Vec<&Checked> = status.checks.iter().flatten().filter(of_stage).collect();
    let decides = |checked: &&&Checked| match answer {
        Answer::Ready => false,
        Answer::NotReady => checked.fails(),
        Answer::CannotTell => checked.is_inconclusive(),
    };
    let mut decisive: Vec<&Checked> = checks.iter().filter(decides).copied().collect();
    let profile = Checked {
        id: IN_EFFECT.to_owned(),
        outcome,
        severity: Severity::Fail,
        text: verdict.reason.clone(),
        fix: None,
        recovery: Recovery::None,
    };
    // Without a deciding check, the profile decides: it is not in effect, or unusable. Its own check may have passed: a
    // device that is missing differs from earlier boots, not from the profile.
    if answer != Answer::Ready && decisive.is_empty() {
        checks.retain(|checked| checked.id != IN_EFFECT);
        checks.insert(0, &profile);
        decisive.push(&profile);
    }
    let judged = |checked: &&Checked| find(&checked.id).map(|check| judged(check, checked));
    let id = |checked: &&Checked| find(&checked.id).map(|check| check.id);
    let warned = |checked: &&&Checked| checked.outcome == Outcome::Warn;
    Report {
        answer,
        reason: (answer != Answer::Ready).then(|| verdict.reason.clone()),
        next: decisive.iter().find_map(|one| Some(format!("{} ({})", one.fix.as_ref()?, one.id))),
        decided_by: decisive.iter().filter_map(id).collect(),
        warned_by: checks.iter().filter(warned).filter_map(id).collect(),
        recovery: decisive.iter().map(|one| one.recovery).max().unwrap_or(Recovery::None),
        partial: false,
        stage: Some(stage).filter(|stage| *stage != Stage::default()),
        image: false,
        needs_profile: false,
        checks: checks.iter().filter_map(judged).collect(),
    }
}

fn judged(check: &'static Check, checked: &Checked) -> Judged {
    Judged {
        id: check.id,
        group: check.group,
        verifies: check.verifies,
        verdict: checked.outcome,
        finding: checked.text.clone(),
        evidence: Vec::new(),
        codes: Vec::new(),
        fix: checked.fix.clone(),
        in_profile: false,
        severity: checked.severity,
        severity_reason: None,
    }
}

#[cfg(test)]
mod tests;
