//! Whether to reboot, when, and what is in the way: one pure function. The clock, the host and the record are arguments.

use jiff::{SignedDuration, Timestamp};

use super::state::{RebootState, UNFINISHED, Veto, WaitsFor};
use bedplate_base::format_utc;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::RebootWindow;
use bedplate_core::profile::model::{Reboot, RebootMethod, RebootPolicy};
use bedplate_core::reboot_record::{MOST_IN_A_ROW, RebootRequest, Record};

/// Everything that counts, at one moment.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// What the host waits for.
    pub need: RebootNeed,
    /// Hash of what waits: the same before a boot and after one that did not help.
    pub plan: &'a str,
    /// Whether anything is still to be written before a boot would help.
    pub unfinished: bool,
    /// Whether any of that takes effect only after a boot.
    pub planned: bool,
    /// Whether the kernel was booted with all that was asked for and does not do it: no further boot would help.
    pub refused: bool,
    /// This boot.
    pub boot_id: &'a str,
    /// The moment that the decision is for.
    pub now: Timestamp,
    /// `[reboot]`.
    pub settings: &'a Reboot,
    /// Earlier reboots and requests.
    pub record: &'a Record,
    /// What forbids a reboot now: an operator's hold, busy devices, a busy command, a loaded kexec kernel.
    pub vetoes: &'a [Veto],
    /// An operator's hold on enforcement, where nobody asks for a reboot.
    pub held: Option<&'a Veto>,
    /// Soundness of the entry that boots next.
    pub entry: &'a NextBoot,
    /// The method by which this host would be restarted; `None`: none works.
    pub method: Option<RebootMethod>,
    /// Whether what was announced in this boot was called off, or did not come.
    pub needs_operator: bool,
    /// Block inhibitors, by who and why, and for how long they have been in the way.
    pub inhibitors: &'a [String],
    /// Since when inhibitors have been in the way.
    pub inhibited_for: SignedDuration,
    /// What logind has scheduled.
    pub scheduled: ScheduledShutdown,
    /// Whether the fleet's lock is held for certain; `None`: there is no server to ask.
    pub locked: Option<bool>,
}

/// logind's schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduledShutdown {
    /// Nothing.
    Nothing,
    /// bedplate's own reboot.
    Ours {
        /// For when.
        at: Timestamp,
        /// Identity of the operator's request that it is for.
        request: Option<Timestamp>,
    },
    /// bedplate's own reboot, whose time has come: the machine is going down.
    Underway(Timestamp),
    /// A shutdown that is not bedplate's.
    Foreign {
        /// logind's kind: `reboot`, `poweroff`, …
        kind: String,
        /// For when.
        at: Timestamp,
    },
}

/// A request whose time is longer ago was blocked, or bedplate was not running at its time.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(60);

/// What is said after one boot that did not help.
const NO_HELP: &str = "the host was rebooted for this, and it is not in effect";

/// Text of the veto after a rehearsal.
const REHEARSED: &str = "it was rehearsed in this boot; `rehearse = false` in [reboot] does it";

/// Text of the veto where no method works.
pub(crate) const NO_METHOD: &str = "no method of the profile can restart this host";

/// Reason to take a reboot back that is not needed any more.
const NOTHING_WAITS: &str = "nothing waits for a boot any more";

/// Reason to take a reboot back that was scheduled before the operator asked for another time.
pub(crate) const MOVED: &str = "an operator asked for another time";

/// What is said where the profile's windows are still to be chosen.
const NO_WINDOW: &str = "no window of the profile ever opens: write one in [reboot] `windows`, or run `bedplate \
    reboot schedule`";

/// The state that follows from what is so now: `taking-lock`, `announcing` and `calling-off` are for the caller to do.
pub fn decide(situation: &Situation<'_>) -> RebootState {
    // Nothing more is announced, and nothing is called off: the attempt that is under way has to stay counted.
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
            None => RebootState::Announced { at },
        };
    }
    let at = match time(situation, asked, window.ok().flatten()) {
        Ok(at) => at,
        Err(why) => return RebootState::waiting(WaitsFor::Window, why),
    };
    if situation.locked == Some(false) {
        return RebootState::TakingLock;
    }
    RebootState::Announcing { at }
}

/// Everything that forbids a reboot now but a closed window.
fn obstacles(situation: &Situation<'_>, asked: Option<&RebootRequest>) -> Vec<Veto> {
    let mut why = situation.vetoes.to_vec();
    why.extend(situation.held.cloned());
    let rehearsed = situation.record.rehearsed(situation.boot_id, situation.plan);
    if situation.settings.rehearse && situation.scheduled == ScheduledShutdown::Nothing && rehearsed
    {
        // Before a slot is asked for that nothing would come of.
        why.push(Veto::new(WaitsFor::Rehearsal, REHEARSED));
    }
    if situation.method.is_none() {
        why.push(Veto::new(WaitsFor::Method, NO_METHOD));
    }
    if let ScheduledShutdown::Foreign { kind, at } = &situation.scheduled {
        let text = format!(
            "a shutdown that is not bedplate's is scheduled: {kind} at {}",
            format_utc(*at)
        );
        why.push(Veto::new(WaitsFor::OtherShutdown, text));
    }
    let inhibitor =
        |who: &String| Veto::new(WaitsFor::Inhibitor, format!("a block inhibitor: {who}"));
    why.extend(situation.inhibitors.iter().map(inhibitor));
    if !asked.is_some_and(|asked| asked.force) {
        why.extend(entry_veto(situation.entry));
    }
    why
}

