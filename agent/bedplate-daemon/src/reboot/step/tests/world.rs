//! A simulated host around the state machine: disk, clock, logind, an operator, other programs, concurrent commands, and a
//! daemon that can crash between any two actions. Effects have the same results as with the interpreter.

mod power;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use super::*;

/// An operator's hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    None,
    /// The file is written; the command has not returned.
    Written,
    /// The command has returned 0.
    Confirmed,
}

/// Cause of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Down {
    /// bedplate's reboot.
    Ours,
    /// Another shutdown while logind had bedplate's reboot.
    Instead,
    /// Another shutdown.
    Other,
}

/// A concurrent command that has read logind, and not decided yet.
#[derive(Debug, Clone)]
pub(super) struct Command {
    seen: FastFacts,
    cancels: bool,
}

/// A request to logind: sent, then answered, then recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Sent(ArrangedReboot),
    Answered(Result<(), Veto>),
}

/// The complete state. Fields in the daemon's memory are lost in a crash.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) record: Record,
    pub(super) clock: i64,
    pub(super) boot: u8,
    pub(super) userspace: u64,
    pub(super) logind: Option<(String, u64)>,
    /// Whether bedplate has scheduled it.
    pub(super) by_us: bool,
    /// Whether logind's timer has run: it retains the schedule and takes no further action.
    pub(super) fired: bool,
    pub(super) down: Option<Down>,
    pub(super) hold: Hold,
    pub(super) inhibited: bool,
    pub(super) sound: bool,
    pub(super) armed: bool,
    pub(super) runs: u8,
    /// Entry and inhibitors at the daemon's last observation.
    pub(super) seen_sound: bool,
    pub(super) seen_inhibited: bool,
    /// Whether the entry was last read for a forced request.
    pub(super) forced: bool,
    pub(super) alive: bool,
    pub(super) next: Option<Effect>,
    pub(super) request: Option<Request>,
    pub(super) command: Option<Command>,
    /// Whether commands read logind under the record's lock.
    pub(super) locks: bool,
    pub(super) last_ours: Option<Timestamp>,
    /// Transitions that led here, for the message of a failure.
    pub(super) trail: Vec<&'static str>,
}

/// One tick of the clock in seconds.
pub(super) const TICK: i64 = 60;

impl World {
    pub(super) fn new(locks: bool) -> Self {
        let (boot, userspace) = (1, 1);
        World { locks, boot, userspace, sound: true, alive: true, ..World::default() }
    }

    pub(super) fn now(&self) -> Timestamp {
        after(self.clock)
    }

    fn boot_id(&self) -> String {
        format!("b-{}", self.boot)
    }

    pub(super) fn has_ours(&self) -> bool {
        let arranged = self.record.phase.arranged();
        arranged.is_some_and(|arranged| has(self.logind.as_ref(), arranged))
    }

    /// Whether logind will reboot the machine for bedplate.
    pub(super) fn will_reboot(&self) -> bool {
        self.by_us && self.logind.as_ref().is_some_and(|(kind, _)| !kind.starts_with("dry-"))
    }

    /// Whether the daemon has to wait for the record's lock.
    pub(super) fn is_locked_by_command(&self) -> bool {
        self.locks && self.command.is_some()
    }

    /// Whether a command has to wait for the record's lock.
    pub(super) fn is_locked_by_daemon(&self) -> bool {
        self.locks && matches!(self.request, Some(Request::Sent(_)))
    }

    /// Whether the daemon is between two actions.
    pub(super) fn is_acting(&self) -> bool {
        self.next.is_some() || self.request.is_some()
    }

    pub(super) fn set_logind(&mut self, schedule: Option<(String, u64)>, by_us: bool) {
        (self.logind, self.by_us, self.fired) = (schedule, by_us, false);
    }

