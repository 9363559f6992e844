//! The IOMMU: whether it is present, in use, and in the right mode for the functions that carry GPUDirect traffic.

use std::collections::{BTreeMap, BTreeSet};

use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Carriers, Check, CheckInput, Evidence, Group, IommuFinding, Judgement, Outcome, Severity,
    Verdict,
};
use super::{addresses, named};
use crate::kind::acs::{SharedGroup, pasids_in_shared_group};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, Reason};
use bedplate_facts::kernel_config;
use bedplate_facts::pci::Function;
use bedplate_facts::superchip::{SMMU_SVA, Superchip, is_superchip_gpu, superchip};

const GROUPS: &str = "/sys/kernel/iommu_groups/*/type";
const IN_USE: &str = "/sys/class/iommu";

pub(crate) const MODE: Check = Check {
    id: "iommu.mode",
    group: Group::Iommu,
    verifies: "the IOMMU handles the DMA of GPUs and NICs as GPUDirect needs it",
    severity: Severity::Fail,
    needs_root: false,
    what: "The IOMMU group type of every GPU, RDMA NIC and VF used by the host itself: `identity` (passthrough) or no group \
           is right; `DMA` and `DMA-FQ` mean translation. On Arm CPUs of NVIDIA with a kernel before 6.11 the reverse holds, \
           except that passthrough may work with linux-nvidia 6.8; from 6.11 on both are right. GPUs of these CPUs also need \
           a kernel with CONFIG_ARM_SMMU_V3_SVA and, in a group with bridges, 6.12.93, 6.15 or newer. A host with its IOMMU \
           off has 1:1 DMA, which is right on bare metal.",
    why: "CUDA's documentation calls GPUDirect RDMA incompatible with any translation but 1:1. On Grace before 6.11, \
          arm-smmu-v3 attaches no PASID to an identity domain, and CUDA cannot create a context. The command line proves \
          nothing: memory encryption, untrusted devices and some IOMMUs translate despite `iommu=pt`.",
    source: "handbook §4, §14.3, §14.4; Linux drivers/iommu/iommu.c; CUDA GPUDirect RDMA guide",
    how: "iommu_group of each function in /sys/bus/pci/devices, /sys/kernel/iommu_groups/N/type, /sys/class/iommu, \
          /boot/config-RELEASE or config in /usr/lib/modules/RELEASE",
    judge: mode,
};

pub(crate) const ACTIVE: Check = Check {
    id: "iommu.active",
    group: Group::Iommu,
    verifies: "an IOMMU is in use where one is needed",
    severity: Severity::Fail,
    needs_root: false,
    what: "Linux uses an IOMMU (/sys/class/iommu is not empty), or this host needs none: it is off on purpose or in the \
           firmware, and no device is assigned to a VM.",
    why: "VFIO needs an IOMMU. GPUDirect RDMA on bare metal does not: with the IOMMU off DMA is 1:1, which GPUDirect \
          Storage's documentation calls the best case.",
    source: "handbook §4, §14.4",
    how: "names in /sys/class/iommu; IOMMU arguments of the next boot; functions bound to VFIO drivers",
    judge: active,
};

fn active(input: &CheckInput<'_>) -> Judgement {
    input.topology()?;
    let iommu = &input.facts.iommu;
    let names = iommu.active.or_unread("whether an IOMMU is in use")?;
    let names = names.map(|names| names.join(", ")).unwrap_or_default();
    if !names.is_empty() {
        return Ok(Outcome::pass(format!("in use: {names}")).evidence(names, IN_USE));
    }
    let by = iommu.off_by.known();
    let guests = &input.guests;
    Ok(match guests.len() {
        0 => {
            let by = by.map(|by| format!(" (by `{by}`)")).unwrap_or_default();
            Outcome::pass(format!("the IOMMU is off{by}, and nothing here needs it: DMA is 1:1"))
                .evidence(listed(&iommu.active), IN_USE)
        }
        functions => Outcome::fail([IommuFinding::IommuOffWithGuests {
            off_by: by.cloned(),
            function_count: functions,
        }])
        .evidence(listed(&iommu.active), IN_USE),
    })
}

fn listed(names: &Reading<Vec<String>>) -> &'static str {
    match names {
        Reading::Absent => "not there",
        _ => "empty",
    }
}

/// Functions by the type of their group, or under `no group`.
type Types<'a> = BTreeMap<&'a str, Vec<&'a Function>>;

