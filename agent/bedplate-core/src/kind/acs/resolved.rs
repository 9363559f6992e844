//! What `[acs]` of a profile comes to on a machine. Pure data.

use super::NAME;
use crate::desired::{AcsPolicy, DesiredAcs, KernelArg};
use crate::plan::{Blocker, Note, Subject, Unknown};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, Reason};

/// What `[acs]` comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAcs {
    /// Ports and bits.
    pub acs: DesiredAcs,
    /// The kernel argument that makes them last: `Absent` = none is wanted; `Unknown` = it cannot be worked out now,
    /// so an argument that bedplate put on the command line earlier must stay there.
    pub arg: Reading<KernelArg>,
    /// What is not known of such an argument, to be said where there is one.
    pub kept_unsure: Option<Unknown>,
    /// What stands in the way already.
    pub blockers: Vec<Blocker>,
    /// Ports that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// NICs by what they have of ATS, and should.
    pub ats: Ats,
}

/// NICs that meet a GPU, by what they have of ATS (Address Translation Services) and what the shape of their fabric wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ats {
    /// With, as a switch for guests wants.
    pub wanted: Vec<PciAddress>,
    /// Without, as bare metal wants.
    pub without: Vec<PciAddress>,
    /// Without, in a switch for guests.
    pub lacking: Vec<PciAddress>,
    /// Not known whether with or without, and why.
    pub unread: Vec<(PciAddress, Reason)>,
    /// With, beside others without.
    pub mixed: Vec<PciAddress>,
    /// With, on bare metal.
    pub needless: Vec<PciAddress>,
}

impl ResolvedAcs {
    /// An empty result: no ports, no remarks.
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
