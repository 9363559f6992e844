//! Conditions under which a check's finding explains a symptom: a check covers more than one fault, and a cause on one
//! type of host need not be a cause on another.

use crate::kind::sriov;
use crate::verify::{
    AcsFinding, CommandLineFinding, DeviceFinding, DeviceKind, Finding, IommuFinding, Judged,
    LimitsFinding, LogFinding, PcieLinkFinding, ProfileFinding, RdmaFinding, Severity,
    SriovFinding, Verdict,
};
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::kernel_log::MessageKind;
use bedplate_facts::pci::Function;

const MELLANOX: u16 = 0x15b3;

/// Always holds.
pub(super) fn always(_: &Facts, _: &Judged) -> bool {
    true
}

/// Whether the host has Data Direct functions.
pub(super) fn with_data_direct(facts: &Facts, _: &Judged) -> bool {
    has(facts, Function::is_data_direct)
}

/// Whether no GPU is listed.
pub(super) fn without_gpu(facts: &Facts, _: &Judged) -> bool {
    !has(facts, Function::is_gpu)
}

/// Whether no GPU is listed, or fewer than below switches of the same model.
pub(super) fn of_missing_gpu(facts: &Facts, judged: &Judged) -> bool {
    without_gpu(facts, judged) || fewer(judged, DeviceKind::Gpu)
}

/// Whether no RDMA-capable NIC is listed, or fewer than below switches of the same model.
pub(super) fn of_missing_nic(facts: &Facts, judged: &Judged) -> bool {
    without_nic(facts, judged) || fewer(judged, DeviceKind::Nic)
}

fn fewer(judged: &Judged, wanted: DeviceKind) -> bool {
    found(judged, |code| match code {
        Finding::Device(DeviceFinding::FewerDevices { kind, .. }) => *kind == wanted,
        _ => false,
    })
}

/// Whether a link on the path to a GPU has lost lanes or transactions.
pub(super) fn of_gpus_link(facts: &Facts, judged: &Judged) -> bool {
    let Some(tree) = facts.pci.known() else { return false };
    let is_gpus = |at: PciAddress| {
        let gpus = tree.functions.values().filter(|function| function.is_gpu());
        gpus.into_iter().any(|gpu| gpu.address == at || tree.path_up(gpu.address).contains(&at))
    };
    found(judged, |code| match code {
        Finding::Link(
            PcieLinkFinding::LinkNarrow { device, .. } | PcieLinkFinding::AerErrors { device, .. },
        ) => is_gpus(device.function),
        _ => false,
    })
}

/// Whether no RDMA-capable NIC is listed.
pub(super) fn without_nic(facts: &Facts, _: &Judged) -> bool {
    !has(facts, |function| {
        !function.infiniband.is_empty() || (function.is_nic() && function.vendor.0 == MELLANOX)
    })
}

fn has(facts: &Facts, test: impl Fn(&Function) -> bool) -> bool {
    facts.pci.known().is_some_and(|tree| tree.functions.values().any(test))
}

/// Whether the finding has the full severity of its check: no port at all is active, for example.
pub(super) fn at_all(_: &Facts, judged: &Judged) -> bool {
    judged.verdict == Verdict::Fail || judged.severity == Severity::Warn
}

