//! The variables of collective libraries that people set on GPUDirect RDMA hosts: where they exist, what they are without being
//! set, and what is wrong with what is passed around about them. One row each; docs/nccl.md is made of them.

pub mod names;
mod nccl;
mod oneccl;
mod rccl;

pub(super) use rccl::{READ as RCCL_READ, default_in as rccl_default};

use super::library::Library;
use super::version::Version;

/// One variable.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The first version that has it; `None`: the oldest that the table knows has it.
    pub since: Option<Version>,
    /// The first version without it.
    pub removed: Option<Version>,
    /// What it is where nobody sets it: from which version on, and the value.
    pub defaults: &'static [(Version, &'static str)],
    /// What it decides.
    pub decides: &'static str,
    /// A value that is passed around, and why it is not set here.
    pub advice: Option<Advice>,
    /// Where that is said.
    pub source: &'static str,
}

/// What people are told to set.
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    /// The value.
    pub value: &'static str,
    /// Why not.
    pub why_not: &'static str,
}

impl Variable {
    /// Whether a version has it.
    pub fn exists_in(&self, version: Version) -> bool {
        self.since.is_none_or(|since| since <= version)
            && self.removed.is_none_or(|removed| version < removed)
    }

    /// What it is in a version where nobody sets it.
    pub fn default_in(&self, version: Version) -> Option<&'static str> {
        let known = self.defaults.iter().rev().find(|(from, _)| *from <= version);
        known.filter(|_| self.exists_in(version)).map(|(_, value)| *value)
    }

    /// In which versions it is there, in words.
    pub fn versions(&self) -> String {
        match (self.since, self.removed) {
            (None, None) => "all".to_owned(),
            (Some(since), None) => format!("since {since}"),
            (None, Some(removed)) => format!("before {removed}"),
            (Some(since), Some(removed)) => format!("since {since}, before {removed}"),
        }
    }
}

/// The variables of a library, in alphabetic order.
pub(crate) fn table(library: Library) -> Vec<Variable> {
    match library {
        Library::Rccl => rccl::table(),
        Library::Nccl | Library::OneCcl => own(library).to_vec(),
    }
}

/// The rows of a library that are not another's: of RCCL those in which it differs from NCCL.
pub fn own(library: Library) -> &'static [Variable] {
    match library {
        Library::Nccl => nccl::VARIABLES,
        Library::Rccl => rccl::OWN,
        Library::OneCcl => oneccl::VARIABLES,
    }
}

#[cfg(test)]
mod tests;
