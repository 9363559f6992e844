//! Settings of the firmware, as far as Linux can see them (handbook §11).

use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Check, CheckInput, Evidence, FirmwareFinding, Group, Judgement, Outcome, Severity,
};
use super::{addresses, size};
use bedplate_base::{Arch, Reading, counted};
use bedplate_facts::pci::{Bar, Function};
use bedplate_facts::rebar;

const TABLES: &str = "/sys/firmware/acpi/tables";
const IN_USE: &str = "/sys/class/iommu";
/// include/linux/ioport.h.
const IORESOURCE_UNSET: u64 = 0x2000_0000;
const IORESOURCE_MEM: u64 = 0x200;
const FOUR_GIB: u64 = 1 << 32;
/// Window size of NVIDIA GPUs without resizing; smaller windows are for registers.
const SMALL_WINDOW: u64 = 256 << 20;

pub(crate) const IOMMU: Check = Check {
    id: "firmware.iommu",
    group: Group::Firmware,
    verifies: "the firmware provides an IOMMU where one is needed",
    severity: Severity::Fail,
    needs_root: false,
    what: "An ACPI table describes an IOMMU: DMAR (VT-d), IVRS (AMD-Vi), or IORT with an SMMU; or an IOMMU is in use, \
           which a device tree can describe. Otherwise no kernel argument can enable an IOMMU. This fails only if devices \
           are assigned to VMs (VFIO): bare metal needs 1:1 DMA, and has it.",
    why: "VFIO needs an IOMMU. GPUDirect RDMA on bare metal does not.",
    source: "handbook §4, §11, §14.4",
    how: "names in /sys/firmware/acpi/tables, and IORT there (as root) if no IOMMU is in use; names in \
          /sys/class/iommu; functions bound to VFIO drivers",
    judge: iommu,
};

fn iommu(input: &CheckInput<'_>) -> Judgement {
    input.topology()?;
    let guests = &input.guests;
    let iommu = &input.facts.iommu;
    if let Reading::Known(table) = &iommu.firmware {
        let text = format!("the firmware provides one ({table})");
        return Ok(Outcome::pass(text).evidence(table, TABLES));
    }
    if let Some(units) = iommu.active.known().filter(|units| !units.is_empty()) {
        return Ok(Outcome::pass("one is in use, so the firmware describes it")
            .evidence(units.join(", "), IN_USE));
    }
    let arch = input.facts.arch.known().copied();
    let missing = match arch {
        Some(Arch::Aarch64) => "no IORT with an SMMU",
        _ => "no DMAR, IVRS or IORT",
    };
    Ok(match &iommu.firmware {
        Reading::Unknown(why) => unread("the IOMMU table of the firmware", why),
        _ if guests.is_empty() => Outcome::pass(
            "the firmware provides no IOMMU: DMA is 1:1, which is all that bare metal needs",
        )
        .evidence(missing, TABLES),
        _ => {
            let functions = guests.clone();
            Outcome::fail([FirmwareFinding::NoIommuInFirmware { functions, arch }])
                .evidence(missing, TABLES)
        }
    })
}

pub(crate) const ABOVE_4G: Check = Check {
    id: "firmware.above-4g",
    group: Group::Firmware,
    verifies: "the memory windows of GPUs have addresses, the large ones above 4 GiB",
    severity: Severity::Fail,
    needs_root: false,
    what: "Every memory window (BAR) of every GPU has an address. A window of 256 MiB or more below 4 GiB is a warning.",
    why: "Without Above 4G Decoding, windows of many GiB do not fit: the driver rejects the GPU, or GPUDirect finds no \
          window to register memory in.",
    source: "handbook §6.1, §11; Linux drivers/pci/setup-res.c",
    how: "resource of each GPU in /sys/bus/pci/devices: start, end, flags",
    judge: above_4g,
};

fn has_no_address(bar: &Bar) -> bool {
    bar.flags & IORESOURCE_UNSET != 0 || bar.start == 0
}

