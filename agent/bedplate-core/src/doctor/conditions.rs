//! When what a check found leads to a symptom, where it does not always: a check speaks of more than one thing, and a cause on
//! one sort of host is none on another.

use crate::kind::sriov;
use crate::verify::{
    AcsFinding, CommandLineFinding, DeviceFinding, DeviceKind, Finding, Judged, LimitsFinding,
    LogFinding, PcieLinkFinding, ProfileFinding, RdmaFinding, Severity, SriovFinding, Verdict,
};
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::kernel_log::MessageKind;
use bedplate_facts::pci::Function;
use bedplate_facts::superchip::{Superchip, superchip};

const MELLANOX: u16 = 0x15b3;

/// Whatever it found.
pub(super) fn always(_: &Facts, _: &Judged) -> bool {
    true
}

/// An Arm CPU of NVIDIA with a kernel on which only translated DMA works.
pub(super) fn on_old_grace(facts: &Facts, _: &Judged) -> bool {
    matches!(superchip(facts), Superchip::Translated)
}

/// Any other host: there translation is what is in the way.
pub(super) fn elsewhere(facts: &Facts, judged: &Judged) -> bool {
    !on_old_grace(facts, judged)
}

/// There are Data Direct functions.
pub(super) fn with_data_direct(facts: &Facts, _: &Judged) -> bool {
    has(facts, Function::is_data_direct)
}

/// No GPU is listed.
pub(super) fn without_gpu(facts: &Facts, _: &Judged) -> bool {
    !has(facts, Function::is_gpu)
}

/// No GPU is listed, or fewer than below switches of the same kind.
pub(super) fn of_missing_gpu(facts: &Facts, judged: &Judged) -> bool {
    without_gpu(facts, judged) || fewer(judged, DeviceKind::Gpu)
}

/// No NIC is listed that may carry RDMA, or fewer than below switches of the same kind.
pub(super) fn of_missing_nic(facts: &Facts, judged: &Judged) -> bool {
    without_nic(facts, judged) || fewer(judged, DeviceKind::Nic)
}

fn fewer(judged: &Judged, wanted: DeviceKind) -> bool {
    found(judged, |code| match code {
        Finding::Device(DeviceFinding::FewerDevices { kind, .. }) => *kind == wanted,
        _ => false,
    })
}

/// A link on the way to a GPU has lost lanes or transactions.
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

/// No NIC is listed that may carry RDMA.
pub(super) fn without_nic(facts: &Facts, _: &Judged) -> bool {
    !has(facts, |function| {
        !function.infiniband.is_empty() || (function.is_nic() && function.vendor.0 == MELLANOX)
    })
}

fn has(facts: &Facts, test: impl Fn(&Function) -> bool) -> bool {
    facts.pci.known().is_some_and(|tree| tree.functions.values().any(test))
}

/// It is as bad as the check knows, not in part: no port at all is active.
pub(super) fn at_all(_: &Facts, judged: &Judged) -> bool {
    judged.verdict == Verdict::Fail || judged.severity == Severity::Warn
}

/// Conditions that ask for a code.
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
    /// Device nodes of GPUs are missing.
    of_gpu_nodes: Finding::Limits(LimitsFinding::NodeMissing { kind: DeviceKind::Gpu, .. }),
    /// A NIC has no ATS where guests need it; one that has it for nothing works all the same.
    of_missing_ats: Finding::Acs(AcsFinding::NoAts { .. }),
    /// A VF has no address, rather than that of another.
    of_zero_address: Finding::Sriov(SriovFinding::ZeroAddress { .. }),
    /// VFs are among what is left to do.
    of_vfs: Finding::Profile(ProfileFinding::NotInEffect { setting: sriov::NAME, .. }),
    /// The argument is one of `pci=`.
    of_pci_argument: Finding::CommandLine(CommandLineFinding::ArgumentRefused { argument, .. })
        if argument.starts_with("pci="),
    /// No port of the GPUs' NICs is active.
    of_no_port: Finding::Rdma(RdmaFinding::NoActivePort { .. }),
    /// A GPU does not answer, or a port above one may not.
    of_dead_gpu: Finding::Device(DeviceFinding::NoAnswer { device })
        if matches!(device.kind, DeviceKind::Gpu | DeviceKind::Port),
    /// A NIC does not answer, or a port above one may not.
    of_dead_nic: Finding::Device(DeviceFinding::NoAnswer { device })
        if device.kind != DeviceKind::Gpu,
    /// The log is about a GPU that reports an error or does not answer.
    of_gpu: Finding::Log(LogFinding::Logged {
        sign: MessageKind::OffTheBus | MessageKind::Xid | MessageKind::SwitchFatal, ..
    }),
    /// The log is about a GPU that does not answer.
    of_lost_gpu: Finding::Log(LogFinding::Logged { sign: MessageKind::OffTheBus, .. }),
    /// The log is about links.
    of_links: Finding::Log(LogFinding::Logged {
        sign: MessageKind::Uncorrected | MessageKind::Fatal | MessageKind::Contained | MessageKind::LinkDown, ..
    }),
    /// The log is about a link that went down.
    of_lost_link: Finding::Log(LogFinding::Logged {
        sign: MessageKind::Contained | MessageKind::LinkDown, ..
    }),
}

/// The log is about the driver of a GPU.
pub(super) fn of_gpu_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |sign, module| match module {
        Some(module) => {
            sign != MessageKind::WrongParameter && !is_peermem(module) && !is_rdma(module)
        }
        None => sign != MessageKind::Peermem,
    })
}

/// The log is about nvidia_peermem.
pub(super) fn of_peermem(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |sign, module| sign == MessageKind::Peermem || module.is_some_and(is_peermem))
}

/// The log is about the driver of a NIC, or about RDMA.
pub(super) fn of_rdma_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |_, module| module.is_some_and(is_rdma))
}

fn found(judged: &Judged, test: impl Fn(&Finding) -> bool) -> bool {
    judged.codes.iter().any(test)
}

fn logged(judged: &Judged, test: impl Fn(MessageKind, Option<&str>) -> bool) -> bool {
    found(judged, |code| match code {
        Finding::Log(LogFinding::Logged { sign, module, .. }) => test(*sign, module.as_deref()),
        _ => false,
    })
}

fn is_peermem(module: &str) -> bool {
    matches!(module, "nvidia_peermem" | "nv_peer_mem")
}

fn is_rdma(module: &str) -> bool {
    ["mlx", "ib_", "rdma_", "bnxt_re", "irdma", "efa"].iter().any(|start| module.starts_with(start))
}
