//! Faults of GPUs, NVSwitches, links and drivers reported in the kernel log, and whether they are over.

use std::collections::BTreeMap;

use super::super::finding::is_severe;
use super::super::{
    Check, CheckInput, Device, DeviceKind, Group, Judgement, LogFinding, Outcome, Severity, Verdict,
};
use super::kernel_log::{HOW, Line, clean, concerns, lines, log};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::kernel_log::{KernelMessage, MessageKind};
use bedplate_host::KernelLog;

pub(crate) const MODULES: Check = Check {
    id: "modules.log",
    group: Group::Modules,
    verifies: "the kernel log reports no rejected driver of GPUs or RDMA NICs, and no version mismatch",
    severity: Severity::Fail,
    needs_root: true,
    what: "No module of NVIDIA, AMD or an RDMA stack was refused for symbols of another version, an unknown symbol, another \
           kernel's version magic, a blacklist or a missing signature, unless it is loaded by now. No `NVRM: API mismatch`, \
           no GPU rejected by its driver, no error of nvidia_peermem, and no unknown module parameter. A rejected GPU and a \
           version mismatch fail, unless a later line shows that the driver took the GPU, or the versions match by now. The \
           rest are warnings: other checks cover the modules loaded now.",
    why: "modprobe reports most of these as `Invalid argument`; only the log has the cause. nvidia_peermem fails this way \
          with an ib_core without peer-memory symbols.",
    source: "handbook §1.5, §6.3, §9; Linux kernel/module",
    how: HOW,
    judge: modules,
};

pub(crate) const PCIE: Check = Check {
    id: "pcie.log",
    group: Group::Pcie,
    verifies: "the kernel log reports no GPU that fell off the bus and no uncorrected PCIe error on a path",
    severity: Severity::Fail,
    needs_root: true,
    what: "Since boot, no GPU has fallen off the bus (Xid 79) or reported another Xid of its own (Xids of programs, such as \
           13, 31 and 43, are ignored), and no NVSwitch a fatal SXid. No path of a GPU or RDMA NIC had an uncorrected PCIe \
           error, a port that contained one (DPC), or a slot whose link went down. A fault that leaves a GPU, a switch or a \
           link unusable until a reset fails; it is a warning once a later line shows the recovery, the reset or the driver \
           that took the device again. Other Xids, and errors after which the link is as reliable as before, are warnings.",
    why: "A GPU that fell off the bus is lost until it is reset or the host rebooted, and every job on the node hangs.",
    source: "handbook §3.3, §6.2, §7; NVIDIA's \"Xid Errors\"; Linux drivers/pci/pcie/aer.c, dpc.c",
    how: HOW,
    judge: pcie,
};

/// Prefixes of the modules that GPUDirect needs.
const OURS: [&str; 14] = [
    "nvidia",
    "nv_peer_mem",
    "gdrdrv",
    "mlx5",
    "mlx_compat",
    "ib_",
    "rdma_",
    "amdgpu",
    "amdkcl",
    "xe",
    "bnxt_re",
    "irdma",
    "efa",
    "mlxfw",
];

/// Whether two functions are equal, or one is above the other.
fn are_on_one_path(input: &CheckInput<'_>, one: PciAddress, other: PciAddress) -> bool {
    let above = |at: PciAddress| {
        input.topology().map(|topology| topology.tree().path_up(at)).unwrap_or_default()
    };
    one == other || above(one).contains(&other) || above(other).contains(&one)
}

/// Whether a reported fault is known to be over, from a later line or from the present state.
fn is_over(input: &CheckInput<'_>, fault: &KernelMessage, later: &[Line]) -> bool {
    let follows = |test: &dyn Fn(&KernelMessage) -> bool| later.iter().any(|line| test(&line.said));
    let returns = |at: PciAddress| {
        follows(&|said| {
            matches!(said.kind, MessageKind::Bound | MessageKind::Recovered)
                && said.function == Some(at)
        })
    };
    let reloaded = || follows(&|said| said.kind == MessageKind::Bound && said.function.is_none());
    match (fault.kind, fault.function) {
        // `pcie.answer` reports an unresponsive device, regardless of drivers loaded since.
        (MessageKind::OffTheBus | MessageKind::Xid | MessageKind::NotTaken, Some(at)) => {
            returns(at) || reloaded()
        }
        (MessageKind::NotTaken, None) => {
            let mut gpus = input.gpus.iter().filter(|gpu| gpu.vendor.0 == 0x10de);
            reloaded() || gpus.all(|gpu| gpu.driver.as_deref() == Some("nvidia"))
        }
        (MessageKind::ApiMismatch, _) => {
            let loaded = input.facts.gpu.nvidia.known().map(|driver| &driver.version);
            reloaded() || loaded.is_some() && loaded == fault.version.as_ref()
        }
        (MessageKind::SwitchFatal, _) => reloaded(),
        (MessageKind::Contained | MessageKind::Fatal | MessageKind::Uncorrected, Some(at)) => {
            follows(&|said| {
                said.kind == MessageKind::Recovered
                    && said.function.is_some_and(|other| are_on_one_path(input, at, other))
            })
        }
        // A device below that is listed and answers has a link.
        (MessageKind::LinkDown, Some(at)) => input.topology().is_ok_and(|topology| {
            let below = topology.below(at);
            let answers = |at: &PciAddress| topology.tree().get(*at).is_some_and(|f| !f.is_dead());
            !below.is_empty() && below.iter().all(answers)
        }),
        _ => false,
    }
}