fn above_4g(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    let bars = |gpu: &&Function| -> Vec<Bar> {
        let bars = gpu.detail.iter().flat_map(|detail| &detail.bars);
        bars.filter(|bar| bar.index < 6 && bar.flags & IORESOURCE_MEM != 0).cloned().collect()
    };
    let has = |wanted: fn(&Bar) -> bool| -> Vec<&Function> {
        gpus.iter().filter(|gpu| bars(gpu).iter().any(wanted)).copied().collect()
    };
    let without = has(has_no_address);
    let low = has(|bar| bar.size >= SMALL_WINDOW && bar.start < FOUR_GIB);
    let at = |gpu: &Function| gpu.attribute("resource");
    if let Some(first) = without.first() {
        let unset = bars(first).into_iter().find(has_no_address);
        let what = unset.map_or(String::new(), |bar| {
            format!("window {} of {} has no address", bar.index, size(bar.size))
        });
        let gpus = addresses(&without);
        return Ok(Outcome::fail([FirmwareFinding::WindowWithoutAddress { gpus }])
            .evidence(what, at(first)));
    }
    if let Some(first) = gpus.iter().find(|gpu| bars(gpu).is_empty()) {
        return Ok(Outcome::unknown(format!("GPU {} shows no memory window", first.address))
            .evidence("no memory window listed, or unreadable", at(first))
            .hint("check `dmesg | grep -i BAR`: the kernel drops windows that get no address"));
    }
    if let Some(outcome) = dropped_window(gpus) {
        return Ok(outcome);
    }
    if let Some(first) = low.first() {
        let gpus = addresses(&low);
        return Ok(Outcome::warn([FirmwareFinding::WindowBelow4Gib { gpus }])
            .evidence("starts below 4 GiB", at(first)));
    }
    Ok(Outcome::pass(format!(
        "all windows of {} have addresses, the large ones above 4 GiB",
        counted(gpus.len(), "GPU")
    ))
    .all_evidence(gpus.first().and_then(|gpu| {
        let bar = rebar::largest(gpu)?;
        Some(Evidence::new(
            format!("window {}: {} at {:#x}", bar.index, size(bar.size), bar.start),
            at(gpu),
        ))
    })))
}

/// Reports a window that the kernel had no room for: the kernel drops it, and shows only the rest.
fn dropped_window(gpus: &[&Function]) -> Option<Outcome> {
    let of_siblings = |gpu: &Function| {
        let same = gpus.iter().filter(|one| (one.vendor, one.device) == (gpu.vendor, gpu.device));
        same.filter_map(|one| rebar::largest(one)).map(|bar| bar.size).max().unwrap_or_default()
    };
    let own = |gpu: &Function| rebar::largest(gpu).map_or(0, |bar| bar.size);
    let dropped: Vec<&Function> = gpus
        .iter()
        .filter(|gpu| own(gpu) < SMALL_WINDOW && own(gpu) < of_siblings(gpu))
        .copied()
        .collect();
    if let Some(first) = dropped.first() {
        return Some(
            Outcome::fail([FirmwareFinding::WindowDropped { gpus: addresses(&dropped) }]).evidence(
                format!("the largest: {} of {}", size(own(first)), size(of_siblings(first))),
                first.attribute("resource"),
            ),
        );
    }
    if let Some(first) = gpus.iter().find(|gpu| own(gpu) < SMALL_WINDOW) {
        return Some(Outcome::unknown(format!(
            "GPU {} shows no memory window of 256 MiB or more: it has none, or the kernel dropped it for lack of space",
            first.address
        ))
        .evidence(format!("the largest: {}", size(own(first))), first.attribute("resource"))
        .hint("check `lspci -vv` for disabled `Region` lines, and `dmesg | grep -i BAR` for windows without an address"));
    }
    None
}

pub(crate) const SRIOV_RESOURCES: Check = Check {
    id: "firmware.sriov-resources",
    group: Group::Firmware,
    verifies: "the VFs of RDMA NICs have memory windows",
    severity: Severity::Warn,
    needs_root: false,
    what: "Every RDMA NIC that supports VFs has memory windows for them.",
    why: "With SR-IOV off in the firmware setup, or too little space below a bridge, these windows have no address, and \
          creating VFs fails with ENOMEM.",
    source: "handbook §6.1, §11; Linux drivers/pci/iov.c",
    how: "lines 8 to 13 of resource, and sriov_totalvfs, of each PF in /sys/bus/pci/devices",
    judge: sriov_resources,
};

fn sriov_resources(input: &CheckInput<'_>) -> Judgement {
    let nics = input.some_rdma_pfs()?;
    let mut pfs: Vec<&Function> = Vec::new();
    for nic in nics {
        let what = format!("the number of VFs that NIC {} supports", nic.address);
        let pf = nic.sriov.or_unread(&what)?;
        let total = pf.map_or(Ok(None), |pf| pf.total.or_unread(&what))?;
        pfs.extend(total.is_some_and(|total| *total > 0).then_some(nic));
    }
    if pfs.is_empty() {
        return Ok(Outcome::not_applicable("no RDMA NIC that supports VFs (sriov_totalvfs)"));
    }
    let bars =
        |pf: &&Function| pf.detail.as_ref().map_or(&[][..], |detail| &detail.bars[..]).to_vec();
    if let Some(unseen) = pfs.iter().find(|pf| bars(pf).is_empty()) {
        return Ok(Outcome::unknown(format!("NIC {} shows no memory window", unseen.address))
            .evidence("no memory window listed, or unreadable", unseen.attribute("resource")));
    }
    let is_placed = |bar: &Bar| bar.index >= 7 && !has_no_address(bar);
    let without: Vec<&Function> =
        pfs.iter().filter(|pf| !bars(pf).iter().any(is_placed)).copied().collect();
    Ok(match without.first() {
        None => Outcome::pass(format!("{} with windows for VFs", counted(pfs.len(), "PF")))
            .evidence("windows for VFs", pfs[0].attribute("resource")),
        Some(first) => {
            Outcome::warn([FirmwareFinding::NoWindowForVfs { nics: addresses(&without) }])
                .evidence("no window with an address in lines 8 to 13", first.attribute("resource"))
        }
    })
}

