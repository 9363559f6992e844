//! The persisted state of reboots, in one file: the phase of the arranged reboot, and the parts that outlive it
//! (attempts, the operator's request, the lock server's slot, the last boot). Pure data and its text form. Times are
//! for display only; decisions use boot ids, which no clock affects.

pub mod attempt;
pub mod last_boot;
pub mod phase;
pub mod preparation;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::attempt::Attempt;
use self::last_boot::LastBoot;
use self::phase::Phase;
use crate::profile::model::FleetLock;

/// Path of the record.
pub const RECORD: &str = "/var/lib/bedplate/daemon/reboot.json";

/// Format version that this program reads and writes.
pub(crate) const VERSION: u32 = 3;

/// Maximum number of consecutive reboots without convergence, for any plans. Also stops loops in which every boot leads
/// to another plan.
pub const MOST_IN_A_ROW: usize = 3;

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// State of the arranged reboot.
    pub phase: Phase,
    /// Reboots requested since the host last converged, oldest first.
    pub attempts: Vec<Attempt>,
    /// Lock slot that is held, or may be.
    pub lock: Option<LockSlot>,
    /// Operator's request, until it is fulfilled or cancelled.
    pub asked: Option<RebootRequest>,
    /// Id of the boot in which a change was last known to be pending until a boot.
    pub waiting: Option<String>,
    /// Cause of the last boot, if it is worth reporting.
    pub last_boot: Option<LastBoot>,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            version: VERSION,
            phase: Phase::Rest,
            attempts: Vec::new(),
            lock: None,
            asked: None,
            waiting: None,
            last_boot: None,
        }
    }
}

/// A slot of a FleetLock server. Recorded before the request to the server: a slot that may be held must be released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSlot {
    /// Server with the slot.
    pub server: FleetLock,
    /// Whether the server has confirmed the slot; `false`: its response is unknown.
    pub certain: bool,
    /// Time of the request.
    pub since: Timestamp,
    /// Boot in which the slot was taken. In another boot, its reboot has happened.
    pub boot_id: String,
    /// Faults of the host at that time, as text: the reboot did not cause them.
    pub before: Vec<String>,
}

/// A reboot requested by an operator: it needs no policy and no window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebootRequest {
    /// Requester and reason, as text.
    pub why: String,
    /// Boot in which it was requested: another boot fulfils it.
    pub boot_id: String,
    /// Time of the request, which also identifies it.
    pub since: Timestamp,
    /// Earliest time of the reboot.
    pub at: Timestamp,
    /// Whether it overrides a boot entry that is not known to be sound.
    pub force: bool,
    /// Whether it was blocked: once unblocked, it is scheduled with the profile's whole delay.
    pub waited: bool,
}

/// Reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not JSON of this form.
    #[error("cannot parse {RECORD}: fix it, or remove it to drop all requested reboots")]
    Damaged(#[source] serde_json::Error),
    /// Written by another version.
    #[error(
        "{RECORD} has version {0} (supported: {VERSION}): remove it to drop all requested reboots"
    )]
    Version(u32),
}

