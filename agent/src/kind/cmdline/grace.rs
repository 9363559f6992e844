//! NVIDIA's Arm CPUs, by kernel: arm-smmu-v3 before Linux 6.11 cannot attach a PASID to an identity domain, so that with
//! passthrough no CUDA context can be created once ACS is on. From 6.11 on either mode works (handbook §14.3).

use super::section::iommu::{Iommu, IommuMode};
use crate::desired::DesiredCmdline;
use crate::facts::{Arch, Facts};
use crate::host::{HostKind, Reading};
use crate::plan::{Blocker, Settled, Why};
use crate::section::Declared;
use crate::value::{KernelVersion, PciId};

const NVIDIA: PciId = PciId(0x10de);
/// The first release with S1DSS bypass.
const EITHER_MODE_WORKS: KernelVersion = KernelVersion::new(6, 11);
const SOURCE: &str = "NVIDIA/nodewright-packages pull request 122; handbook §14.3";

/// The mode that the profile's comes to on this machine, with a reason that the machine adds.
///
/// # Errors
/// A mode that this machine cannot work with.
pub fn mode(
    profile: &dyn Declared,
    iommu: &Iommu,
    facts: &Facts,
    cmdline: &mut DesiredCmdline,
) -> Result<(IommuMode, Option<Why>), Blocker> {
    let asked = iommu.mode;
    if !is_nvidia_arm(profile, facts) {
        return Ok((if asked == IommuMode::Auto { IommuMode::Passthrough } else { asked }, None));
    }
    let os = &facts.os;
    // Arguments count from the next boot on: so does the kernel.
    let release = os.next_kernel.known().or(os.kernel.known()).or(os.installed_kernels.last());
    let old = release.filter(|release| {
        KernelVersion::of(release).is_some_and(|version| version < EITHER_MODE_WORKS)
    });
    match (asked, release, old) {
        (IommuMode::Auto, Some(release), None) if KernelVersion::of(release).is_some() => {
            cmdline.keep.push("iommu.passthrough".to_owned());
            cmdline.settled.push(Settled {
                kind: "cmdline",
                subject: "IOMMU mode".to_owned(),
                state: "stays as it is: on NVIDIA's Arm CPUs passthrough and translated both work from Linux 6.11 on"
                    .to_owned(),
            });
            Ok((IommuMode::Keep, None))
        }
        // Without a kernel to go by: translated, which works on all.
        (IommuMode::Auto, _, old) => Ok((IommuMode::Translated, Some(because(old)))),
        (IommuMode::Translated, _, Some(old)) => Ok((asked, Some(because(Some(old))))),
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, _, Some(old)) => {
            Err(blocker(old))
        }
        _ => Ok((asked, None)),
    }
}

/// By the root ports, which are part of the CPU: a GPU of NVIDIA's is in servers with other Arm CPUs, too. An image has no
/// ports, and its profile may say what it is for.
fn is_nvidia_arm(profile: &dyn Declared, facts: &Facts) -> bool {
    let arm = facts.arch.known() == Some(&Arch::Aarch64);
    arm && match &facts.pci {
        Reading::Known(tree) => tree.functions.values().any(|function| {
            function.vendor == NVIDIA && function.is_bridge() && function.parent.is_none()
        }),
        Reading::Absent => false,
        Reading::Unknown(_) => facts.host != HostKind::Live && profile.vendors().contains(&NVIDIA),
    }
}

fn because(old: Option<&String>) -> Why {
    let which = match old {
        Some(release) => format!("Linux {release} is older than 6.11"),
        None => "which kernel boots is not known".to_owned(),
    };
    let fact = "before 6.11 arm-smmu-v3 attaches no PASID to an identity domain, and CUDA creates no context";
    Why::new(format!("{which}: {fact}"), SOURCE)
}

fn blocker(release: &str) -> Blocker {
    Blocker {
        kind: "cmdline",
        subject: "IOMMU passthrough".into(),
        reason: format!(
            "Linux {release} on an Arm CPU of NVIDIA: before 6.11 arm-smmu-v3 attaches no PASID to an identity domain, \
             and CUDA creates no context ({SOURCE})"
        ),
        remedy: "set iommu.mode = \"auto\" or \"translated\", or boot Linux 6.11 or newer".into(),
    }
}
