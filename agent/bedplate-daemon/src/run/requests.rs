//! Operators' requests over the bus.

use jiff::Timestamp;

use super::Daemon;
use crate::bus::{BusRequest, Request};
use crate::reboot::decide::entry_veto;
use crate::reboot::state::RebootState;
use crate::status::NOT_OBSERVED;
use bedplate_base::format_utc;

impl Daemon {
    /// Handles a request and answers it. A request may have waited long; it is dropped if its caller has left the bus.
    pub(super) async fn answer(&mut self, BusRequest { caller, at, request }: BusRequest) {
        if self.bus.has_left(&caller, at).await {
            return tracing::debug!("{caller} has left the bus; its request is dropped");
        }
        match request {
            Request::Reconcile(reply) => {
                self.backoff.forget();
                self.timers.retry = None;
                self.observe_now().await;
                self.work_off_events().await;
                let _ = reply.send(self.known.expect_usable().map(|()| self.known.status.state));
            }
            Request::Reload(reply) => {
                self.reload().await;
                let _ = reply.send(self.known.expect_usable());
            }
            Request::ScheduleReboot { why, not_before, force, reply } => {
                let _ = reply.send(self.schedule(why, not_before, force).await);
            }
            Request::CancelReboot { uid, reply } => {
                let when = format_utc(Timestamp::now());
                let by = format!("by user {uid} with `bedplate reboot cancel`, at {when}");
                let cancelled = self.reboot.cancel(by).await;
                // The decision that follows makes further bus calls, each slow while clients flood the bus.
                // Publish the cancellation first.
                self.reboot.show_at_once(&mut self.known.status);
                self.working_on("deciding about the reboot").await;
                let _ = reply.send(cancelled.map_err(|error| error.to_string()));
                self.known.work = None;
                self.decide().await;
            }
            Request::UpdateReboot(reply) => {
                self.decide().await;
                let _ = reply.send(Ok(self.known.status.reboot.state.clone()));
            }
            Request::ForgetMissing(reply) => {
                let _ = reply.send(self.forget_missing().await);
            }
        }
    }

    /// Handles the events caused by the last change, so that the answer reflects an observation after it.
    async fn work_off_events(&mut self) {
        for _ in 0..3 {
            self.watches.gather_arrived();
            let Some(quiet) = self.watches.burst.ends() else { return };
            tokio::time::sleep_until(quiet.into()).await;
            self.debounced().await;
        }
    }

    async fn schedule(
        &mut self,
        why: String,
        at: Option<Timestamp>,
        force: bool,
    ) -> Result<(RebootState, String), String> {
        let refused = |why| format!("cannot schedule a reboot, request discarded: {why}");
        self.known.expect_usable().map_err(refused)?;
        let Some(observation) = &self.known.observation else {
            return Err(refused(NOT_OBSERVED.to_owned()));
        };
        let delay_s = observation.reboot.delay_s;
        let asked = self.reboot.request(why, at, force, delay_s).await;
        asked.map_err(|error| error.to_string())?;
        self.decide().await;
        let state = self.known.status.reboot.state.clone();
        let text = match state {
            RebootState::Waiting { .. } => format!(
                "{state}\nThe request stays valid for this boot: once nothing blocks the reboot, it is scheduled with \
                 the profile's full delay. `bedplate reboot cancel` withdraws it."
            ),
            _ => state.to_string(),
        };
        let text = match self.known.status.reboot.next_boot.as_ref().and_then(entry_veto) {
            Some(risk) if force && state.is_coming() => {
                format!("{text}\nForced: {risk}. This host may not boot again.")
            }
            _ => text,
        };
        Ok((state, text))
    }

    async fn forget_missing(&mut self) -> Result<String, String> {
        let Some(observation) = &self.known.observation else {
            return Err(NOT_OBSERVED.to_owned());
        };
        let seen = observation
            .devices
            .as_ref()
            .ok_or("cannot forget missing devices: PCI devices are unreadable")?;
        let gone = self.known.devices.update(seen);
        if gone.is_empty() {
            return Ok("no GPU or NIC is missing".into());
        }
        self.known.devices.forget(&gone);
        let kept = self.reboot.store().keep_devices(&self.known.devices);
        kept.map_err(|error| error.to_string())?;
        self.observe().await;
        self.work_off_events().await;
        let names: Vec<String> =
            gone.iter().map(|(address, what)| format!("{what} at {address}")).collect();
        Ok(format!("no longer expected: {}", names.join(", ")))
    }
}
