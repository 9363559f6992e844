//! What people ask of the daemon, over the bus.

use jiff::Timestamp;

use super::Daemon;
use crate::daemon::bus::{Answer, Request};
use crate::reboot::state::RebootState;

impl Daemon {
    pub(super) async fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Plan => {
                self.look(false).await;
                self.unusable.clone().map_or_else(|| Ok(self.plan()), Err)
            }
            Request::Reconcile => {
                self.backoff.forget();
                self.retry = None;
                self.working_on("looking at the host").await;
                self.look(true).await;
                self.settle().await;
                self.unusable.clone().map_or_else(|| Ok(self.status.state.name().to_owned()), Err)
            }
            Request::Reload => {
                self.reload().await;
                self.unusable.clone().map_or_else(|| Ok(String::new()), Err)
            }
            Request::ScheduleReboot { why, usec } => {
                let at = (usec != 0).then(|| super::logind::time(usec));
                self.schedule(why, at).await
            }
            Request::CancelReboot { uid } => {
                let said = self.restart.withdraw(uid).await.map_err(|error| error.to_string());
                self.decide().await;
                said
            }
            Request::ForgetMissing => self.forget_missing().await,
        }
    }

    /// Sees to the events of what was just done, so that who asked is told of a host that was looked at after it.
    async fn settle(&mut self) {
        for _ in 0..3 {
            while let Ok(more) = self.triggers.try_recv() {
                self.gather(more);
            }
            let Some(quiet) = self.debounce.ends() else { return };
            tokio::time::sleep_until(quiet.into()).await;
            self.debounced().await;
        }
    }

    async fn schedule(&mut self, why: String, at: Option<Timestamp>) -> Result<String, String> {
        let refused =
            |why: &str| format!("no reboot can be announced, and the request is not kept: {why}");
        if let Some(why) = &self.unusable {
            return Err(refused(why));
        }
        let Some(observation) = &self.observation else {
            return Err(refused("the host has not been looked at yet"));
        };
        let kept = self.restart.request(why, at, observation.reboot.delay_s);
        kept.map_err(|error| error.to_string())?;
        self.decide().await;
        let state = self.status.reboot.state.to_string();
        Ok(match self.status.reboot.state {
            RebootState::Waiting { .. } => format!(
                "{state}\nThe request stays, for this boot: once nothing is in the way the reboot is announced, with the \
                 profile's whole delay. `bedplate reboot cancel` withdraws it."
            ),
            _ => state,
        })
    }

    async fn forget_missing(&mut self) -> Result<String, String> {
        let Some(observation) = &self.observation else {
            return Err("the host has not been looked at yet".into());
        };
        let Some(seen) = &observation.devices else {
            return Err("nothing is forgotten: the PCI devices cannot be read now".into());
        };
        let gone = self.devices.update(seen);
        if gone.is_empty() {
            return Ok("no GPU or NIC is missing".into());
        }
        self.devices.forget(&gone);
        let kept = self.restart.store().keep_devices(&self.devices);
        kept.map_err(|error| error.to_string())?;
        self.look(true).await;
        self.settle().await;
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
