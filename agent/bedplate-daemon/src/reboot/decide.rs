//! The decision about a reboot: whether, when, and its obstacles. One pure function; clock, host and record are arguments.

use jiff::{SignedDuration, Timestamp};

use super::state::{RebootState, UNFINISHED, Veto, WaitsFor};
use bedplate_base::format_utc;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::RebootWindow;
use bedplate_core::profile::model::{Reboot, RebootMethod, RebootPolicy};
use bedplate_core::reboot_record::{MOST_IN_A_ROW, RebootRequest, Record};

/// Input of the decision at one moment.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// Reboot that the pending changes need.
    pub need: RebootNeed,
    /// Hash of the pending changes; the same before a boot and after a boot that did not apply them.
    pub plan: &'a str,
    /// Whether changes must still be written before a boot would help.
    pub unfinished: bool,
    /// Whether any of these changes takes effect only at a boot.
    pub planned: bool,
    /// Whether the kernel was booted with all requested arguments and does not honor them: another boot would not help.
    pub refused: bool,
    /// Id of this boot.
    pub boot_id: &'a str,
    /// Time of the decision.
    pub now: Timestamp,
    /// `[reboot]`.
    pub settings: &'a Reboot,
    /// Earlier reboots and requests.
    pub record: &'a Record,
    /// Vetoes: an operator's hold, busy devices, a busy command, a loaded kexec kernel.
    pub vetoes: &'a [Veto],
    /// An operator's pause of enforcement; `None` if an operator requested the reboot.
    pub pause: Option<&'a Veto>,
    /// Soundness of the next boot entry.
    pub entry: &'a NextBoot,
    /// Reboot method to use; `None` if none works.
    pub method: Option<RebootMethod>,
    /// Whether the scheduled reboot of this boot was cancelled, or did not happen.
    pub needs_operator: bool,
    /// Block inhibitors, by owner and reason.
    pub inhibitors: &'a [String],
    /// Duration for which inhibitors have blocked the reboot.
    pub inhibited_for: SignedDuration,
    /// Shutdown scheduled with logind.
    pub scheduled: ScheduledShutdown,
    /// Whether the reboot lock is certainly held; `None` without a lock server.
    pub locked: Option<bool>,
}

/// logind's schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduledShutdown {
    /// Nothing.
    Nothing,
    /// bedplate's own reboot.
    Ours {
        /// Due time.
        at: Timestamp,
        /// Identity of the operator's request that it fulfils.
        request: Option<Timestamp>,
    },
    /// bedplate's own reboot, now due: the machine is going down.
    Underway(Timestamp),
    /// A shutdown that is not bedplate's.
    Foreign {
        /// logind's type: `reboot`, `poweroff`, …
        kind: String,
        /// Due time.
        at: Timestamp,
    },
}

/// A request that is older than this was blocked, or bedplate was not running at its time.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(60);

/// Shortest notice of a reboot for which an operator has requested a delay of this length or more.
const LEAST_NOTICE: SignedDuration = SignedDuration::from_secs(10);

/// Reason after one boot that did not help.
const NO_HELP: &str = "rebooted, but the change is still not in effect";

/// Veto after a dry run.
const DRY_RUN_DONE: &str = "dry run done in this boot; set `dry_run = false` in [reboot] to reboot";

/// Veto if no method works.
pub(crate) const NO_METHOD: &str = "no reboot method of the profile works on this host";

/// Reason for cancelling a reboot that is no longer needed.
const NOTHING_WAITS: &str = "no change needs a reboot any more";

/// Reason for cancelling a reboot after the operator requested another time.
pub(crate) const MOVED: &str = "an operator requested another time";

/// Veto if the profile's windows are not chosen yet.
const NO_WINDOW: &str = "no window of the profile ever opens: set `windows` in [reboot], or run `bedplate reboot \
    schedule`";

