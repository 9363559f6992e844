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
    CheckInput, HostReadings, NoPlan, ProfileState, Report, Selection, judge, part,
};
use bedplate_base::{ReadError, Reading};
use bedplate_facts::{Depth, Facts, kernel_log};
use bedplate_host::{KernelLog, Reader};

/// Result of `bedplate verify` for a host. `R`: [`Report`], or one per selection.
#[derive(Debug)]
pub struct VerifyOutcome<R = Report> {
    /// Facts about the host.
    pub facts: Facts,
    /// The profile that the host was evaluated with, if any.
    pub loaded: Option<LoadedProfile>,
    /// Findings.
    pub report: R,
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
    let outcome = verify_by(reader, request, [selection])?;
    let VerifyOutcome { facts, loaded, report: [report], unusable } = outcome;
    Ok(VerifyOutcome { facts, loaded, report, unusable })
}

/// Reads a host once, and evaluates it by each selection.
///
/// # Errors
/// As [`verify`].
pub fn verify_by<const N: usize>(
    reader: &dyn Reader,
    request: &Request<'_>,
    selections: [&Selection; N],
) -> Result<VerifyOutcome<[Report; N]>, EngineError> {
    let mut facts = observe(reader, Depth::Thorough);
    let (planned, unusable) = match own_plan(reader, &mut facts, request) {
        Ok(planned) => (planned, None),
        Err(error) if matches!(request.choice, Choice::HostOnly) => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let asked = unusable.as_ref().map_or(Ok(planned.as_ref()), |error| Err(no_plan(error)));
    let log = Reading::from_result(reader.kernel_log(kernel_log::redacted_line));
    let report = reports(reader, &facts, asked, log, selections);
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
    let [report] = reports(reader, &facts, asked, log, [&Selection::default()]);
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
    let [report] = reports(reader, &planned.facts, Ok(Some(planned)), log, [&Selection::default()]);
    report
}

fn reports<const N: usize>(
    reader: &dyn Reader,
    facts: &Facts,
    asked: Result<Option<&PreparedPlan>, NoPlan>,
    log: Reading<KernelLog>,
    selections: [&Selection; N],
) -> [Report; N] {
    let planned = asked.unwrap_or_default();
    let line = show::read(reader, facts);
    let suspects = ineffective_arguments(&line, facts);
    let observed = HostReadings::read(reader, facts, line, suspects, log);
    let section = planned.map(|planned| &planned.loaded.profile.acs);
    let wanted = section.filter(|acs| acs.policy != AcsPolicy::Keep).cloned();
    let acs = acs::resolve(&wanted.unwrap_or_else(acs::for_direct_traffic), facts);
    let image = planned.and_then(|planned| image::state(reader, planned));
    let said = planned.map(|planned| &planned.loaded.profile.verify.severity);
    selections.map(|selection| {
        let plan = planned.map(|planned| part(&planned.plan, selection.stage()));
        let in_effect = asked.map(|planned| {
            planned.zip(plan.as_ref()).map(|(planned, plan)| ProfileState {
                name: &planned.loaded.profile.name,
                plan,
                image: image.as_ref(),
            })
        });
        let evidence = CheckInput::new(facts, &observed, &acs, in_effect);
        judge(&evidence, selection, said.unwrap_or(&BTreeMap::new()))
    })
}
