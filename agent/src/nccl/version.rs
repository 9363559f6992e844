//! Versions of NCCL.

use std::fmt;
use std::str::FromStr;

/// A version of NCCL, to the minor number: names and defaults do not change in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16);

impl Version {
    /// The oldest that the table knows.
    pub const OLDEST: Version = Version(2, 4);
    /// The newest that the table was checked against (2.30.7; handbook §8.5).
    pub const NEWEST: Version = Version(2, 30);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Why a text is no version that the table covers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not two or three numbers.
    #[error("`{0}` is not a version: write 2.27 or 2.27.5")]
    Malformed(String),
    /// Outside of what is known.
    #[error("NCCL {0} is not covered: {old} to {new} are", old = Version::OLDEST, new = Version::NEWEST)]
    Unknown(Version),
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let malformed = || VersionError::Malformed(text.to_owned());
        let digits = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse::<u16>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let parts = text.split('.').map(digits).collect::<Result<Vec<_>, _>>()?;
        let ([major, minor] | [major, minor, _]) = parts[..] else { return Err(malformed()) };
        let version = Version(major, minor);
        match (Self::OLDEST..=Self::NEWEST).contains(&version) {
            true => Ok(version),
            false => Err(VersionError::Unknown(version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_or_three_numbers_within_the_table() {
        assert_eq!("2.4".parse(), Ok(Version(2, 4)));
        assert_eq!("2.30.7".parse(), Ok(Version(2, 30)));
        assert_eq!("2.31".parse::<Version>(), Err(VersionError::Unknown(Version(2, 31))));
        assert_eq!("1.3".parse::<Version>(), Err(VersionError::Unknown(Version(1, 3))));
        for text in ["", "2", "2.x", "2.4.1.1", "+2.4", "2.-4", "2.99999"] {
            assert_eq!(
                text.parse::<Version>(),
                Err(VersionError::Malformed(text.into())),
                "{text}"
            );
        }
    }
}
