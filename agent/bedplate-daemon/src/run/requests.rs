//! What people ask of the daemon, over the bus.

use std::time::Duration;

use jiff::Timestamp;

use super::Daemon;
use crate::bus::{self, BusRequest, Request, RequestError};
use crate::reboot::decide::entry_veto;
use crate::reboot::state::RebootState;
use bedplate_base::format_utc;

/// Who asked no longer ago than this is not looked for first.
const JUST_NOW: Duration = Duration::from_millis(500);

impl Daemon {
    /// Does what was asked and answers. A request may have waited for long; nothing is done for a caller who has left.
    pub(super) async fn answer(&mut self, BusRequest { caller, at, request }: BusRequest) {
        if let Some(bus) = &self.own_bus
            && at.elapsed() > JUST_NOW
            && bus::has_left(bus, &caller).await
        {
            return tracing::debug!("{caller} has left the bus and is not answered");
        }
        match request {
            Request::Reconcile(reply) => {
                self.backoff.forget();
                self.retry = None;
                self.working_on("observing the host").await;
                self.observe().await;
                self.work_off_events().await;
                let _ = reply.send(self.expect_usable().map(|()| self.status.state));
            }
            Request::Reload(reply) => {
                self.reload().await;
                let _ = reply.send(self.expect_usable());
            }
            Request::ScheduleReboot { why, not_before, force, reply } => {
                let _ = reply.send(self.schedule(why, not_before, force).await);
            }
            Request::CancelReboot { uid, reply } => {
                let when = format_utc(Timestamp::now());
                let by = format!("by user {uid} with `bedplate reboot cancel`, at {when}");
                let cancelled = self.reboot.cancel(by).await;
                // What follows from it needs more questions on the bus, each of which takes long while others flood it. The
                // status tells of the cancellation before that.
                self.reboot.show_at_once(&mut self.status);
                self.working_on("deciding about the reboot").await;
                let _ = reply.send(cancelled.map_err(RequestError::from));
                self.work = None;
                self.decide().await;
            }
            Request::UpdateReboot(reply) => {
                self.decide().await;
                let _ = reply.send(Ok(self.status.reboot.state.clone()));
            }
            Request::ForgetMissing(reply) => {
                let _ = reply.send(self.forget_missing().await);
            }
        }
    }

    fn expect_usable(&self) -> Result<(), RequestError> {
        self.unusable.clone().map_or(Ok(()), |why| Err(RequestError::Unusable(why)))
    }

    /// Handles the events of what was just done, so that the answer is about a host that was observed after it.
    async fn work_off_events(&mut self) {
        for _ in 0..3 {
            while let Ok(more) = self.triggers.try_recv() {
                self.gather(more);
            }
            let Some(quiet) = self.debounce.ends() else { return };
            tokio::time::sleep_until(quiet.into()).await;
            self.debounced().await;
        }
    }

    async fn schedule(
        &mut self,
        why: String,
        at: Option<Timestamp>,
        force: bool,
    ) -> Result<(RebootState, String), RequestError> {
        let refused = |why| RequestError::NotKept(Box::new(why));
        self.expect_usable().map_err(refused)?;
        let Some(observation) = &self.observation else {
            return Err(refused(RequestError::NotObserved));
        };
        let delay_s = observation.reboot.delay_s;
        self.reboot.request(why, at, force, delay_s).await?;
        self.decide().await;
        let state = self.status.reboot.state.clone();
        let text = match state {
            RebootState::Waiting { .. } => format!(
                "{state}\nThe request stays, for this boot: once nothing is in the way the reboot is announced, with the \
                 profile's whole delay. `bedplate reboot cancel` withdraws it."
            ),
            _ => state.to_string(),
        };
        let text = match self.status.reboot.next_boot.as_ref().and_then(entry_veto) {
            Some(risk) if force && state.is_coming() => {
                format!("{text}\nForced: {risk}. This host may not come back from the reboot.")
            }
            _ => text,
        };
        Ok((state, text))
    }

    async fn forget_missing(&mut self) -> Result<String, RequestError> {
        let Some(observation) = &self.observation else {
            return Err(RequestError::NotObserved);
        };
        let seen = observation.devices.as_ref().ok_or(RequestError::DevicesUnread)?;
        let gone = self.devices.update(seen);
        if gone.is_empty() {
            return Ok("no GPU or NIC is missing".into());
        }
        self.devices.forget(&gone);
        self.reboot.store().keep_devices(&self.devices)?;
        self.observe().await;
        self.work_off_events().await;
        let names: Vec<String> =
            gone.iter().map(|(address, what)| format!("{what} at {address}")).collect();
        Ok(format!("no longer expected: {}", names.join(", ")))
    }

    pub(super) fn plan(&self) -> String {
        self.observation
            .as_ref()
            .map(|observation| observation.plan_json.clone())
            .unwrap_or_default()
    }
}
