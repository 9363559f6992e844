//! Faults of the default boot entry, and how a plan reports them.

use super::{NAME, other_kernel};
use crate::plan::{BOOT_ENTRY, KindPlan, NextBoot, Unknown};
use bedplate_base::{Cause, Reason};
use bedplate_facts::Facts;

/// A reason why the entry is known to fail, with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Why it fails.
    pub reason: String,
    /// The remedy, as a command where there is one.
    pub remedy: String,
}

/// Result of judging the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Soundness {
    /// Why it fails.
    pub faults: Vec<Fault>,
    /// Reasons why something is not known.
    pub unknown: Vec<Reason>,
}

impl Soundness {
    /// The same, for a plan.
    pub fn next_boot(&self) -> NextBoot {
        if !self.faults.is_empty() {
            let reasons = self.faults.iter().map(|fault| fault.reason.clone()).collect();
            return NextBoot::Unsound { reasons };
        }
        match self.unknown.is_empty() {
            true => NextBoot::Sound,
            false => {
                let reasons = self.unknown.iter().map(Reason::to_string).collect();
                NextBoot::Unknown { reasons }
            }
        }
    }

    pub(super) fn fault(&mut self, reason: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault { reason: reason.into(), remedy: remedy.into() });
    }
}

/// Reports faults as blockers, and where a reboot is due also the unknowns.
pub(crate) fn report(found: &Soundness, facts: &Facts, is_reboot_due: bool, body: &mut KindPlan) {
    if let Some((next, running)) = other_kernel(facts) {
        body.notes.push(NAME.note(
            "next boot",
            format!("the next boot starts Linux {next}, not the running {running}"),
        ));
    }
    for fault in &found.faults {
        body.blockers.push(NAME.blocker(BOOT_ENTRY, fault.reason.clone(), fault.remedy.clone()));
    }
    // What a recording lacks is for its host to find out, and what is reported already is not repeated.
    let counts = |why: &&Reason| {
        why.cause != Cause::NotRecorded
            && body.unknowns.iter().all(|unknown| unknown.reason != why.to_string())
    };
    let unknown = found.unknown.iter().filter(|_| is_reboot_due).filter(counts);
    let unknowns: Vec<Unknown> =
        unknown.map(|why| NAME.unknown(BOOT_ENTRY, why.to_string())).collect();
    body.unknowns.extend(unknowns);
}