/// The part common to all versions.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Record {
    /// Parses the text form.
    ///
    /// # Errors
    /// [`RecordError`]. Without a record nothing may be rebooted, since attempts cannot be counted.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        // Must be first: other versions have other fields.
        let Version { version } = serde_json::from_str(text).map_err(RecordError::Damaged)?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        serde_json::from_str(text).map_err(RecordError::Damaged)
    }

    /// Returns the text form.
    pub fn render(&self) -> String {
        // Strings and numbers always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the number of boots that failed to complete this plan: attempts from boots other than this one. An
    /// attempt from this boot has not happened yet; one whose boot ended in a power failure has.
    pub fn attempts_used(&self, plan: &str, boot_id: &str) -> usize {
        let from: BTreeSet<&str> = self
            .past(boot_id)
            .filter(|attempt| attempt.plan == plan)
            .map(|a| a.boot_id.as_str())
            .collect();
        from.len()
    }

    /// Returns the number of such boots for any plan.
    pub fn in_a_row(&self, boot_id: &str) -> usize {
        let from: BTreeSet<&str> =
            self.past(boot_id).map(|attempt| attempt.boot_id.as_str()).collect();
        from.len()
    }

    /// Whether a reboot of an earlier boot was to enable passthrough.
    pub fn was_for_passthrough(&self, boot_id: &str) -> bool {
        self.past(boot_id).any(|attempt| attempt.passthrough)
    }

    fn past<'a>(&'a self, boot_id: &'a str) -> impl Iterator<Item = &'a Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.boot_id != boot_id && !attempt.dry_run)
    }

    /// Records a reboot before it is requested. Two requests in one boot are one attempt.
    pub fn attempt(&mut self, attempt: Attempt) {
        self.attempts.retain(|old| old.boot_id != attempt.boot_id);
        self.attempts.push(attempt);
        // Enough for the limit in [`Record::in_a_row`]; bounds the size of the record.
        let surplus = self.attempts.len().saturating_sub(16);
        self.attempts.drain(..surplus);
    }

    /// Drops the attempt of this boot: its reboot was cancelled.
    pub fn cancel_attempt(&mut self, boot_id: &str) {
        self.attempts.retain(|attempt| attempt.boot_id != boot_id);
    }

    /// Drops the attempts of earlier boots: the host has converged. The attempt of this boot, whose reboot is yet to
    /// happen (an operator may request one on a converged host), still counts.
    pub fn forget_earlier(&mut self, boot_id: &str) {
        self.attempts.retain(|attempt| attempt.boot_id == boot_id);
    }

    /// Whether a dry run of a reboot for this plan took place in this boot.
    pub fn dry_run_done(&self, boot_id: &str, plan: &str) -> bool {
        self.attempts.iter().any(|a| a.dry_run && a.boot_id == boot_id && a.plan == plan)
    }

    /// Returns the scheduled reboot that the boot `boot_id` follows, and marks it, so that it is returned only once.
    pub fn follow(&mut self, boot_id: &str) -> Option<Attempt> {
        let follows = |attempt: &&mut Attempt| attempt.boot_id != boot_id && !attempt.followed;
        let mut last = None;
        for attempt in self.attempts.iter_mut().filter(follows) {
            attempt.followed = true;
            last = Some(attempt.clone()).filter(|attempt| !attempt.dry_run);
        }
        last
    }

    /// Records whether a change is pending until a boot, for use in the next boot.
    pub fn note_waiting(&mut self, boot_id: &str, waits: bool) {
        self.waiting = waits.then(|| boot_id.to_owned());
    }

    /// Whether a change or an operator's request was pending before the boot `boot_id`.
    pub fn has_waited(&self, boot_id: &str) -> bool {
        let requested = self.asked.as_ref().map(|asked| &asked.boot_id);
        self.waiting.iter().chain(requested).any(|waited_in| waited_in != boot_id)
    }

    /// Returns the operator's request of this boot.
    pub fn request(&self, boot_id: &str) -> Option<&RebootRequest> {
        self.asked.as_ref().filter(|asked| asked.boot_id == boot_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::model::RebootMethod;

    fn request(boot: &str) -> RebootRequest {
        let at = Timestamp::UNIX_EPOCH;
        let (why, boot_id) = ("w".into(), boot.into());
        RebootRequest { why, boot_id, since: at, at, force: false, waited: false }
    }

    fn attempt(plan: &str, boot: &str) -> Attempt {
        let at = Timestamp::UNIX_EPOCH;
        Attempt {
            plan: plan.into(),
            boot_id: boot.into(),
            at,
            due: None,
            method: RebootMethod::Ordinary,
            dry_run: false,
            passthrough: false,
            followed: false,
            subject: String::new(),
        }
    }

    #[test]
    fn attempts_are_counted_per_boot() {
        let mut record = Record::default();
        record.attempt(attempt("p", "1"));
        record.attempt(attempt("p", "1"));
        assert_eq!((record.attempts_used("p", "1"), record.attempts_used("p", "2")), (0, 1));
        record.attempt(attempt("q", "2"));
        assert_eq!(
            (record.attempts_used("p", "3"), record.attempts_used("q", "3"), record.in_a_row("3")),
            (1, 1, 2)
        );
        record.cancel_attempt("2");
        assert_eq!(record.in_a_row("3"), 1);
        record.attempt(attempt("r", "3"));
        record.forget_earlier("3");
        assert_eq!(
            (record.in_a_row("3"), record.in_a_row("4")),
            (0, 1),
            "what is still to come counts"
        );
    }

    #[test]
    fn only_one_boot_follows_a_reboot() {
        let mut record = Record::default();
        record.attempt(attempt("p", "1"));
        record.attempt(attempt("q", "2"));
        assert_eq!(record.follow("2").map(|attempt| attempt.plan), Some("p".into()));
        assert_eq!(record.follow("2"), None);
        assert_eq!(record.follow("3").map(|attempt| attempt.plan), Some("q".into()));
        assert_eq!(record.follow("4"), None);
        assert_eq!(record.in_a_row("4"), 2, "they are counted all the same");
        record.attempt(Attempt { dry_run: true, ..attempt("r", "4") });
        assert_eq!(record.follow("5"), None);
    }

    #[test]
    fn pending_change_is_remembered_for_the_next_boot() {
        let mut record = Record::default();
        record.note_waiting("1", true);
        assert!(!record.has_waited("1") && record.has_waited("2"));
        record.note_waiting("1", false);
        assert!(!record.has_waited("2"));
        record.asked = Some(request("1"));
        assert!(!record.has_waited("1") && record.has_waited("2"));
    }

    #[test]
    fn dry_run_is_not_an_attempt() {
        let mut record = Record::default();
        record.attempt(Attempt { dry_run: true, ..attempt("p", "1") });
        assert_eq!(record.attempts_used("p", "2"), 0);
    }

    #[test]
    fn record_parses_back_and_rejects_other_versions() {
        let mut record = Record::default();
        for boot in 0..40 {
            record.attempt(attempt("p", &boot.to_string()));
        }
        assert_eq!(record.attempts.len(), 16);
        record.asked = Some(request("1"));
        assert_eq!(Record::parse(&record.render()).unwrap(), record);
        assert_eq!((record.request("1").is_some(), record.request("2")), (true, None));
        for other in [1, 2, 4] {
            let text = format!("{{\"version\":{other},\"more\":1}}");
            let refused = Record::parse(&text).unwrap_err();
            assert!(matches!(refused, RecordError::Version(version) if version == other));
            assert!(refused.to_string().contains("remove it"), "{refused}");
        }
        for bad in ["", "{", "{\"version\":3,\"more\":1}", "[]"] {
            assert!(matches!(Record::parse(bad), Err(RecordError::Damaged(_))), "{bad}");
        }
    }
}
