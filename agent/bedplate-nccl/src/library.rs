//! Collective libraries: NCCL, its fork RCCL, and oneCCL.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use bedplate_facts::Facts;

/// Vendor ids of GPUs (handbook §6.1).
const AMD: u16 = 0x1002;
const INTEL: u16 = 0x8086;

/// Collective library of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// NVIDIA's library.
    Nccl,
    /// AMD's fork of NCCL.
    Rccl,
    /// Intel's library.
    OneCcl,
}

impl Library {
    /// All libraries.
    pub const ALL: [Library; 3] = [Library::Nccl, Library::Rccl, Library::OneCcl];

    /// Returns the library of the vendor of the host's GPUs; NCCL without GPUs, or with GPUs of several vendors.
    pub fn of_host(facts: &Facts) -> Library {
        let functions = facts.pci.known().map(|tree| tree.functions.values()).into_iter().flatten();
        let makers: BTreeSet<u16> =
            functions.filter(|function| function.is_gpu()).map(|gpu| gpu.vendor.0).collect();
        match makers.into_iter().collect::<Vec<_>>()[..] {
            [AMD] => Library::Rccl,
            [INTEL] => Library::OneCcl,
            _ => Library::Nccl,
        }
    }

    /// Returns the version of topology files that the library accepts (NCCL_TOPO_XML_VERSION, handbook §8.7). RCCL has its
    /// own numbering since ROCm 3.8.
    pub fn topology_version(self) -> u32 {
        match self {
            Library::Rccl => 2,
            Library::Nccl | Library::OneCcl => 1,
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Nccl => "NCCL",
            Library::Rccl => "RCCL",
            Library::OneCcl => "oneCCL",
        })
    }
}
