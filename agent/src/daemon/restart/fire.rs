//! The operator's command that cycles the power. logind only rehearses its time (`dry-reboot`), so nothing but bedplate
//! stands between a hold, an inhibitor or `shutdown -c` and the command: it is run only right after its time, when logind
//! was seen with the announcement right before it, and when nothing forbids it. Anything else calls it off.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{LOOK_AGAIN, Restart, RestartError, enforce_hold, no_inhibitors};
use crate::daemon::journal::{self, say};
use crate::daemon::logind::{self, Announced, Stage};
use crate::daemon::observation::Observation;
use crate::daemon::status::Status;
use crate::daemon::worker::WorkError;
use crate::error_chain::chain;
use crate::reboot::method::{Next, Prepared};
use crate::reboot::record::Asked;
use crate::reboot::state::{Reason, WaitsFor, joined};

/// Before its time the announcement has to be seen at logind: one that was not seen since may have been called off.
const SEEN_BEFORE: SignedDuration = SignedDuration::from_secs(5);
/// Later than this after its time nobody expects it any more.
const LATEST: SignedDuration = SignedDuration::from_secs(120);
/// When it is looked at before its time, how often from then on, and for how long that often.
const BEFORE: Duration = Duration::from_millis(1500);
const CLOSELY: Duration = Duration::from_secs(1);
const CLOSELY_FOR: SignedDuration = SignedDuration::from_secs(10);

const UNSEEN: &str = "bedplate could not check whether it had been called off";

/// Whether a command is announced and not run yet.
pub(super) fn waits(announced: &Announced) -> bool {
    let runs_command = |prepared: &Prepared| prepared.next == Next::RunCommand;
    announced.stands() && announced.prepared.as_ref().is_some_and(runs_command)
}

impl Restart {
    /// When to look at the announcement of a command again: right before its time, and closely from then on.
    pub(super) fn watch_command(&self) -> Option<Duration> {
        let announced = self.store.announced().filter(waits)?;
        let left = logind::time(announced.usec).duration_since(Timestamp::now());
        if left < -CLOSELY_FOR {
            return Some(LOOK_AGAIN);
        }
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        Some(left.saturating_sub(BEFORE).max(CLOSELY))
    }

    /// Runs the command when its time has come, once: that it was run is kept before it is.
    ///
    /// # Errors
    /// Why it was not run, or failed.
    pub(super) async fn fire(
        &mut self,
        status: &Status,
        observation: &Observation,
    ) -> Result<(), RestartError> {
        let Some(announced) = self.store.announced().filter(waits) else { return Ok(()) };
        let (now, at) = (Timestamp::now(), logind::time(announced.usec));
        if now.duration_since(at) > LATEST {
            // Whatever logind would say of it: without a bus it may never say anything.
            return self.call_off_command(announced, UNSEEN);
        }
        let Some(logind) = self.logind.clone() else { return Ok(()) };
        let asked = logind.scheduled_shutdown().await;
        let (kind, usec) = asked.map_err(RestartError::schedule)?;
        if announced.is(&kind, usec) {
            self.seen_ours = Some(now);
            return Ok(());
        }
        if now < at {
            // Called off, or another schedule has taken its place: for `scheduled` to find.
            return Ok(());
        }
        let seen = self.seen_ours.is_some_and(|seen| at.duration_since(seen) <= SEEN_BEFORE);
        let mut why = self.vetoes(&observation.reboot, now).await;
        why.extend(status.held.as_ref().map(enforce_hold));
        match logind.list_inhibitors().await {
            Ok(all) => {
                let inhibitor = |who| Reason::new(WaitsFor::Inhibitor, who);
                why.extend(logind::in_the_way(&all).into_iter().map(inhibitor));
            }
            Err(error) => why.push(no_inhibitors(&error)),
        }
        if !seen {
            why.push(Reason::new(WaitsFor::Logind, UNSEEN));
        }
        if !kind.is_empty() {
            let text = format!("another shutdown is scheduled: {kind}");
            why.push(Reason::new(WaitsFor::OtherShutdown, text));
        }
        if self.helpers.is_replaced() {
            // Nothing could be looked at: that is no reason to call it off.
            let asked = self.store.record()?.asked;
            return self.put_off_command(announced, asked);
        }
        if observation.reboot.command.is_empty() || !why.is_empty() {
            return self.call_off_command(announced, &joined(&why));
        }
        self.run_command(announced).await
    }

    /// That it was run is kept first: the power may be gone before it ends. Whatever shows that nothing was started is kept
    /// then instead.
    async fn run_command(&mut self, announced: Announced) -> Result<(), RestartError> {
        let _step = self.steps.begin();
        let mut record = self.store.record()?;
        let asked = record.asked.take();
        self.store.keep(&record)?;
        let run = Announced { stage: Stage::CommandRun, ..announced.clone() };
        self.store.announce(Some(&run))?;
        say(
            journal::REBOOT_SCHEDULED,
            "running the command of the profile that cycles this host's power",
        );
        match self.helpers.power_command().await {
            Ok(grace) => {
                let text = format!("the power should be cycled within {} s", grace.as_secs());
                say(journal::REBOOT_WAITS, &text);
                Ok(())
            }
            Err(WorkError::Replaced) => self.put_off_command(announced, asked),
            Err(error @ (WorkError::Start { .. } | WorkError::Connect { .. })) => {
                self.call_off_command(announced, &chain(&error))
            }
            Err(error) => Err(RestartError::Command(error)),
        }
    }

    /// The units are of another build by now, and have run nothing. The next daemon starts at once, too late for this
    /// announcement: it makes another one, with the whole delay.
    fn put_off_command(
        &self,
        announced: Announced,
        asked: Option<Asked>,
    ) -> Result<(), RestartError> {
        let mut record = self.store.record()?;
        record.call_off(&self.boot_id);
        record.asked = asked.map(|asked| Asked { waited: true, ..asked });
        self.store.keep(&record)?;
        let off = Announced { stage: Stage::TakenBack, ..announced };
        self.store.announce(off.to_remember().as_ref())?;
        say(
            journal::REBOOT_CANCELLED,
            "bedplate was replaced by another build at the time of the announced reboot, and the command that cycles this \
             host's power was not run: it is announced again",
        );
        Ok(())
    }

    /// The command is not run, nor asked for again by itself in this boot. The record first: a request that is left in it
    /// would be announced again.
    pub(super) fn call_off_command(
        &self,
        announced: Announced,
        why: &str,
    ) -> Result<(), RestartError> {
        let mut record = self.store.record()?;
        record.call_off(&self.boot_id);
        record.asked = None;
        self.store.keep(&record)?;
        let stage = Stage::CalledOff { by: format!("at its time: {why}") };
        self.store.announce(Some(&Announced { stage, prepared: None, ..announced }))?;
        let text = format!("the command that cycles this host's power was not run: {why}");
        say(journal::REBOOT_CALLED_OFF, &text);
        Ok(())
    }
}
