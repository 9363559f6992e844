//! The announcement: given to logind, and taken back.

use jiff::Timestamp;

use super::{Restart, RestartError};
use crate::daemon::journal::{self, say};
use crate::daemon::logind::{self, Announced, Stage};
use crate::daemon::methods;
use crate::daemon::observation::Observation;
use crate::daemon::status::Status;
use crate::kind::cmdline;
use crate::profile::model::RebootMethod;
use crate::reboot::attempt::Attempt;
use crate::reboot::hold::LONGEST_REASON;
use crate::reboot::method::Prepared;
use crate::reboot::record::Record;
use crate::reboot::state::RebootState;
use crate::utc::shown;
use crate::visible::brief;

impl Restart {
    fn attempt(&self, observation: &Observation, method: RebootMethod, at: Timestamp) -> Attempt {
        Attempt {
            plan: observation.hash.clone(),
            boot_id: self.boot_id.clone(),
            at: Timestamp::now(),
            due: Some(at),
            method,
            rehearsal: observation.reboot.rehearse,
            passthrough: observation.pending.iter().any(cmdline::waits_for_passthrough),
            followed: false,
        }
    }

    /// Has logind announce a reboot, and remembers it before.
    pub(super) async fn announce(
        &mut self,
        record: &mut Record,
        status: &mut Status,
        observation: &Observation,
        at: Timestamp,
    ) -> Result<bool, RestartError> {
        let Some(logind) = self.logind.clone() else { return Ok(false) };
        let Some(method) = status.reboot.method else { return Ok(false) };
        let _step = self.steps.begin();
        // Remembered before it is asked for: a power cut in between costs an attempt, never a loop.
        record.attempt(self.attempt(observation, method, at));
        self.store.keep(record)?;
        let prepared = match observation.reboot.rehearse {
            true => Ok(None),
            false => self.make_ready(method, &observation.hash, at).await.map(Some),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.not_announced(record).await?;
                return Err(error);
            }
        };
        let announced = Announced {
            kind: methods::kind(prepared.as_ref()),
            usec: logind::usec(at),
            plan: observation.hash.clone(),
            stage: Stage::Announced,
            prepared,
        };
        self.store.announce(Some(&announced))?;
        let why = reason(observation, record);
        let wall = format!(
            "bedplate reboots this host at {}: {why} (`bedplate reboot status`)",
            shown(at)
        );
        let asked = async {
            logind.set_wall_message(&wall, true).await?;
            logind.schedule_shutdown(announced.kind.name(), announced.usec).await
        };
        if let Err(error) = asked.await {
            let off = Announced { stage: Stage::TakenBack, ..announced };
            self.store.announce(off.to_remember().as_ref())?;
            self.not_announced(record).await?;
            return Err(RestartError::Logind {
                doing: "logind does not schedule the reboot",
                error,
            });
        }
        self.seen_ours = Some(Timestamp::now());
        self.asked_for += 1;
        say(
            journal::REBOOT_SCHEDULED,
            &format!("a reboot is announced for {} ({}): {why}", shown(at), method),
        );
        status.reboot.state = RebootState::Announced { at };
        Ok(false)
    }

    /// Makes a method ready. The way back is on file before anything is changed: where this ends half-way, for whatever reason,
    /// it is undone from there.
    async fn make_ready(
        &self,
        method: RebootMethod,
        plan: &str,
        at: Timestamp,
    ) -> Result<Prepared, RestartError> {
        let way_back = self.helpers.way_back(method, at).await.map_err(RestartError::Method)?;
        let armed = Announced {
            kind: methods::kind(Some(&way_back)),
            usec: logind::usec(at),
            plan: plan.to_owned(),
            stage: Stage::TakenBack,
            prepared: Some(way_back),
        };
        self.store.announce(armed.to_remember().as_ref())?;
        self.helpers.prepare(method, plan, at).await.map_err(RestartError::Method)
    }

    /// It came to nothing: what is armed for it is undone, and it does not count.
    async fn not_announced(&mut self, record: &mut Record) -> Result<(), RestartError> {
        self.disarm().await;
        record.call_off(&self.boot_id);
        Ok(self.store.keep(record)?)
    }

    /// Takes bedplate's own announcement back; `stage`: what that makes of it. What is armed for it is undone after this.
    /// A record that cannot be read (`None`) stays as it is: an empty one in its place would allow what it forbids.
    pub(super) async fn cancel(
        &mut self,
        record: Option<&mut Record>,
        why: &str,
        stage: Stage,
    ) -> Result<bool, RestartError> {
        let Some(logind) = self.logind.clone() else { return Ok(false) };
        let _step = self.steps.begin();
        logind.cancel_scheduled_shutdown().await.map_err(|error| RestartError::Logind {
            doing: "logind does not take the reboot back",
            error,
        })?;
        if let Some(record) = record {
            record.call_off(&self.boot_id);
            if let Some(asked) = &mut record.asked {
                // It is announced again when it can be, and then with the whole delay.
                asked.waited = true;
            }
            self.store.keep(record)?;
        }
        if let Some(announced) = self.store.announced() {
            self.store.announce(Announced { stage, ..announced }.to_remember().as_ref())?;
        }
        say(journal::REBOOT_CANCELLED, &format!("the announced reboot is taken back: {why}"));
        Ok(true)
    }
}

fn reason(observation: &Observation, record: &Record) -> String {
    if let Some(asked) = &record.asked {
        return brief(&asked.why, LONGEST_REASON);
    }
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

/// Characters of an argument that are shown to everybody who is logged in.
const LONGEST_SUBJECT: usize = 200;
