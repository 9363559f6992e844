//! Kernel support for the two `pci=` ACS parameters: one table, by base version. The default boot entry determines the
//! release (handbook §14.2). Pure.

use bedplate_base::Reading;
use bedplate_base::value::KernelVersion;
use bedplate_facts::{Facts, Os};

/// ACS parameter that a kernel handles reliably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Support {
    /// `pci=config_acs=` works as documented, and so does `pci=disable_acs_redir=`.
    ConfigAcs,
    /// Only `pci=disable_acs_redir=` is known.
    DisableAcsRedir,
    /// Neither is known.
    Neither,
    /// It may have the parsing bug, or the release is not recognized; holds the reason.
    Unsure(String),
}

/// Support from a version on; the last entry at or below a release applies.
///
/// - `disable_acs_redir`: 4.19 (drivers/pci/pci.c, handbook §1.4).
/// - `config_acs`: commit 47c8846a49ba, 6.11. It introduced a bug: several `config_acs` entries fail to parse, and
///   `disable_acs_redir` leaves redirect bits set.
/// - The fix is commit 9cf8a952d57b: merged for 6.15, in stable since 6.12.23, 6.13.11 and 6.14.2 (stable review of
///   April 2025); 6.11 had ended by then. 6.12.117 was measured to set three ports correctly.
const SINCE: [(KernelVersion, Row); 8] = [
    (version(4, 19, 0), Row::DisableAcsRedir),
    (version(6, 11, 0), Row::Bug),
    (version(6, 12, 23), Row::ConfigAcs),
    (version(6, 13, 0), Row::Bug),
    (version(6, 13, 11), Row::ConfigAcs),
    (version(6, 14, 0), Row::Bug),
    (version(6, 14, 2), Row::ConfigAcs),
    (version(6, 15, 0), Row::ConfigAcs),
];

pub(super) const fn version(major: u32, minor: u32, patch: u32) -> KernelVersion {
    KernelVersion { major, minor, patch }
}

#[derive(Debug, Clone, Copy)]
enum Row {
    DisableAcsRedir,
    Bug,
    ConfigAcs,
}

/// Kernels that carry the 6.11 change on an older base, with or without its fix: base version and flavour. Ubuntu's
/// linux-nvidia 6.8 took 47c8846a49ba in 2024 and the fix in spring 2025 (github.com/NVIDIA/NV-Kernels, pull requests 20
/// and 63); the release numbers do not show which commits are included.
const BACKPORTED: [(KernelVersion, &str); 1] = [(version(6, 8, 0), "nvidia")];

/// The next kernel is unknown; holds the reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot determine the next kernel: {0}")]
pub(crate) struct NoKernel(String);

/// Returns the release of the default boot entry's kernel, and its support. Ignores an entry chosen for one boot only: an
/// argument changed for it would have to be changed back.
///
/// # Errors
/// [`NoKernel`] if the release is unknown.
pub(crate) fn of_next_boot(os: &Os) -> Result<(&str, Support), NoKernel> {
    match os.lasting_kernel.as_ref().unwrap_or(&os.next_kernel) {
        Reading::Known(release) => Ok((release, support_of_release(release, os))),
        Reading::Absent => Err(NoKernel("no boot entry was found".to_owned())),
        Reading::Unknown(why) => Err(NoKernel(why.to_string())),
    }
}

/// Whether the kernel leaves ports as the firmware set them: it enables ACS only for an IOMMU (drivers/pci/pci.c
/// `pci_enable_acs`, drivers/iommu/intel/dmar.c; handbook §3.3). With `amd_iommu=off` it still enables ACS, because the
/// IVRS table is present (drivers/iommu/amd/init.c; handbook §1.3).
pub(crate) fn left_to_firmware(facts: &Facts) -> bool {
    let inactive = facts.iommu.active.known().is_some_and(Vec::is_empty);
    let stays_off = match (&facts.iommu.firmware, &facts.iommu.off_by) {
        (Reading::Absent, _) => true,
        (_, Reading::Known(by)) => by != "amd_iommu=off",
        _ => false,
    };
    inactive && stays_off
}

