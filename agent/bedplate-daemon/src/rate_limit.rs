//! Admission control for D-Bus calls. Anyone may call, as often and from as many connections as the bus allows. The data
//! that they make the daemon hold and write is bounded, and an operator's call and its answer do not queue behind readers.
//! Pure; [`socket`] is its edge.

use std::collections::HashMap;
use std::num::NonZeroU32;

use zbus::message::{Flags, Header, Message, Type};

pub(crate) mod socket;

/// Concurrent calls per connection. A client that reads each property separately makes several.
const OF_ONE_CALLER: usize = 8;
/// Number of pending reads from which each caller gets one at a time: every queued answer contains a whole plan.
const CROWDED: usize = 256;
/// Number of pending reads from which further reads are refused.
const FULL: usize = 1024;
/// Longest call in bytes; longer ones cannot be valid. The longest valid call has a reason of 500 characters.
const LONGEST_CALL: usize = 16 * 1024;

/// Type of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Returns data that is already known.
    Read,
    /// Requests an action, subject to polkit and the loop.
    Change,
}

/// Decision about a message that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Pass it on.
    Pass,
    /// Answer it with `LimitsExceeded`.
    Refuse,
    /// Drop it: no caller waits for an answer.
    Drop,
}

/// Tracks calls until their answers are written.
#[derive(Debug)]
pub(crate) struct CallLimiter {
    /// The daemon's own interface.
    interface: &'static str,
    callers: HashMap<String, Vec<(NonZeroU32, Kind)>>,
    reads: usize,
}

impl CallLimiter {
    /// Creates a limiter without pending calls; `interface` is the daemon's own.
    pub(crate) fn new(interface: &'static str) -> Self {
        CallLimiter { interface, callers: HashMap::new(), reads: 0 }
    }

    /// Decides whether a message that arrived is passed on.
    pub(crate) fn enter(&mut self, message: &Message) -> Entry {
        if message.message_type() != Type::MethodCall {
            return Entry::Pass;
        }
        let header = message.header();
        // Only a connection without a bus omits the sender; that does not occur here.
        let (Some(caller), false) = (header.sender(), silent(&header)) else { return Entry::Drop };
        if message.data().len() > LONGEST_CALL {
            return Entry::Refuse;
        }
        let kind = self.kind(&header);
        let under_way = self.callers.get(caller.as_str()).map_or(0, Vec::len);
        let most = match kind {
            Kind::Change => OF_ONE_CALLER,
            Kind::Read if self.reads >= FULL => 0,
            Kind::Read if self.reads >= CROWDED => 1,
            Kind::Read => OF_ONE_CALLER,
        };
        if under_way >= most {
            return Entry::Refuse;
        }
        self.reads += usize::from(kind == Kind::Read);
        let calls = self.callers.entry(caller.to_string()).or_default();
        calls.push((header.primary().serial_num(), kind));
        Entry::Pass
    }

    /// Whether an outgoing message may overtake queued ones: only the answer to an operator. Messages about the state keep
    /// their order, so that no reader takes an older value for the newer one.
    pub(crate) fn may_overtake(&self, message: &Message) -> bool {
        self.answered(&message.header()).is_some_and(|(_, _, kind)| kind == Kind::Change)
    }

    /// Records that a message was written.
    pub(crate) fn written(&mut self, message: &Message) {
        let Some((caller, at, kind)) = self.answered(&message.header()) else { return };
        if let Some(calls) = self.callers.get_mut(&caller) {
            calls.swap_remove(at);
            if calls.is_empty() {
                self.callers.remove(&caller);
            }
        }
        self.reads -= usize::from(kind == Kind::Read);
    }

    fn kind(&self, header: &Header<'_>) -> Kind {
        let own = header.interface().is_some_and(|interface| interface.as_str() == self.interface);
        match header.member() {
            Some(member) if own && member.as_str() != "Plan" => Kind::Change,
            _ => Kind::Read,
        }
    }

    /// Returns the call that a message answers.
    fn answered(&self, header: &Header<'_>) -> Option<(String, usize, Kind)> {
        let (serial, caller) = (header.reply_serial()?, header.destination()?.as_str());
        let calls = self.callers.get(caller)?;
        let at = calls.iter().position(|(own, _)| *own == serial)?;
        Some((caller.to_owned(), at, calls[at].1))
    }
}