    /// Returns a hash of the complete state.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let bare = World { trail: Vec::new(), ..self.clone() };
        format!("{bare:?}").hash(&mut hasher);
        hasher.finish()
    }

    /// `blind`: the hold was set after its file was read.
    fn see(&mut self, blind: bool) -> FastFacts {
        if self.has_ours() {
            self.last_ours = Some(self.now());
        }
        let hold = (self.hold != Hold::None && !blind).then(|| Veto::new(WaitsFor::Hold, "held"));
        FastFacts {
            now: self.now(),
            boot_id: self.boot_id(),
            schedule: Ok(self.logind.clone()),
            goes_down: self.down.is_some(),
            userspace: Some(self.userspace),
            vetoes: hold.into_iter().collect(),
            last_ours: self.last_ours,
            failed: None,
        }
    }

    /// Stores the record before its effect is performed.
    fn persist(&mut self, step: Step) {
        self.record = step.record;
        self.next = step.effect;
    }

    /// One decision of the daemon, with a fresh entry if it requires one.
    pub(super) fn observe(&mut self, settings: &Reboot, blind: bool) {
        for fresh in [false, true] {
            let seen = self.see(blind);
            let mut facts = wanted(settings);
            let reasons = || vec!["empty".to_owned()];
            facts.entry = match self.sound {
                true => NextBoot::Sound,
                false => NextBoot::Unknown { reasons: reasons() },
            };
            facts.fresh = fresh;
            facts.inhibitors = self.inhibited.then(|| "apt".to_owned()).into_iter().collect();
            self.seen_sound = self.sound;
            self.seen_inhibited = self.inhibited;
            let asked = self.record.request(&seen.boot_id);
            self.forced = asked.is_some_and(|asked| asked.force);
            let step = observe(&self.record, &seen, &facts);
            let missing = step.missing;
            self.persist(step);
            if missing.is_none() {
                return;
            }
        }
        panic!("a fresh entry is not enough: {self:?}");
    }

    /// Performs an effect and returns its result.
    fn perform(&mut self, effect: &Effect) -> Event<'static, 'static> {
        match effect {
            Effect::FindUndo { method, .. } => Event::UndoFound(Ok(prepared(*method))),
            Effect::Arm { method, .. } => {
                self.armed = !prepared(*method).undo.is_empty();
                Event::Armed(Ok(prepared(*method)))
            }
            Effect::Schedule { arranged, .. } => Event::ScheduleAnswered(
                self.may_schedule(arranged).and_then(|()| self.schedule(arranged)),
            ),
            Effect::Cancel(arranged) => {
                let late = self.down.is_some() && !arranged.is_dry();
                let by_operator =
                    matches!(self.record.phase.ending(), Some(Ending::Cancelled { .. }));
                if has(self.logind.as_ref(), arranged) && (by_operator || !late) {
                    self.set_logind(None, false);
                }
                Event::CancelAnswered(Ok(if late {
                    CancelResult::GoingDown
                } else {
                    CancelResult::Absent
                }))
            }
            Effect::Disarm(_) => {
                self.armed = false;
                Event::Disarmed(Vec::new())
            }
            Effect::RunCommand if self.hold != Hold::None => {
                Event::CommandEnded(CommandResult::NotStarted("held".into()))
            }
            Effect::RunCommand => {
                self.runs += 1;
                assert!(self.runs <= 1, "the command runs twice in one boot: {self:?}");
                self.allowed("the command runs");
                self.down = Some(Down::Ours);
                Event::CommandEnded(CommandResult::Done(0))
            }
        }
    }

    /// Checks of the interpreter before it calls logind.
    fn may_schedule(&self, arranged: &ArrangedReboot) -> Result<(), Veto> {
        let now =
            matches!(&self.record.phase, Phase::Scheduling { arranged: now } if now == arranged);
        let free = has(self.logind.as_ref(), arranged) || self.logind.is_none();
        match now && free && self.hold == Hold::None && self.down.is_none() {
            true => Ok(()),
            false => Err(Veto::new(WaitsFor::Logind, "not now")),
        }
    }

    /// logind schedules the reboot, and the interpreter checks for a hold once more.
    fn schedule(&mut self, arranged: &ArrangedReboot) -> Result<(), Veto> {
        if self.down.is_some() {
            return Err(Veto::new(WaitsFor::Logind, "it goes down"));
        }
        self.set_logind(Some((arranged.kind.name().to_owned(), arranged.usec)), true);
        self.fire();
        if self.hold != Hold::None && self.locks {
            return Err(Veto::new(WaitsFor::Hold, "held"));
        }
        self.last_ours = Some(self.now());
        Ok(())
    }

    /// Continues the daemon's chain of effects. A request to logind takes three actions, any other effect one.
    pub(super) fn act(&mut self) {
        match self.request.take() {
            Some(Request::Sent(arranged)) => {
                self.request = Some(Request::Answered(self.schedule(&arranged)));
            }
            Some(Request::Answered(answer)) => self.apply(Event::ScheduleAnswered(answer)),
            None => self.act_on_next(),
        }
    }

    fn act_on_next(&mut self) {
        match self.next.take() {
            Some(Effect::Schedule { arranged, .. }) if self.may_schedule(&arranged).is_ok() => {
                self.request = Some(Request::Sent(arranged));
            }
            Some(effect) => {
                let outcome = self.perform(&effect);
                self.apply(outcome);
            }
            None => {}
        }
    }

    fn apply(&mut self, outcome: Event<'_, '_>) {
        let next = step(&self.record, outcome);
        self.persist(next);
    }

    /// Runs the daemon's chain of effects to its end.
    pub(super) fn act_to_the_end(&mut self) {
        while self.is_acting() {
            self.act();
        }
    }

    /// Performs the effect; the daemon crashes before the result is recorded.
    pub(super) fn act_and_crash(&mut self) {
        if let Some(Request::Sent(arranged)) = self.request.take() {
            let _ = self.schedule(&arranged);
        } else if let Some(effect) = self.next.take() {
            self.perform(&effect);
        }
        self.crash();
    }

    pub(super) fn crash(&mut self) {
        (self.alive, self.next, self.request, self.last_ours) = (false, None, None, None);
    }

    /// A concurrent command reads logind.
    pub(super) fn command_sees(&mut self, cancels: bool) {
        let daemon = self.last_ours;
        let seen = self.see(false);
        self.last_ours = daemon;
        self.command = Some(Command { seen, cancels });
    }

    /// The command decides on its facts, and runs the machine to its end. A hold is confirmed if logind has no reboot of
    /// bedplate.
    pub(super) fn command_steps(&mut self) {
        let Some(Command { seen, cancels }) = self.command.take() else { return };
        let daemon = (self.next.take(), self.request.take(), self.last_ours);
        let before = self.record.phase.clone();
        match cancels {
            true => self.apply(Event::CancelRequested(&seen, "by ada".into())),
            false => self.apply(Event::PolledByCommand(&seen)),
        }
        self.act_to_the_end();
        (self.next, self.request, self.last_ours) = daemon;
        if !cancels && self.is_clear(&before) {
            self.hold = Hold::Confirmed;
            assert!(!self.will_reboot(), "a hold is confirmed before a reboot: {self:#?}");
        }
    }

    /// Whether a command finds logind without the scheduled reboot.
    fn is_clear(&self, before: &Phase) -> bool {
        let real = |phase: &Phase| phase.arranged().filter(|one| !one.is_dry()).cloned();
        let kept = |phase| real(phase).is_some_and(|one| has(self.logind.as_ref(), &one));
        let coming =
            matches!(self.record.phase, Phase::CommandRun { .. } | Phase::GoingDown { .. });
        !(coming || kept(&self.record.phase) || self.locks && kept(before))
    }

    pub(super) fn cancel(&mut self) {
        let seen = self.see(false);
        let next = step(&self.record, Event::CancelRequested(&seen, "by ada".into()));
        self.persist(next);
    }

    pub(super) fn request(&mut self, force: bool) {
        let (why, boot_id, at) = ("me".to_owned(), self.boot_id(), self.now());
        let asked = RebootRequest { why, boot_id, since: at, at, force, waited: false };
        let next = step(&self.record, Event::Requested(asked));
        self.persist(next);
    }

    /// Advances the time.
    pub(super) fn tick(&mut self, seconds: i64) {
        self.clock += seconds;
        self.fire();
    }
}
