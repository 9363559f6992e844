//! The kernel log on the IOMMU, and code shared by the checks of the log. Sysfs shows the state, the log its cause. A
//! log that has lost its first lines proves nothing by absence, and never makes a host not ready.

use std::collections::BTreeSet;

use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, IommuFinding, Judgement, Outcome, Severity,
};
use bedplate_base::value::PciAddress;
use bedplate_facts::kernel_log::{KernelMessage, MessageKind, classify};
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_host::{KernelLog, kmsg};

pub(super) const HOW: &str =
    "/dev/kmsg (root-only if kernel.dmesg_restrict is 1); only recognised lines are retained";

pub(crate) const IOMMU: Check = Check {
    id: "iommu.log",
    group: Group::Iommu,
    verifies: "the kernel log reports no DMA refused by the IOMMU, and no fault in its setup",
    severity: Severity::Warn,
    needs_root: true,
    what: "Since boot, no DMA fault of a GPU or NIC, no IOMMU that the firmware describes wrongly, and none that a kexec \
           left on. `DMAR: IOMMU enabled` is no proof: that line repeats the argument, and also appears without VT-d. `DMAR: \
           Intel(R) Virtualization Technology for Directed I/O` and `AMD-Vi: Interrupt remapping enabled` are proof.",
    why: "A fault is GPUDirect traffic that did not arrive: the peer's address is not mapped for the NIC. How-tos try to \
          prove passthrough with lines that prove something else.",
    source: "handbook §2.4, §4, §12.10; Linux drivers/iommu/intel/dmar.c, drivers/iommu/amd/iommu.c, \
             drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c",
    how: HOW,
    judge: iommu,
};

/// A recognised line, with its position in the log.
pub(super) struct Line {
    pub(super) said: KernelMessage,
    pub(super) seen: Evidence,
    /// Time in milliseconds since the boot.
    pub(super) ms: u64,
}

/// Returns the log.
///
/// # Errors
/// The outcome to report if the log is missing.
pub(super) fn log<'a>(input: &'a CheckInput<'_>) -> Result<&'a KernelLog, Outcome> {
    let log = input.observed.kernel_log.or_unread("the kernel log").map_err(Outcome::minor)?;
    log.ok_or_else(|| {
        Outcome::unknown("the kernel log is not visible here (a container?)")
            .evidence("not there", kmsg::PATH)
            .minor()
    })
}

/// Returns a line as evidence, with its time as dmesg shows it.
pub(super) fn seen(line: &kmsg::Line) -> Evidence {
    let at = format!("kernel log, [{}.{:03}]", line.ms / 1000, line.ms % 1000);
    Evidence { value: line.text.clone(), source: at }
}

pub(super) fn lines(log: &KernelLog) -> Vec<Line> {
    let line = |line: &kmsg::Line| {
        Some(Line { said: classify(&line.text)?, seen: seen(line), ms: line.ms })
    };
    log.lines.iter().filter_map(line).collect()
}

/// Returns the outcome for a log without a matching line: a pass only if the log is complete.
pub(super) fn clean(log: &KernelLog, text: &str) -> Outcome {
    if log.whole {
        return Outcome::pass(text).evidence("no such line since the boot", kmsg::PATH);
    }
    Outcome::unknown("the kernel log has lost its first lines, and the rest reports nothing")
        .minor()
        .evidence("no such line in the rest", kmsg::PATH)
        .hint("try `journalctl -k -b`. For a larger log, set [cmdline] args = [\"log_buf_len=16M\"] in the profile")
}

/// IOMMU faults, the most severe first.
const OF_IOMMU: [MessageKind; 4] = [
    MessageKind::DmaFault,
    MessageKind::IommuFirmware,
    MessageKind::IommuCopied,
    MessageKind::IommuRequested,
];

/// Returns the outcome for the most severe fault, with all lines as evidence. With `needs_translation`, the fix does
/// not suggest passthrough.
fn worst(lines: &[Line], needs_translation: bool) -> Option<Outcome> {
    OF_IOMMU.iter().find_map(|event| {
        let (such, others): (Vec<&Line>, Vec<&Line>) =
            lines.iter().partition(|line| line.said.kind == *event);
        if such.is_empty() {
            return None;
        }
        let functions: BTreeSet<PciAddress> =
            such.iter().filter_map(|line| line.said.function).collect();
        let code = IommuFinding::IommuLog {
            event: *event,
            functions: functions.into_iter().collect(),
            lines: such.len(),
            needs_translation,
        };
        let seen = such.iter().chain(&others).map(|line| line.seen.clone());
        Some(Outcome::warn([code]).all_evidence(seen))
    })
}

fn iommu(input: &CheckInput<'_>) -> Judgement {
    let log = log(input)?;
    let mut lines = lines(log);
    let on = input.facts.iommu.active.known().is_some_and(|names| !names.is_empty());
    let up = lines.iter().find(|line| line.said.kind == MessageKind::IommuUp);
    let up = up.map(|line| line.seen.clone());
    // The line that names the device repeats the record before it.
    if lines.iter().any(|line| line.said.is_named_event()) {
        lines.retain(|line| !line.said.is_event_record());
    }
    lines.retain(|line| match line.said.kind {
        // Faults of a USB controller are out of scope.
        MessageKind::DmaFault => !line.said.is_platform_event() && concerns(input, &line.said),
        MessageKind::IommuRequested => !on && up.is_none(),
        MessageKind::IommuFirmware | MessageKind::IommuCopied | MessageKind::IommuUp => true,
        _ => false,
    });
    let needs_translation =
        matches!(superchip(input.facts), Superchip::Translated | Superchip::PassthroughNotKnown);
    Ok(worst(&lines, needs_translation).unwrap_or_else(|| match up {
        Some(seen) => {
            clean(log, "the IOMMU was set up and has refused no DMA").all_evidence([seen])
        }
        None => clean(log, "no DMA was refused"),
    }))
}

/// Whether a line concerns a function on a GPUDirect path, or names no function.
pub(super) fn concerns(input: &CheckInput<'_>, said: &KernelMessage) -> bool {
    said.function.is_none_or(|function| {
        input.observed.aer.contains_key(&function)
            || input.gpus.iter().any(|gpu| gpu.address == function)
    })
}
