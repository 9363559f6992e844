//! Host → evidence → the answer whether it is ready. A profile is asked for as well where the operator has put one on the host,
//! or named one.

use std::collections::BTreeMap;

use super::prepare::planned;
use super::profile_source::Choice;
use super::suspect::suspects;
use super::{EngineError, Planned, Request, choose, observe};
use crate::desired::AcsPolicy;
use crate::facts::{Depth, Facts};
use crate::host::{KernelLog, Reader, Reading};
use crate::kernel_log;
use crate::kind::acs;
use crate::kind::cmdline::show;
use crate::profile::Loaded;
use crate::verify::{Evidence, InEffect, Observed, Report, Selection, judge};

/// What was found of a host, and what it is.
#[derive(Debug)]
pub struct Verified {
    /// What the host is.
    pub facts: Facts,
    /// The profile that was asked for, too.
    pub loaded: Option<Loaded>,
    /// What was found.
    pub report: Report,
}

/// Judges a host by the checks that are selected.
///
/// # Errors
/// [`EngineError`]: there is a profile, and it cannot be used.
pub fn verify(
    reader: &dyn Reader,
    request: &Request<'_>,
    selection: &Selection,
) -> Result<Verified, EngineError> {
    let mut facts = observe(reader, Depth::Thorough);
    let planned = match choose(reader, &mut facts, request) {
        Ok(chosen) => Some(planned(reader, facts.clone(), chosen, request)?),
        Err(EngineError::NoProfile) if matches!(request.choice, Choice::HostOnly) => None,
        Err(error) => return Err(error),
    };
    let log = Reading::from_result(reader.kernel_log(kernel_log::kept));
    let report = report(reader, &facts, planned.as_ref(), log, selection);
    Ok(Verified { facts, loaded: planned.map(|planned| planned.loaded), report })
}

/// Judges a host that was planned for by every check, by the facts of the plan: they have to be thorough
/// ([`Depth::Thorough`]). `log`: what the kernel's log says ([`kernel_log::kept`]).
pub fn verify_planned(reader: &dyn Reader, planned: &Planned, log: Reading<KernelLog>) -> Report {
    report(reader, &planned.facts, Some(planned), log, &Selection::default())
}

fn report(
    reader: &dyn Reader,
    facts: &Facts,
    planned: Option<&Planned>,
    log: Reading<KernelLog>,
    selection: &Selection,
) -> Report {
    let line = show::look(reader, facts);
    let suspects = suspects(&line, facts);
    let observed = Observed::read(reader, facts, line, suspects, log);
    let section = planned.map(|planned| &planned.loaded.profile.acs);
    let asked = section.filter(|acs| acs.policy != AcsPolicy::Keep).cloned();
    let acs = acs::resolve(&asked.unwrap_or_else(acs::for_direct_traffic), facts);
    let evidence = Evidence::new(facts, &observed, &acs, planned.map(in_effect));
    let said = planned.map(|planned| &planned.loaded.profile.verify.severity);
    judge(&evidence, selection, said.unwrap_or(&BTreeMap::new()))
}

fn in_effect(planned: &Planned) -> InEffect<'_> {
    InEffect { name: &planned.loaded.profile.name, plan: &planned.plan }
}
