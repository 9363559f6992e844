//! The pipeline: profile and facts give the desired state; each resource type compares it with the host; their sections
//! make up the plan. Synchronous. Planning ([`prepare()`], [`plan`]) holds only a reader; [`apply`] and [`revert`] change
//! the host under its lock.

mod change;
mod coverage;
mod error;
mod image;
mod ineffective_arguments;
mod lints;
mod omitted_kinds;
mod prepare;
pub mod profile_source;
mod verify;

pub use change::{
    ApplyOutcome, RevertOutcome, Target, apply, may_change, note_ran, plan_seal, revert, seal,
};
pub use error::EngineError;
pub use lints::LintVerdict;
pub use prepare::{
    ImageRequest, PreparedPlan, Request, choose, prepare, prepare_at, prepare_loaded,
};
pub use verify::{HostReport, VerifyOutcome, host_report, verify, verify_by, verify_planned};

use std::borrow::Cow;

use crate::desired::Desired;
use crate::kind::{self, Context, KINDS, cmdline};
use crate::ledger::Ledger;
use crate::plan::{Change, Deferred, Effect, KindPlan, NextBoot, Plan, RebootNeed};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_facts::{Depth, Facts};
use bedplate_host::{HostKind, Reader};

/// Result of planning.
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Desired state that the plan is for.
    pub desired: Desired,
}

/// Observes the host and adds two facts about the next boot from its boot entries: the kernel, and whether the IOMMU
/// stays off. `bedplate_facts::observe` reads no boot entries.
pub fn observe(reader: &dyn Reader, depth: Depth) -> Facts {
    let mut facts = bedplate_facts::observe(reader, depth);
    facts.os.next_kernel = cmdline::next_kernel(reader, &facts);
    facts.os.lasting_kernel = cmdline::lasting_kernel(reader, &facts);
    facts.iommu.off_by = cmdline::iommu_off(reader, &facts);
    facts
}

/// Assumes the CPU vendor of the profile if the host's is not known (an image has no CPU).
pub fn assume_cpu(facts: &mut Facts, profile: &Profile) {
    if facts.cpu.vendor.known().is_none()
        && let Some(vendor) = profile.matching.cpu_vendor
    {
        facts.cpu.vendor = Reading::Known(vendor);
    }
}

/// Compares the host with the profile and plans the changes.
pub fn plan(profile: &Profile, facts: &Facts, reader: &dyn Reader, ledger: &Ledger) -> Outcome {
    // bedplate's own arguments on the command line are not facts about the host.
    let facts = match cmdline::iommu_off_by_others(profile, reader, facts, ledger) {
        Some(off_by) => {
            let mut facts = facts.clone();
            facts.iommu.off_by = off_by;
            &Cow::Owned(facts)
        }
        None => &Cow::Borrowed(facts),
    };
    let facts: &Facts = facts;
    let desired = kind::resolve(profile, facts, ledger);
    let mut body = KindPlan {
        blockers: desired.blockers.clone(),
        unknowns: desired.unknowns.clone(),
        notes: desired.notes.clone(),
        ..KindPlan::default()
    };
    coverage::report(facts, &mut body);
    let mut planned = KindPlan::default();
    for kind in KINDS {
        let so_far = &planned;
        let context = Context { profile, desired: &desired, facts, reader, ledger, so_far };
        let section = (kind.plan)(&context);
        append(&mut planned, section);
    }
    append(&mut body, planned);
    // A snapshot keeps the plan of the host it was recorded from.
    if facts.host == HostKind::Image {
        wait_for_first_boot(&mut body.changes);
    }
    let found = cmdline::soundness(reader, facts);
    let next_boot = found.next_boot();
    let need = match facts.host {
        HostKind::Image => RebootNeed::None,
        HostKind::Live | HostKind::Snapshot => body.reboot_need(),
    };
    cmdline::report_soundness(&found, facts, need != RebootNeed::None, &mut body);
    let reboot = match may_ask_for_reboot(&next_boot, reader, facts) {
        true => need,
        false => RebootNeed::None,
    };
    Outcome { plan: Plan { profile: profile.name.clone(), body, reboot, next_boot }, desired }
}

fn append(body: &mut KindPlan, more: KindPlan) {
    body.changes.extend(more.changes);
    body.blockers.extend(more.blockers);
    body.unknowns.extend(more.unknowns);
    body.unchanged.extend(more.unchanged);
    body.notes.extend(more.notes);
    body.pending.extend(more.pending);
    body.iommu |= more.iommu;
    body.pending_until_boot.extend(more.pending_until_boot);
    body.settled_tools.extend(more.settled_tools);
    body.orphans.extend(more.orphans);
    body.overridden.extend(more.overridden);
}

/// Marks the changes of an image, which is not running: runtime changes are deferred to its first boot, and the others
/// take effect then.
fn wait_for_first_boot(changes: &mut [Change]) {
    for change in changes.iter_mut().filter(|change| change.deferred.is_none()) {
        match change.actions.iter().any(crate::plan::Action::is_live) {
            true => change.deferred = Some(Deferred::to_first_boot()),
            false => change.effect = Effect::FirstBoot,
        }
    }
}

/// Whether a plan may request a reboot: not into a boot entry that is known to fail, and not while a loader whose
/// entries bedplate reads does not show which line it starts.
fn may_ask_for_reboot(next_boot: &NextBoot, reader: &dyn Reader, facts: &Facts) -> bool {
    match next_boot {
        NextBoot::Sound => true,
        NextBoot::Unknown { .. } => !cmdline::is_line_lost(reader, facts),
        NextBoot::Unsound { .. } => false,
    }
}