/// Decides on the state. The caller must act on `taking-lock`, `scheduling` and `cancelling`.
pub fn decide(situation: &Situation<'_>) -> RebootState {
    // Nothing more is scheduled or cancelled: the running attempt must stay counted.
    if let ScheduledShutdown::Underway(at) = situation.scheduled {
        return RebootState::UnderWay { at };
    }
    let ours = matches!(situation.scheduled, ScheduledShutdown::Ours { .. });
    let asked = situation.record.request(situation.boot_id);
    if asked.is_none()
        && let Some((why, state)) = at_rest(situation)
    {
        return if ours { RebootState::Cancelling { why: vec![why] } } else { state };
    }
    let window = if asked.is_some() { Ok(None) } else { window(situation) };
    let mut why = obstacles(situation, asked);
    let until = match &window {
        Ok(_) => None,
        Err((reason, until)) => {
            why.push(Veto::new(WaitsFor::Window, reason.clone()));
            *until
        }
    };
    if situation.needs_operator && asked.is_none() && !ours {
        return RebootState::Cancelled { why };
    }
    if !why.is_empty() {
        if ours {
            let why = why.iter().map(Veto::to_string).collect();
            return RebootState::Cancelling { why };
        }
        let bound = SignedDuration::from_secs(i64::from(situation.settings.inhibitor_wait_s));
        let overdue = !situation.inhibitors.is_empty() && situation.inhibited_for >= bound;
        return RebootState::Waiting { why, until, overdue };
    }
    if let ScheduledShutdown::Ours { at, request } = situation.scheduled {
        return match asked.filter(|asked| request != Some(asked.since)) {
            Some(_) => RebootState::Cancelling { why: vec![MOVED.into()] },
            None => RebootState::Scheduled { at },
        };
    }
    let at = match time(situation, asked, window.ok().flatten()) {
        Ok(at) => at,
        Err(why) => return RebootState::waiting(WaitsFor::Window, why),
    };
    if situation.locked == Some(false) {
        return RebootState::TakingLock;
    }
    RebootState::Scheduling { at }
}

/// Returns all vetoes except a closed window.
fn obstacles(situation: &Situation<'_>, asked: Option<&RebootRequest>) -> Vec<Veto> {
    let mut why = situation.vetoes.to_vec();
    why.extend(situation.pause.cloned());
    let dry_run_done = situation.record.dry_run_done(situation.boot_id, situation.plan);
    if situation.settings.dry_run
        && situation.scheduled == ScheduledShutdown::Nothing
        && dry_run_done
    {
        // Vetoed here, before a slot is taken that no reboot would use.
        why.push(Veto::new(WaitsFor::DryRun, DRY_RUN_DONE));
    }
    if situation.method.is_none() {
        why.push(Veto::new(WaitsFor::Method, NO_METHOD));
    }
    if let ScheduledShutdown::Foreign { kind, at } = &situation.scheduled {
        let text =
            format!("another program has scheduled a shutdown: {kind} at {}", format_utc(*at));
        why.push(Veto::new(WaitsFor::OtherShutdown, text));
    }
    let inhibitor =
        |who: &String| Veto::new(WaitsFor::Inhibitor, format!("block inhibitor: {who}"));
    why.extend(situation.inhibitors.iter().map(inhibitor));
    if !asked.is_some_and(|asked| asked.force) {
        why.extend(entry_veto(situation.entry));
    }
    why
}

/// Returns the veto of a boot entry that is not known to be sound.
pub fn entry_veto(entry: &NextBoot) -> Option<Veto> {
    let head = match entry {
        NextBoot::Sound => return None,
        NextBoot::Unknown { .. } => "the next boot entry is not known to be sound",
        NextBoot::Unsound { .. } => "the next boot entry would not boot",
    };
    let text = format!("{head}: {}", entry.reasons().join("; "));
    Some(Veto::new(WaitsFor::BootEntry, text))
}

/// Returns the reason and state if no reboot by policy is due; `None` if one may follow.
fn at_rest(situation: &Situation<'_>) -> Option<(String, RebootState)> {
    if situation.need == RebootNeed::None {
        if situation.refused && situation.record.was_for_passthrough(situation.boot_id) {
            return Some((NO_HELP.into(), RebootState::AttemptsExhausted { why: NO_HELP.into() }));
        }
        let veto = entry_veto(situation.entry).map(|veto| veto.to_string());
        return Some(match situation.planned {
            true => (veto.unwrap_or_else(|| UNFINISHED.into()), unwritten(situation)),
            // Without the entry it is unknown whether a change is pending.
            false => (veto.unwrap_or_else(|| NOTHING_WAITS.into()), RebootState::Idle),
        });
    }
    match situation.settings.policy {
        RebootPolicy::Never => {
            return Some(("the profile's policy is `never`".into(), RebootState::Manual));
        }
        RebootPolicy::Mark => {
            return Some(("the profile's policy is `mark`".into(), RebootState::External));
        }
        RebootPolicy::Schedule => {}
    }
    if let Some(why) = attempts_exhausted(situation) {
        return Some((why.clone(), RebootState::AttemptsExhausted { why }));
    }
    situation.unfinished.then(|| (UNFINISHED.to_owned(), unwritten(situation)))
}

