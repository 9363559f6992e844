//! NVIDIA's Arm CPUs, by kernel: arm-smmu-v3 before Linux 6.11 cannot attach a PASID to an identity domain, so that with
//! passthrough no CUDA context can be created once ACS is on. From 6.11 on either mode works (handbook §14.3).

use super::section::iommu::{Iommu, IommuMode};
use crate::desired::DesiredCmdline;
use crate::plan::{Blocker, Rationale, UpToDate};
use crate::section::Declared;
use bedplate_base::Arch;
use bedplate_base::value::{KernelVersion, PciId};
use bedplate_base::{Reading, Reason};
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_host::HostKind;

const NVIDIA: PciId = PciId(0x10de);
/// The first release with S1DSS bypass.
const EITHER_MODE_WORKS: KernelVersion = KernelVersion::new(6, 11);
const SOURCE: &str = "NVIDIA/nodewright-packages pull request 122; handbook §14.3";

/// GPUs that are only made together with an Arm CPU of NVIDIA's: a guest on it sees the GPU, and root ports of its hypervisor.
/// GH200 (2342, 2345, 2348), GB200 (2941), GB300 (31c2, 31c3), GB10 (2e12); Linux drivers/vfio/pci/nvgrace-gpu/main.c, pci.ids,
/// and the README of open-gpu-kernel-modules.
const SUPERCHIP_GPUS: [u16; 7] = [0x2342, 0x2345, 0x2348, 0x2941, 0x31c2, 0x31c3, 0x2e12];

/// Whose Arm CPU it is, as far as it matters here.
enum Cpu {
    Nvidia,
    Other,
    /// Why not. Passthrough may be what breaks CUDA there.
    NotKnown(String),
}

/// What an Arm CPU of NVIDIA's wants of the IOMMU under the kernel that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Superchip {
    /// It is none: nothing special.
    No,
    /// Translation: this kernel attaches no PASID to an identity domain.
    Translated,
    /// Either mode works.
    Either,
    /// Whether it is one, or which kernel runs, is not known, and why.
    NotKnown(Reason),
}

/// What this machine wants of the IOMMU if its CPU is NVIDIA's.
pub fn superchip(facts: &Facts) -> Superchip {
    if facts.arch.known() != Some(&Arch::Aarch64) {
        return Superchip::No;
    }
    let cpu = match &facts.pci {
        Reading::Known(tree) => by_functions(tree),
        Reading::Absent => Cpu::NotKnown("no PCI functions can be seen".to_owned()),
        Reading::Unknown(why) => return Superchip::NotKnown(why.clone()),
    };
    match (cpu, facts.os.kernel.known().and_then(|release| KernelVersion::from_release(release))) {
        (Cpu::Other, _) => Superchip::No,
        (Cpu::NotKnown(why), _) => Superchip::NotKnown(why.into()),
        (Cpu::Nvidia, None) => Superchip::NotKnown("which kernel runs is not known".into()),
        (Cpu::Nvidia, Some(version)) if version < EITHER_MODE_WORKS => Superchip::Translated,
        (Cpu::Nvidia, Some(_)) => Superchip::Either,
    }
}

