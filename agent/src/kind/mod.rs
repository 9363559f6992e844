//! The table of kinds. A kind turns desired state and what it observes into a [`Section`] of the plan.
//! Kinds read the host; they never write.

use crate::desired::Desired;
use crate::facts::Facts;
use crate::host::Reader;
use crate::ledger::Ledger;
use crate::plan::Section;

/// What a kind gets to look at.
pub struct Context<'a> {
    /// What is wanted.
    pub desired: &'a Desired,
    /// What the host is.
    pub facts: &'a Facts,
    /// The host.
    pub reader: &'a dyn Reader,
    /// What bedplate did here before.
    pub ledger: &'a Ledger,
}

/// One kind of managed thing.
pub struct Kind {
    /// Name, as in plans and reports.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Observe and compare.
    pub plan: fn(&Context) -> Section,
}

/// Every kind, in the order in which plans show and apply them.
pub const KINDS: &[Kind] = &[];
