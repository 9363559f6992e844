//! Version number in a kernel release.

use std::fmt;

/// Version of a kernel: `6.12.117+deb13-amd64` is 6.12.117. A missing patch level is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl KernelVersion {
    /// Returns the first release of a series.
    pub const fn new(major: u32, minor: u32) -> Self {
        KernelVersion { major, minor, patch: 0 }
    }

    /// Parses the version at the start of a release (`uname -r`). Returns `None` if the release does not start with a
    /// version.
    pub fn from_release(release: &str) -> Option<Self> {
        let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
        let mut numbers = release[..end].split('.').map(|part| part.parse().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(KernelVersion { major, minor, patch: numbers.next().flatten().unwrap_or(0) })
    }

    /// Whether a release is of this version's series and of this flavour: 6.8 with `nvidia` is the series of
    /// `6.8.0-1030-nvidia-64k`.
    pub fn is_series_of(self, release: &str, flavour: &str) -> bool {
        KernelVersion::from_release(release)
            .is_some_and(|version| (version.major, version.minor) == (self.major, self.minor))
            && release.split('-').any(|part| part == flavour)
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patch {
            0 => write!(f, "{}.{}", self.major, self.minor),
            patch => write!(f, "{}.{}.{patch}", self.major, self.minor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_releases_start_with_a_version() {
        let table = [
            ("6.12.117+deb13-amd64", (6, 12, 117)),
            ("6.8.0-45-generic", (6, 8, 0)),
            ("5.14-rc1", (5, 14, 0)),
            ("3.10.0-1160.el7.x86_64", (3, 10, 0)),
            ("6.11", (6, 11, 0)),
        ];
        for (release, (major, minor, patch)) in table {
            let version = KernelVersion { major, minor, patch };
            assert_eq!(KernelVersion::from_release(release), Some(version), "{release}");
        }
        for release in ["", "6", "6.", "linux", "vmlinuz-6.1"] {
            assert_eq!(KernelVersion::from_release(release), None, "{release}");
        }
        assert!(KernelVersion::from_release("6.8.0-45-generic") < Some(KernelVersion::new(6, 11)));
    }
}
