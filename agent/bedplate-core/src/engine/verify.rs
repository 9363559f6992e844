//! Host → evidence → readiness. Includes the profile, if the operator has put one on the host or named one.

use std::collections::BTreeMap;

use super::image;
use super::ineffective_arguments::ineffective_arguments;
use super::prepare::planned;
use super::profile_source::{Choice, SourceError};
use super::{EngineError, PreparedPlan, Request, choose, observe};
use crate::desired::AcsPolicy;
use crate::kind::acs;
use crate::kind::cmdline::show;
use crate::plan::Plan;
use crate::profile::LoadedProfile;
use crate::verify::{
    CheckInput, HostReadings, ImageState, NoPlan, ProfileState, Report, Selection, judge,
};
use bedplate_base::{ReadError, Reading};
use bedplate_facts::{Depth, Facts, kernel_log};
use bedplate_host::{KernelLog, Reader};

/// Result of `bedplate verify` for a host.
#[derive(Debug)]
pub struct VerifyOutcome {
    /// Facts about the host.
    pub facts: Facts,
    /// The profile that the host was evaluated with, if any.
    pub loaded: Option<LoadedProfile>,
    /// Findings.
    pub report: Report,
    /// Why the profile on the host could not be used.
    pub unusable: Option<EngineError>,
}

/// Full report of a host.
#[derive(Debug)]
pub struct HostReport {
    /// Facts about the host.
    pub facts: Facts,
    /// Results of all checks.
    pub report: Report,
    /// Changes that the host's profile would make. `None`: the host has no profile.
    pub plan: Result<Option<Plan>, NoPlan>,
}

/// Evaluates a host by the selected checks. An unusable profile on the host is itself a finding; the host is evaluated
/// without it.
///
/// # Errors
/// [`EngineError`]: a profile was named and cannot be used.
pub fn verify(
    reader: &dyn Reader,
    request: &Request<'_>,
    selection: &Selection,
) -> Result<VerifyOutcome, EngineError> {
    let mut facts = observe(reader, Depth::Thorough);
    let (planned, unusable) = match own_plan(reader, &mut facts, request) {
        Ok(planned) => (planned, None),
        Err(error) if matches!(request.choice, Choice::HostOnly) => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let asked = unusable.as_ref().map_or(Ok(planned.as_ref()), |error| Err(no_plan(error)));
    let log = Reading::from_result(reader.kernel_log(kernel_log::redacted_line));
    let report = report(reader, &facts, asked, log, selection);
    Ok(VerifyOutcome { facts, loaded: planned.map(|planned| planned.loaded), report, unusable })
}

/// Evaluates a host by every check, and plans with the profile on it, whether usable or not.
pub fn host_report(reader: &dyn Reader) -> HostReport {
    let choice = Choice::HostOnly;
    let request = Request::dry_run(choice);
    let mut facts = observe(reader, Depth::Thorough);
    let planned = own_plan(reader, &mut facts, &request).map_err(|error| no_plan(&error));
    let log = Reading::from_result(reader.kernel_log(kernel_log::redacted_line));
    let asked = planned.as_ref().map(Option::as_ref).map_err(|why| *why);
    let report = report(reader, &facts, asked, log, &Selection::default());
    HostReport { facts, report, plan: planned.map(|planned| planned.map(|planned| planned.plan)) }
}

/// Returns the plan. `None`: the request is `Choice::HostOnly`, and the host has no profile.
fn own_plan(
    reader: &dyn Reader,
    facts: &mut Facts,
    request: &Request<'_>,
) -> Result<Option<PreparedPlan>, EngineError> {
    match choose(reader, facts, request) {
        Ok(chosen) => planned(reader, facts.clone(), chosen, request).map(Some),
        Err(EngineError::NoProfile) if matches!(request.choice, Choice::HostOnly) => Ok(None),
        Err(error) => Err(error),
    }
}

fn no_plan(error: &EngineError) -> NoPlan {
    match error {
        EngineError::Ledger(_) => NoPlan::Ledger,
        // A profile that other users could have written is readable, but must not be used.
        EngineError::Profile(SourceError::Host(ReadError::Untrusted { .. })) => NoPlan::Unusable,
        EngineError::Profile(SourceError::Host(_)) => NoPlan::Unread,
        _ => NoPlan::Unusable,
    }
}

/// Evaluates a planned host by every check, from the facts of the plan, which must be of [`Depth::Thorough`]. `log`:
/// redacted lines of the kernel log ([`kernel_log::redacted_line`]).
pub fn verify_planned(
    reader: &dyn Reader,
    planned: &PreparedPlan,
    log: Reading<KernelLog>,
) -> Report {
    report(reader, &planned.facts, Ok(Some(planned)), log, &Selection::default())
}

fn report(
    reader: &dyn Reader,
    facts: &Facts,
    asked: Result<Option<&PreparedPlan>, NoPlan>,
    log: Reading<KernelLog>,
    selection: &Selection,
) -> Report {
    let planned = asked.unwrap_or_default();
    let line = show::read(reader, facts);
    let suspects = ineffective_arguments(&line, facts);
    let observed = HostReadings::read(reader, facts, line, suspects, log);
    let section = planned.map(|planned| &planned.loaded.profile.acs);
    let wanted = section.filter(|acs| acs.policy != AcsPolicy::Keep).cloned();
    let acs = acs::resolve(&wanted.unwrap_or_else(acs::for_direct_traffic), facts);
    let image = planned.and_then(|planned| image::state(reader, planned));
    let in_effect = asked.map(|planned| planned.map(|planned| in_effect(planned, image.as_ref())));
    let evidence = CheckInput::new(facts, &observed, &acs, in_effect);
    let said = planned.map(|planned| &planned.loaded.profile.verify.severity);
    judge(&evidence, selection, said.unwrap_or(&BTreeMap::new()))
}

fn in_effect<'a>(planned: &'a PreparedPlan, image: Option<&'a ImageState>) -> ProfileState<'a> {
    ProfileState { name: &planned.loaded.profile.name, plan: &planned.plan, image }
}