/// The mode that the profile's comes to on this machine, with a reason that the machine adds.
///
/// # Errors
/// A mode that this machine cannot work with.
pub(crate) fn mode(
    profile: &dyn Declared,
    iommu: &Iommu,
    facts: &Facts,
    cmdline: &mut DesiredCmdline,
) -> Result<(IommuMode, Option<Rationale>), Blocker> {
    let asked = iommu.mode;
    let doubt = match cpu(profile, facts) {
        Cpu::Other if asked == IommuMode::Auto => return Ok((IommuMode::Passthrough, None)),
        Cpu::Other => return Ok((asked, None)),
        Cpu::Nvidia => None,
        Cpu::NotKnown(why) => Some(why),
    };
    let os = &facts.os;
    // Arguments count from the next boot on: so does the kernel.
    let release = os.next_kernel.known().or(os.kernel.known()).or(os.installed_kernels.last());
    let old = release.filter(|release| {
        KernelVersion::from_release(release).is_some_and(|version| version < EITHER_MODE_WORKS)
    });
    match (asked, release, old) {
        (IommuMode::Auto, Some(release), None)
            if KernelVersion::from_release(release).is_some() =>
        {
            cmdline.keep.push("iommu.passthrough".to_owned());
            cmdline.settled.push(stays(doubt.as_deref()));
            Ok((IommuMode::Keep, None))
        }
        // Without a kernel to go by: translated, which works on all.
        (IommuMode::Auto, _, old) => {
            Ok((IommuMode::Translated, Some(because(old, doubt.as_deref()))))
        }
        (IommuMode::Translated, _, Some(old)) if doubt.is_none() => {
            Ok((asked, Some(because(Some(old), None))))
        }
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, _, Some(old)) => match doubt {
            None => Err(blocker(old)),
            doubt => Ok((asked, Some(because(Some(old), doubt.as_deref())))),
        },
        _ => Ok((asked, None)),
    }
}

/// By the root ports, which are part of the CPU, and by GPUs that come with it: other GPUs of NVIDIA's are in servers with
/// other Arm CPUs, too. An image has no PCI functions, and its profile may say what it is for.
fn cpu(profile: &dyn Declared, facts: &Facts) -> Cpu {
    if facts.arch.known() != Some(&Arch::Aarch64) {
        return Cpu::Other;
    }
    let why = match &facts.pci {
        Reading::Known(tree) if !tree.functions.is_empty() => return by_functions(tree),
        Reading::Known(_) | Reading::Absent => "no PCI functions can be seen",
        Reading::Unknown(why) => why,
    };
    let vendors = profile.vendors();
    match facts.host {
        HostKind::Image | HostKind::Snapshot if vendors.contains(&NVIDIA) => Cpu::Nvidia,
        HostKind::Image if !vendors.is_empty() => Cpu::Other,
        _ => Cpu::NotKnown(why.to_owned()),
    }
}

fn by_functions(tree: &PciTree) -> Cpu {
    let nvidia = || tree.functions.values().filter(|function| function.vendor == NVIDIA);
    let gpus = || nvidia().filter(|function| function.is_gpu());
    if nvidia().any(|function| function.is_bridge() && function.parent.is_none())
        || gpus().any(|gpu| SUPERCHIP_GPUS.contains(&gpu.device.0))
    {
        return Cpu::Nvidia;
    }
    // Read as nothing: it may be a root port or a GPU.
    if let Some(gap) = tree.unread().first() {
        return Cpu::NotKnown(format!("{} cannot be read", gap.address));
    }
    let without_port = |gpu: &&Function| {
        tree.path_up(gpu.address).last().is_none_or(|port| tree.get(*port).is_none())
    };
    match gpus().find(without_port) {
        Some(gpu) => {
            Cpu::NotKnown(format!("the root port above GPU {} cannot be seen", gpu.address))
        }
        None => Cpu::Other,
    }
}

/// What `auto` comes to where either mode works.
fn stays(doubt: Option<&str>) -> UpToDate {
    let state = match doubt {
        None => "stays as it is: on NVIDIA's Arm CPUs passthrough and translated both work from Linux 6.11 on".to_owned(),
        Some(doubt) => format!("stays as it is: whether the CPU is NVIDIA's is not known ({doubt})"),
    };
    UpToDate { kind: "cmdline", subject: "IOMMU mode".to_owned(), state }
}

fn because(old: Option<&String>, doubt: Option<&str>) -> Rationale {
    let which = match old {
        Some(release) => format!("Linux {release} is older than 6.11"),
        None => "which kernel boots is not known".to_owned(),
    };
    let fact = "before 6.11 arm-smmu-v3 attaches no PASID to an identity domain, and CUDA creates no context";
    let place = match doubt {
        None => String::new(),
        Some(doubt) => {
            format!(" on NVIDIA's Arm CPUs; whether this is one is not known ({doubt})")
        }
    };
    Rationale::new(format!("{which}: {fact}{place}"), SOURCE)
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