/// Returns the device that a line is about, even if Linux no longer lists it.
fn device(input: &CheckInput<'_>, event: MessageKind, at: PciAddress) -> Device {
    let listed = input.topology().ok().and_then(|topology| topology.tree().get(at));
    let kind = match event {
        MessageKind::Switch | MessageKind::SwitchFatal => DeviceKind::NvSwitch,
        MessageKind::OffTheBus | MessageKind::Xid | MessageKind::NotTaken => DeviceKind::Gpu,
        _ => DeviceKind::Port,
    };
    listed.map_or(Device { kind, function: at, name: None }, |function| input.device(function))
}

/// Returns the outcome for the matching lines, or `None` if no line matches.
fn judged(
    input: &CheckInput<'_>,
    log: &KernelLog,
    is_wanted: impl Fn(&KernelMessage) -> bool,
) -> Option<Outcome> {
    let all = lines(log);
    let mut codes: BTreeMap<_, LogFinding> = BTreeMap::new();
    let mut seen = Vec::new();
    for (at, line) in all.iter().enumerate().filter(|(_, line)| is_wanted(&line.said)) {
        let said = &line.said;
        let is_past = is_over(input, said, &all[at + 1..]);
        let is_severe = is_severe(said.kind, said.recovery()) && !is_past;
        let key = (!is_severe, said.kind, said.function, said.module.clone(), said.number, is_past);
        let code = codes.entry(key).or_insert_with(|| LogFinding::Logged {
            event: said.kind,
            device: said.function.map(|at| device(input, said.kind, at)),
            module: said.module.clone(),
            number: said.number,
            lines: 0,
            first: line.ms,
            over: is_past,
            recovery: said.recovery(),
        });
        let LogFinding::Logged { lines, .. } = code;
        *lines += 1;
        seen.push((!is_severe, line.seen.clone()));
    }
    let (is_minor, ..) = *codes.keys().next()?;
    let verdict = if is_minor { Verdict::Warn } else { Verdict::Fail };
    seen.sort_by_key(|(is_minor, _)| *is_minor);
    Some(
        Outcome::with_findings(verdict, codes.into_values())
            .all_evidence(seen.into_iter().map(|(_, seen)| seen)),
    )
}

fn modules(input: &CheckInput<'_>) -> Judgement {
    let log = log(input)?;
    let is_loaded = |module: &str| {
        matches!(input.observed.complained_of.get(module), Some(Reading::Known(true)))
    };
    let is_wanted = |said: &KernelMessage| match (said.kind, &said.module) {
        (MessageKind::NotTaken | MessageKind::ApiMismatch | MessageKind::Peermem, _) => true,
        (MessageKind::NotAllowed, None) => true,
        (MessageKind::WrongParameter, Some(module)) => is_ours(module),
        // A later attempt may have loaded the module.
        (MessageKind::WrongBuild | MessageKind::NotAllowed, Some(module)) => {
            is_ours(module) && !is_loaded(module)
        }
        _ => false,
    };
    Ok(judged(input, log, is_wanted).unwrap_or_else(|| clean(log, "no driver was refused")))
}

fn is_ours(module: &str) -> bool {
    OURS.iter().any(|start| module.starts_with(start))
}

fn pcie(input: &CheckInput<'_>) -> Judgement {
    let log = log(input)?;
    let is_wanted = |said: &KernelMessage| match said.kind {
        // All faults that NVIDIA's driver reports concern GPUs or their switches, including devices gone from sysfs.
        MessageKind::OffTheBus
        | MessageKind::Xid
        | MessageKind::Switch
        | MessageKind::SwitchFatal => true,
        MessageKind::Contained
        | MessageKind::Fatal
        | MessageKind::Uncorrected
        | MessageKind::LinkDown => concerns(input, said),
        _ => false,
    };
    Ok(judged(input, log, is_wanted)
        .unwrap_or_else(|| clean(log, "no GPU fell off the bus, and no error on a path")))
}
