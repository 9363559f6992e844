//! The fleet's turn: takes a slot of the lock server before a reboot, and gives it back as soon as no reboot is to come
//! of it. A server that fails is left alone for a while, and is then asked again without any event.
//!
//! A slot that nobody uses starves the fleet: it is given back when the reboot is called off, by whoever or whatever it
//! was (people, a hold, an inhibitor, a busy device, a closed window), and asked for again when the way is free. It is kept
//! while a reboot is announced or under way, and by a host that came back from it and is not well: what a reboot has
//! broken here it would break on the next host too.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::around::GOING_DOWN_US;
use super::{LOOK_AGAIN, Restart};
use crate::daemon::journal::{self, say};
use crate::daemon::logind;
use crate::daemon::round::Round;
use crate::daemon::status::Status;
use crate::error_chain::chain;
use crate::plan::RebootNeed;
use crate::profile::model::FleetLock;
use crate::reboot::decide::{Decision, Scheduled};
use crate::reboot::fleetlock::{self, Client, Released};
use crate::reboot::identity;
use crate::reboot::record::{Held, Record};

/// A lock server that takes longer is as good as none.
const SERVER_LIMIT: Duration = Duration::from_secs(20);

/// What is remembered of the lock server between two steps.
#[derive(Debug, Default)]
pub(super) struct Lock {
    take: Pause,
    give: Pause,
    /// The server was told in this boot that this host is well.
    told_well: bool,
    /// Why no slot could be given back, as it is in the journal: said once for each reason.
    told: Option<String>,
    /// What became of the last request, for the status.
    said: Option<String>,
}

/// How long something that failed is left alone: longer after each failure.
#[derive(Debug, Default)]
struct Pause {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl Pause {
    fn failed(&mut self, why: &str) {
        self.until = Some(Instant::now() + fleetlock::backoff(self.failures, random()));
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
    }

    fn left(&self) -> Option<Duration> {
        self.until
            .map(|at| at.saturating_duration_since(Instant::now()))
            .filter(|left| !left.is_zero())
    }
}

impl Lock {
    /// When the server may be asked for a slot again, if that has failed.
    pub(super) fn again(&self) -> Option<Duration> {
        self.take.left().or_else(|| self.give.left())
    }

    /// A reboot that could not be announced although there was a slot: the slot goes back, and another one is not asked
    /// for at once. poseidon/fleetlock drains the node each time.
    pub(super) fn in_vain(&mut self, why: &str) {
        self.take.failed(why);
    }
}

impl Lock {
    /// A server that holds a slot of this host (`held`), or may, could not be told that it is not needed.
    fn not_given_back(&mut self, server: &FleetLock, held: bool, why: &str) {
        self.give.failed(why);
        let what = match held {
            true => format!("the slot of {} is not given back yet", server.url),
            false => format!("{} is not told yet that this host is well", server.url),
        };
        self.kept(&format!("{what}; this is tried again: {why}"));
        self.said = Some(format!("{what}: {why}"));
    }

    /// Says why a slot is not given back, once for each reason.
    fn kept(&mut self, why: &str) {
        if self.told.as_deref() != Some(why) {
            say(journal::LOCK_KEPT, why);
            self.told = Some(why.to_owned());
        }
    }
}

impl Restart {
    /// Without its record bedplate does not know of a slot; the fleet waits for it all the same.
    fn cannot_keep(
        &mut self,
        status: &mut Status,
        round: Option<&Round>,
        why: &str,
    ) -> Option<Duration> {
        round.and_then(|round| round.reboot.fleetlock.as_ref())?;
        let text =
            format!("a slot of the fleet's lock may be held and cannot be given back: {why}");
        self.lock.kept(&text);
        status.reboot.lock_said = Some(text);
        Some(LOOK_AGAIN)
    }

