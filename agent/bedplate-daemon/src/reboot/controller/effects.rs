//! Effects on the host. Each reads the current state first, and verifies its result afterwards.

use super::fast_facts::{goes_down, hold};
use super::{RebootController, RebootError};
use crate::journal::{self, log_message};
use crate::logind;
use crate::reboot::method::undo;
use crate::reboot::state::{Veto, WaitsFor};
use crate::reboot::step::{CancelResult, CommandResult, Effect, Event};
use crate::worker::WorkError;
use bedplate_base::{chain, format_utc};
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, Phase};
use bedplate_core::reboot_record::preparation::{Preparation, Undo};

/// The daemon's own directory, in which it can remove files without a unit.
const OWN: &str = "/run/bedplate/";

fn method(error: &WorkError) -> Veto {
    Veto::new(WaitsFor::Method, chain(error))
}

/// Returns the event for a result, and the reason of a failure.
fn ended<T>(
    result: Result<T, Veto>,
    event: fn(Result<T, Veto>) -> Event<'static, 'static>,
) -> (Event<'static, 'static>, Option<Veto>) {
    let failed = result.as_ref().err().cloned();
    (event(result), failed)
}

impl RebootController {
    /// Performs an effect. Returns its result as an event, and the reason of a failure.
    pub(super) async fn perform(
        &mut self,
        effect: &Effect,
    ) -> (Event<'static, 'static>, Option<Veto>) {
        match effect {
            Effect::FindUndo { method: by, at } => {
                let found = self.helpers.find_undo(*by, *at).await;
                ended(found.map_err(|error| method(&error)), Event::UndoFound)
            }
            Effect::Arm { method: by, plan, at } => {
                let armed = self.helpers.prepare(*by, plan, *at).await;
                ended(armed.map_err(|error| method(&error)), Event::Armed)
            }
            Effect::Schedule { arranged, why } => {
                let set = self.schedule(arranged, why).await;
                ended(set.map_err(|error| error.reason()), Event::ScheduleAnswered)
            }
            Effect::Cancel(arranged) => {
                let cleared = self.cancel_at_logind(arranged).await;
                ended(cleared.map_err(|error| error.reason()), Event::CancelAnswered)
            }
            Effect::Disarm(prepared) => self.disarm(prepared).await,
            Effect::RunCommand => (Event::CommandEnded(self.run_command().await), None),
        }
    }

    /// Schedules the reboot with logind. The record's lock is held from the first hold check until logind has answered. So a
    /// command that writes a hold is either seen here, or finds the reboot at logind.
    async fn schedule(&mut self, arranged: &ArrangedReboot, why: &str) -> Result<(), RebootError> {
        let Some(logind) = self.logind.clone() else {
            return Err(RebootError::no_logind());
        };
        let _lock = self.store.lock().await?;
        let current = self.kept.current(&self.store)?.record;
        if !matches!(&current.phase, Phase::Scheduling { arranged: now } if now == arranged) {
            let why = "the reboot was cancelled before it was scheduled";
            return Err(RebootError::new(WaitsFor::Logind, why));
        }
        self.expect_no_hold()?;
        let (kind, usec) =
            logind.scheduled_shutdown().await.map_err(|error| RebootError::schedule(&error))?;
        if arranged.is(&kind, usec) {
            return Ok(());
        }
        if !kind.is_empty() {
            return Err(RebootError::not_ours(&kind, logind::time(usec)));
        }
        let at = format_utc(arranged.at());
        let wall = format!("bedplate reboots this host at {at}: {why} (`bedplate reboot status`)");
        let doing = "logind refused to schedule the reboot";
        let refused = |error| RebootError::logind(doing, &error);
        logind.set_wall_message(&wall, true).await.map_err(refused)?;
        // Each answer of logind may take long.
        self.expect_no_hold()?;
        logind.schedule_shutdown(arranged.kind.name(), arranged.usec).await.map_err(refused)?;
        let has = self.is_at_logind(arranged).await?;
        self.expect_no_hold()?;
        // A reboot that is due at once may be in progress already.
        match has || arranged.late(jiff::Timestamp::now()) >= 0 {
            true => {
                self.last_ours = Some(jiff::Timestamp::now());
                Ok(())
            }
            false => Err(RebootError::new(
                WaitsFor::Logind,
                "logind accepted the reboot but does not list it",
            )),
        }
    }

