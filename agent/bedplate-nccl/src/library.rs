//! Collective libraries: NCCL, its fork RCCL, and oneCCL.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use bedplate_facts::Facts;
use bedplate_facts::flow_control::{NCCL_CONF, RCCL_CONF};

use super::variables::{self, RCCL_READ, Variable, rccl_default};
use super::version::{Version, VersionError};

/// Makers of GPUs (handbook §6.1).
const AMD: u16 = 0x1002;
const INTEL: u16 = 0x8086;

/// Which library a job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// NVIDIA's.
    Nccl,
    /// AMD's fork of it.
    Rccl,
    /// Intel's.
    OneCcl,
}

impl Library {
    /// All.
    pub const ALL: [Library; 3] = [Library::Nccl, Library::Rccl, Library::OneCcl];

    /// That of the maker of the host's GPUs; NCCL where there are none, or of several makers.
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

    /// The oldest and the newest version that the tables cover. RCCL's versions are those of NCCL that they follow; the oldest
    /// is that of ROCm 4.2. oneCCL got its list of NICs with 2021.4.
    pub fn versions(self) -> (Version, Version) {
        match self {
            Library::Nccl => (Version::OLDEST, Version::NEWEST),
            Library::Rccl => (Version(2, 8), Version(2, 30)),
            Library::OneCcl => (Version(2021, 4), Version(2021, 14)),
        }
    }

    /// The version, if the tables cover it.
    ///
    /// # Errors
    /// [`VersionError::Unknown`].
    pub fn covers(self, version: Version) -> Result<Version, VersionError> {
        let (oldest, newest) = self.versions();
        match (oldest..=newest).contains(&version) {
            true => Ok(version),
            false => Err(VersionError::Unknown { library: self, version, oldest, newest }),
        }
    }

    /// The newest version of which the tables know all that they say; later ones only where a row speaks of them.
    pub fn known_to(self) -> Version {
        match self {
            Library::Rccl => RCCL_READ,
            Library::Nccl | Library::OneCcl => self.versions().1,
        }
    }

    /// The file for all jobs of a host that it reads when it starts (handbook §8.6; RCCL src/misc/param.cc, whose own name came
    /// with ROCm 5.3).
    pub fn file(self, version: Version) -> Option<&'static str> {
        match self {
            Library::Nccl => Some(NCCL_CONF),
            Library::Rccl if version < Version(2, 12) => Some(NCCL_CONF),
            Library::Rccl => Some(RCCL_CONF),
            Library::OneCcl => None,
        }
    }

    /// The file for all jobs of this host, as the newest version of its library names it.
    pub fn file_of_host(facts: &Facts) -> &'static str {
        let library = Library::of_host(facts);
        library.file(library.versions().1).unwrap_or(NCCL_CONF)
    }

    /// The one version of a topology file that it reads (NCCL_TOPO_XML_VERSION, handbook §8.7). RCCL counts on its own since
    /// ROCm 3.8.
    pub fn topology_version(self) -> u32 {
        match self {
            Library::Rccl => 2,
            Library::Nccl | Library::OneCcl => 1,
        }
    }

    /// Its variables, in alphabetic order.
    pub fn variables(self) -> Vec<Variable> {
        variables::table(self)
    }

    /// What a variable is in a version where nobody sets it; `None`: there is no such variable, or it is not known.
    pub fn default_of(self, row: &Variable, version: Version) -> Option<&'static str> {
        match self {
            Library::Rccl => rccl_default(row, version),
            Library::Nccl | Library::OneCcl => row.default_in(version),
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
