//! Host → evidence → the answer whether it is ready. A profile is asked for as well where the operator has put one on the host,
//! or named one.

use std::collections::BTreeMap;

use super::prepare::planned;
use super::profile_source::Choice;
use super::suspect::suspects;
use super::{EngineError, Planned, Request, choose, observe};
use crate::desired::AcsPolicy;
use crate::facts::{Depth, Facts};
use crate::host::Reader;
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
    let line = show::look(reader, &facts);
    let suspects = suspects(&line, &facts);
    let observed = Observed::read(reader, &facts, line, suspects);
    let section = planned.as_ref().map(|planned| &planned.loaded.profile.acs);
    let asked = section.filter(|acs| acs.policy != AcsPolicy::Keep).cloned();
    let acs = acs::resolve(&asked.unwrap_or_else(acs::for_direct_traffic), &facts);
    let evidence = Evidence::new(&facts, &observed, &acs, planned.as_ref().map(in_effect));
    let said = planned.as_ref().map(|planned| &planned.loaded.profile.verify.severity);
    let report = judge(&evidence, selection, said.unwrap_or(&BTreeMap::new()));
    drop(evidence);
    Ok(Verified { facts, loaded: planned.map(|planned| planned.loaded), report })
}

fn in_effect(planned: &Planned) -> InEffect<'_> {
    InEffect { name: &planned.loaded.profile.name, plan: &planned.plan }
}