/// Returns the state while changes for a boot must still be written.
fn unwritten(situation: &Situation<'_>) -> RebootState {
    // A paused change is written after the pause ends; a change may fail because of the entry.
    let why = situation.pause.cloned().or_else(|| entry_veto(situation.entry));
    match why {
        Some(why) => RebootState::Waiting { why: vec![why], until: None, overdue: false },
        None => RebootState::WaitingForChanges,
    }
}

/// Loop guard: returns a reason if the attempts are exhausted.
fn attempts_exhausted(situation: &Situation<'_>) -> Option<String> {
    let used = situation.record.attempts_used(situation.plan, situation.boot_id);
    if used >= usize::from(situation.settings.attempts.max(1)) {
        return Some(match used {
            1 => NO_HELP.into(),
            _ => format!("rebooted {used} times, but the change is still not in effect"),
        });
    }
    let row = situation.record.in_a_row(situation.boot_id);
    (row >= MOST_IN_A_ROW).then(|| format!("rebooted {row} times in a row without converging"))
}

/// Returns the end of the open window, or `None` without windows. `Err` holds the reason and the next opening.
fn window(situation: &Situation<'_>) -> Result<Option<Timestamp>, (String, Option<Timestamp>)> {
    if situation.settings.windows.is_empty() {
        return Ok(None);
    }
    let openings = situation.settings.windows.iter().filter_map(|text| {
        let window: RebootWindow = text.parse().ok()?;
        window.opening(situation.now).map(|(from, to)| (from, to, text))
    });
    // Prefers, of the open windows, the one that closes last; without an open window, the one that opens first.
    let mut openings: Vec<_> = openings.collect();
    openings.sort_by_key(|(from, _, _)| *from);
    let open =
        openings.iter().filter(|(from, _, _)| *from <= situation.now).map(|(_, to, _)| *to).max();
    match (open, openings.first()) {
        (Some(to), _) => Ok(Some(to)),
        (None, Some((from, _, text))) => Err((format!("window `{text}` is closed"), Some(*from))),
        (None, None) => Err((NO_WINDOW.into(), None)),
    }
}

/// Returns the reboot time: after the delay and this host's share of the jitter, or after the delay alone if the window
/// closes before. An operator's request has no jitter and ignores the window. Users get notice unless it is for now.
fn time(
    situation: &Situation<'_>,
    asked: Option<&RebootRequest>,
    closes: Option<Timestamp>,
) -> Result<Timestamp, String> {
    let settings = situation.settings;
    if let Some(asked) = asked {
        // A busy daemon may decide only when the requested delay is over.
        let own = asked.at.duration_since(asked.since);
        let mut least = own.clamp(SignedDuration::ZERO, LEAST_NOTICE);
        // A veto has ended unnoticed by operators, so the announcement gets its full delay.
        let old = asked.at.duration_since(situation.now) < -AT_ONCE;
        if asked.waited || old {
            least = least.max(SignedDuration::from_secs(i64::from(settings.delay_s)));
        }
        let least = situation.now.saturating_add(least);
        return Ok(asked.at.max(least.unwrap_or(Timestamp::MAX)));
    }
    let jitter = i64::from(settings.jitter_s);
    let share = (boot_number(situation.boot_id) % (jitter + 1)).abs();
    let after = |seconds: i64| {
        situation.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    };
    let delay = i64::from(settings.delay_s);
    let fits = |at: &Timestamp| closes.is_none_or(|closes| *at < closes);
    [after(delay + share), after(delay)]
        .into_iter()
        .find(fits)
        .ok_or_else(|| "the window closes before the delay ends".to_owned())
}

/// Returns a number specific to this boot: boot ids are random (random(4)), so no other randomness is needed.
fn boot_number(boot_id: &str) -> i64 {
    let hash = bedplate_core::ledger::Sha::digest(boot_id.as_bytes());
    i64::from_str_radix(hash.as_str().get(..15).unwrap_or_default(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests;
