//! What stands around a reboot: what logind has scheduled and whose it is, and what forbids one now.

use jiff::Timestamp;

use super::{DID_NOT_COME, Restart, RestartError};
use crate::daemon::journal::{self, say};
use crate::daemon::logind::{self, Announced, Shutdown, Stage};
use crate::error_chain::chain;
use crate::host::file;
use crate::profile::model::Reboot;
use crate::reboot::decide::Scheduled;
use crate::reboot::hold::{self, Hold};
use crate::reboot::kexec;
use crate::reboot::state::{Reason, WaitsFor};
use crate::utc::shown;

/// So long after its time a reboot may still be on its way: services may take 90 seconds each to stop, some longer. After that
/// it is only while logind or PID 1 says so.
pub(super) const GOING_DOWN_US: i64 = 15 * 60 * 1_000_000;

impl Restart {
    pub(super) async fn scheduled(&self) -> Result<Scheduled, RestartError> {
        let Some(logind) = &self.logind else { return Ok(Scheduled::Nothing) };
        let (kind, usec) = logind.scheduled_shutdown().await.map_err(RestartError::schedule)?;
        let announced = self.store.announced();
        if kind.is_empty() {
            return self.gone(announced).await;
        }
        let at = logind::time(usec);
        match announced {
            Some(announced) if announced.is(&kind, usec) => {
                let rehearsed = announced.kind == Shutdown::DryReboot;
                if late(&announced) < 0 || rehearsed {
                    return Ok(Scheduled::Ours(at));
                }
                // logind keeps it while the machine goes down, when nothing can be looked at any more: what is in the way
                // then must not take the attempt out of the loop guard.
                if self.may_go_down(&announced).await? {
                    return Ok(Scheduled::Underway(at));
                }
                // logind keeps it as well when its job of it was cancelled or has failed, and would name it for ever.
                let cancelled = logind.cancel_scheduled_shutdown().await;
                cancelled.map_err(|error| RestartError::Logind {
                    doing: "logind does not forget a reboot that did not come",
                    error,
                })?;
                self.gone(Some(announced)).await
            }
            announced => {
                if let Some(announced) = announced.filter(Announced::stands) {
                    self.displaced(announced, &kind, at).await?;
                }
                Ok(Scheduled::Foreign { kind, at })
            }
        }
    }

    /// Whether a reboot whose time has come may still be on its way.
    async fn may_go_down(&self, announced: &Announced) -> Result<bool, RestartError> {
        Ok(late(announced) < GOING_DOWN_US || self.goes_down_now().await?)
    }

    /// Whether logind or PID 1 is on its way down.
    async fn goes_down_now(&self) -> Result<bool, RestartError> {
        let Some(logind) = &self.logind else { return Ok(false) };
        let preparing = logind.preparing_for_shutdown().await.map_err(RestartError::schedule)?;
        Ok(preparing || self.machine_stops().await)
    }

    /// Another shutdown has taken the place of bedplate's own announcement. What was made ready for that is not for the other:
    /// it ends here, so that it is undone.
    async fn displaced(
        &self,
        announced: Announced,
        kind: &str,
        at: Timestamp,
    ) -> Result<(), RestartError> {
        let came = late(&announced) >= 0;
        // A rehearsal is over then, and of a command `fire` says what becomes of it.
        if came && (announced.kind == Shutdown::DryReboot || self.goes_down_now().await?) {
            return Ok(());
        }
        let by = format!("by another shutdown that took its place: {kind} at {}", shown(at));
        self.ended(announced, (!came).then_some(by))
    }