/// Whether the running kernel may misread the parameters.
pub(crate) fn may_misread(os: &Os) -> bool {
    os.kernel
        .known()
        .is_some_and(|release| matches!(support_of_release(release, os), Support::Unsure(_)))
}

/// Uses the upstream level that the running kernel reports, if that is the release in question; else the release.
fn support_of_release(release: &str, os: &Os) -> Support {
    match reported_level(release, os) {
        Some(level) if backported(release).is_none() => row(level, release),
        _ => kernel_acs_support(release),
    }
}

/// Returns the upstream level that the running kernel reports, if that is the release in question.
pub(super) fn reported_level(release: &str, os: &Os) -> Option<KernelVersion> {
    let is_running = os.kernel.known().is_some_and(|running| running == release);
    let signature = os.version_signature.known().filter(|_| is_running)?;
    upstream_level(signature, release)
}

/// Parses `Ubuntu 6.14.0-37.37~24.04.1-generic 6.14.11` → 6.14.11, if that is the signature of this release.
fn upstream_level(signature: &str, release: &str) -> Option<KernelVersion> {
    let mut words = signature.split_whitespace();
    let (_, package, level) = (words.next()?, words.next()?, words.next()?);
    // `6.14.0-37` and `-generic` or `-nvidia-64k`: the package version continues after the base with its build number.
    let mut parts = release.splitn(3, '-');
    let (version, build, flavour) = (parts.next()?, parts.next()?, parts.next()?);
    let same = package.strip_prefix(&format!("{version}-{build}"))?.starts_with('.')
        && package.ends_with(flavour);
    KernelVersion::from_release(level).filter(|_| same)
}

fn backported(release: &str) -> Option<&'static str> {
    let mut kernels = BACKPORTED.iter();
    let found = kernels.find(|(series, flavour)| series.is_series_of(release, flavour));
    found.map(|(_, flavour)| *flavour)
}

/// Returns the support of a release (`uname -r`) by its base version.
///
/// Distribution kernels keep their base version for years (`5.14.0-427.el9`, `6.14.0-37-generic`) and may have backports
/// that the version does not show. Inside the window they are assumed to have the bug, outside to match upstream. Errors
/// are on the side of runtime writes, which need no parameter.
pub(crate) fn kernel_acs_support(release: &str) -> Support {
    let Some(version) = KernelVersion::from_release(release) else {
        return Support::Unsure(format!("unrecognized kernel release {release:?}"));
    };
    if let Some(flavour) = backported(release) {
        return Support::Unsure(format!(
            "Linux {release} may misread pci=config_acs= and pci=disable_acs_redir=: Ubuntu's linux-{flavour} of this \
             version backported config_acs from 6.11, possibly without its fix (NVIDIA/NV-Kernels pull requests 20 and \
             63)"
        ));
    }
    row(version, release)
}

