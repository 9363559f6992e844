//! IOMMU mode of NVIDIA's Arm CPUs, by kernel. Before Linux 6.11 arm-smmu-v3 cannot attach a PASID to an identity
//! domain, so that with passthrough no CUDA context can be created once ACS is on; linux-nvidia 6.8 may have a bypass of
//! its own. From 6.11 on either mode works (handbook §14.3).

use super::section::iommu::IommuMode;
use crate::desired::Desired;
use crate::plan::{Blocker, KindId, Note, Rationale, UpToDate};
use crate::profile::model::Profile;
use bedplate_base::Arch;
use bedplate_base::Reading;
use bedplate_base::value::{KernelVersion, PciId};
use bedplate_facts::Facts;
use bedplate_facts::superchip::{ArmCpu, EITHER_MODE_WORKS, arm_cpu, may_have_own_bypass};
use bedplate_host::HostKind;

const NVIDIA: PciId = PciId(0x10de);
const SOURCE: &str = "NVIDIA/nodewright-packages pull request 122; handbook §14.3";

/// Returns the mode to use for the profile's mode on this host, with a reason that the host adds.
///
/// # Errors
/// If this host cannot work with the mode.
pub(crate) fn iommu_mode(
    profile: &Profile,
    facts: &Facts,
    desired: &mut Desired,
) -> Result<(IommuMode, Option<Rationale>), Blocker> {
    let asked = profile.iommu.mode;
    let doubt = match cpu(profile, facts) {
        ArmCpu::Other if asked == IommuMode::Auto => return Ok((IommuMode::Passthrough, None)),
        ArmCpu::Other => return Ok((asked, None)),
        ArmCpu::Nvidia => None,
        ArmCpu::NotKnown(why) => Some(why),
    };
    let os = &facts.os;
    // Arguments take effect at the next boot, so the next kernel decides.
    let release = os.next_kernel.known().or(os.kernel.known()).or(os.installed_kernels.last());
    let old = release.filter(|release| {
        KernelVersion::from_release(release).is_some_and(|version| version < EITHER_MODE_WORKS)
    });
    match (asked, release, old) {
        (IommuMode::Auto, Some(release), None)
            if KernelVersion::from_release(release).is_some() =>
        {
            desired.cmdline.keep.push("iommu.passthrough".to_owned());
            desired.cmdline.unchanged.push(unchanged(doubt.as_deref()));
            Ok((IommuMode::Keep, None))
        }
        // For an old or unknown kernel: translated, which works on all.
        (IommuMode::Auto, _, old) => {
            Ok((IommuMode::Translated, Some(because(old, doubt.as_deref()))))
        }
        (IommuMode::Translated, _, Some(old)) if doubt.is_none() => {
            Ok((asked, Some(because(Some(old), None))))
        }
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, _, Some(old)) => match doubt {
            None if may_have_own_bypass(old) => {
                desired.notes.push(unconfirmed(old));
                Ok((asked, None))
            }
            None => Err(blocker(old)),
            doubt => Ok((asked, Some(because(Some(old), doubt.as_deref())))),
        },
        _ => Ok((asked, None)),
    }
}

/// Determines the CPU by the PCI functions. An image has no PCI functions, but its profile may name the vendors.
fn cpu(profile: &Profile, facts: &Facts) -> ArmCpu {
    if facts.arch.known() != Some(&Arch::Aarch64) {
        return ArmCpu::Other;
    }
    let why = match &facts.pci {
        Reading::Known(tree) if !tree.functions.is_empty() => return arm_cpu(tree),
        Reading::Known(_) | Reading::Absent => "no PCI functions are visible",
        Reading::Unknown(why) => why,
    };
    let vendors = profile.vendors();
    match facts.host {
        HostKind::Image | HostKind::Snapshot if vendors.contains(&NVIDIA) => ArmCpu::Nvidia,
        HostKind::Image if !vendors.is_empty() => ArmCpu::Other,
        _ => ArmCpu::NotKnown(why.to_owned()),
    }
}

/// Returns the report of `auto` where either mode works.
fn unchanged(doubt: Option<&str>) -> UpToDate {
    let state = match doubt {
        None => "unchanged: on NVIDIA's Arm CPUs passthrough and translated both work from Linux 6.11 on".to_owned(),
        Some(doubt) => format!("unchanged: cannot tell whether the CPU is NVIDIA's ({doubt})"),
    };
    KindId::Cmdline.up_to_date("IOMMU mode", state)
}

fn because(old: Option<&String>, doubt: Option<&str>) -> Rationale {
    let which = match old {
        Some(release) => format!("Linux {release} is older than 6.11"),
        None => "next kernel unknown".to_owned(),
    };
    let fact = "before 6.11 arm-smmu-v3 attaches no PASID to an identity domain, so CUDA creates no context";
    let place = match doubt {
        None => String::new(),
        Some(doubt) => format!(" on NVIDIA's Arm CPUs; cannot tell whether this is one ({doubt})"),
    };
    Rationale::new(format!("{which}: {fact}{place}"), SOURCE)
}

/// Returns the note on passthrough with a kernel that may have NVIDIA's bypass.
fn unconfirmed(release: &str) -> Note {
    KindId::Cmdline.note(
        "IOMMU passthrough",
        format!(
            "cannot tell whether CUDA works with passthrough on Linux {release}: linux-nvidia 6.8 has a bypass of its own \
             since August 2024 (NVIDIA/NV-Kernels pull requests 22 and 23; handbook §14.3). If CUDA creates no context, set \
             iommu.mode = \"auto\""
        ),
    )
}

fn blocker(release: &str) -> Blocker {
    KindId::Cmdline.blocker(
        "IOMMU passthrough",
        format!(
            "Linux {release} on an NVIDIA Arm CPU: before 6.11 arm-smmu-v3 attaches no PASID to an identity domain, so \
             CUDA creates no context ({SOURCE})"
        ),
        "set iommu.mode = \"auto\" or \"translated\", or boot Linux 6.11 or newer",
    )
}
