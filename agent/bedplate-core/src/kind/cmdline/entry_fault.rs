//! Faults of the default boot entry, and their report in a plan.

use super::{NAME, other_kernel};
use crate::plan::{BOOT_ENTRY, KindPlan, NextBoot, Unknown};
use bedplate_base::{Cause, Reason};
use bedplate_facts::Facts;

/// Reason why the entry is known to fail, with its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Why the entry fails.
    pub reason: String,
    /// The fix, as a command where there is one.
    pub fix: String,
}

/// Result of evaluating the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Soundness {
    /// Reasons why the entry fails.
    pub faults: Vec<Fault>,
    /// Reasons why parts of the entry are unknown.
    pub unknown: Vec<Reason>,
}

impl Soundness {
    /// Converts the result for a plan.
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

    pub(super) fn fault(&mut self, reason: impl Into<String>, fix: impl Into<String>) {
        self.faults.push(Fault { reason: reason.into(), fix: fix.into() });
    }
}

/// Reports faults as blockers and, if a reboot is due, also the unknowns.
pub(crate) fn report(found: &Soundness, facts: &Facts, is_reboot_due: bool, body: &mut KindPlan) {
    if let Some((next, running)) = other_kernel(facts) {
        body.notes.push(NAME.note(
            "next boot",
            format!("the next boot starts Linux {next}, not the running {running}"),
        ));
    }
    for fault in &found.faults {
        body.blockers.push(NAME.blocker(BOOT_ENTRY, fault.reason.clone(), fault.fix.clone()));
    }
    // Skips data that a snapshot lacks, which its host can read, and unknowns that are already reported.
    let counts = |why: &&Reason| {
        why.cause != Cause::NotRecorded
            && body.unknowns.iter().all(|unknown| unknown.reason != why.to_string())
    };
    let unknown = found.unknown.iter().filter(|_| is_reboot_due).filter(counts);
    let unknowns: Vec<Unknown> =
        unknown.map(|why| NAME.unknown(BOOT_ENTRY, why.to_string())).collect();
    body.unknowns.extend(unknowns);
}