    /// One request to the lock server, away from the loop.
    async fn ask<T: Send + 'static>(
        &self,
        server: &FleetLock,
        call: impl FnOnce(&Client) -> Result<T, fleetlock::LockError> + Send + 'static,
    ) -> Result<T, String> {
        let machine_id =
            std::fs::read_to_string(self.root.join("etc/machine-id")).map_err(|e| e.to_string())?;
        let machine_id =
            identity::parse_machine_id(machine_id.trim()).map_err(|error| error.to_string())?;
        let id = identity::hex(identity::app_specific(machine_id, identity::FLEETLOCK_APP_ID));
        let server = server.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let client = Client::new(&server.url, &server.group, id, SERVER_LIMIT)
                .map_err(|error| error.to_string())?;
            call(&client).map_err(|error| chain(&error))
        });
        asked.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// `Ok(true)`: held; decide again.
    pub(super) async fn take_lock(
        &mut self,
        record: &mut Record,
        round: &Round,
    ) -> Result<bool, String> {
        let Some(server) = round.reboot.fleetlock.clone() else { return Ok(false) };
        if self.lock.take.left().is_some() {
            return Err(self.lock.take.why.clone());
        }
        // The record has room for one slot: that of a server that the profile no longer names would be forgotten.
        if let Some(old) =
            record.lock.as_ref().map(|held| held.server.clone()).filter(|old| *old != server)
        {
            self.release(record, &old, false).await.map_err(|why| {
                format!(
                    "the slot of {} has to be given back before {} is asked: {why}",
                    old.url, server.url
                )
            })?;
        }
        // Kept first: an answer that gets lost may have been yes, and such a slot has to be given back.
        let held = Held {
            server: server.clone(),
            certain: false,
            since: Timestamp::now(),
            boot_id: self.boot_id.clone(),
            before: troubles(round),
        };
        record.lock = Some(held.clone());
        self.store.keep(record)?;
        match self.ask(&server, Client::pre_reboot).await {
            Ok(()) => {
                record.lock = Some(Held { certain: true, ..held });
                self.store.keep(record)?;
                self.lock.said = Some(format!("{} gave this host a slot", server.url));
                say(journal::LOCK, &format!("{} gave this host a slot to reboot", server.url));
                Ok(true)
            }
            Err(why) => {
                let waits = format!("no slot of the fleet's lock yet: {why}");
                self.lock.take.failed(&waits);
                self.lock.said = Some(why);
                Err(waits)
            }
        }
    }

    /// Gives back a slot that no reboot is to come of, and tells the server once in a boot that this host is well; it may
    /// hold a slot that nobody remembers. `taking`: one is being asked for. Returns when to come again.
    pub(super) async fn give_back(
        &mut self,
        status: &mut Status,
        round: Option<&Round>,
        taking: bool,
    ) -> Option<Duration> {
        // A reboot is announced, so whatever kept one from being announced is over.
        if matches!(status.reboot.decision, Decision::Announced { .. }) {
            self.lock.take = Pause::default();
        }
        let is_well = |before: &[String]| round.is_some_and(|round| is_well(status, round, before));
        let (mut unused, mut well, mut again) = (None, false, None);
        let kept = match self.store.record() {
            Ok(record) => record.lock,
            Err(why) => return self.cannot_keep(status, round, &why),
        };
        match kept {
            Some(held) => {
                well = is_well(&held.before);
                if held.certain && held.boot_id != self.boot_id && !well {
                    self.lock.said = Some(
                        "kept until this host is well after the reboot that it was for".into(),
                    );
                } else if !taking {
                    again = Some(LOOK_AGAIN);
                    unused = (!self.goes_down().await).then_some(held.server);
                }
            }
            None if !self.lock.told_well && is_well(&[]) => {
                well = true;
                unused = round.and_then(|round| round.reboot.fleetlock.clone());
            }
            None => {}
        }
        // Read again: that a reboot was called off may have been found out only now.
        let mut record = match self.store.record() {
            Ok(record) => record,
            Err(why) => return self.cannot_keep(status, round, &why),
        };
        if let Some(server) = unused {
            // That it failed is in the journal.
            let done = self.release(&mut record, &server, well).await;
            again = done.is_err().then(|| self.lock.give.left().unwrap_or(LOOK_AGAIN));
        }
        status.reboot.lock = record.lock;
        status.reboot.lock_said.clone_from(&self.lock.said);
        again
    }

    /// Tells a server that this host needs no slot of its; the record has none then.
    async fn release(
        &mut self,
        record: &mut Record,
        server: &FleetLock,
        well: bool,
    ) -> Result<(), String> {
        if self.lock.give.left().is_some() {
            return Err(self.lock.give.why.clone());
        }
        let held = record.lock.is_some();
        if let Some(held) = record.lock.as_mut().filter(|held| held.certain) {
            // Kept first: an answer that gets lost may have been yes, and without a slot there is no reboot.
            held.certain = false;
            if let Err(why) = self.store.keep(record) {
                self.lock.not_given_back(server, true, &why);
                return Err(why);
            }
        }
        match self.ask(server, Client::steady_state).await {
            Ok(released) => {
                record.lock = None;
                self.lock.told_well |= well;
                (self.lock.give, self.lock.told) = (Pause::default(), None);
                let (journal, status) = words(&released, &server.url, well);
                say(journal::LOCK, &journal);
                self.lock.said = Some(status);
                if held && let Err(why) = self.store.keep(record) {
                    say(journal::IMPAIRED, &why);
                }
                Ok(())
            }
            Err(why) => {
                self.lock.not_given_back(server, held, &why);
                Err(why)
            }
        }
    }

    /// Whether this host is about to boot, as far as can be told: then its slot is not to be given to another one.
    async fn goes_down(&mut self) -> bool {
        match self.scheduled().await {
            Err(_) | Ok(Scheduled::Ours(_) | Scheduled::Underway(_)) => return true,
            // Whoever asked for it, this host will be away; of a poweroff nobody knows for how long.
            Ok(Scheduled::Foreign(what)) => {
                return ["reboot", "kexec", "soft-reboot"]
                    .contains(&what.split(' ').next().unwrap_or(""));
            }
            Ok(Scheduled::Nothing) => {}
        }
        let Some(announced) = self.store.announced() else { return false };
        let waited = logind::usec(Timestamp::now()).saturating_sub(announced.usec);
        match announced.called_off {
            // The operator's command was run, and the power may be cycled at any moment.
            true => announced.prepared.is_some() && waited < GOING_DOWN_US.unsigned_abs(),
            // It is not known what has become of it: there is no logind to ask.
            false => self.logind.is_none(),
        }
    }
}