    fn expect_no_hold(&self) -> Result<(), RebootError> {
        match hold(&self.root, jiff::Timestamp::now()) {
            Some(hold) => Err(RebootError::new(WaitsFor::Hold, hold)),
            None => Ok(()),
        }
    }

    /// Cancels the reboot if logind has it. The record's lock is held, so no other bedplate process schedules one
    /// between check and cancellation.
    async fn cancel_at_logind(
        &mut self,
        arranged: &ArrangedReboot,
    ) -> Result<CancelResult, RebootError> {
        let Some(logind) = self.logind.clone() else {
            return Err(RebootError::no_logind());
        };
        let _lock = self.store.lock().await?;
        let phase = self.kept.current(&self.store)?.record.phase;
        let by_operator = matches!(phase.ending(), Some(Ending::Cancelled { .. }));
        // Fewer requests for an operator's cancellation; the result is the same.
        if !by_operator && !arranged.is_dry() && goes_down(&logind).await? {
            return Ok(CancelResult::GoingDown);
        }
        self.last_ours = None;
        // Checked immediately before: another program may have replaced the schedule.
        if self.is_at_logind(arranged).await? {
            let doing = "logind refused to cancel the reboot";
            let refused = |error| RebootError::logind(doing, &error);
            logind.cancel_scheduled_shutdown().await.map_err(refused)?;
        }
        let (has, goes_down) = tokio::join!(self.is_at_logind(arranged), goes_down(&logind));
        match (has?, goes_down?) {
            (_, true) if !arranged.is_dry() => Ok(CancelResult::GoingDown),
            (true, _) => Err(RebootError::not_forgotten(arranged.at())),
            (false, _) => Ok(CancelResult::Absent),
        }
    }

    /// Disarms the method. This needs a unit, which may be unavailable; until it succeeds, any reboot uses the armed method.
    async fn disarm(&self, prepared: &Preparation) -> (Event<'static, 'static>, Option<Veto>) {
        let steps = prepared.undo.iter().filter(|step| !self.remove_own(prepared, step));
        let prepared = Preparation { undo: steps.cloned().collect(), ..prepared.clone() };
        match self.helpers.disarm(&prepared).await {
            Ok(()) => (Event::Disarmed(Vec::new()), None),
            Err(error) => {
                let text = describe(&prepared, &chain(&error));
                let failed = Some(Veto::new(WaitsFor::Method, text));
                (Event::Disarmed(prepared.undo), failed)
            }
        }
    }

    /// Whether this step removes a file of the daemon's own, and has succeeded.
    fn remove_own(&self, prepared: &Preparation, step: &Undo) -> bool {
        let one = Preparation { undo: vec![step.clone()], ..prepared.clone() };
        matches!(step, Undo::Remove { path } if path.starts_with(OWN))
            && undo(&one, &self.root).is_ok()
    }

    /// Runs the power command, unless a hold was set since the decision. A later hold finds that the command was started.
    async fn run_command(&self) -> CommandResult {
        if let Some(hold) = hold(&self.root, jiff::Timestamp::now()) {
            return CommandResult::NotStarted(hold);
        }
        match self.helpers.power_command().await {
            Ok(grace) => CommandResult::Done(grace.as_secs()),
            Err(WorkError::Replaced) => CommandResult::Replaced,
            Err(error @ WorkError::Start { .. }) => CommandResult::NotStarted(chain(&error)),
            Err(error) => {
                log_message(journal::REBOOT_FAILED, &chain(&error));
                CommandResult::Failed(chain(&error))
            }
        }
    }
}

fn describe(prepared: &Preparation, why: &str) -> String {
    let paths = prepared.undo.iter().map(|step| match step {
        Undo::Write { path, .. } | Undo::Remove { path } => path.as_str(),
    });
    let paths: Vec<&str> = paths.collect();
    format!(
        "the armed reboot method is not disarmed yet ({}): until then, any reboot uses the method `{}`; retrying: \
         {why}",
        paths.join(", "),
        prepared.method
    )
}
