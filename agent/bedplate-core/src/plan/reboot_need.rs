//! Reboot that the parts of a plan need. Every part names its effect, and the most disruptive one decides (design §8.5).

use super::{Effect, KindPlan, Pending, RebootNeed};

impl Effect {
    /// Returns the reboot that a change with this effect needs.
    fn reboot_need(self) -> RebootNeed {
        match self {
            Effect::Now | Effect::FirstBoot | Effect::EveryBoot => RebootNeed::None,
            Effect::NextBoot => RebootNeed::Reboot,
            Effect::ColdBoot => RebootNeed::Cold,
        }
    }
}

impl KindPlan {
    /// Returns the reboot that changes and pending items of a running host need.
    pub fn reboot_need(&self) -> RebootNeed {
        let planned = self.changes.iter().filter(|change| change.deferred.is_none());
        let planned = planned.map(|change| change.effect.reboot_need());
        planned.max().unwrap_or(RebootNeed::None).max(pending_need(&self.pending))
    }
}

/// Returns the reboot that already written changes need to take effect. Unwritten changes need none yet. Computed from a
/// fresh plan only, never from memory.
pub fn pending_need(pending: &[Pending]) -> RebootNeed {
    pending.iter().map(|pending| pending.effect.reboot_need()).max().unwrap_or(RebootNeed::None)
}
