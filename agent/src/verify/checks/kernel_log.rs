//! The kernel's log on the IOMMU, and code that its checks share. Sysfs says what is; the log says why. A log that
//! has lost its first lines proves nothing by what is not in it, and never keeps a host from being ready.

use std::collections::BTreeSet;

use super::super::evidence::unread;
use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::counted;
use crate::host::{KernelLog, Reading, kmsg};
use crate::kernel_log::{Said, Sign, said};
use crate::kind::some_of;

pub(super) const HOW: &str = "/dev/kmsg, which root alone may read where kernel.dmesg_restrict is 1; only lines that mean something are kept";
/// Functions and modules that a finding names before it counts.
const FEW: usize = 4;

/// `iommu.log`.
pub const IOMMU: Check = Check {
    id: "iommu.log",
    group: Group::Iommu,
    proves: "the kernel log reports no DMA that the IOMMU refused, and no trouble with bringing it up",
    severity: Severity::Warn,
    needs_root: true,
    explain: Explain {
        what: "No DMA fault of a GPU or NIC since the boot, no IOMMU that the firmware describes wrongly or a kexec left on; and \
               `DMAR: IOMMU enabled` is not taken for a proof: that line repeats the argument, and stands there without VT-d as \
               well. `DMAR: Intel(R) Virtualization Technology for Directed I/O` and `AMD-Vi: Interrupt remapping enabled` are.",
        why: "A fault is GPUDirect traffic that did not arrive: a peer's address that is not mapped for the NIC. How-tos prove \
              passthrough by lines that prove something else.",
        source: "handbook §2.4, §4, §12.10; Linux drivers/iommu/intel/dmar.c, drivers/iommu/amd/iommu.c",
        how: HOW,
    },
    judge: iommu,
};

/// A line that means something, with where it stands.
pub(super) type Line = (Said, Seen);

/// The log, or what is to be said without one.
pub(super) fn log<'a>(evidence: &'a Evidence<'_>) -> Result<&'a KernelLog, Outcome> {
    match &evidence.observed.kernel_log {
        Reading::Known(log) => Ok(log),
        Reading::Unknown(why) => Err(unread("the kernel log", why).minor()),
        Reading::Absent => Err(Outcome::unknown("the kernel log is not shown here: a container?")
            .seen("not there", kmsg::PATH)
            .minor()),
    }
}

/// Where a line stands: its seconds, as dmesg shows them.
pub(super) fn seen(line: &kmsg::Line) -> Seen {
    let at = format!("kernel log, [{}.{:03}]", line.ms / 1000, line.ms % 1000);
    Seen { what: line.text.clone(), at }
}

fn lines(log: &KernelLog, signs: &[Sign]) -> Vec<Line> {
    let all = log.lines.iter().filter_map(|line| Some((said(&line.text)?, seen(line))));
    all.filter(|(said, _)| signs.contains(&said.sign)).collect()
}

/// A log in which nothing is found: it passes only where it is whole.
pub(super) fn clean(log: &KernelLog, text: &str) -> Outcome {
    if log.whole {
        return Outcome::pass(text).seen("no such line since the boot", kmsg::PATH);
    }
    Outcome::unknown("the kernel log has lost its first lines, and what is left says nothing of it")
        .minor()
        .seen("no such line in what is left", kmsg::PATH)
        .remedy("`journalctl -k -b` may still have them; a larger ring: `log_buf_len=16M` in [cmdline] of the profile")
}

fn functions(lines: &[&Line]) -> String {
    let named: BTreeSet<String> =
        lines.iter().filter_map(|(said, _)| Some(said.function?.to_string())).collect();
    some_of(named.into_iter(), FEW, "functions")
}

/// The outcome of lines with such signs.
struct Trouble {
    signs: &'static [Sign],
    finding: fn(&[&Line]) -> String,
    remedy: &'static str,
}

/// The first trouble that there is, with everything that the log says.
fn worst(troubles: &[Trouble], lines: &[Line]) -> Option<Outcome> {
    troubles.iter().find_map(|trouble| {
        let is_such = |line: &&Line| trouble.signs.contains(&line.0.sign);
        let (such, others): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(is_such);
        let finding = (!such.is_empty()).then(|| (trouble.finding)(&such))?;
        let seen = such.iter().chain(&others).map(|(_, seen)| seen.clone());
        Some(Outcome::warn_as("iommu-log", finding).all_seen(seen).remedy(trouble.remedy))
    })
}

const OF_IOMMU: [Trouble; 4] = [
    Trouble {
        signs: &[Sign::DmaFault],
        finding: |such| {
            format!(
                "the IOMMU refused DMA of {} ({})",
                functions(such),
                counted(such.len(), "line")
            )
        },
        remedy: "`mode = \"passthrough\"` in [iommu] of the profile, `bedplate apply`, and reboot; where DMA passes through \
                 already, report it to the maker of the driver",
    },
    Trouble {
        signs: &[Sign::IommuFirmware],
        finding: |_| "the firmware describes its IOMMU wrongly".to_owned(),
        remedy: "update the firmware (BIOS)",
    },
    Trouble {
        signs: &[Sign::IommuCopied],
        finding: |_| {
            "this kernel was started by kexec and took over the IOMMU tables of the one before"
                .to_owned()
        },
        remedy: "reboot through the firmware: `bedplate reboot schedule`, never `systemctl kexec`",
    },
    Trouble {
        signs: &[Sign::IommuAsked],
        finding: |_| {
            "no IOMMU is in use, whatever `DMAR: IOMMU enabled` says: that line repeats `intel_iommu=on`"
                .to_owned()
        },
        remedy: "switch VT-d on in the firmware's setup, or take `intel_iommu=on` from the command line",
    },
];

fn iommu(evidence: &Evidence<'_>) -> Judgement {
    let log = log(evidence)?;
    let mut lines = lines(
        log,
        &[Sign::IommuUp, Sign::IommuAsked, Sign::IommuFirmware, Sign::IommuCopied, Sign::DmaFault],
    );
    let on = evidence.facts.iommu.active.known().is_some_and(|names| !names.is_empty());
    let up =
        lines.iter().find(|(said, _)| said.sign == Sign::IommuUp).map(|(_, seen)| seen.clone());
    lines.retain(|(said, _)| match said.sign {
        // Faults of a USB controller are not what this is about.
        Sign::DmaFault => concerns(evidence, said),
        Sign::IommuAsked => !on && up.is_none(),
        _ => true,
    });
    Ok(worst(&OF_IOMMU, &lines).unwrap_or_else(|| match up {
        Some(seen) => {
            clean(log, "the IOMMU was brought up and has refused no DMA").all_seen([seen])
        }
        None => clean(log, "no DMA was refused"),
    }))
}

/// Whether a line is about a function that GPUDirect traffic passes, or does not say which.
pub(super) fn concerns(evidence: &Evidence<'_>, said: &Said) -> bool {
    said.function.is_none_or(|function| {
        evidence.observed.aer.contains_key(&function)
            || evidence.gpus.iter().any(|gpu| gpu.address == function)
    })
}
