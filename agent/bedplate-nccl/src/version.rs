//! Versions of NCCL and related libraries.

use std::fmt;
use std::str::FromStr;

/// A version, down to the minor number: names and defaults do not change within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16);

impl Version {
    /// Oldest NCCL version in the tables.
    pub const OLDEST: Version = Version(2, 4);
    /// Newest NCCL version that the tables were checked against (2.30.7; handbook §8.5).
    pub const NEWEST: Version = Version(2, 30);
}

impl Version {
    /// Parses the start of a version with any suffix: `2.21.5+cuda12.4`.
    pub fn of_release(text: &str) -> Option<Version> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Error for a text that is not a covered version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(pub(super) String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let malformed = || VersionError(format!("`{text}` is not a version: write 2.27 or 2.27.5"));
        let digits = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse::<u16>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let parts = text.split('.').map(digits).collect::<Result<Vec<_>, _>>()?;
        let ([major, minor] | [major, minor, _]) = parts[..] else { return Err(malformed()) };
        Ok(Version(major, minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;

    #[test]
    fn versions_are_two_or_three_numbers() {
        assert_eq!("2.4".parse(), Ok(Version(2, 4)));
        assert_eq!("2.30.7".parse(), Ok(Version(2, 30)));
        assert_eq!("2021.14".parse(), Ok(Version(2021, 14)));
        for text in ["", "2", "2.x", "2.4.1.1", "+2.4", "2.-4", "2.99999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_library_has_its_own_version_range() {
        assert!(Library::Nccl.covers(Version(2, 4)).is_ok());
        let error = Library::Nccl.covers(Version(2, 31)).unwrap_err().to_string();
        assert_eq!(error, "NCCL 2.31 is not supported (supported: 2.4 to 2.30)");
        assert!(Library::Rccl.covers(Version(2, 7)).is_err());
        assert!(Library::OneCcl.covers(Version(2, 30)).is_err());
        assert!(Library::OneCcl.covers(Version(2021, 14)).is_ok());
    }
}