fn row(version: KernelVersion, release: &str) -> Support {
    let row = SINCE.iter().rev().find(|(since, _)| *since <= version).map(|(_, row)| row);
    match row {
        None => Support::Neither,
        Some(Row::DisableAcsRedir) => Support::DisableAcsRedir,
        Some(Row::ConfigAcs) => Support::ConfigAcs,
        Some(Row::Bug) => Support::Unsure(format!(
            "Linux {release} may misread pci=config_acs= and pci=disable_acs_redir= \
             (fixed in 6.12.23, 6.13.11, 6.14.2 and 6.15)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn support_is_determined_for_vendor_releases() {
        let table = [
            ("3.10.0-1160.el7.x86_64", "neither"),
            ("4.18.0-553.el8_10.x86_64", "neither"),
            ("4.19.0", "redir"),
            ("5.14.0-427.13.1.el9_4.x86_64", "redir"),
            ("5.15.0-105-generic", "redir"),
            ("6.1.0-56-amd64", "redir"),
            ("6.8.0-45-generic", "redir"),
            ("6.8.0-1030-nvidia", "unsure"),
            ("6.8.0-1012-nvidia-64k", "unsure"),
            ("6.10.14", "redir"),
            ("6.11-rc1", "unsure"),
            ("6.11.0-29-generic", "unsure"),
            ("6.11.11", "unsure"),
            ("6.12.0-55.9.1.el10_0.x86_64", "unsure"),
            ("6.12.22", "unsure"),
            ("6.12.23", "config"),
            ("6.12.117+deb13-amd64", "config"),
            ("6.13.0", "unsure"),
            ("6.13.10-200.fc41.x86_64", "unsure"),
            ("6.13.11", "config"),
            ("6.14.0-37-generic", "unsure"),
            ("6.14.1", "unsure"),
            ("6.14.2", "config"),
            ("6.15.0-rc1", "config"),
            ("6.17.0-1003-nvidia-64k", "config"),
            ("6.18.19", "config"),
            ("10.0", "config"),
            ("", "unsure"),
            ("unknown", "unsure"),
            ("6", "unsure"),
            ("99999999999.1", "unsure"),
        ];
        for (release, expected) in table {
            let found = match kernel_acs_support(release) {
                Support::ConfigAcs => "config",
                Support::DisableAcsRedir => "redir",
                Support::Neither => "neither",
                Support::Unsure(reason) => {
                    assert!(reason.contains(release), "{reason}");
                    "unsure"
                }
            };
            assert_eq!(found, expected, "{release}");
        }
    }

    #[test]
    fn version_signature_of_running_kernel_decides_support() {
        let os = |running: &str, next: &str, signature: &str| Os {
            kernel: Reading::Known(running.into()),
            next_kernel: Reading::Known(next.into()),
            lasting_kernel: None,
            version_signature: Reading::Known(signature.into()),
            ..bedplate_testhosts::fixture::facts(Reading::Absent).os
        };
        let hwe = "6.14.0-37-generic";
        let table = [
            (hwe, hwe, "Ubuntu 6.14.0-37.37~24.04.1-generic 6.14.11", true),
            (hwe, hwe, "Ubuntu 6.14.0-37.37~24.04.1-generic 6.14.1", false),
            // Signature of another kernel than the one that boots next.
            ("6.14.0-36-generic", hwe, "Ubuntu 6.14.0-36.36~24.04.1-generic 6.14.11", false),
            (hwe, hwe, "Ubuntu 6.14.0-3.37~24.04.1-generic 6.14.11", false),
            (hwe, hwe, "Ubuntu 6.14.0-37.37~24.04.1-nvidia 6.14.11", false),
            (hwe, hwe, "", false),
            (
                "6.14.0-1007-nvidia",
                "6.14.0-1007-nvidia",
                "Ubuntu 6.14.0-1007.7-nvidia 6.14.6",
                true,
            ),
            (
                "6.14.0-1007-nvidia-64k",
                "6.14.0-1007-nvidia-64k",
                "Ubuntu 6.14.0-1007.7-nvidia-64k 6.14.6",
                true,
            ),
            // Carries patches that the upstream level does not show.
            ("6.8.0-1030-nvidia", "6.8.0-1030-nvidia", "Ubuntu 6.8.0-1030.33-nvidia 6.8.12", false),
        ];
        for (running, next, signature, works) in table {
            let os = os(running, next, signature);
            let (release, support) = of_next_boot(&os).unwrap();
            assert_eq!(release, next);
            assert_eq!(support == Support::ConfigAcs, works, "{signature}: {support:?}");
        }
        assert!(may_misread(&os("6.14.1", "6.18.1", "")));
        assert!(!may_misread(&os("6.18.1", "6.14.1", "")));
    }

    #[test]
    fn support_table_is_sorted() {
        assert!(SINCE.is_sorted_by_key(|(since, _)| since));
    }
}
