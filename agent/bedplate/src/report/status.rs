//! Operator reports of the daemon's status: `bedplate status` and `bedplate reboot status`, each on one screen. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::report::style::{BAD, GOOD, HEAD, WARN, paint};
use crate::report::text::when;
use bedplate_base::format_utc;
use bedplate_core::kind::cmdline::NEXT_KERNEL;
use bedplate_core::plan::{Blocker, Pending, RebootNeed, Unknown};
use bedplate_core::profile::model::{AgentMode, RebootPolicy};
use bedplate_core::verify::Stage;
use bedplate_daemon::backoff::{CLEARS, Conflict, FailedChange};
use bedplate_daemon::checks::{Checked, counted};
use bedplate_daemon::reboot::decide::entry_veto;
use bedplate_daemon::reboot::state::{CANCELLED, RebootState, Veto};
use bedplate_daemon::status::{RebootStatus, StageVerdict, State, Status, Verdict};

/// Fix for a hold on reboots.
const RELEASES: &str = "end it with `bedplate reboot release`";

/// Formats the verdict and its reason.
pub(crate) fn answer(status: &Status) -> String {
    verdict(&status.verdict_on(Stage::Gpudirect))
}

/// Formats the verdict on a stage and its reason.
pub(crate) fn verdict(verdict: &StageVerdict) -> String {
    let (style, word) = match verdict.verdict {
        Verdict::Ready => (GOOD, "ready"),
        Verdict::NotReady => (BAD, "not ready"),
        Verdict::CannotTell => (WARN, "unknown"),
    };
    format!("{}: {}\n", paint(style, word), verdict.reason)
}

/// Formats the status of the host at `now`. `live` means that a daemon reports it.
pub fn status(status: &Status, live: bool, now: Timestamp) -> String {
    let mut out = answer(status);
    let mode = match (live, status.mode) {
        (false, _) => "not running",
        (true, Some(_)) if status.pause.is_some() => "paused: observes only",
        (true, _) if status.state == State::NoProfile => "no profile to enforce",
        (true, Some(AgentMode::Enforce)) => "enforces the profile",
        (true, Some(AgentMode::Observe)) => "observes only",
        (true, None) => "first observation pending",
    };
    let _ = writeln!(
        out,
        "  profile  {}",
        if status.profile.is_empty() { "-" } else { &status.profile }
    );
    let _ = writeln!(out, "  daemon   {mode}");
    if let Some(hold) = &status.reboot.hold {
        let _ = writeln!(out, "  reboots  {hold}; {RELEASES}");
    }
    if let Some(pause) = &status.pause {
        let _ = writeln!(out, "  paused   {}", pause.describe());
    }
    let _ = writeln!(out, "  state    {}", status.state.name());
    if status.verdict != Verdict::Ready && status.host_stage.verdict == Verdict::Ready {
        out.push_str(
            "  stage    the host stage is ready: what is missing depends on drivers or ports\n",
        );
    }
    if let Some(work) = &status.work {
        let seconds = now.duration_since(work.since).as_secs().max(0);
        let _ = writeln!(out, "  running  {} ({seconds} s)", work.what);
    }
    if let Some(at) = status.last_converged {
        let _ = writeln!(out, "  last ok  {} (converged)", format_utc(at));
    }
    if !status.facts.is_empty() {
        let facts: Vec<String> =
            status.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(out, "  host     {}", facts.join(", "));
    }
    if let Some(checks) = &status.checks {
        let _ = writeln!(out, "  checks   {} (details: `bedplate verify`)", counted(checks));
    }
    lists(status, &mut out);
    checks(status, &mut out);
    let coming = status.reboot.state.is_coming();
    if coming || live && (status.reboot.is_needed() || status.state == State::AttemptsExhausted) {
        let hint = match live {
            true => "`bedplate reboot status`",
            false => "cancel with `bedplate reboot cancel`",
        };
        let _ = writeln!(out, "\nreboot: {} ({hint})", status.reboot.state);
    }
    out
}

/// Lists the checks that keep the host from being ready. Warnings are only counted above.
fn checks(status: &Status, out: &mut String) {
    let mut list = |title: &str, such: fn(&Checked) -> bool| {
        let mut those = status.checks.iter().flatten().filter(|one| such(one)).peekable();
        if those.peek().is_some() {
            let _ = writeln!(out, "\n{}", paint(HEAD, title));
        }
        for one in those {
            let _ = writeln!(out, "  {}: {}", one.id, one.text);
            if let Some(fix) = &one.fix {
                let _ = writeln!(out, "      fix: {fix}");
            }
        }
    };
    list("failed checks", Checked::fails);
    list("unknown checks", Checked::is_inconclusive);
}

/// Lists drifted settings, pending changes, blockers, unknown items, failed changes and conflicts.
fn lists(status: &Status, out: &mut String) {
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(out, "\n{}", paint(HEAD, title));
            lines.iter().for_each(|line| _ = writeln!(out, "  {line}"));
        }
    };
    let differs = |change: &bedplate_daemon::observation::Difference| {
        format!("{} {}  [{}]", change.kind, change.subject, when(change.effect))
    };
    list("drifted", status.changes.iter().map(differs).collect());
    let waits = |pending: &Pending| {
        format!("{} {}  [{}]", pending.kind, pending.subject, when(pending.effect))
    };
    list("pending reboot", status.pending.iter().map(waits).collect());
    let blocker = |one: &Blocker| {
        format!("{} {}: {}\n      fix: {}", one.kind, one.subject, one.reason, one.fix)
    };
    list("requires operator action", status.blockers.iter().map(blocker).collect());
    let unknown = |one: &Unknown| format!("{} {}: {}", one.kind, one.subject, one.reason);
    list("unknown", status.unknowns.iter().map(unknown).collect());
    let failed = |one: &FailedChange| {
        let times = if one.times == 1 { String::new() } else { format!(" {} times", one.times) };
        format!(
            "{}: {}\n      failed{times}; retries automatically; `bedplate reconcile` retries now",
            one.subject, one.why
        )
    };
    list("failed", status.failed.iter().map(failed).collect());
    let conflict = |one: &Conflict| {
        format!(
            "{}: reverted externally {} times; last value {}\n      {CLEARS}",
            one.id, one.times, one.found
        )
    };
    list("conflicts", status.conflicts.iter().map(conflict).collect());
    list("to be set in the profile", status.reminders.clone());
}

