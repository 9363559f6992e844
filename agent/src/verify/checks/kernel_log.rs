//! What the kernel's log says of the IOMMU, of modules and of PCIe. Sysfs says what is; the log says why. A log that has lost
//! its first lines proves nothing by what is not in it.

use std::collections::BTreeSet;

use super::super::evidence::unread;
use super::super::{Check, Code, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::counted;
use crate::host::{KernelLog, Reading, kmsg};
use crate::kernel_log::{Said, Sign, said};
use crate::kind::some_of;

const HOW: &str = "/dev/kmsg, which root alone may read where kernel.dmesg_restrict is 1; only lines that mean something are kept";
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

/// `modules.log`.
pub const MODULES: Check = Check {
    id: "modules.log",
    group: Group::Modules,
    proves: "the kernel log reports no driver of GPUs or RDMA NICs that was refused, or of two versions",
    severity: Severity::Warn,
    needs_root: true,
    explain: Explain {
        what: "No module of NVIDIA, AMD or an RDMA stack was refused for symbols of another version, an unknown symbol, another \
               kernel's version magic, a blacklist or a missing signature, unless it is loaded by now; no `NVRM: API mismatch`; \
               no GPU that the driver did not take; no error of nvidia_peermem; no parameter that a module does not know.",
        why: "modprobe says `Invalid argument` for most of it; the cause stands in the log alone. nvidia_peermem fails like that \
              with an ib_core that has no peer-memory symbols.",
        source: "handbook §1.5, §6.3, §9; Linux kernel/module",
        how: HOW,
    },
    judge: modules,
};

/// `pcie.log`.
pub const PCIE: Check = Check {
    id: "pcie.log",
    group: Group::Pcie,
    proves: "the kernel log reports no GPU that fell off the bus and no uncorrected PCIe error on a path",
    severity: Severity::Warn,
    needs_root: true,
    explain: Explain {
        what: "Since the boot no GPU has fallen off the bus (Xid 79) or reported another Xid of its own (those of programs, such \
               as 13, 31 and 43, are left out), and on no path of a GPU or RDMA NIC was there an uncorrected PCIe error, a \
               port that contained one (DPC), or a slot whose link went down.",
        why: "A GPU that is off the bus stays so until it is reset or the host rebooted, and every job on the node hangs.",
        source: "handbook §3.3, §6.2, §7; NVIDIA's \"Xid Errors\"; Linux drivers/pci/pcie/aer.c, dpc.c",
        how: HOW,
    },
    judge: pcie,
};

/// A line that means something, with where it stands.
pub(super) type Line = (Said, Seen);

/// The log, or what is to be said without one.
pub(super) fn log<'a>(evidence: &'a Evidence<'_>) -> Result<&'a KernelLog, Outcome> {
    match &evidence.observed.kernel_log {
        Reading::Known(log) => Ok(log),
        Reading::Unknown(why) => Err(unread("the kernel log", why)),
        Reading::Absent => Err(Outcome::unknown("the kernel log is not shown here: a container?")
            .seen("not there", kmsg::PATH)),
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
        .seen("no such line in what is left", kmsg::PATH)
        .remedy("`journalctl -k -b` may still have them; a larger ring: `log_buf_len=16M` in [cmdline] of the profile")
}

fn functions(lines: &[&Line]) -> String {
    let named: BTreeSet<String> =
        lines.iter().filter_map(|(said, _)| Some(said.function?.to_string())).collect();
    some_of(named.into_iter(), FEW, "functions")
}

/// What lines with such signs come to.
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
        let codes = such.iter().chain(&others).map(|(said, _)| Code::Logged {
            sign: said.sign,
            function: said.function,
            module: said.module.clone(),
        });
        Some(Outcome::warn(finding).codes(codes).all_seen(seen).remedy(trouble.remedy))
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
fn concerns(evidence: &Evidence<'_>, said: &Said) -> bool {
    said.function.is_none_or(|function| {
        evidence.observed.aer.contains_key(&function)
            || evidence.gpus.iter().any(|gpu| gpu.address == function)
    })
}

/// Modules by whose absence GPUDirect fails, by the start of their names.
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

const OF_MODULES: [Trouble; 6] = [
    Trouble {
        signs: &[Sign::NotTaken],
        finding: |_| "the NVIDIA driver did not take a GPU".to_owned(),
        remedy: "`dmesg | grep NVRM` has the reason: another driver holds it, the driver is too old for it, or it does not answer",
    },
    Trouble {
        signs: &[Sign::WrongBuild],
        finding: |such| {
            format!(
                "the kernel refused {}: built for another kernel or another ib_core",
                named(such)
            )
        },
        remedy: "build it for the running kernel (`dkms autoinstall -k $(uname -r)`), or install the package for it; for \
                 nvidia_peermem install DOCA-OFED before the NVIDIA driver, or use DMA-BUF, which needs no module",
    },
    Trouble {
        signs: &[Sign::KeptOut],
        finding: |such| {
            format!(
                "the kernel did not let {} in: blacklisted, or not signed for Secure Boot",
                named(such)
            )
        },
        remedy: "take it out of `module_blacklist=`; sign the modules and enrol the key (`mokutil --import`)",
    },
    Trouble {
        signs: &[Sign::ApiMismatch],
        finding: |_| "NVIDIA's libraries and kernel modules are of different versions".to_owned(),
        remedy: "reboot, or stop every user of the GPUs and load the new modules; in containers use the host's libraries",
    },
    Trouble {
        signs: &[Sign::Peermem],
        finding: |_| "nvidia_peermem reports errors".to_owned(),
        remedy: "`dmesg | grep nvidia-peermem`; use DMA-BUF where driver and kernel allow it (`bedplate verify --check \
                 modules.gpudirect`)",
    },
    Trouble {
        signs: &[Sign::WrongParameter],
        finding: |such| format!("{} does not know a parameter that it was given", named(such)),
        remedy: "take the parameter out of modprobe.d or off the command line: it does nothing",
    },
];

fn named(such: &[&Line]) -> String {
    let names: BTreeSet<String> = such.iter().filter_map(|(said, _)| said.module.clone()).collect();
    match names.is_empty() {
        true => "a module".to_owned(),
        false => some_of(names.into_iter(), FEW, "modules"),
    }
}

fn modules(evidence: &Evidence<'_>) -> Judgement {
    let log = log(evidence)?;
    let is_loaded = |module: &str| {
        matches!(evidence.observed.complained_of.get(module), Some(Reading::Known(true)))
    };
    let signs: Vec<Sign> = OF_MODULES.iter().flat_map(|trouble| trouble.signs).copied().collect();
    let mut lines = lines(log, &signs);
    lines.retain(|(said, _)| match (&said.module, said.sign) {
        (None, _) => true,
        (Some(module), Sign::WrongParameter) => is_ours(module),
        // It went in by a later attempt.
        (Some(module), _) => is_ours(module) && !is_loaded(module),
    });
    Ok(worst(&OF_MODULES, &lines).unwrap_or_else(|| clean(log, "no driver was refused")))
}

fn is_ours(module: &str) -> bool {
    OURS.iter().any(|start| module.starts_with(start))
}

const ON_THE_WAY: &str = "reseat the card or its riser, check cables, power and temperature; `dmesg` and the BMC's event log have more";

const OF_PCIE: [Trouble; 4] = [
    Trouble {
        signs: &[Sign::OffTheBus],
        finding: |such| format!("GPU {} fell off the bus", functions(such)),
        remedy: "drain the node and power-cycle it; if it happens again, reseat or replace the GPU",
    },
    Trouble {
        signs: &[Sign::Contained, Sign::Uncorrected],
        finding: |such| format!("uncorrected PCIe errors at {}", functions(such)),
        remedy: ON_THE_WAY,
    },
    Trouble {
        signs: &[Sign::LinkDown],
        finding: |such| format!("the link below {} went down", functions(such)),
        remedy: ON_THE_WAY,
    },
    Trouble {
        signs: &[Sign::Xid],
        finding: |such| format!("GPU {} reported errors of its own", functions(such)),
        remedy: "NVIDIA's \"Xid Errors\" says what the number means; `nvidia-smi -q` has counters",
    },
];

fn pcie(evidence: &Evidence<'_>) -> Judgement {
    let log = log(evidence)?;
    let signs: Vec<Sign> = OF_PCIE.iter().flat_map(|trouble| trouble.signs).copied().collect();
    let mut lines = lines(log, &signs);
    // Whatever NVIDIA's driver reports is of a GPU, also of one that is gone from sysfs.
    lines.retain(|(said, _)| {
        matches!(said.sign, Sign::OffTheBus | Sign::Xid) || concerns(evidence, said)
    });
    Ok(worst(&OF_PCIE, &lines)
        .unwrap_or_else(|| clean(log, "no GPU fell off the bus, and no error on a path")))
}