fn mode(input: &CheckInput<'_>) -> Judgement {
    let carriers = input.expect_carriers()?;
    let chip = superchip(input.facts);
    match &input.facts.iommu.active {
        Reading::Unknown(why) => return Ok(unread("whether an IOMMU is in use", why)),
        Reading::Known(active) if !active.is_empty() => {}
        // Groups decide: an IOMMU also translates if its driver lists nothing in that directory.
        _ if carriers.iter().any(|function| !matches!(function.iommu_group, Reading::Absent)) => {}
        none if matches!(chip, Superchip::No) => {
            return Ok(
                Outcome::pass("no IOMMU is in use: DMA is 1:1").evidence(listed(none), IN_USE)
            );
        }
        none => {
            return Ok(Outcome::unknown("no IOMMU is in use; this Arm CPU is not known to work without one")
                .evidence(listed(none), IN_USE)
                .hint("enable the SMMU in the firmware setup. Already on? Check that the kernel was built with \
                       CONFIG_ARM_SMMU_V3, and that its module arm_smmu_v3 is not blacklisted"));
        }
    }
    let sva = match chip {
        Superchip::No | Superchip::NotKnown(_) => &Reading::Absent,
        _ if gpus_with_pasids(input).is_empty() => &Reading::Absent,
        _ => &input.observed.smmu_sva,
    };
    if *sva == Reading::Known(false) {
        let code = IommuFinding::NoSva { gpus: addresses(&gpus_with_pasids(input)) };
        let off = format!("# {SMMU_SVA} is not set");
        return Ok(Outcome::fail([code]).evidence(off, kernel_config::PLACES));
    }
    let (types, unknown) = types(input, carriers);
    if let Some((function, why)) = unknown {
        let what = format!("the IOMMU group type of {}", function.address);
        return Ok(unread(&what, &why).all_evidence(type_evidence(&types)));
    }
    let outcome = match chip {
        Superchip::No => on_most(&types),
        Superchip::Either => on_new_grace(input, &types),
        Superchip::PassthroughNotKnown => on_grace_with_bypass(input, &types),
        Superchip::Translated => on_old_grace(input, &types),
        Superchip::NotKnown(why) => {
            unread("whether the CPU is NVIDIA's (it decides the mode)", &why)
                .all_evidence(type_evidence(&types))
        }
    };
    Ok(match sva {
        Reading::Unknown(why) if matches!(outcome.verdict, Verdict::Pass | Verdict::Warn) => {
            unread(format_args!("whether the kernel has {SMMU_SVA}=y, which CUDA needs here"), why)
                .all_evidence(outcome.evidence)
        }
        _ => outcome,
    })
}

/// Returns the host's GPUs that share memory with an NVIDIA Arm CPU, for which they need PASIDs.
fn gpus_with_pasids<'a>(input: &CheckInput<'a>) -> Vec<&'a Function> {
    input.gpus.iter().filter(|gpu| is_superchip_gpu(gpu)).copied().collect()
}

/// Returns the GPUs from [`gpus_with_pasids`] that share their IOMMU group with a bridge.
fn in_group_with_bridge<'a>(input: &CheckInput<'a>) -> Vec<&'a Function> {
    let Some(tree) = input.facts.pci.known() else { return Vec::new() };
    let bridges = tree.functions.values().filter(|function| function.is_bridge());
    let groups: BTreeSet<u32> =
        bridges.filter_map(|bridge| bridge.iommu_group.known().copied()).collect();
    let mut gpus = gpus_with_pasids(input);
    gpus.retain(|gpu| gpu.iommu_group.known().is_some_and(|group| groups.contains(group)));
    gpus
}

fn types<'a>(
    input: &'a CheckInput<'_>,
    carriers: Vec<&'a Function>,
) -> (Types<'a>, Option<(&'a Function, Reason)>) {
    let (mut types, mut unknown) = (Types::new(), None);
    for function in carriers {
        let kind = match &function.iommu_group {
            Reading::Absent => Ok("no group"),
            Reading::Unknown(why) => Err(why.clone()),
            Reading::Known(group) => match input.facts.iommu.groups.get(group) {
                Some(Reading::Known(kind)) if kind != "unknown" => Ok(kind.as_str()),
                Some(Reading::Unknown(why)) => Err(why.clone()),
                Some(Reading::Known(_)) => Err("the kernel reports `unknown`".into()),
                Some(Reading::Absent) | None => Err("Linux shows it only from 5.11 on".into()),
            },
        };
        match kind {
            Ok(kind) => types.entry(kind).or_default().push(function),
            Err(why) => drop(unknown.get_or_insert((function, why))),
        }
    }
    (types, unknown)
}

fn type_evidence(types: &Types<'_>) -> Vec<Evidence> {
    let row = |(kind, functions): (&&str, &Vec<&Function>)| {
        Evidence::new(format!("{kind}: {}", carriers(functions).counted()), GROUPS)
    };
    types.iter().map(row).collect()
}

fn carriers(functions: &[&Function]) -> Carriers {
    let such = |test: fn(&Function) -> bool| -> Vec<PciAddress> {
        addresses(functions.iter().filter(|function| test(function)))
    };
    Carriers {
        gpus: such(|function| function.is_gpu()),
        nics: such(|function| function.is_nic() && !function.is_vf()),
        data_direct: such(|function| function.is_data_direct()),
        vfs: such(|function| function.is_nic() && function.is_vf()),
    }
}

