//! The table of kinds. A kind turns desired state and what it observes into a [`Section`] of the plan.
//! Kinds read the host; they never write.

pub mod acs;
pub mod cmdline;
pub mod modules;
pub mod sriov;

use crate::desired::Desired;
use crate::facts::Facts;
use crate::host::Reader;
use crate::ledger::Ledger;
use crate::plan::Section;

/// What a kind gets to look at.
pub struct Context<'a> {
    /// The profile's name, for the heading of the files that bedplate writes.
    pub profile: &'a str,
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
pub const KINDS: &[Kind] = &[cmdline::KIND, modules::KIND, acs::KIND, sriov::KIND];

/// The first few of a list, and how many more there are: `a, b and 3 more functions`.
pub(crate) fn some_of(
    all: impl ExactSizeIterator<Item = String>,
    few: usize,
    what: &str,
) -> String {
    let more = all.len().saturating_sub(few);
    let first: Vec<String> = all.take(few).collect();
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more {what}", first.join(", ")),
    }
}