/// Conditions that test for a code.
macro_rules! conditions {
    ($($(#[$about:meta])* $name:ident: $code:pat $(if $test:expr)?,)+) => {
        $(
            $(#[$about])*
            pub(super) fn $name(_: &Facts, judged: &Judged) -> bool {
                found(judged, |code| matches!(code, $code $(if $test)?))
            }
        )+
    };
}

conditions! {
    /// The kernel gives CUDA no PASID for GPUs of an NVIDIA Arm CPU, whatever the IOMMU's mode.
    of_pasids: Finding::Iommu(IommuFinding::NoSva { .. } | IommuFinding::PasidsRefused { .. }),
    /// DMA passes through, but only translated DMA works on this host: an NVIDIA Arm CPU with an old kernel.
    of_passthrough: Finding::Iommu(IommuFinding::DmaPassesThrough { .. }),
    /// DMA is translated, but must pass through on this host.
    of_translation: Finding::Iommu(IommuFinding::DmaTranslated { .. }),
    /// Device nodes of GPUs are missing.
    of_gpu_nodes: Finding::Limits(LimitsFinding::NodeMissing { kind: DeviceKind::Gpu, .. }),
    /// A NIC lacks ATS where guests need it. A NIC with needless ATS still works.
    of_missing_ats: Finding::Acs(AcsFinding::NoAts { .. }),
    /// A VF has no address, rather than one that another VF has too.
    of_zero_address: Finding::Sriov(SriovFinding::ZeroAddress { .. }),
    /// The changes still to make include VFs.
    of_vfs: Finding::Profile(ProfileFinding::NotInEffect { setting: sriov::NAME, .. }),
    /// The rejected argument is one of `pci=`.
    of_pci_argument: Finding::CommandLine(CommandLineFinding::ArgumentRefused { argument, .. })
        if argument.starts_with("pci="),
    /// No port of the GPUs' NICs is active.
    of_no_port: Finding::Rdma(RdmaFinding::NoActivePort { .. }),
    /// A GPU, or possibly a port above one, does not answer.
    of_dead_gpu: Finding::Device(DeviceFinding::NoAnswer { device })
        if matches!(device.kind, DeviceKind::Gpu | DeviceKind::Port),
    /// A NIC, or possibly a port above one, does not answer.
    of_dead_nic: Finding::Device(DeviceFinding::NoAnswer { device })
        if device.kind != DeviceKind::Gpu,
    /// The kernel log reports a GPU error or an unresponsive GPU.
    of_gpu: Finding::Log(LogFinding::Logged {
        event: MessageKind::OffTheBus | MessageKind::Xid | MessageKind::SwitchFatal, ..
    }),
    /// The kernel log reports an unresponsive GPU.
    of_lost_gpu: Finding::Log(LogFinding::Logged { event: MessageKind::OffTheBus, .. }),
    /// The kernel log reports link faults.
    of_links: Finding::Log(LogFinding::Logged {
        event: MessageKind::Uncorrected | MessageKind::Fatal | MessageKind::Contained | MessageKind::LinkDown, ..
    }),
    /// The kernel log reports a link that went down.
    of_lost_link: Finding::Log(LogFinding::Logged {
        event: MessageKind::Contained | MessageKind::LinkDown, ..
    }),
}

/// Whether the kernel log reports a fault of a GPU driver.
pub(super) fn of_gpu_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |event, module| match module {
        Some(module) => {
            event != MessageKind::WrongParameter && !is_peermem(module) && !is_rdma(module)
        }
        None => event != MessageKind::Peermem,
    })
}

/// Whether the kernel log reports a fault of nvidia_peermem.
pub(super) fn of_peermem(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |event, module| event == MessageKind::Peermem || module.is_some_and(is_peermem))
}

/// Whether the kernel log reports a fault of a NIC driver or of the RDMA stack.
pub(super) fn of_rdma_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |_, module| module.is_some_and(is_rdma))
}

fn found(judged: &Judged, test: impl Fn(&Finding) -> bool) -> bool {
    judged.codes.iter().any(test)
}

fn logged(judged: &Judged, test: impl Fn(MessageKind, Option<&str>) -> bool) -> bool {
    found(judged, |code| match code {
        Finding::Log(LogFinding::Logged { event, module, .. }) => test(*event, module.as_deref()),
        _ => false,
    })
}

fn is_peermem(module: &str) -> bool {
    matches!(module, "nvidia_peermem" | "nv_peer_mem")
}

fn is_rdma(module: &str) -> bool {
    ["mlx", "ib_", "rdma_", "bnxt_re", "irdma", "efa"].iter().any(|start| module.starts_with(start))
}