/// What people have to deal with on this host, and what cannot be read of it.
fn troubles(round: &Round) -> Vec<String> {
    let blockers = round.blockers.iter().map(|one| (&one.subject, &one.reason));
    let troubles = blockers.chain(round.unknowns.iter().map(|one| (&one.subject, &one.reason)));
    troubles.map(|(subject, reason)| format!("{subject}: {reason}")).collect()
}

/// Whether nothing is wrong with this host but what was known `before` it was rebooted.
fn is_well(status: &Status, round: &Round, before: &[String]) -> bool {
    round.changes.is_empty()
        && round.pending.is_empty()
        && round.need == RebootNeed::None
        && round.failure().is_none()
        && status.contested.is_empty()
        && !matches!(status.reboot.decision, Decision::Stuck { .. })
        && troubles(round).iter().all(|trouble| before.contains(trouble))
}

/// What is said of a slot that was given back: in the journal, and in the status.
fn words(released: &Released, url: &str, well: bool) -> (String, String) {
    match (released, well) {
        (Released::HeldNone(said), _) => (
            format!(
                "{url} says that this host holds no slot, so there is none to give back ({said})"
            ),
            "this host holds no slot".into(),
        ),
        (Released::Yes, true) => (
            format!("told {url} that this host is well"),
            "this host is well, and holds no slot".into(),
        ),
        (Released::Yes, false) => (
            format!("gave the slot back to {url}: no reboot is due"),
            "given back: no reboot is due".into(),
        ),
    }
}

/// For jitter only.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without random numbers the jitter is none.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}
