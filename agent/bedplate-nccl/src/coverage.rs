//! Versions and variables that the tables cover, by library.

use super::library::Library;
use super::variables::{self, RCCL_READ, Variable, rccl_default};
use super::version::{Version, VersionError};
use bedplate_facts::Facts;
use bedplate_facts::nccl_conf::{NCCL_CONF, RCCL_CONF};

impl Library {
    /// Returns the oldest and newest version that the tables cover. RCCL's versions are those of the NCCL release it
    /// follows; its oldest is that of ROCm 4.2. oneCCL has its list of NICs since 2021.4.
    pub fn versions(self) -> (Version, Version) {
        match self {
            Library::Nccl => (Version::OLDEST, Version::NEWEST),
            Library::Rccl => (Version(2, 8), Version(2, 30)),
            Library::OneCcl => (Version(2021, 4), Version(2021, 14)),
        }
    }

    /// Returns the version, if the tables cover it.
    ///
    /// # Errors
    /// [`VersionError`] names the covered versions.
    pub fn covers(self, version: Version) -> Result<Version, VersionError> {
        let (oldest, newest) = self.versions();
        match (oldest..=newest).contains(&version) {
            true => Ok(version),
            false => Err(VersionError(format!(
                "{self} {version} is not supported (supported: {oldest} to {newest})"
            ))),
        }
    }

    /// Returns the newest version with complete entries in the tables. Later versions are covered only by entries that name
    /// them.
    pub fn known_to(self) -> Version {
        match self {
            Library::Rccl => RCCL_READ,
            Library::Nccl | Library::OneCcl => self.versions().1,
        }
    }

    /// Returns the host-wide file that the library reads at start (handbook §8.6; RCCL src/misc/param.cc, which uses its
    /// own name since ROCm 5.3).
    pub fn file(self, version: Version) -> Option<&'static str> {
        match self {
            Library::Nccl => Some(NCCL_CONF),
            Library::Rccl if version < Version(2, 12) => Some(NCCL_CONF),
            Library::Rccl => Some(RCCL_CONF),
            Library::OneCcl => None,
        }
    }

    /// Returns the host-wide file for the newest version of this host's library.
    pub fn file_of_host(facts: &Facts) -> &'static str {
        let library = Library::of_host(facts);
        library.file(library.versions().1).unwrap_or(NCCL_CONF)
    }

    /// Returns the variables of the library, in alphabetical order.
    pub fn variables(self) -> Vec<Variable> {
        variables::table(self)
    }

    /// Returns the default of a variable in a version; `None`: the version lacks the variable, or its default is unknown.
    pub fn default_of(self, row: &Variable, version: Version) -> Option<&'static str> {
        match self {
            Library::Rccl => rccl_default(row, version),
            Library::Nccl | Library::OneCcl => row.default_in(version),
        }
    }
}
