//! Facts that take time: the profile's settings, busy devices, methods, inhibitors, the boot entry.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::final_phase::{
    BusyAnswer, busy_limit, entry_limit, final_phase, is_of_the_final_phase, time_left, within,
};
use super::{OBSERVE_AGAIN, RebootController};
use crate::logind;
use crate::observation::Observation;
use crate::reboot::facts::SlowFacts;
use crate::reboot::state::{Veto, WaitsFor};
use crate::status::Status;
use bedplate_base::terminal::brief;
use bedplate_core::kind::cmdline::diagnosis::Cause;
use bedplate_core::plan::{Effect, NextBoot, RebootNeed};
use bedplate_core::profile::model::{AgentMode, Reboot, RebootMethod, RebootPolicy};

/// Reason against a reboot whose boot entry was not read in the last seconds before it.
const NOT_READ: &str = "not read in time before the reboot";
/// Reason against a reboot if neither devices nor busy command answered.
const BUSY_LATE: &str =
    "neither the device check nor the busy command answered in time before the reboot";

/// The first method that works, and a message about each.
type Methods = (Option<RebootMethod>, Vec<String>);

/// Result of reading the boot entry.
enum Entry {
    /// It was not requested.
    NotAsked,
    /// It was read.
    Read(NextBoot),
    /// The second reading was late; an earlier one in the final phase exists.
    ReadBefore,
    /// It was not read in time.
    Late,
}

/// Longest argument in the wall message, in characters.
const LONGEST_SUBJECT: usize = 200;