    /// logind has nothing scheduled: what has become of bedplate's own announcement?
    pub(super) async fn gone(
        &self,
        announced: Option<Announced>,
    ) -> Result<Scheduled, RestartError> {
        let Some(announced) = announced.filter(Announced::stands) else {
            return Ok(Scheduled::Nothing);
        };
        if late(&announced) >= 0 {
            // A rehearsal is over when its time has come; so is the announcement of the operator's command.
            if announced.kind == Shutdown::DryReboot {
                return Ok(Scheduled::Nothing);
            }
            if self.may_go_down(&announced).await? {
                return Ok(Scheduled::Underway(logind::time(announced.usec)));
            }
            self.ended(announced, None)?;
            return Ok(Scheduled::Nothing);
        }
        // `systemctl reboot` makes logind forget its schedule: that calls nothing off, and what was announced has to count
        // against the next.
        if self.machine_stops().await {
            return Ok(on_the_way_down(&announced));
        }
        let now = shown(Timestamp::now());
        let by = format!("through logind, as `shutdown -c` does, at {now} or shortly before");
        self.ended(announced, Some(by))?;
        Ok(Scheduled::Nothing)
    }

    /// An announcement was called off, `by` whom or what, or (`None`) did not come: that is kept, and said.
    fn ended(&self, announced: Announced, by: Option<String>) -> Result<(), RestartError> {
        // An operator's request goes with it, or it would be announced again at once. The record first: after a full disk or a
        // kill in between, all of this is done again. One that cannot be read forbids every reboot, and does not keep what is
        // armed from being undone.
        if let Ok(mut record) = self.store.record() {
            record.asked = None;
            if by.is_some() {
                record.call_off(&self.boot_id);
            }
            self.store.keep(&record)?;
        }
        let stage = by.clone().map_or(Stage::DidNotCome, |by| Stage::CalledOff { by });
        let off = Announced { stage, ..announced };
        self.store.announce(Some(&off))?;
        if let Some(by) = by {
            let text = format!(
                "the announced reboot was called off {by}; `bedplate reboot schedule` asks for it again"
            );
            say(journal::REBOOT_CALLED_OFF, &text);
        } else {
            let text = format!("the announced reboot did not happen: {DID_NOT_COME}");
            say(journal::REBOOT_FAILED, &text);
        }
        Ok(())
    }

    /// The operator's hold, in words, if it is in force.
    pub(super) fn hold(&self, now: Timestamp) -> Option<String> {
        let hold = match file::state(&self.root.join(hold::HOLD.trim_start_matches('/'))) {
            Ok(content) => Hold::of_content(&content),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => Hold::unreadable(&error.to_string()),
        };
        hold.is_in_force(now).then(|| hold.describe(now))
    }

    /// Whether what was announced in this boot has ended without a reboot, or with the operator's command.
    pub(super) fn called_off(&self) -> bool {
        let ended =
            |announced: Announced| !matches!(announced.stage, Stage::Announced | Stage::TakenBack);
        self.store.announced().is_some_and(ended)
    }

    pub(super) async fn vetoes(&self, settings: &Reboot, now: Timestamp) -> Vec<Reason> {
        let mut vetoes = Vec::new();
        vetoes.extend(self.hold(now).map(|hold| Reason::new(WaitsFor::Hold, hold)));
        let forgotten = self.store.is_forgotten();
        vetoes.extend(forgotten.map(|text| Reason::new(WaitsFor::Record, text)));
        let kexec = kexec::block(&self.root);
        vetoes.extend(kexec.map(|block| Reason::new(WaitsFor::Kexec, chain(&block))));
        let was_run = |announced: &Announced| {
            let since = logind::usec(now).saturating_sub(announced.usec);
            announced.stage == Stage::CommandRun && since < GOING_DOWN_US.unsigned_abs()
        };
        if let Some(run) = self.store.announced().filter(was_run) {
            let at = shown(logind::time(run.usec));
            let text = format!(
                "the command that cycles the power was run after {at}: it may take minutes"
            );
            vetoes.push(Reason::new(WaitsFor::PowerCommand, text));
        }
        let devices = |text: String| Reason::new(WaitsFor::Devices, text);
        if settings.busy_devices {
            vetoes.extend(self.helpers.holders(&settings.idle_holders).await.map(devices));
        }
        if !settings.busy_command.is_empty() {
            let busy = self.helpers.busy_command().await;
            vetoes.extend(busy.map(|text| Reason::new(WaitsFor::BusyCommand, text)));
        }
        vetoes
    }
}

