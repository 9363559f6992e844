//! What people ask for: a reboot, or none; and what is taken back when nobody can tell any more whether it is right.

use jiff::{SignedDuration, Timestamp};

use super::fire::waits;
use super::{Restart, RestartError};
use crate::daemon::journal::{self, say};
use crate::daemon::logind::{self, Announced, Stage};
use crate::daemon::status::Status;
use crate::reboot::decide::Scheduled;
use crate::reboot::record::Asked;
use crate::utc::shown;

impl Restart {
    /// Whether the machine goes down, whatever logind has scheduled. Asked only before something is taken back because of it:
    /// under a flood each question of the bus takes long.
    pub async fn machine_stops(&self) -> bool {
        match &self.logind {
            Some(logind) => logind::machine_stops(logind.inner().connection()).await,
            None => false,
        }
    }

    /// The host cannot be compared with its profile any more: what was announced is taken back, since nobody can tell
    /// whether it is still right.
    pub async fn give_up(&mut self, status: &mut Status, why: &str) {
        if matches!(self.scheduled().await, Ok(Scheduled::Ours(_))) {
            let mut record = self.store.record().ok();
            if let Err(error) = self.cancel(record.as_mut(), why, Stage::TakenBack).await {
                say(journal::REBOOT_FAILED, &error.to_string());
            }
        }
        self.disarm().await;
        // It fails: the next look comes by itself, and with it the next try.
        self.give_back(status, None, false).await;
    }

    /// An operator asks for a reboot.
    ///
    /// # Errors
    /// Why it cannot even be noted.
    pub fn request(
        &self,
        why: String,
        not_before: Option<Timestamp>,
        delay_s: u32,
    ) -> Result<(), RestartError> {
        let mut record = self.store.record()?;
        let soon = Timestamp::now().saturating_add(SignedDuration::from_secs(i64::from(delay_s)));
        let at = not_before.unwrap_or(soon.unwrap_or(Timestamp::MAX));
        record.asked = Some(Asked { why, boot_id: self.boot_id.clone(), at, waited: false });
        // What others took back before does not count against an operator who asks now.
        if let Some(old) = self.store.announced().filter(|announced| !announced.stands()) {
            // Only what is still armed for it counts.
            let old = Announced { stage: Stage::TakenBack, ..old };
            self.store.announce(old.to_remember().as_ref())?;
        }
        Ok(self.store.keep(&record)?)
    }

    /// An operator withdraws a request, or bedplate's own announcement.
    ///
    /// # Errors
    /// Why nothing was taken back.
    pub async fn withdraw(&mut self, uid: u32) -> Result<String, RestartError> {
        let _step = self.steps.begin();
        let was_armed = self.is_armed();
        let said = self.call_off(uid).await;
        match (said, self.disarm().await) {
            (Ok(said), Some(armed)) => Ok(format!("{said}, but {armed}")),
            (Err(RestartError::NothingAnnounced), Some(armed)) => Err(RestartError::Armed(armed)),
            (Err(RestartError::NothingAnnounced), None) if was_armed => {
                Ok("what was prepared for the reboot that was taken back is undone".into())
            }
            (said, _) => said,
        }
    }

    async fn call_off(&mut self, uid: u32) -> Result<String, RestartError> {
        let mut record = self.store.record()?;
        let requested = record.asked.take().is_some();
        self.store.keep(&record)?;
        match self.scheduled().await? {
            Scheduled::Ours(at) => {
                let when = shown(Timestamp::now());
                let by = format!("by user {uid} with `bedplate reboot cancel`, at {when}");
                let stage = Stage::CalledOff { by };
                self.cancel(Some(&mut record), "`bedplate reboot cancel`", stage).await?;
                Ok(format!("the reboot announced for {} is taken back", shown(at)))
            }
            Scheduled::Underway(_) => Err(RestartError::GoingDown),
            Scheduled::Foreign { kind, at } => Err(RestartError::NotOurs { kind, at }),
            Scheduled::Nothing if self.store.announced().as_ref().is_some_and(waits) => {
                let announced = self.store.announced().ok_or(RestartError::NothingAnnounced)?;
                self.call_off_command(announced, &format!("user {uid}, `bedplate reboot cancel`"))?;
                Ok("the command that cycles the power is not run".into())
            }
            Scheduled::Nothing if requested => {
                Ok("the request is taken back; nothing was announced yet".into())
            }
            Scheduled::Nothing => Err(RestartError::NothingAnnounced),
        }
    }
}