/// The veto of a boot entry that is not known to be sound.
pub fn entry_veto(entry: &NextBoot) -> Option<Veto> {
    let head = match entry {
        NextBoot::Sound => return None,
        NextBoot::Unknown { .. } => "the next boot entry is not known to be sound",
        NextBoot::Unsound { .. } => "the next boot entry would not boot",
    };
    let text = format!("{head}: {}", entry.reasons().join("; "));
    Some(Veto::new(WaitsFor::BootEntry, text))
}

/// Why there is no reboot that nobody has asked for, and the state of it; `None`: there may be one.
fn at_rest(situation: &Situation<'_>) -> Option<(String, RebootState)> {
    if situation.need == RebootNeed::None {
        if situation.refused && situation.record.was_for_passthrough(situation.boot_id) {
            return Some((NO_HELP.into(), RebootState::Stuck { why: NO_HELP.into() }));
        }
        let veto = entry_veto(situation.entry).map(|veto| veto.to_string());
        return Some(match situation.planned {
            true => (veto.unwrap_or_else(|| UNFINISHED.into()), unwritten(situation)),
            // What waits for a boot is not known without the entry.
            false => (veto.unwrap_or_else(|| NOTHING_WAITS.into()), RebootState::Idle),
        });
    }
    match situation.settings.policy {
        RebootPolicy::Never => {
            return Some(("the profile's policy is `never`".into(), RebootState::LeftToPeople));
        }
        RebootPolicy::Mark => {
            return Some(("the profile's policy is `mark`".into(), RebootState::LeftToOthers));
        }
        RebootPolicy::Schedule => {}
    }
    if let Some(why) = attempts_exhausted(situation) {
        return Some((why.clone(), RebootState::Stuck { why }));
    }
    situation.unfinished.then(|| (UNFINISHED.to_owned(), unwritten(situation)))
}

/// The state while changes that a boot is for are still to be written.
fn unwritten(situation: &Situation<'_>) -> RebootState {
    // A held change is written once the hold ends; a change may fail because of the entry.
    let why = situation.held.cloned().or_else(|| entry_veto(situation.entry));
    match why {
        Some(why) => RebootState::Waiting { why: vec![why], until: None, overdue: false },
        None => RebootState::Converging,
    }
}

/// The loop guard.
fn attempts_exhausted(situation: &Situation<'_>) -> Option<String> {
    let used = situation.record.attempts_used(situation.plan, situation.boot_id);
    if used >= usize::from(situation.settings.attempts.max(1)) {
        return Some(match used {
            1 => NO_HELP.into(),
            _ => format!("the host was rebooted {used} times for this, and it is not in effect"),
        });
    }
    let row = situation.record.in_a_row(situation.boot_id);
    (row >= MOST_IN_A_ROW).then(|| {
        format!("the host was rebooted {row} times in a row without ever being what it should be")
    })
}

/// The window that is open, `None` without windows; else why none is, and when the next one opens.
fn window(situation: &Situation<'_>) -> Result<Option<Timestamp>, (String, Option<Timestamp>)> {
    if situation.settings.windows.is_empty() {
        return Ok(None);
    }
    let openings = situation.settings.windows.iter().filter_map(|text| {
        let window: RebootWindow = text.parse().ok()?;
        window.opening(situation.now).map(|(from, to)| (from, to, text))
    });
    // One that is open and closes last, else the one that opens first.
    let mut openings: Vec<_> = openings.collect();
    openings.sort_by_key(|(from, _, _)| *from);
    let open =
        openings.iter().filter(|(from, _, _)| *from <= situation.now).map(|(_, to, _)| *to).max();
    match (open, openings.first()) {
        (Some(to), _) => Ok(Some(to)),
        (None, Some((from, _, text))) => {
            Err((format!("the window `{text}` is not open"), Some(*from)))
        }
        (None, None) => Err((NO_WINDOW.into(), None)),
    }
}

/// After the delay and this host's share of the jitter, as far as the open window has room for it.
fn time(
    situation: &Situation<'_>,
    asked: Option<&RebootRequest>,
    closes: Option<Timestamp>,
) -> Result<Timestamp, String> {
    let settings = situation.settings;
    if let Some(asked) = asked {
        // What was in the way has ended without a word to anybody: then the announcement gets its full delay.
        let old = asked.at.duration_since(situation.now) < -AT_ONCE;
        let least = if asked.waited || old { i64::from(settings.delay_s) } else { 0 };
        let least = situation.now.saturating_add(SignedDuration::from_secs(least));
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
        .ok_or_else(|| "the window closes before the announced delay would be over".to_owned())
}

/// A number that is this boot's own: boot ids are random (random(4)), so that no other randomness is needed.
fn boot_number(boot_id: &str) -> i64 {
    let hash = bedplate_core::ledger::Sha::digest(boot_id.as_bytes());
    i64::from_str_radix(hash.as_str().get(..15).unwrap_or_default(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests;
