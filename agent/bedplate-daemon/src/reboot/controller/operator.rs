//! Operators' requests and cancellations, and the cancellation of a reboot that can no longer be verified.

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

/// A requested time further in the past is refused; the call itself may take up to this long.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(60);

impl RebootController {
    /// Whether the machine is going down, even if logind has no schedule. Call it only before a cancellation for this reason:
    /// on a flooded bus each request takes long.
    pub(crate) async fn machine_stops(&self) -> bool {
        match &self.logind {
            Some(logind) => logind::machine_stops(logind.inner().connection()).await,
            None => false,
        }
    }

    /// Cancels a scheduled reboot, because the host cannot be compared with its profile: the reboot may no
    /// longer be needed or safe.
    pub(crate) async fn cancel_unverified(&mut self, status: &mut Status, why: &str) {
        let driven = self.drive(|seen| Event::Observed(seen, Err(why)), None).await;
        if let Err(error) = driven {
            self.log_failure(&error.to_string());
        }
        // On failure, the next observation retries it.
        self.release_slot(status, None, false).await;
    }

    /// Records an operator's request for a reboot.
    ///
    /// # Errors
    /// If the request cannot be recorded.
    pub(crate) async fn request(
        &mut self,
        why: String,
        not_before: Option<Timestamp>,
        force: bool,
        delay_s: u32,
    ) -> Result<(), RebootError> {
        let now = Timestamp::now();
        if let Some(past) = not_before.filter(|at| now.duration_since(*at) > ON_ITS_WAY) {
            let why = format!("the requested time {} has passed", format_utc(past));
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

    /// Cancels an operator's request, or bedplate's own scheduled reboot. `by`: user and time, for display.
    ///
    /// # Errors
    /// If nothing was cancelled.
    pub(crate) async fn cancel(&mut self, by: String) -> Result<String, RebootError> {
        let locked = self.locked().await?.readable()?;
        let (driven, seen) = self
            .drive_locked(locked, |seen| Event::CancelRequested(seen, by.clone()), None)
            .await?;
        let said = answer(&seen, &driven, &by)?;
        self.expect_cancelled(&driven).await?;
        Ok(said)
    }

    /// Reads logind once more after a cancellation, unless that was its last answer.
    ///
    /// # Errors
    /// If logind has, or may have, the reboot.
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

/// Returns the answer to a cancellation.
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
            return Ok(with_rest(format!("cancelled the reboot for {at} before it was scheduled")));
        }
        Phase::Scheduling { arranged }
        | Phase::Scheduled { arranged }
        | Phase::Cancelling { arranged, .. }
            if is_ours =>
        {
            let is_due = arranged.runs_command() && arranged.late(seen.now) >= 0;
            return Ok(with_rest(match is_due {
                true => "cancelled: the power-cycle command will not run".into(),
                false => {
                    format!("cancelled the reboot scheduled for {}", format_utc(arranged.at()))
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
            Ok(with_rest("cancelled the request; no reboot was scheduled yet".into()))
        }
        _ if matches!(before.phase, Phase::Disarming { .. } | Phase::Arming { .. }) => {
            Ok("disarmed the method of the cancelled reboot".into())
        }
        _ => Err(RebootError::new(WaitsFor::OtherShutdown, "no reboot is scheduled by bedplate")),
    }
}
