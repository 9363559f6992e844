//! Effects on the host. Each reads the current state first, and its own result afterwards.

use super::fast_facts::{goes_down, hold};
use super::{RebootController, RestartError};
use crate::journal::{self, say};
use crate::logind;
use crate::reboot::method::undo;
use crate::reboot::state::{Veto, WaitsFor};
use crate::reboot::step::{Cleared, Effect, Event, Ran};
use crate::worker::WorkError;
use bedplate_base::{chain, format_utc};
use bedplate_core::reboot_record::phase::{Arranged, Ending, Phase};
use bedplate_core::reboot_record::preparation::{Prepared, Undo};

/// The daemon's own directory, where it needs no unit to remove a file.
const OWN: &str = "/run/bedplate/";

fn method(error: &WorkError) -> Veto {
    Veto::new(WaitsFor::Method, chain(error))
}

impl RebootController {
    /// Carries out an effect: its result, and why it failed.
    pub(super) async fn perform(&mut self, effect: &Effect) -> (Event<'static>, Option<Veto>) {
        match effect {
            Effect::FindWayBack { method: by, at } => {
                let found = self.helpers.way_back(*by, *at).await.map_err(|error| method(&error));
                let failed = found.as_ref().err().cloned();
                (Event::WayBack(found), failed)
            }
            Effect::Arm { method: by, plan, at } => {
                let armed =
                    self.helpers.prepare(*by, plan, *at).await.map_err(|error| method(&error));
                let failed = armed.as_ref().err().cloned();
                (Event::Armed(armed), failed)
            }
            Effect::Schedule { arranged, why } => {
                let set = self.schedule(arranged, why).await.map_err(|error| error.reason());
                let failed = set.as_ref().err().cloned();
                (Event::Set(set), failed)
            }
            Effect::Cancel(arranged) => {
                let cleared = self.clear(arranged).await.map_err(|error| error.reason());
                let failed = cleared.as_ref().err().cloned();
                (Event::Cleared(cleared), failed)
            }
            Effect::Disarm(prepared) => self.disarm(prepared).await,
            Effect::RunCommand => (Event::Ran(self.run_command().await), None),
        }
    }

    /// Has logind schedule it. The record's lock is held from the first look for a hold until logind has answered: the command
    /// that writes a hold is seen here, or finds the reboot at logind.
    async fn schedule(&mut self, arranged: &Arranged, why: &str) -> Result<(), RestartError> {
        let Some(logind) = self.logind.clone() else {
            return Err(RestartError::NoLogind);
        };
        let _lock = self.store.lock().await?;
        let current = self.kept.current(&self.store)?.record;
        if !matches!(&current.phase, Phase::Scheduling { arranged: now } if now == arranged) {
            return Err(RestartError::Overtaken);
        }
        self.expect_no_hold()?;
        let (kind, usec) = logind.scheduled_shutdown().await.map_err(RestartError::schedule)?;
        if arranged.is(&kind, usec) {
            return Ok(());
        }
        if !kind.is_empty() {
            return Err(RestartError::NotOurs { kind, at: logind::time(usec) });
        }
        let at = format_utc(arranged.at());
        let wall = format!("bedplate reboots this host at {at}: {why} (`bedplate reboot status`)");
        let doing = "logind does not schedule the reboot";
        let refused = |error| RestartError::Logind { doing, error };
        logind.set_wall_message(&wall, true).await.map_err(refused)?;
        // logind may take its time for each answer.
        self.expect_no_hold()?;
        logind.schedule_shutdown(arranged.kind.name(), arranged.usec).await.map_err(refused)?;
        let has = self.is_at_logind(arranged).await?;
        self.expect_no_hold()?;
        // One that is due at once may be on its way down already.
        match has || arranged.late(jiff::Timestamp::now()) >= 0 {
            true => {
                self.last_ours = Some(jiff::Timestamp::now());
                Ok(())
            }
            false => Err(RestartError::NotTaken),
        }
    }

