//! The persisted state of reboots, in one file: the phase of the arranged reboot, and the parts that outlive it (attempts, the
//! operator's request, the slot of the lock server, the last boot). Pure data and its text form. Times are for display: boot
//! ids decide, which no clock can confuse.

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

/// Where it is kept.
pub const RECORD: &str = "/var/lib/bedplate/daemon/reboot.json";

/// The format this program reads and writes.
pub(crate) const VERSION: u32 = 2;

/// Reboots without the host ever being right in between, for whatever plans, after which bedplate stops: a plan that is
/// another one after every boot must not make a loop either.
pub const MOST_IN_A_ROW: usize = 3;

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// State of the reboot that is arranged.
    pub phase: Phase,
    /// Reboots asked for since the host was last right, oldest first.
    pub attempts: Vec<Attempt>,
    /// The lock that is held, or may be.
    pub lock: Option<LockSlot>,
    /// The operator's request, until it is fulfilled or taken back.
    pub asked: Option<RebootRequest>,
    /// The boot in which something was last known to wait for a boot.
    pub waiting: Option<String>,
    /// Which reboot the last boot followed that there was something to say of.
    pub came: Option<LastBoot>,
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
            came: None,
        }
    }
}

/// A slot of a FleetLock server. Written before the server is asked: a slot that may be held is given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSlot {
    /// Whose.
    pub server: FleetLock,
    /// Whether the server has said so; else it was asked and the answer is not known.
    pub certain: bool,
    /// Since when.
    pub since: Timestamp,
    /// The boot in which it was taken: in another one, the reboot has come that it was for.
    pub boot_id: String,
    /// What was wrong with the host then, in words: the reboot is not to blame for it.
    pub before: Vec<String>,
}

/// A reboot that an operator asked for: it needs no policy and no window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebootRequest {
    /// Who and why, in words.
    pub why: String,
    /// The boot in which it was asked: another boot fulfils it.
    pub boot_id: String,
    /// When it was asked: its identity.
    pub since: Timestamp,
    /// Not before.
    pub at: Timestamp,
    /// Whether it overrides a boot entry that is not known to be sound.
    pub force: bool,
    /// Something was in its way: once that is gone it is announced with the profile's whole delay.
    pub waited: bool,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not JSON of this shape.
    #[error(
        "{RECORD} cannot be parsed: fix it, or remove it to forget every reboot that was asked for"
    )]
    Damaged(#[source] serde_json::Error),
    /// Written by another version.
    #[error(
        "{RECORD} has version {0}, and this bedplate knows version {VERSION}: remove it to forget every reboot that was asked for"
    )]
    Version(u32),
}