/// Whether the caller expects no answer. The bus does not count these calls towards its limits
/// (`max_replies_per_connection`, dbus-daemon(1)).
fn silent(header: &Header<'_>) -> bool {
    header.primary().flags().contains(Flags::NO_REPLY_EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: &str = "org.bedplate.Agent1";

    fn call(sender: &str, serial: u32, member: &str) -> Message {
        Message::method_call("/org/bedplate/Agent1", member)
            .sender(sender)
            .interface(INTERFACE)
            .serial(NonZeroU32::new(serial).unwrap())
            .build(&())
            .unwrap()
    }

    fn answer(call: &Message) -> Message {
        Message::method_return(&call.header()).build(&()).unwrap()
    }

    #[test]
    fn pending_calls_per_caller_are_limited() {
        let mut gate = CallLimiter::new(INTERFACE);
        let most = u32::try_from(OF_ONE_CALLER).unwrap();
        for serial in 1..=most {
            assert_eq!(gate.enter(&call(":1.1", serial, "Plan")), Entry::Pass);
        }
        assert_eq!(gate.enter(&call(":1.1", 99, "Plan")), Entry::Refuse);
        assert_eq!(gate.enter(&call(":1.1", 99, "CancelReboot")), Entry::Refuse);
        assert_eq!(gate.enter(&call(":1.2", 99, "Plan")), Entry::Pass);
        gate.written(&answer(&call(":1.1", 3, "Plan")));
        // An answer to a refused call, and a repeated answer.
        gate.written(&answer(&call(":1.1", 3, "Plan")));
        gate.written(&answer(&call(":1.1", 99, "Plan")));
        assert_eq!(gate.enter(&call(":1.1", 100, "Plan")), Entry::Pass);
        assert_eq!(gate.enter(&call(":1.1", 101, "Plan")), Entry::Refuse);
        for serial in (1..=most).chain([100]) {
            gate.written(&answer(&call(":1.1", serial, "Plan")));
        }
        gate.written(&answer(&call(":1.2", 99, "Plan")));
        assert!(gate.callers.is_empty() && gate.reads == 0, "{gate:?}");
    }

    /// Many readers get one answer each; a caller without a pending call still gets one, and an operator is admitted.
    #[test]
    fn many_readers_do_not_block_new_callers() {
        let mut gate = CallLimiter::new(INTERFACE);
        let mut of_each = Vec::new();
        for caller in 0..FULL {
            let name = format!(":1.{caller}");
            let passed =
                (1..=9).filter(|serial| gate.enter(&call(&name, *serial, "Plan")) == Entry::Pass);
            of_each.push(passed.count());
        }
        assert_eq!(gate.reads, FULL);
        let first = CROWDED / OF_ONE_CALLER;
        assert!(of_each[..first].iter().all(|count| *count == OF_ONE_CALLER), "{of_each:?}");
        assert!(of_each[first..FULL / 2].iter().all(|count| *count == 1), "{of_each:?}");
        assert_eq!(gate.enter(&call(":2.1", 1, "Plan")), Entry::Refuse);
        let cancel = call(":2.1", 2, "CancelReboot");
        assert_eq!(gate.enter(&cancel), Entry::Pass);
        assert!(gate.may_overtake(&answer(&cancel)));
        assert!(!gate.may_overtake(&answer(&call(":1.1", 1, "Plan"))));
    }

    #[test]
    fn silent_call_is_dropped_and_long_call_refused() {
        let mut gate = CallLimiter::new(INTERFACE);
        let build = |flags: Option<Flags>, why: &str| {
            let call =
                Message::method_call("/org/bedplate/Agent1", "ScheduleReboot").sender(":1.1");
            let call = call.interface(INTERFACE);
            let call = match flags {
                Some(flags) => call.with_flags(flags),
                None => call,
            };
            call.build(&(why, 0_u64)).unwrap()
        };
        assert_eq!(gate.enter(&build(Some(Flags::NO_REPLY_EXPECTED), "")), Entry::Drop);
        assert_eq!(gate.enter(&build(None, &"w".repeat(LONGEST_CALL))), Entry::Refuse);
        assert_eq!(gate.enter(&build(None, &"w".repeat(2000))), Entry::Pass);
        let signal = Message::signal("/", "a.b", "C").build(&()).unwrap();
        assert_eq!(gate.enter(&signal), Entry::Pass);
        assert_eq!(gate.callers.len(), 1);
    }
}