    fn expect_no_hold(&self) -> Result<(), RestartError> {
        match hold(&self.root, jiff::Timestamp::now()) {
            Some(hold) => Err(RestartError::Held(hold)),
            None => Ok(()),
        }
    }

    /// Has logind forget it, if logind has it. The record's lock is held meanwhile: no other process schedules one between the
    /// question and the cancellation.
    async fn clear(&mut self, arranged: &Arranged) -> Result<Cleared, RestartError> {
        let Some(logind) = self.logind.clone() else {
            return Err(RestartError::NoLogind);
        };
        let _lock = self.store.lock().await?;
        let phase = self.kept.current(&self.store)?.record.phase;
        let by_operator = matches!(phase.ending(), Some(Ending::CalledOff { .. }));
        // An operator is answered with fewer questions, and gets the same answer.
        if !by_operator && !arranged.is_dry() && goes_down(&logind).await? {
            return Ok(Cleared::GoingDown);
        }
        self.last_ours = None;
        // Asked right before, whatever was seen a moment ago: another program may have put its own schedule in its place.
        if self.is_at_logind(arranged).await? {
            logind.cancel_scheduled_shutdown().await.map_err(|error| RestartError::Logind {
                doing: "logind does not take the reboot back",
                error,
            })?;
        }
        let (has, goes_down) = tokio::join!(self.is_at_logind(arranged), goes_down(&logind));
        match (has?, goes_down?) {
            (_, true) if !arranged.is_dry() => Ok(Cleared::GoingDown),
            (true, _) => Err(RestartError::NotForgotten { at: arranged.at() }),
            (false, _) => Ok(Cleared::Gone),
        }
    }

    /// Undoes what was armed. It takes a unit, which may not be had just then, and until it is undone any reboot is made that
    /// way.
    async fn disarm(&self, prepared: &Prepared) -> (Event<'static>, Option<Veto>) {
        let steps = prepared.undo.iter().filter(|step| !self.remove_own(prepared, step));
        let prepared = Prepared { undo: steps.cloned().collect(), ..prepared.clone() };
        match self.helpers.take_back(&prepared).await {
            Ok(()) => (Event::Disarmed(Vec::new()), None),
            Err(error) => {
                let text = describe(&prepared, &chain(&error));
                let failed = Some(Veto::new(WaitsFor::Method, text));
                (Event::Disarmed(prepared.undo), failed)
            }
        }
    }

    /// Whether this step removes a file of the daemon's own, and has succeeded.
    fn remove_own(&self, prepared: &Prepared, step: &Undo) -> bool {
        let one = Prepared { undo: vec![step.clone()], ..prepared.clone() };
        matches!(step, Undo::Remove { path } if path.starts_with(OWN))
            && undo(&one, &self.root).is_ok()
    }

    /// A hold that was set since the decision comes before it, or finds that the command was started.
    async fn run_command(&self) -> Ran {
        if let Some(hold) = hold(&self.root, jiff::Timestamp::now()) {
            return Ran::NotStarted(hold);
        }
        match self.helpers.power_command().await {
            Ok(grace) => Ran::Done(grace.as_secs()),
            Err(WorkError::Replaced) => Ran::Replaced,
            Err(error @ (WorkError::Start { .. } | WorkError::Connect { .. })) => {
                Ran::NotStarted(chain(&error))
            }
            Err(error) => {
                say(journal::REBOOT_FAILED, &chain(&error));
                Ran::Failed(chain(&error))
            }
        }
    }
}

fn describe(prepared: &Prepared, why: &str) -> String {
    let paths = prepared.undo.iter().map(|step| match step {
        Undo::Write { path, .. } | Undo::Remove { path } => path.as_str(),
    });
    let paths: Vec<&str> = paths.collect();
    format!(
        "what was prepared for the reboot is not undone yet ({}): until it is, any reboot is one by the method `{}`. It is \
         tried again: {why}",
        paths.join(", "),
        prepared.method
    )
}