pub(crate) const ARI: Check = Check {
    id: "firmware.ari",
    group: Group::Firmware,
    verifies: "ports above NICs forward ARI, so that more than seven VFs fit on a bus",
    severity: Severity::Warn,
    needs_root: true,
    what: "The port above every RDMA NIC that supports more than seven VFs forwards ARI (device control 2, bit 5).",
    why: "Without ARI, a VF beyond the eighth function needs a bus number of its own, which bridges often have not reserved: \
          creating VFs fails.",
    source: "handbook §7, §11; Linux drivers/pci/iov.c",
    how: "PCI Express capability of the port above, in its config space",
    judge: ari,
};

fn ari(input: &CheckInput<'_>) -> Judgement {
    let tree = input.topology()?.tree();
    let (mut right, mut wrong, mut unknown) = (0, Vec::new(), None);
    for nic in input.some_rdma_pfs()? {
        let many =
            nic.sriov.known().is_some_and(|pf| pf.total.known().is_some_and(|total| *total > 7));
        let Some(port) = nic.parent.and_then(|port| tree.get(port)).filter(|_| many) else {
            continue;
        };
        match port.detail.as_ref().map(|detail| &detail.control) {
            Some(Reading::Known(control)) => match control.ari_forwarding {
                Some(true) => right += 1,
                _ => wrong.push(port),
            },
            Some(Reading::Unknown(why)) => drop(unknown.get_or_insert((port, why))),
            Some(Reading::Absent) | None => {}
        }
    }
    if let Some(first) = wrong.first() {
        let ports = addresses(&wrong);
        return Ok(Outcome::warn([FirmwareFinding::NoAriForwarding { ports }])
            .evidence("device control 2: bit 5 is 0", first.attribute("config")));
    }
    Ok(match (unknown, right) {
        (Some((port, why)), _) => {
            unread(format_args!("device control 2 of port {}", port.address), why)
        }
        (None, 0) => Outcome::not_applicable("no RDMA NIC that supports more than seven VFs"),
        (None, count) => {
            Outcome::pass(format!("{} above RDMA NICs, all forward ARI", counted(count, "port")))
        }
    })
}

pub(crate) const NUMA: Check = Check {
    id: "firmware.numa",
    group: Group::Firmware,
    verifies: "the firmware reports the NUMA node of GPUs and NICs",
    severity: Severity::Warn,
    needs_root: false,
    what: "On a host with more than one NUMA node, every GPU and RDMA NIC has a node; -1 means that the firmware reports \
           none.",
    why: "Without it, NCCL places such a device on a node of its own, far from all others, and jobs are pinned to the wrong \
          CPUs.",
    source: "handbook §6.1, §8.3, §11",
    how: "numa_node of each function in /sys/bus/pci/devices; /sys/devices/system/node/online",
    judge: numa,
};

fn numa(input: &CheckInput<'_>) -> Judgement {
    input.topology()?;
    let Some(nodes) = input.facts.cpu.nodes.or_unread("the NUMA nodes of the host")? else {
        return Ok(Outcome::not_applicable("the kernel does not support NUMA"));
    };
    let online = "/sys/devices/system/node/online";
    if !nodes.contains(['-', ',']) {
        return Ok(Outcome::not_applicable("one NUMA node").evidence(nodes, online));
    }
    let devices = input.expect_carriers()?;
    let none: Vec<&Function> = devices
        .iter()
        .filter(|function| function.numa_node.known().is_some_and(|node| *node < 0))
        .copied()
        .collect();
    if let Some(first) = none.first() {
        let (functions, arch) = (addresses(&none), input.facts.arch.known().copied());
        return Ok(Outcome::warn([FirmwareFinding::NoNumaNode { functions, arch }])
            .evidence("-1", first.attribute("numa_node"))
            .evidence(nodes, online));
    }
    Ok(match devices.iter().find(|function| function.numa_node.known().is_none()) {
        Some(unread) => {
            Outcome::unknown(format!("the NUMA node of {} is unreadable", unread.address))
                .evidence("unreadable", unread.attribute("numa_node"))
        }
        None => Outcome::pass(format!("{} devices have a NUMA node", devices.len()))
            .evidence(nodes, online),
    })
}
