//! What stands around a reboot: what logind has scheduled and whose it is, and what forbids one now.

use jiff::Timestamp;

use super::{Restart, RestartError};
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

/// So long after its time a reboot may still be on its way: services may take 90 seconds each to stop, some longer.
pub(super) const GOING_DOWN_US: i64 = 15 * 60 * 1_000_000;

impl Restart {
    pub(super) async fn scheduled(&self) -> Result<Scheduled, RestartError> {
        let Some(logind) = &self.logind else { return Ok(Scheduled::Nothing) };
        let (kind, usec) = logind.scheduled_shutdown().await.map_err(RestartError::schedule)?;
        let announced = self.store.announced();
        if kind.is_empty() {
            return self.gone(announced).await;
        }
        Ok(match announced {
            Some(announced) if announced.is(&kind, usec) => {
                let at = logind::time(usec);
                // logind keeps it while the machine goes down, when nothing can be looked at any more: what is in the way
                // then must not take the attempt out of the loop guard.
                let rehearsed = announced.kind == Shutdown::DryReboot;
                match Timestamp::now() >= at && !rehearsed {
                    true => Scheduled::Underway(at),
                    false => Scheduled::Ours(at),
                }
            }
            _ => Scheduled::Foreign { kind, at: logind::time(usec) },
        })
    }

    /// logind has nothing scheduled: what has become of bedplate's own announcement?
    pub(super) async fn gone(
        &self,
        announced: Option<Announced>,
    ) -> Result<Scheduled, RestartError> {
        let Some(announced) = announced.filter(Announced::stands) else {
            return Ok(Scheduled::Nothing);
        };
        let late = i64::try_from(logind::usec(Timestamp::now())).unwrap_or(i64::MAX)
            - i64::try_from(announced.usec).unwrap_or_default();
        // A rehearsal is over when its time has come; so is the announcement of the operator's command.
        let rehearsed = announced.kind == Shutdown::DryReboot;
        if late >= 0 && rehearsed {
            return Ok(Scheduled::Nothing);
        }
        if (0..GOING_DOWN_US).contains(&late) {
            return Ok(Scheduled::Underway(logind::time(announced.usec)));
        }
        // `systemctl reboot` makes logind forget its schedule: that calls nothing off, and what was announced has to count
        // against the next.
        if late < 0 && self.machine_stops().await {
            return Ok(on_the_way_down(&announced));
        }
        let by = (late < 0).then(|| {
            format!(
                "through logind, as `shutdown -c` does, at {} or shortly before",
                shown(Timestamp::now())
            )
        });
        // An operator's request goes with it, or it would be announced again at once. The record first: after a full disk or a
        // kill in between, all of this is done again.
        let mut record = self.store.record()?;
        record.asked = None;
        if by.is_some() {
            record.call_off(&self.boot_id);
        }
        self.store.keep(&record)?;
        let stage = by.clone().map_or(Stage::DidNotCome, |by| Stage::CalledOff { by });
        let off = Announced { stage, ..announced };
        self.store.announce(Some(&off))?;
        if let Some(by) = by {
            let text = format!(
                "the announced reboot was called off {by}; `bedplate reboot schedule` asks for it again"
            );
            say(journal::REBOOT_CALLED_OFF, &text);
        } else {
            say(
                journal::REBOOT_FAILED,
                "the announced reboot did not happen: something kept the machine from going down",
            );
        }
        Ok(Scheduled::Nothing)
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
