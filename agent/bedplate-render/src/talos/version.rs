//! Differences between Talos releases, as a table of the published configuration schemas.

use crate::RenderError;

/// Format of the configuration of one Talos release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    /// `1.MINOR`.
    pub minor: u32,
    /// Whether modules, sysctls and sysfs attributes are separate documents (1.14 rejects them in `machine`).
    pub documents: bool,
    /// Location of kernel arguments in addition to the schematic.
    pub arguments: Arguments,
}

/// Kernel argument settings of the machine configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// `machine.install.extraKernelArgs`: for nodes booted by GRUB; ignored with systemd-boot (handbook §10.4).
    Install,
    /// `machine.install.grubUseUKICmdline`: GRUB also uses the line of the image, which comes from the schematic. Talos
    /// rejects both keys together.
    Image,
    /// No setting: only the schematic has the arguments.
    Schematic,
}

/// Every release whose schema has been checked.
const VERSIONS: &[Version] = &[
    Version { minor: 9, documents: false, arguments: Arguments::Install },
    Version { minor: 10, documents: false, arguments: Arguments::Install },
    Version { minor: 11, documents: false, arguments: Arguments::Install },
    Version { minor: 12, documents: false, arguments: Arguments::Image },
    Version { minor: 13, documents: false, arguments: Arguments::Image },
    Version { minor: 14, documents: true, arguments: Arguments::Schematic },
];

impl Version {
    /// Finds `1.11`, `v1.11` or `v1.11.6` in the table.
    ///
    /// # Errors
    /// [`RenderError`] without a release, and for one that is not in the table.
    pub(super) fn find(given: Option<&str>) -> Result<Version, RenderError> {
        let refused =
            |why: String| RenderError::Refused(format!("{why}; known releases: {}", known()));
        let given = given.ok_or_else(|| {
            refused("Talos formats differ by release: set --talos-version".to_owned())
        })?;
        let unknown = || refused(format!("unknown Talos release `{given}`"));
        let minor = minor_of(given.strip_prefix('v').unwrap_or(given)).ok_or_else(unknown)?;
        VERSIONS.iter().find(|version| version.minor == minor).copied().ok_or_else(unknown)
    }
}

/// Returns the `11` of `1.11` or `1.11.6`. Pre-releases are not supported: their format may still change.
fn minor_of(text: &str) -> Option<u32> {
    let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    match numbers?.as_slice() {
        [1, minor] | [1, minor, _] => Some(*minor),
        _ => None,
    }
}

fn known() -> String {
    let names: Vec<String> =
        VERSIONS.iter().map(|version| format!("1.{}", version.minor)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_found_in_all_spellings() {
        for text in ["1.11", "v1.11", "1.11.6", "v1.11.6"] {
            assert_eq!(Version::find(Some(text)).unwrap().minor, 11, "{text}");
        }
    }

    #[test]
    fn unknown_release_error_lists_known_ones() {
        for text in
            ["1.8", "1.15", "1.14.0-rc.1", "2.11", "1.12.0-beta.1", "1", "eleven", "", "1.11.6.1"]
        {
            let error = Version::find(Some(text)).unwrap_err().to_string();
            assert!(error.contains("1.9, 1.10, 1.11, 1.12, 1.13, 1.14"), "{error}");
        }
        let error = Version::find(None).unwrap_err().to_string();
        assert!(error.contains("--talos-version") && error.contains("1.13"), "{error}");
    }
}