fn format_types(types: &Types<'_>) -> String {
    let words =
        types.iter().map(|(kind, functions)| format!("{}: {kind}", carriers(functions).counted()));
    words.collect::<Vec<_>>().join("; ")
}

/// Whether the kernel translates DMA in groups of this type.
fn is_translated(kind: &str) -> bool {
    matches!(kind, "DMA" | "DMA-FQ")
}

fn passes(kind: &str) -> bool {
    matches!(kind, "identity" | "no group")
}

/// Returns the functions in groups of matching types.
fn of_types<'a>(types: &Types<'a>, is_wanted: impl Fn(&str) -> bool) -> Vec<&'a Function> {
    let wanted = types.iter().filter(|(kind, _)| is_wanted(kind));
    wanted.flat_map(|(_, functions)| functions).copied().collect()
}

fn on_most(types: &Types<'_>) -> Outcome {
    if let Some((kind, functions)) =
        types.iter().find(|(kind, _)| !passes(kind) && !is_translated(kind))
    {
        return Outcome::unknown(format!(
            "{} in IOMMU groups of type {kind}, which does not show how the host's own DMA is handled",
            named(functions, "functions")
        ))
        .all_evidence(type_evidence(types));
    }
    let translated = of_types(types, is_translated);
    if translated.is_empty() {
        return Outcome::pass(format!("1:1 DMA: {}", format_types(types)))
            .all_evidence(type_evidence(types));
    }
    Outcome::fail([IommuFinding::DmaTranslated {
        carriers: carriers(&translated),
        mixed: types.keys().any(|kind| passes(kind)),
    }])
    .all_evidence(type_evidence(types))
}

/// Returns the outcome for GPUs in a group with bridges, if the kernel refuses PASIDs to them or may do so. That does
/// not depend on the mode.
fn without_pasids(input: &CheckInput<'_>, types: &Types<'_>) -> Option<Outcome> {
    let os = &input.facts.os;
    let gpus = in_group_with_bridge(input);
    let release = os.kernel.known().filter(|_| !gpus.is_empty())?;
    let outcome = match pasids_in_shared_group(release, os) {
        SharedGroup::Accepted => return None,
        SharedGroup::Refused => {
            Outcome::fail([IommuFinding::PasidsRefused { gpus: addresses(&gpus) }])
        }
        SharedGroup::NotKnown => Outcome::unknown(format!(
            "cannot tell whether CUDA works on {}, in an IOMMU group with bridges: Linux {release} gives such groups no \
             PASIDs unless its vendor took commit b3f6fcd8404f",
            named(&gpus, "GPUs")
        ))
        .hint(
            "remove `pci=config_acs=` from the command line (if bedplate wrote it: set acs.persistence = \"auto\", run \
             `bedplate apply`), reboot. Do CUDA programs run here? Then set [verify.severity] \"iommu.mode\" = { level = \
             \"warn\", reason = \"…\" } in the profile instead",
        ),
    };
    Some(outcome.all_evidence(type_evidence(types)))
}

fn on_new_grace(input: &CheckInput<'_>, types: &Types<'_>) -> Outcome {
    if let Some(outcome) = without_pasids(input, types) {
        return outcome;
    }
    Outcome::pass(format!(
        "{}: Linux 6.11 and later works in either mode on this NVIDIA Arm CPU",
        format_types(types)
    ))
    .all_evidence(type_evidence(types))
}

/// Evaluates a kernel that may have NVIDIA's bypass. The bypass does not help in a group with bridges.
fn on_grace_with_bypass(input: &CheckInput<'_>, types: &Types<'_>) -> Outcome {
    let through = of_types(types, |kind| !is_translated(kind));
    if through.is_empty() || !in_group_with_bridge(input).is_empty() {
        return on_old_grace(input, types);
    }
    let text = format!(
        "the SMMU passes the DMA of {} through; cannot tell whether CUDA works with that on this kernel: linux-nvidia 6.8 \
         has a bypass of its own since August 2024 (NVIDIA/NV-Kernels pull requests 22 and 23)",
        carriers(&through).counted()
    );
    Outcome::unknown(text).all_evidence(type_evidence(types)).hint(
        "run a CUDA program. If it creates no context, set [iommu] mode = \"auto\" in the profile, run `bedplate apply`, \
         reboot",
    )
}

fn on_old_grace(input: &CheckInput<'_>, types: &Types<'_>) -> Outcome {
    let through = of_types(types, |kind| !is_translated(kind));
    if through.is_empty() {
        if let Some(outcome) = without_pasids(input, types) {
            return outcome;
        }
        let text =
            format!("translated, as this Arm CPU needs before Linux 6.11: {}", format_types(types));
        return Outcome::pass(text).all_evidence(type_evidence(types));
    }
    Outcome::fail([IommuFinding::DmaPassesThrough { carriers: carriers(&through) }])
        .all_evidence(type_evidence(types))
}
