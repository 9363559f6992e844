//! Cause of the last boot: determined at the first observation, logged once, and stored for the rest of the boot.

use super::RebootController;
use crate::journal::{self, log_message};
use crate::observation::Observation;
use crate::reboot::last_boot::{began, classify};
use bedplate_core::plan::RebootNeed;
use bedplate_core::profile::model::RebootMethod;
use bedplate_core::reboot_record::Record;
use bedplate_core::reboot_record::last_boot::LastBoot;
use bedplate_host::file;

impl RebootController {
    /// Returns the cause of the last boot, as far as known. Call it before a converged host clears its attempts.
    pub(super) async fn last_boot(&mut self, observation: &Observation) -> Option<LastBoot> {
        // Without a record the cause is unknown.
        let mut record = self.record().ok()?;
        let before = record.clone();
        let news = match self.last_boot.is_some() {
            true => None,
            false => self.find_out(&mut record).await,
        };
        record.note_waiting(&self.boot_id, observation.need != RebootNeed::None);
        if record != before {
            let Record { last_boot, waiting, .. } = record;
            let boot_id = self.boot_id.clone();
            // A command may have changed the rest of the record, including the attempts.
            let kept = self.update(|now| {
                now.last_boot = last_boot;
                now.waiting = waiting;
                now.follow(&boot_id);
            });
            if let Err(error) = kept.await {
                log_message(journal::IMPAIRED, &error.to_string());
            }
        }
        if let Some(last_boot) = news {
            log_message(
                journal::REBOOT_CAUSE,
                &format!("cause of the last reboot: {}", last_boot.summary),
            );
            self.last_boot = Some(last_boot);
        }
        self.last_boot.clone()
    }

    /// Determines the cause. Returns it only if it is new; a cause that an earlier daemon of this boot has logged is only
    /// adopted.
    async fn find_out(&mut self, record: &mut Record) -> Option<LastBoot> {
        if let Some(last_boot) =
            record.last_boot.as_ref().filter(|last_boot| last_boot.boot_id == self.boot_id)
        {
            self.last_boot = Some(last_boot.clone());
            return None;
        }
        let waited = record.has_waited(&self.boot_id);
        let scheduled = record.follow(&self.boot_id);
        let is_by_bmc = scheduled.as_ref().is_some_and(|one| one.method == RebootMethod::Bmc);
        let bmc = match is_by_bmc {
            true => self.helpers.restart_cause().await,
            false => Err("the BMC was not asked".to_owned()),
        };
        let stat = file::text(&self.root.join("proc/stat")).unwrap_or_default();
        let last_boot = classify(&self.boot_id, scheduled.as_ref(), waited, began(&stat), &bmc)?;
        record.last_boot = Some(last_boot.clone());
        Some(last_boot)
    }
}
