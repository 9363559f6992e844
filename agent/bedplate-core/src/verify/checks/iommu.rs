//! The IOMMU: whether it is present, in use, and in the right mode for the functions that carry GPUDirect traffic.

use std::collections::BTreeMap;

use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Carriers, Check, CheckInput, Evidence, Group, IommuFinding, Judgement, Outcome, Severity,
};
use super::{addresses, named};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, Reason};
use bedplate_facts::pci::Function;
use bedplate_facts::superchip::{Superchip, superchip};

const GROUPS: &str = "/sys/kernel/iommu_groups/*/type";
const IN_USE: &str = "/sys/class/iommu";

pub(crate) const MODE: Check = Check {
    id: "iommu.mode",
    group: Group::Iommu,
    verifies: "the IOMMU handles the DMA of GPUs and NICs as GPUDirect needs it",
    severity: Severity::Fail,
    needs_root: false,
    what: "The IOMMU group type of every GPU, RDMA NIC and VF used by the host itself: `identity` (passthrough) or no group \
           is right; `DMA` and `DMA-FQ` mean translation. On Arm CPUs of NVIDIA with a kernel before 6.11 the reverse holds; \
           from 6.11 on both are right. A host with its IOMMU off has 1:1 DMA, which is right on bare metal.",
    why: "CUDA's documentation calls GPUDirect RDMA incompatible with any translation but 1:1. On Grace before 6.11, \
          arm-smmu-v3 attaches no PASID to an identity domain, and CUDA cannot create a context. The command line proves \
          nothing: memory encryption, untrusted devices and some IOMMUs translate despite `iommu=pt`.",
    source: "handbook §4, §14.3, §14.4; Linux drivers/iommu/iommu.c; CUDA GPUDirect RDMA guide",
    how: "iommu_group of each function in /sys/bus/pci/devices, /sys/kernel/iommu_groups/N/type, /sys/class/iommu",
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
                .hint("remove `iommu.passthrough` and other arguments that disable the SMMU from the command line, then \
                       reboot"));
        }
    }
    let (types, unknown) = types(input, carriers);
    if let Some((function, why)) = unknown {
        let what = format!("the IOMMU group type of {}", function.address);
        return Ok(unread(&what, &why).all_evidence(type_evidence(&types)));
    }
    Ok(match chip {
        Superchip::No => on_most(&types),
        Superchip::Either => Outcome::pass(format!(
            "{}: Linux 6.11 and later works in either mode on this NVIDIA Arm CPU",
            format_types(&types)
        ))
        .all_evidence(type_evidence(&types)),
        Superchip::Translated => on_old_grace(&types),
        Superchip::NotKnown(why) => {
            unread("whether the CPU is NVIDIA's (it decides the mode)", &why)
                .all_evidence(type_evidence(&types))
        }
    })
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

fn on_old_grace(types: &Types<'_>) -> Outcome {
    let through = of_types(types, |kind| !is_translated(kind));
    if through.is_empty() {
        let text =
            format!("translated, as this Arm CPU needs before Linux 6.11: {}", format_types(types));
        return Outcome::pass(text).all_evidence(type_evidence(types));
    }
    Outcome::fail([IommuFinding::DmaPassesThrough { carriers: carriers(&through) }])
        .all_evidence(type_evidence(types))
}
