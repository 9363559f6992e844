//! When what a check found leads to a symptom, where it does not always: a check speaks of more than one thing, and a cause on
//! one sort of host is none on another.

use crate::facts::Facts;
use crate::facts::pci::Function;
use crate::kernel_log::{Said, Sign, said};
use crate::kind::cmdline::{Superchip, superchip};
use crate::verify::{Judged, Severity, Verdict};

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

/// Device nodes of GPUs are missing.
pub(super) fn of_gpu_nodes(_: &Facts, judged: &Judged) -> bool {
    let is_gpus = |at: &str| at.starts_with("/dev/nvidia") || at == "/dev/kfd";
    judged.evidence.iter().any(|seen| is_gpus(&seen.at))
}

/// A NIC has no ATS where guests need it; one that has it for nothing works all the same.
pub(super) fn of_missing_ats(_: &Facts, judged: &Judged) -> bool {
    judged.evidence.iter().any(|seen| seen.what.ends_with(": no ATS capability"))
}

/// A VF has no address, rather than that of another.
pub(super) fn of_zero_address(_: &Facts, judged: &Judged) -> bool {
    judged.evidence.iter().any(|seen| seen.what.ends_with(": zero"))
}

/// VFs are among what is left to do.
pub(super) fn of_vfs(_: &Facts, judged: &Judged) -> bool {
    judged.evidence.iter().any(|seen| seen.what.contains("PF ") || seen.what.contains("SR-IOV"))
}

/// The argument is one of `pci=`.
pub(super) fn of_pci_argument(_: &Facts, judged: &Judged) -> bool {
    judged.evidence.iter().any(|seen| seen.what.contains("PCI: "))
}

/// The log is about the driver of a GPU.
pub(super) fn of_gpu_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| match &said.module {
        Some(module) => {
            said.sign != Sign::WrongParameter && !is_peermem(module) && !is_rdma(module)
        }
        None => said.sign != Sign::Peermem,
    })
}

/// The log is about nvidia_peermem.
pub(super) fn of_peermem(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| {
        said.sign == Sign::Peermem || said.module.as_deref().is_some_and(is_peermem)
    })
}

/// The log is about the driver of a NIC, or about RDMA.
pub(super) fn of_rdma_driver(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| said.module.as_deref().is_some_and(is_rdma))
}

/// The log is about a GPU that reports an error or does not answer.
pub(super) fn of_gpu(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| matches!(said.sign, Sign::OffTheBus | Sign::Xid))
}

/// The log is about a GPU that does not answer.
pub(super) fn of_lost_gpu(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| said.sign == Sign::OffTheBus)
}

/// The log is about links.
pub(super) fn of_links(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| matches!(said.sign, Sign::Uncorrected | Sign::Contained | Sign::LinkDown))
}

/// The log is about a link that went down.
pub(super) fn of_lost_link(_: &Facts, judged: &Judged) -> bool {
    logged(judged, |said| matches!(said.sign, Sign::Contained | Sign::LinkDown))
}

fn logged(judged: &Judged, test: impl Fn(&Said) -> bool) -> bool {
    judged.evidence.iter().filter_map(|seen| said(&seen.what)).any(|said| test(&said))
}

fn is_peermem(module: &str) -> bool {
    matches!(module, "nvidia_peermem" | "nv_peer_mem")
}

fn is_rdma(module: &str) -> bool {
    ["mlx", "ib_", "rdma_", "bnxt_re", "irdma", "efa"].iter().any(|start| module.starts_with(start))
}
