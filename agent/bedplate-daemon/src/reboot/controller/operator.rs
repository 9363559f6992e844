//! Requests and cancellations of operators, and the end of a reboot that cannot be judged any more.

use jiff::{SignedDuration, Timestamp};

use super::drive::DriveResult;
use super::{RebootController, RebootError};
use crate::journal::{self, log_message};
use crate::logind;
use crate::reboot::facts::FastFacts;
use crate::reboot::state::WaitsFor;
use crate::reboot::step::Event;
use crate::status::Status;
use bedplate_base::format_utc;
use bedplate_core::reboot_record::RebootRequest;
use bedplate_core::reboot_record::phase::{Ending, Phase};

/// A request for a time that is longer ago is refused. A shorter one was on its way here.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(60);

impl RebootController {
    /// Whether the machine goes down, whatever logind has scheduled. Asked only before something is taken back because of it:
    /// under a flood each question of the bus takes long.
    pub(crate) async fn machine_stops(&self) -> bool {
        match &self.logind {
            Some(logind) => logind::machine_stops(logind.inner().connection()).await,
            None => false,
        }
    }

    /// The host cannot be compared with its profile any more: what was announced is taken back, since nobody can tell
    /// whether it is still right.
    pub(crate) async fn cancel_unverified(&mut self, status: &mut Status, why: &str) {
        let driven = self.drive(|seen| Event::Observed(seen, Err(why)), None).await;
        if let Err(error) = driven {
            self.log_failure(&error.to_string());
        }
        // It fails: the next observation comes by itself, and with it the next try.
        self.release_slot(status, None, false).await;
    }

    /// An operator asks for a reboot.
    ///
    /// # Errors
    /// Why it cannot even be noted.
    pub(crate) async fn request(
        &mut self,
        why: String,
        not_before: Option<Timestamp>,
        force: bool,
        delay_s: u32,
    ) -> Result<(), RebootError> {
        let now = Timestamp::now();
        if let Some(past) = not_before.filter(|at| now.duration_since(*at) > ON_ITS_WAY) {
            let why = format!("{} has passed", format_utc(past));
            return Err(RebootError::new(WaitsFor::OtherShutdown, why));
        }
        let soon = now.saturating_add(SignedDuration::from_secs(i64::from(delay_s)));
        let at = not_before.unwrap_or(soon.unwrap_or(Timestamp::MAX));
        let boot_id = self.boot_id.clone();
        let asked = RebootRequest { why, boot_id, since: now, at, force, waited: false };
        let locked = self.locked().await?;
        let driven = self.run(locked, Event::Requested(asked)).await?;
        match driven.unwritten {
            Some(_) => self.update(|_| ()).await.map(drop),
            None => Ok(()),
        }
    }

    /// An operator cancels a request, or bedplate's own announcement. `by`: who and when, for display.
    ///
    /// # Errors
    /// Why nothing was taken back.
    pub(crate) async fn cancel(&mut self, by: String) -> Result<String, RebootError> {
        let locked = self.locked().await?.readable()?;
        let (driven, seen) = self
            .drive_locked(locked, |seen| Event::CancelRequested(seen, by.clone()), None)
            .await?;
        let said = answer(&seen, &driven, &by)?;
        self.expect_cancelled(&driven).await?;
        Ok(said)
    }

    /// Reads logind once more where a reboot was cancelled, unless that was its last answer.
    ///
    /// # Errors
    /// logind has it, or may have it.
    pub(super) async fn expect_cancelled(&self, driven: &DriveResult) -> Result<(), RebootError> {
        if driven.is_cancelled {
            return Ok(());
        }
        let before = &driven.before.phase;
        // An announcement alone reboots nothing.
        let Some(arranged) = before.arranged().filter(|one| !one.is_dry()) else { return Ok(()) };
        match self.is_at_logind(arranged).await {
            Ok(true) => Err(RebootError::not_forgotten(arranged.at())),
            Err(error) if before.at_logind().is_some() => Err(error),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    pub(super) fn log_failure(&mut self, text: &str) {
        if self.logged_failures.insert(text.to_owned()) {
            log_message(journal::REBOOT_FAILED, text);
        }
    }
}

/// Answer to a cancellation.
fn answer(seen: &FastFacts, driven: &DriveResult, by: &str) -> Result<String, RebootError> {
    let before = &driven.before;
    let after = &driven.record.phase;
    if matches!(after, Phase::GoingDown { .. }) {
        return Err(RebootError::GoingDown);
    }
    let left = driven.failed.as_ref().map(|why| why.text.clone());
    if let (Phase::Cancelling { .. }, Some(why)) = (after, &driven.failed) {
        return Err(RebootError::Failed(why.clone()));
    }
    let with_rest = |said: String| match &left {
        Some(left) => format!("{said}, but {left}"),
        None => said,
    };
    let is_ours = matches!(after.ending(), Some(Ending::Cancelled { by: named }) if named == by);
    match &before.phase {
        Phase::Arming { arranged } if is_ours => {
            let at = format_utc(arranged.at());
            return Ok(with_rest(format!("the reboot for {at} is not announced")));
        }
        Phase::Scheduling { arranged }
        | Phase::Scheduled { arranged }
        | Phase::Cancelling { arranged, .. }
            if is_ours =>
        {
            let is_due = arranged.runs_command() && arranged.late(seen.now) >= 0;
            return Ok(with_rest(match is_due {
                true => "the command that cycles the power is not run".into(),
                false => {
                    format!("the reboot announced for {} is taken back", format_utc(arranged.at()))
                }
            }));
        }
        _ => {}
    }
    match (&seen.schedule, &left) {
        (Err(why), _) if before.asked.is_none() && before.phase.is_open() => {
            Err(RebootError::Failed(why.clone()))
        }
        (Ok(Some((kind, usec))), _) => Err(RebootError::not_ours(kind, logind::time(*usec))),
        (_, Some(left)) if before.asked.is_none() => Err(RebootError::Armed(left.clone())),
        _ if before.asked.is_some() => {
            Ok(with_rest("the request is taken back; nothing was announced yet".into()))
        }
        _ if matches!(before.phase, Phase::Disarming { .. } | Phase::Arming { .. }) => {
            Ok("what was prepared for the reboot that was taken back is undone".into())
        }
        _ => Err(RebootError::new(WaitsFor::OtherShutdown, "no reboot of bedplate's is announced")),
    }
}
