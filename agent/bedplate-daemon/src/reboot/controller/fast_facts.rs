//! Facts that are read quickly: logind's schedule, a shutdown in progress, an operator's hold, kexec.

use std::path::Path;

use jiff::Timestamp;

use super::{RebootController, RebootError};
use crate::logind::{self, ManagerProxy};
use crate::reboot::facts::FastFacts;
use crate::reboot::kexec;
use crate::reboot::state::{Veto, WaitsFor};
use bedplate_core::reboot_hold::Hold;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Phase};

/// Returns the description of the operator's hold below `root`, if in force.
pub(super) fn hold(root: &Path, now: Timestamp) -> Option<String> {
    let hold = Hold::below(root)?;
    hold.is_in_force(now).then(|| hold.describe(now))
}

/// Whether logind or PID 1 is shutting down.
pub(super) async fn goes_down(logind: &ManagerProxy<'static>) -> Result<bool, RebootError> {
    let stops = logind::machine_stops(logind.inner().connection());
    let (preparing, stops) = tokio::join!(logind.preparing_for_shutdown(), stops);
    Ok(preparing.map_err(|error| RebootError::schedule(&error))? || stops)
}

impl RebootController {
    /// Reads the facts that matter in this phase. `failed`: reason of the last failed effect.
    pub(super) async fn see(&mut self, phase: &Phase, failed: Option<Veto>) -> FastFacts {
        let mut seen = FastFacts {
            now: Timestamp::now(),
            boot_id: self.boot_id.clone(),
            schedule: Ok(None),
            goes_down: false,
            userspace: None,
            vetoes: self.quick_vetoes(),
            last_ours: self.last_ours,
            failed,
        };
        let asked = self.ask_logind(phase, &mut seen).await;
        if let Err(error) = asked {
            seen.schedule = Err(error.reason());
        }
        // Each request may have taken long.
        seen.now = Timestamp::now();
        seen.last_ours = self.last_ours;
        seen
    }

    /// Whether logind has this reboot scheduled.
    pub(super) async fn is_at_logind(
        &self,
        arranged: &ArrangedReboot,
    ) -> Result<bool, RebootError> {
        let Some(logind) = &self.logind else { return Err(RebootError::no_logind()) };
        let read = logind.scheduled_shutdown().await.map_err(|error| RebootError::schedule(&error));
        read.map(|(kind, usec)| arranged.is(&kind, usec))
    }

    /// Reads logind. On a flooded bus each request takes long, so only those that the phase needs are made.
    async fn ask_logind(&mut self, phase: &Phase, seen: &mut FastFacts) -> Result<(), RebootError> {
        let Some(logind) = self.logind.clone() else { return Err(RebootError::no_logind()) };
        let (kind, usec) =
            logind.scheduled_shutdown().await.map_err(|error| RebootError::schedule(&error))?;
        let now = Timestamp::now();
        let arranged = phase.arranged();
        let is_ours = arranged.is_some_and(|arranged| arranged.is(&kind, usec));
        if is_ours {
            self.last_ours = Some(now);
        }
        let is_early = arranged.is_none_or(|arranged| arranged.late(now) < 0);
        let goes_down_already = matches!(phase, Phase::GoingDown { .. });
        if arranged.is_some() && (goes_down_already || !(is_ours && is_early)) {
            // Read after the schedule, because logind drops it when another shutdown starts.
            seen.goes_down = goes_down(&logind).await?;
        }
        if !is_ours {
            seen.userspace = logind::userspace(logind.inner().connection()).await;
        }
        seen.schedule = Ok((!kind.is_empty()).then_some((kind, usec)));
        Ok(())
    }

    fn quick_vetoes(&self) -> Vec<Veto> {
        let hold = hold(&self.root, Timestamp::now());
        let hold = hold.map(|hold| Veto::new(WaitsFor::Hold, hold));
        let kexec = kexec::block(&self.root);
        let kexec = kexec.map(|why| Veto::new(WaitsFor::Kexec, why));
        hold.into_iter().chain(kexec).collect()
    }
}
