//! Versions and variables of each library, as far as the tables cover them.

use super::library::Library;
use super::variables::{self, RCCL_READ, Variable, rccl_default};
use super::version::{Version, VersionError};
use bedplate_facts::Facts;
use bedplate_facts::nccl_conf::{NCCL_CONF, RCCL_CONF};

impl Library {
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
    /// [`VersionError`] names those that are covered.
    pub fn covers(self, version: Version) -> Result<Version, VersionError> {
        let (oldest, newest) = self.versions();
        match (oldest..=newest).contains(&version) {
            true => Ok(version),
            false => Err(VersionError(format!(
                "{self} {version} is not covered: {oldest} to {newest} are"
            ))),
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