impl RebootController {
    /// Gathers the facts. Returns also whether a reboot is requested, due by policy, or in progress. `fresh`: the
    /// boot entry is read again.
    pub(super) async fn gather<'a>(
        &mut self,
        status: &mut Status,
        observation: &'a Observation,
        fresh: bool,
    ) -> (SlowFacts<'a>, bool) {
        let record = self.kept.current(&self.store).map(|current| current.record);
        let record = record.unwrap_or_default();
        let asked = record.request(&self.boot_id).is_some();
        let by_policy = observation.need != RebootNeed::None
            && observation.reboot.policy == RebootPolicy::Schedule;
        let mut wanted = self.facts_of_observation(status, observation);
        let closely = asked || by_policy || record.phase.is_open();
        if closely {
            let left = time_left(&record.phase, Timestamp::now());
            self.gather_slow_facts(&mut wanted, status, observation, (fresh, left)).await;
        }
        if asked {
            // An operator's request overrides a pause of enforcement.
            wanted.pause = None;
        }
        wanted.replaced = self.helpers.is_replaced();
        (wanted, closely)
    }

    /// Returns the facts from the observation.
    fn facts_of_observation<'a>(
        &self,
        status: &Status,
        observation: &'a Observation,
    ) -> SlowFacts<'a> {
        // Observe mode writes nothing.
        let enforced = observation.agent.mode == AgentMode::Enforce;
        let after_boot = |effect| matches!(effect, Effect::NextBoot | Effect::ColdBoot);
        let pause = status.pause.as_ref();
        SlowFacts {
            need: observation.need,
            plan: &observation.hash,
            unfinished: observation.stopped || !observation.changes.is_empty(),
            planned: enforced
                && observation.changes.iter().any(|change| after_boot(change.shown.effect)),
            refused: matches!(observation.cause, Some(Cause::Rejected { .. })),
            passthrough: observation.passthrough,
            subject: subject(observation),
            settings: &observation.reboot,
            pause: pause.map(|pause| Veto::new(WaitsFor::Pause, pause.describe())),
            vetoes: Vec::new(),
            inhibitors: Vec::new(),
            inhibited_for: SignedDuration::ZERO,
            method: None,
            entry: self.inspected.clone().unwrap_or_else(|| observation.next_boot.clone()),
            fresh: false,
            replaced: false,
        }
    }

    async fn gather_slow_facts(
        &mut self,
        wanted: &mut SlowFacts<'_>,
        status: &mut Status,
        observation: &Observation,
        (fresh, left): (bool, Option<Duration>),
    ) {
        let settings = &observation.reboot;
        let forgotten = self.store.is_forgotten();
        wanted.vetoes.extend(forgotten.map(|text| Veto::new(WaitsFor::Record, text)));
        let is_final = left.is_some_and(|left| left <= final_phase());
        let due = left.map(|left| Instant::now() + left);
        // No event reports when an unknown entry is known again.
        let again = self.inspect_again.is_some_and(|at| at <= Instant::now());
        let rest = self.ask_the_rest(observation.need, fresh || is_final || again, due);
        let (busy, (methods, inhibitors, entry)) = match is_final {
            true => tokio::join!(self.ask_busy(settings, left), rest),
            // After the commands, which may take a minute.
            false => (self.ask_busy(settings, left).await, rest.await),
        };
        wanted.vetoes.extend(busy.vetoes.iter().cloned());
        self.busy = Some(busy);
        if let Some((method, said)) = methods {
            status.reboot.methods = said;
            status.reboot.method = method;
        }
        wanted.method = status.reboot.method;
        match inhibitors {
            Ok(inhibitors) => wanted.inhibitors = inhibitors,
            Err(unknown) => wanted.vetoes.push(unknown),
        }
        match entry {
            Entry::Read(entry) => {
                let is_unknown = matches!(entry, NextBoot::Unknown { .. });
                self.inspect_again = is_unknown.then(|| Instant::now() + OBSERVE_AGAIN);
                (self.inspected, self.inspected_at) = (Some(entry.clone()), Some(Instant::now()));
                (wanted.entry, wanted.fresh) = (entry, true);
            }
            Entry::ReadBefore => wanted.fresh = true,
            Entry::Late => {
                let entry = NextBoot::Unknown { reasons: vec![NOT_READ.to_owned()] };
                self.inspected = Some(entry.clone());
                self.inspect_again = Some(Instant::now() + OBSERVE_AGAIN);
                (wanted.entry, wanted.fresh) = (entry, true);
            }
            Entry::NotAsked => {}
        }
        let since = (!wanted.inhibitors.is_empty()).then(Instant::now);
        self.inhibited_since = since.map(|now| self.inhibited_since.unwrap_or(now));
        let inhibited = self.inhibited_since.map_or(Duration::ZERO, |since| since.elapsed());
        wanted.inhibited_for = SignedDuration::try_from(inhibited).unwrap_or(SignedDuration::MAX);
    }

    /// Checks processes that use devices, and runs the operator's command. Before a scheduled reboot they have until its
    /// final phase; then their last answer is used.
    async fn ask_busy(&self, settings: &Reboot, left: Option<Duration>) -> BusyAnswer {
        let begun = Instant::now();
        let last = self.busy.as_ref().filter(|last| last.is_recent());
        let limit = busy_limit(left, last.is_some());
        if let Some(vetoes) = within(limit, self.busy_vetoes(settings)).await {
            return BusyAnswer { at: Instant::now(), took: begun.elapsed(), vetoes };
        }
        last.cloned().unwrap_or_else(|| {
            let late = Veto::new(WaitsFor::BusyCommand, BUSY_LATE);
            let is_asked = settings.busy_devices || !settings.busy_command.is_empty();
            let vetoes = is_asked.then_some(late).into_iter().collect();
            BusyAnswer { at: begun, took: begun.elapsed(), vetoes }
        })
    }

    async fn busy_vetoes(&self, settings: &Reboot) -> Vec<Veto> {
        let mut vetoes = Vec::new();
        if settings.busy_devices {
            let holders = self.helpers.holders(&settings.idle_holders).await;
            vetoes.extend(holders.map(|text| Veto::new(WaitsFor::Devices, text)));
        }
        if !settings.busy_command.is_empty() {
            let busy = self.helpers.busy_command().await;
            vetoes.extend(busy.map(|text| Veto::new(WaitsFor::BusyCommand, text)));
        }
        vetoes
    }

    /// Queries methods (`None` on timeout), inhibitors and the boot entry concurrently, so that operators get an answer sooner.
    async fn ask_the_rest(
        &self,
        need: RebootNeed,
        fresh: bool,
        due: Option<Instant>,
    ) -> (Option<Methods>, Result<Vec<String>, Veto>, Entry) {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let known = is_of_the_final_phase(self.inspected_at.map(|read| read.elapsed()), left);
        let limit = entry_limit(left, known);
        let entry = async {
            if !fresh {
                return Entry::NotAsked;
            }
            match within(limit, self.helpers.inspect_entry()).await {
                Some(entry) => Entry::Read(entry),
                None if known => Entry::ReadBefore,
                None => Entry::Late,
            }
        };
        let methods = within(limit, self.helpers.methods(need));
        tokio::join!(methods, self.inhibitors(), entry)
    }

    /// Returns the block inhibitors; empty without logind, which is a veto of its own.
    async fn inhibitors(&self) -> Result<Vec<String>, Veto> {
        let Some(logind) = &self.logind else { return Ok(Vec::new()) };
        let listed = logind.list_inhibitors().await;
        listed.map(|all| logind::in_the_way(&all)).map_err(|error| {
            Veto::new(WaitsFor::Logind, format!("cannot read logind's inhibitors: {error}"))
        })
    }
}

fn subject(observation: &Observation) -> String {
    let profile = brief(&observation.profile, LONGEST_SUBJECT);
    let subjects: Vec<&str> =
        observation.pending.iter().map(|pending| pending.subject.as_str()).collect();
    match subjects.as_slice() {
        [] => format!("profile {profile}"),
        [first] => format!("{} of profile {profile}", brief(first, LONGEST_SUBJECT)),
        [first, more @ ..] => {
            let first = brief(first, LONGEST_SUBJECT);
            format!("{first} and {} more of profile {profile}", more.len())
        }
    }
}
