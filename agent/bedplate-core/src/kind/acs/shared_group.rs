//! PASIDs of GPUs that share an IOMMU group with bridges: some kernels refuse them, so that CUDA creates no context
//! (handbook §14.3). Pure.

use crate::desired::AcsPolicy;
use bedplate_base::value::KernelVersion;
use bedplate_facts::Os;
use bedplate_facts::pci::PciTree;
use bedplate_facts::superchip::is_superchip_gpu;

use super::fabric::Fabric;
use super::resolved::ResolvedAcs;
use super::support::{reported_level, version};

/// Releases in which iommu_attach_device_pasid() refuses a group that contains a function without PASIDs, such as a
/// bridge: the first with commit c404f55c26fc, and the first with its fix b3f6fcd8404f (6.12.93: 4c77bb95628f). 6.13
/// and 6.14 ended without the fix.
const REFUSING: [(KernelVersion, KernelVersion); 2] =
    [(version(6, 8, 5), version(6, 12, 93)), (version(6, 13, 0), version(6, 15, 0))];
/// First releases with the fix.
pub(super) const ACCEPTING: &str = "6.12.93, 6.15 or newer";

/// Starts of what follows the version in a release without backports of a vendor: release candidates, and Debian, whose
/// releases show the stable version.
const PLAIN: [&str; 3] = ["-rc", "+deb", "+bpo"];

/// Whether a kernel gives PASIDs to a GPU that shares its IOMMU group with bridges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedGroup {
    /// PASIDs, as for a GPU in a group of its own.
    Accepted,
    /// PASIDs only if the kernel's vendor took the fix, which the release does not show.
    NotKnown,
    /// No PASIDs, so that CUDA creates no context.
    Refused,
}

/// Returns whether a kernel gives PASIDs to a GPU in an IOMMU group with bridges. Vendors took the fix before their
/// upstream version has it (NVIDIA, Amazon; handbook §14.3), so only upstream, stable, Debian's and Ubuntu's generic
/// kernels count as refusing.
pub(crate) fn pasids_in_shared_group(release: &str, os: &Os) -> SharedGroup {
    let level = reported_level(release, os);
    let Some(base) = level.or_else(|| KernelVersion::from_release(release)) else {
        return SharedGroup::NotKnown;
    };
    let is_plain = is_plain(release);
    // The release of a vendor may stay at the first version of its series (`6.8.0-45-generic` is 6.8.12).
    let last = match level.is_some() || is_plain {
        true => base,
        false => version(base.major, base.minor, u32::MAX),
    };
    let may_refuse = REFUSING.iter().any(|(from, to)| *from <= last && base < *to);
    let is_known = is_plain || level.is_some() && release.contains("-generic");
    match (may_refuse, is_known) {
        (false, _) => SharedGroup::Accepted,
        (true, true) => SharedGroup::Refused,
        (true, false) => SharedGroup::NotKnown,
    }
}

/// Whether the release is of an upstream, stable or Debian kernel.
fn is_plain(release: &str) -> bool {
    let rest = release.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    rest.is_empty() || PLAIN.iter().any(|start| rest.starts_with(start))
}

