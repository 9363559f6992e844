//! Shutdowns and boots of the machine.

use super::*;

impl World {
    /// Fires logind's timer if due.
    pub(super) fn fire(&mut self) {
        let now = bedplate_core::reboot_record::phase::usec(self.now());
        let Some((kind, at)) = self.logind.clone() else { return };
        if at > now || self.down.is_some() || std::mem::replace(&mut self.fired, true) {
            return;
        }
        if kind.starts_with("dry-") {
            self.set_logind(None, false);
        } else if self.by_us {
            self.allowed("logind reboots");
            self.down = Some(Down::Ours);
        } else {
            self.down = Some(Down::Other);
        }
    }

    /// Checks at the start of bedplate's reboot that no veto forbids it.
    pub(super) fn allowed(&self, what: &str) {
        assert!(self.hold != Hold::Confirmed, "{what} during a hold: {self:#?}");
        self.counted(what);
        // Found in time for the decision, but too late to act.
        if matches!(self.record.phase, Phase::Cancelling { .. }) {
            return;
        }
        assert!(self.seen_sound || self.forced, "{what} into an entry not known sound: {self:#?}");
        assert!(!self.seen_inhibited, "{what} over an inhibitor: {self:#?}");
    }

    pub(super) fn counted(&self, what: &str) {
        let boot = self.boot_id();
        let counted = self.record.attempts.iter().any(|one| one.boot_id == boot);
        assert!(counted, "{what} and its attempt is lost: {self:#?}");
    }

    /// Starts another shutdown; logind drops its schedule.
    pub(crate) fn shut_down(&mut self) {
        let ours = self.has_ours() && matches!(self.record.phase, Phase::Scheduled { .. });
        let real = self.record.phase.arranged().is_some_and(|one| !one.is_dry());
        self.down = Some(if ours && real { Down::Instead } else { Down::Other });
        self.set_logind(None, false);
    }

    /// Aborts the shutdown. logind retains a schedule whose time has passed.
    pub(crate) fn abort(&mut self) {
        self.down = None;
    }

    pub(crate) fn boots(&mut self) {
        if matches!(self.down, Some(Down::Ours | Down::Instead)) {
            self.counted("the machine boots");
        }
        self.crash();
        self.boot += 1;
        self.userspace += 1;
        self.set_logind(None, false);
        (self.command, self.down, self.armed, self.runs) = (None, None, false, 0);
    }

    pub(crate) fn soft_reboot(&mut self) {
        self.crash();
        self.userspace += 1;
        self.set_logind(None, false);
        self.command = None;
    }
}
