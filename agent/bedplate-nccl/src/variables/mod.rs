//! Variables of collective libraries that are commonly set on GPUDirect RDMA hosts: versions, defaults, and flaws of
//! common advice. One entry per variable; docs/nccl.md is generated from them.

pub mod names;
mod nccl;
mod nccl_ib;
mod oneccl;
mod rccl;

pub(super) use rccl::{READ as RCCL_READ, default_in as rccl_default};

use super::library::Library;
use super::version::Version;

/// A variable.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// First version with the variable; `None`: present in the oldest covered version.
    pub since: Option<Version>,
    /// First version without the variable.
    pub removed: Option<Version>,
    /// Defaults, each with the first version that has it.
    pub defaults: &'static [(Version, &'static str)],
    /// Effect of the variable.
    pub decides: &'static str,
    /// Commonly recommended value, and the reason not to set it.
    pub advice: Option<Advice>,
    /// Source of these statements.
    pub source: &'static str,
}

/// A common recommendation.
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    /// Recommended value.
    pub value: &'static str,
    /// Reason not to set it.
    pub why_not: &'static str,
}

impl Variable {
    /// Whether a version has the variable.
    pub fn exists_in(&self, version: Version) -> bool {
        self.since.is_none_or(|since| since <= version)
            && self.removed.is_none_or(|removed| version < removed)
    }

    /// Returns the default in a version, if known.
    pub fn default_in(&self, version: Version) -> Option<&'static str> {
        let known = self.defaults.iter().rev().find(|(from, _)| *from <= version);
        known.filter(|_| self.exists_in(version)).map(|(_, value)| *value)
    }

    /// Returns the human-readable versions that have the variable.
    pub fn versions(&self) -> String {
        match (self.since, self.removed) {
            (None, None) => "all".to_owned(),
            (Some(since), None) => format!("since {since}"),
            (None, Some(removed)) => format!("before {removed}"),
            (Some(since), Some(removed)) => format!("since {since}, before {removed}"),
        }
    }
}

/// Returns the variables of a library, in alphabetical order.
pub(crate) fn table(library: Library) -> Vec<Variable> {
    match library {
        Library::Rccl => rccl::table(),
        Library::Nccl | Library::OneCcl => own(library),
    }
}

/// Returns a library's own entries; for RCCL those that differ from NCCL.
pub fn own(library: Library) -> Vec<Variable> {
    match library {
        Library::Nccl => nccl::table(),
        Library::Rccl => rccl::OWN.to_vec(),
        Library::OneCcl => oneccl::VARIABLES.to_vec(),
    }
}

#[cfg(test)]
mod tests;