/// Whether the policy's bits, set at boot, put GPUs that need PASIDs into IOMMU groups with bridges. Bits of Data Direct
/// paths do, and `clear` does it to every GPU (Linux drivers/iommu/iommu.c, pci_device_group).
pub(super) fn is_made_by(
    policy: AcsPolicy,
    root_port: bool,
    fabrics: &[Fabric<'_>],
    tree: &PciTree,
) -> bool {
    let mut data_direct = fabrics.iter().filter(|fabric| fabric.is_data_direct());
    match policy {
        AcsPolicy::Clear => {
            data_direct.next().is_some() || tree.functions.values().any(is_superchip_gpu)
        }
        _ => data_direct.any(|fabric| !fabric.targets(root_port).is_empty()),
    }
}

/// Returns the reason not to set ACS bits by kernel argument, if the kernel refuses PASIDs to the groups that the
/// argument makes, or may do so and the argument is not insisted on.
pub(super) fn refusal(release: &str, os: &Os, is_insisted_on: bool) -> Option<String> {
    let effect = match pasids_in_shared_group(release, os) {
        SharedGroup::Refused => {
            "refuses PASIDs to such groups, so CUDA creates no context (commit c404f55c26fc"
        }
        SharedGroup::NotKnown if !is_insisted_on => {
            "may refuse PASIDs to such groups, so that CUDA creates no context: the release does not show whether its \
             vendor took the fix (commit b3f6fcd8404f"
        }
        SharedGroup::Accepted | SharedGroup::NotKnown => return None,
    };
    Some(format!(
        "pci=config_acs= would put each GPU into one IOMMU group with bridges, and Linux {release} {effect}; handbook §14.3)"
    ))
}

/// Adds a note if this is a vendor's kernel that may lack the fix.
pub(super) fn remark_on_fix(release: &str, os: &Os, resolved: &mut ResolvedAcs) {
    if pasids_in_shared_group(release, os) == SharedGroup::NotKnown {
        let text = format!(
            "each GPU then shares an IOMMU group with bridges, and Linux {release} refuses PASIDs to such groups unless its \
             vendor took commit b3f6fcd8404f (handbook §14.3). If CUDA creates no context after the reboot, update the \
             kernel, or set acs.persistence = \"auto\""
        );
        resolved.note("acs.persistence", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Reading;

    #[test]
    fn releases_that_refuse_pasids_are_detected() {
        let os = |running: &str, signature: &str| Os {
            kernel: Reading::Known(running.into()),
            version_signature: Reading::Known(signature.into()),
            ..bedplate_testhosts::fixture::facts(Reading::Absent).os
        };
        for (release, signature, expected) in [
            ("6.8.4", "", SharedGroup::Accepted),
            ("6.9.0", "", SharedGroup::Refused),
            ("6.12.50", "", SharedGroup::Refused),
            ("6.12.92", "", SharedGroup::Refused),
            ("6.12.93", "", SharedGroup::Accepted),
            ("6.13.12", "", SharedGroup::Refused),
            ("6.14.11", "", SharedGroup::Refused),
            ("6.15.0", "", SharedGroup::Accepted),
            ("6.13.0-rc3", "", SharedGroup::Refused),
            ("6.12.48+deb13-arm64", "", SharedGroup::Refused),
            ("6.12.93+deb13-arm64", "", SharedGroup::Accepted),
            // Vendors backport to these.
            ("6.14.0-1007-nvidia-64k", "", SharedGroup::NotKnown),
            (
                "6.14.0-1007-nvidia-64k",
                "Ubuntu 6.14.0-1007.7-nvidia-64k 6.14.6",
                SharedGroup::NotKnown,
            ),
            ("6.12.73-95.123.amzn2023.aarch64", "", SharedGroup::NotKnown),
            ("6.12.0-55.9.1.el10_0.aarch64+64k", "", SharedGroup::NotKnown),
            ("6.12.0-100.28.2.el9uek.aarch64", "", SharedGroup::NotKnown),
            ("6.12.0-160000.5-64kb", "", SharedGroup::NotKnown),
            ("6.13.10-200.fc41.aarch64", "", SharedGroup::NotKnown),
            ("6.12.9-1-default", "", SharedGroup::NotKnown),
            ("6.14.0-63-vendor", "", SharedGroup::NotKnown),
            // Past the fix, or before the fault, with any backport.
            ("6.17.0-1003-nvidia-64k", "", SharedGroup::Accepted),
            ("6.12.95-119.amzn2023.aarch64", "", SharedGroup::Accepted),
            ("6.5.0-35-generic", "", SharedGroup::Accepted),
            // Only the signature shows Ubuntu's upstream version.
            ("6.8.0-45-generic", "", SharedGroup::NotKnown),
            ("6.11.0-29-generic-64k", "", SharedGroup::NotKnown),
            ("6.8.0-31-generic", "Ubuntu 6.8.0-31.31-generic 6.8.1", SharedGroup::Accepted),
            ("6.8.0-45-generic", "Ubuntu 6.8.0-45.45-generic 6.8.12", SharedGroup::Refused),
            (
                "6.14.0-37-generic",
                "Ubuntu 6.14.0-37.37~24.04.1-generic 6.14.11",
                SharedGroup::Refused,
            ),
            ("", "", SharedGroup::NotKnown),
        ] {
            let found = pasids_in_shared_group(release, &os(release, signature));
            assert_eq!(found, expected, "{release}");
        }
    }
}