/// The part that every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Record {
    /// Reads it.
    ///
    /// # Errors
    /// [`RecordError`]; without a record nothing must be rebooted, since nobody would count.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        // First, as another version has other fields.
        let Version { version } = serde_json::from_str(text).map_err(RecordError::Damaged)?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        serde_json::from_str(text).map_err(RecordError::Damaged)
    }

    /// Its text form.
    pub fn render(&self) -> String {
        // A struct of strings and numbers has a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// How many boots this plan was given that did not make it true: attempts from other boots than this one. An attempt
    /// from this boot has not happened yet; one whose boot was cut short by a power failure has.
    pub fn attempts_used(&self, plan: &str, boot_id: &str) -> usize {
        let from: BTreeSet<&str> = self
            .past(boot_id)
            .filter(|attempt| attempt.plan == plan)
            .map(|a| a.boot_id.as_str())
            .collect();
        from.len()
    }

    /// The same for any plan.
    pub fn in_a_row(&self, boot_id: &str) -> usize {
        let from: BTreeSet<&str> =
            self.past(boot_id).map(|attempt| attempt.boot_id.as_str()).collect();
        from.len()
    }

    /// Whether an earlier boot's reboot was to bring passthrough.
    pub fn was_for_passthrough(&self, boot_id: &str) -> bool {
        self.past(boot_id).any(|attempt| attempt.passthrough)
    }

    fn past<'a>(&'a self, boot_id: &'a str) -> impl Iterator<Item = &'a Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.boot_id != boot_id && !attempt.rehearsal)
    }

    /// Notes a reboot before it is asked for. Asking twice in one boot is one attempt.
    pub fn attempt(&mut self, attempt: Attempt) {
        self.attempts.retain(|old| old.boot_id != attempt.boot_id);
        self.attempts.push(attempt);
        // What `in_a_row` counts is enough; a record does not grow without end.
        let surplus = self.attempts.len().saturating_sub(16);
        self.attempts.drain(..surplus);
    }

    /// A reboot that was asked for in this boot and was called off: it will not happen.
    pub fn cancel_attempt(&mut self, boot_id: &str) {
        self.attempts.retain(|attempt| attempt.boot_id != boot_id);
    }

    /// The host is what it should be: whatever was tried has worked. A reboot that is still to come (people may ask for
    /// one on a host that is right) stays counted.
    pub fn forget_earlier(&mut self, boot_id: &str) {
        self.attempts.retain(|attempt| attempt.boot_id == boot_id);
    }

    /// Whether a reboot for this plan was rehearsed in this boot.
    pub fn rehearsed(&self, boot_id: &str, plan: &str) -> bool {
        self.attempts.iter().any(|a| a.rehearsal && a.boot_id == boot_id && a.plan == plan)
    }

    /// The reboot that the boot `boot_id` follows, if one was announced and no boot has followed it yet. Noted: once.
    pub fn follow(&mut self, boot_id: &str) -> Option<Attempt> {
        let follows = |attempt: &&mut Attempt| attempt.boot_id != boot_id && !attempt.followed;
        let mut last = None;
        for attempt in self.attempts.iter_mut().filter(follows) {
            attempt.followed = true;
            last = Some(attempt.clone()).filter(|attempt| !attempt.rehearsal);
        }
        last
    }

    /// Notes whether something waits for a boot, for the boot that comes.
    pub fn note_waiting(&mut self, boot_id: &str, waits: bool) {
        self.waiting = waits.then(|| boot_id.to_owned());
    }

    /// Whether something waited for the boot `boot_id`: a change, or an operator's request.
    pub fn has_waited(&self, boot_id: &str) -> bool {
        let requested = self.asked.as_ref().map(|asked| &asked.boot_id);
        self.waiting.iter().chain(requested).any(|waited_in| waited_in != boot_id)
    }

    /// The operator's request of this boot.
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
            rehearsal: false,
            passthrough: false,
            followed: false,
            subject: String::new(),
        }
    }

    #[test]
    fn boots_are_counted_not_calls() {
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
    fn a_boot_follows_the_last_reboot_and_only_one_does() {
        let mut record = Record::default();
        record.attempt(attempt("p", "1"));
        record.attempt(attempt("q", "2"));
        assert_eq!(record.follow("2").map(|attempt| attempt.plan), Some("p".into()));
        assert_eq!(record.follow("2"), None);
        assert_eq!(record.follow("3").map(|attempt| attempt.plan), Some("q".into()));
        assert_eq!(record.follow("4"), None);
        assert_eq!(record.in_a_row("4"), 2, "they are counted all the same");
        record.attempt(Attempt { rehearsal: true, ..attempt("r", "4") });
        assert_eq!(record.follow("5"), None);
    }

    #[test]
    fn what_waits_is_remembered_for_the_next_boot() {
        let mut record = Record::default();
        record.note_waiting("1", true);
        assert!(!record.has_waited("1") && record.has_waited("2"));
        record.note_waiting("1", false);
        assert!(!record.has_waited("2"));
        record.asked = Some(request("1"));
        assert!(!record.has_waited("1") && record.has_waited("2"));
    }

    #[test]
    fn a_rehearsal_does_not_count() {
        let mut record = Record::default();
        record.attempt(Attempt { rehearsal: true, ..attempt("p", "1") });
        assert_eq!(record.attempts_used("p", "2"), 0);
    }

    #[test]
    fn it_reads_back_and_refuses_what_it_does_not_know() {
        let mut record = Record::default();
        for boot in 0..40 {
            record.attempt(attempt("p", &boot.to_string()));
        }
        assert_eq!(record.attempts.len(), 16);
        record.asked = Some(request("1"));
        assert_eq!(Record::parse(&record.render()).unwrap(), record);
        assert_eq!((record.request("1").is_some(), record.request("2")), (true, None));
        for other in [1, 3] {
            let text = format!("{{\"version\":{other},\"more\":1}}");
            let refused = Record::parse(&text).unwrap_err();
            assert!(matches!(refused, RecordError::Version(version) if version == other));
            assert!(refused.to_string().contains("remove it"), "{refused}");
        }
        for bad in ["", "{", "{\"version\":2,\"more\":1}", "[]"] {
            assert!(matches!(Record::parse(bad), Err(RecordError::Damaged(_))), "{bad}");
        }
    }
}