/// Microseconds since its time has come.
fn late(announced: &Announced) -> i64 {
    i64::try_from(logind::usec(Timestamp::now())).unwrap_or(i64::MAX)
        - i64::try_from(announced.usec).unwrap_or_default()
}

/// What an announcement is that another shutdown has come before: bedplate's own reboot, unless its time would not have
/// brought the machine down.
fn on_the_way_down(announced: &Announced) -> Scheduled {
    match announced.kind {
        Shutdown::DryReboot => Scheduled::Foreign { kind: "shutdown".into(), at: Timestamp::now() },
        Shutdown::Reboot | Shutdown::Poweroff => Scheduled::Underway(logind::time(announced.usec)),
    }
}

#[cfg(test)]
mod tests {
    //! An /run/bedplate/announced.json of the program before `stage`: it outlives the daemon
    //! (RuntimeDirectoryPreserve=yes), and so an upgrade that restarts it.

    use super::*;
    use crate::daemon::helper::Helpers;
    use crate::daemon::launch::Launch;
    use crate::reboot::attempt::Attempt;
    use crate::reboot::record::Record;

    /// Nothing in here needs one.
    fn helpers(root: &std::path::Path) -> Helpers {
        Helpers::new(Launch::Children("/nonexistent".into()), root)
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn before_the_upgrade(usec_ago: i64, rest: &str) -> (tempfile::TempDir, Restart) {
        let root = tempfile::tempdir().unwrap();
        let usec = Timestamp::now().as_microsecond() - usec_ago;
        std::fs::create_dir_all(root.path().join("run/bedplate")).unwrap();
        let text = format!("{{\"usec\":{usec},\"plan\":\"p\",{rest}}}");
        std::fs::write(root.path().join("run/bedplate/announced.json"), text).unwrap();
        let restart = Restart::new(root.path(), "boot".into(), helpers(root.path()));
        (root, restart)
    }

    const CALLED_OFF: &str = r#""kind":"reboot","called_off":true,
        "called_off_by":"by user 0 with `bedplate reboot cancel`","prepared":null"#;

    #[test]
    fn what_was_called_off_before_an_upgrade_is_not_under_way_after_it() {
        let (_root, restart) = before_the_upgrade(60_000_000, CALLED_OFF);
        assert!(restart.called_off(), "the call-off is forgotten");
        let said = now(restart.gone(restart.store.announced())).unwrap();
        assert_eq!(said, Scheduled::Nothing);
    }

    #[test]
    fn a_request_after_an_upgrade_is_not_dropped() {
        let (_root, restart) = before_the_upgrade(20 * 60_000_000, CALLED_OFF);
        restart.request("w".into(), None, 0).unwrap();
        now(restart.gone(restart.store.announced())).unwrap();
        assert!(restart.store.record().unwrap().asked.is_some(), "the request is gone");
    }

    /// If it read as one that waits, it would be called off, and its attempt taken out of the loop guard.
    #[test]
    fn a_command_that_was_run_before_an_upgrade_was_run_after_it() {
        let (_root, restart) = before_the_upgrade(
            130_000_000,
            r#""kind":"dry-reboot","called_off":true,"called_off_by":null,
            "prepared":{"method":"command","next":"run-command","undo":[]}"#,
        );
        let mut record = Record::default();
        record.attempt(Attempt {
            plan: "p".into(),
            boot_id: "boot".into(),
            at: Timestamp::now(),
            due: None,
            method: crate::profile::model::RebootMethod::Command,
            rehearsal: false,
            passthrough: false,
            followed: false,
        });
        restart.store.keep(&record).unwrap();
        let announced = restart.store.announced().unwrap();
        if super::super::fire::waits(&announced) {
            restart.call_off_command(announced, "what fire() does with one that waits").unwrap();
        }
        let record = restart.store.record().unwrap();
        assert_eq!(record.used("p", "next boot"), 1, "the attempt is no longer counted");
    }
}