/// Formats the reboot: need, reason, method, time, blockers, and the command to reboot now.
pub(crate) fn reboot(status: &Status) -> String {
    let mut out = String::new();
    let reboot = &status.reboot;
    let need = match reboot.need {
        None if reboot.state.is_coming() => "scheduled",
        None => "not yet known",
        Some(RebootNeed::None) if reboot.state == RebootState::WaitingForChanges => {
            "not needed yet: changes that require a reboot are not written yet"
        }
        Some(RebootNeed::None) => "not needed",
        Some(RebootNeed::Reboot) => "needed: the kernel must be restarted",
        Some(RebootNeed::Cold) => {
            "needed: through firmware (an ordinary reboot; not kexec or soft-reboot)"
        }
    };
    let _ = writeln!(out, "reboot    {need}");
    for pending in &status.pending {
        let running = pending.running.as_deref().unwrap_or("absent");
        let next = pending.next.as_deref().unwrap_or("absent");
        let _ = writeln!(
            out,
            "  for     {} {}: {running} → {next}  [{}]",
            pending.kind,
            pending.subject,
            when(pending.effect)
        );
    }
    if let Some(kernel) = status.facts.get(NEXT_KERNEL) {
        let _ = writeln!(out, "  starts  Linux {kernel}, not the running kernel");
    }
    let policy = match reboot.policy {
        Some(RebootPolicy::Never) => "never: an operator reboots this host",
        Some(RebootPolicy::Mark) => "mark: /run/reboot-required notifies other tools",
        Some(RebootPolicy::Schedule) => "schedule: bedplate reboots",
        None => "not yet known",
    };
    let _ = writeln!(out, "policy    {policy}");
    if let Some(hold) = &reboot.hold {
        let _ = writeln!(out, "hold      {hold}; {RELEASES}");
    }
    if let Some(pause) = &status.pause {
        let _ = writeln!(out, "paused    {}", pause.describe());
    }
    render_state(reboot, &mut out);
    if let Some(veto) = reboot.next_boot.as_ref().and_then(entry_veto) {
        let _ = writeln!(out, "next boot {}", veto.text);
    }
    how(reboot, &mut out);
    let hint = match (&reboot.state, reboot.need) {
        (RebootState::Scheduled { .. }, _) => "cancel with `bedplate reboot cancel`",
        (_, None | Some(RebootNeed::None)) => return out,
        (RebootState::UnderWay { .. }, _) => return out,
        (RebootState::AttemptsExhausted { .. }, _) => {
            "fix the cause, then run `bedplate reboot schedule`"
        }
        _ => "reboot now with `bedplate reboot schedule`",
    };
    let _ = writeln!(out, "{hint}");
    out
}

/// Formats the state of the reboot and its blockers.
fn render_state(reboot: &RebootStatus, out: &mut String) {
    let state = match &reboot.state {
        state @ RebootState::AttemptsExhausted { .. } => paint(BAD, &state.to_string()),
        RebootState::Waiting { until: Some(until), .. } => {
            format!("waiting until {}", format_utc(*until))
        }
        RebootState::Waiting { why, .. } if why.len() > 1 => "waiting".to_owned(),
        RebootState::Cancelled { .. } => CANCELLED.to_owned(),
        state => state.to_string(),
    };
    let _ = writeln!(out, "now       {state}");
    let in_the_way: &[Veto] = match &reboot.state {
        RebootState::Waiting { why, until, .. } if why.len() > 1 || until.is_some() => why,
        RebootState::Cancelled { why } => why,
        _ => &[],
    };
    in_the_way.iter().for_each(|why| _ = writeln!(out, "  blocked by  {why}"));
    if let Some(by) = &reboot.cancelled_by {
        let _ = writeln!(out, "  cancelled   {by}; `bedplate reboot schedule` requests it again");
    }
}

/// Formats the method, the reboot lock, and earlier attempts.
fn how(reboot: &RebootStatus, out: &mut String) {
    if let Some(method) = reboot.method {
        let _ = writeln!(out, "method    {method}");
    }
    reboot.methods.iter().for_each(|said| _ = writeln!(out, "  {said}"));
    match (&reboot.lock, &reboot.lock_message) {
        (Some(lock), said) => {
            let word = if lock.certain { "held by this host" } else { "may be held by this host" };
            let _ = writeln!(
                out,
                "lock      {word} since {} ({})",
                format_utc(lock.since),
                lock.server.url
            );
            said.iter().for_each(|said| _ = writeln!(out, "  {said}"));
        }
        (None, Some(said)) => _ = writeln!(out, "lock      {said}"),
        (None, None) => {}
    }
    if reboot.attempts > 0 {
        let _ = writeln!(out, "attempts  {} since this host last converged", reboot.attempts);
    }
    if let Some(last_boot) = &reboot.last_boot {
        let _ = writeln!(out, "last boot {}", last_boot.summary);
    }
}
