//! The slow facts: what the profile wants, busy devices, methods, inhibitors, the boot entry.

use std::time::{Duration, Instant};

use jiff::SignedDuration;

use super::{Restart, enforce_hold};
use crate::daemon::logind;
use crate::daemon::observation::Observation;
use crate::daemon::status::Status;
use crate::kind::cmdline;
use crate::kind::cmdline::diagnosis::Cause;
use crate::plan::{Effect, RebootNeed};
use crate::profile::model::{AgentMode, RebootPolicy};
use crate::reboot::facts::SlowFacts;
use crate::reboot::state::{Reason, WaitsFor};
use crate::visible::brief;

/// Characters of an argument that are shown to everybody who is logged in.
const LONGEST_SUBJECT: usize = 200;

impl Restart {
    /// Gathers them; whether a reboot is asked for at all. `fresh`: the boot entry is observed again.
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
        let mut wanted = self.wanted(status, observation);
        let closely = asked || by_policy || record.phase.is_open();
        if closely {
            self.look_closely(&mut wanted, status, observation, fresh).await;
        }
        if asked {
            // An operator's own word counts.
            wanted.held = None;
        }
        wanted.replaced = self.helpers.is_replaced();
        (wanted, closely)
    }

    /// The part that the observation tells.
    fn wanted<'a>(&self, status: &Status, observation: &'a Observation) -> SlowFacts<'a> {
        // Observe mode writes nothing.
        let enforced = observation.agent.mode == AgentMode::Enforce;
        let after_boot = |effect| matches!(effect, Effect::NextBoot | Effect::ColdBoot);
        SlowFacts {
            need: observation.need,
            plan: &observation.hash,
            unfinished: observation.stopped || !observation.changes.is_empty(),
            planned: enforced && observation.changes.iter().any(|change| after_boot(change.effect)),
            refused: matches!(observation.cause, Some(Cause::Rejected { .. })),
            passthrough: observation.pending.iter().any(cmdline::waits_for_passthrough),
            subject: subject(observation),
            settings: &observation.reboot,
            held: status.held.as_ref().map(enforce_hold),
            vetoes: Vec::new(),
            inhibitors: Vec::new(),
            inhibited_for: SignedDuration::ZERO,
            method: None,
            entry: self.inspected.clone().unwrap_or_else(|| observation.next_boot.clone()),
            fresh: false,
            replaced: false,
        }
    }

    async fn look_closely(
        &mut self,
        wanted: &mut SlowFacts<'_>,
        status: &mut Status,
        observation: &Observation,
        fresh: bool,
    ) {
        let settings = &observation.reboot;
        let forgotten = self.store.is_forgotten();
        wanted.vetoes.extend(forgotten.map(|text| Reason::new(WaitsFor::Record, text)));
        let devices = |text: String| Reason::new(WaitsFor::Devices, text);
        if settings.busy_devices {
            let holders = self.helpers.holders(&settings.idle_holders).await;
            wanted.vetoes.extend(holders.map(devices));
        }
        if !settings.busy_command.is_empty() {
            let busy = self.helpers.busy_command().await;
            wanted.vetoes.extend(busy.map(|text| Reason::new(WaitsFor::BusyCommand, text)));
        }
        // Beside each other, so that operators are answered sooner; after the commands, which may take a minute.
        let entry = async {
            match fresh {
                true => Some(self.helpers.inspect_entry().await),
                false => None,
            }
        };
        let methods = self.helpers.methods(observation.need);
        let ((method, said), inhibitors, entry) = tokio::join!(methods, self.inhibitors(), entry);
        status.reboot.methods = said;
        status.reboot.method = method;
        wanted.method = method;
        match inhibitors {
            Ok(inhibitors) => wanted.inhibitors = inhibitors,
            Err(unknown) => wanted.vetoes.push(unknown),
        }
        if let Some(entry) = entry {
            self.inspected = Some(entry.clone());
            (wanted.entry, wanted.fresh) = (entry, true);
        }
        let since = (!wanted.inhibitors.is_empty()).then(Instant::now);
        self.inhibited_since = since.map(|now| self.inhibited_since.unwrap_or(now));
        let inhibited = self.inhibited_since.map_or(Duration::ZERO, |since| since.elapsed());
        wanted.inhibited_for = SignedDuration::try_from(inhibited).unwrap_or(SignedDuration::MAX);
    }

    /// Block inhibitors. Without a logind to ask, that it cannot be asked is a veto already.
    async fn inhibitors(&self) -> Result<Vec<String>, Reason> {
        let Some(logind) = &self.logind else { return Ok(Vec::new()) };
        let listed = logind.list_inhibitors().await;
        listed.map(|all| logind::in_the_way(&all)).map_err(|error| {
            Reason::new(WaitsFor::Logind, format!("cannot ask logind for inhibitors: {error}"))
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
