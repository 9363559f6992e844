//! Resolved `[acs]` of a profile. Pure data.

use super::NAME;
use crate::desired::{AcsPolicy, DesiredAcs, KernelArg};
use crate::plan::{Blocker, Note, Subject, Unknown};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, Reason};

/// Result of resolving `[acs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAcs {
    /// Desired ports and bits.
    pub acs: DesiredAcs,
    /// Kernel argument that makes them persistent. `Absent` if it is not needed. `Unknown` if it cannot be computed now, so
    /// that an argument that bedplate wrote earlier must stay.
    pub arg: Reading<KernelArg>,
    /// Unknown to report if an earlier argument exists.
    pub kept_unsure: Option<Unknown>,
    /// Blockers.
    pub blockers: Vec<Blocker>,
    /// Ports that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Notes.
    pub notes: Vec<Note>,
    /// NICs by ATS state.
    pub ats: Ats,
}

/// NICs that share a switch with a GPU, by ATS (Address Translation Services) and the requirement of their topology class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ats {
    /// With ATS, as a switch for VMs requires.
    pub wanted: Vec<PciAddress>,
    /// Without ATS, as bare metal requires.
    pub without: Vec<PciAddress>,
    /// Without ATS, in a switch for VMs.
    pub lacking: Vec<PciAddress>,
    /// With unreadable ATS, and the reason.
    pub unread: Vec<(PciAddress, Reason)>,
    /// With ATS, in a switch with NICs that lack it.
    pub mixed: Vec<PciAddress>,
    /// With ATS, on bare metal.
    pub needless: Vec<PciAddress>,
}

impl ResolvedAcs {
    /// Returns an empty result.
    pub(super) fn nothing(policy: AcsPolicy) -> Self {
        ResolvedAcs {
            acs: DesiredAcs { policy, ..DesiredAcs::default() },
            arg: Reading::Absent,
            kept_unsure: None,
            blockers: Vec::new(),
            unknowns: Vec::new(),
            notes: Vec::new(),
            ats: Ats::default(),
        }
    }

    pub(super) fn note(&mut self, subject: impl Into<String>, text: impl Into<String>) {
        self.notes.push(NAME.note(subject.into(), text.into()));
    }

    pub(super) fn unknown(&mut self, subject: impl Into<Subject>, reason: String) {
        self.unknowns.push(NAME.unknown(subject.into(), reason));
    }
}
