//! Whether the devices are present: GPUs, their NICs, and the NICs' Data Direct functions.

use std::collections::{BTreeMap, BTreeSet};

use super::super::rails::{Model, model};
use super::super::unread::unread;
use super::super::{
    Check, CheckInput, DeviceFinding, DeviceKind, Evidence, Group, Judgement, Outcome, Severity,
    Verdict,
};
use super::topology::PLACES;
use bedplate_base::counted;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::{Function, PciTree, serves_guests};
use bedplate_facts::superchip::{Superchip, superchip};

pub(crate) const DEVICES: Check = Check {
    id: "topology.devices",
    group: Group::Topology,
    verifies: "Linux sees a GPU and an RDMA NIC",
    severity: Severity::Fail,
    needs_root: false,
    what: "The host has at least one GPU, and at least one RDMA-capable NIC: one with an RDMA device, a ConnectX, or one \
           below a switch that it shares with a GPU. Devices assigned to VMs (VFIO) do not count. For a host without GPUs, \
           such as a storage node, set this check to `ignore` under [verify.severity] in the profile.",
    why: "A GPU that fell off the bus, or a NIC that the firmware disabled, is missing here first; nothing else can be right \
          without them.",
    source: "handbook §6.1",
    how: "class, vendor and driver of every function in /sys/bus/pci/devices",
    judge: devices,
};

const AT: &str = "/sys/bus/pci/devices";

fn devices(input: &CheckInput<'_>) -> Judgement {
    let tree = input.topology()?.tree();
    if let Some(unknown) = may_hide_more(tree) {
        return Ok(unknown);
    }
    let (gpus, nics) = (&input.gpus, &input.rdma_nics);
    let of_count = counted(tree.functions.len(), "PCI function");
    if gpus.is_empty() || nics.is_empty() {
        return Ok(with_guests(input, tree).unwrap_or_else(|| none(input, tree)));
    }
    if let Some(missing) = missing(input)? {
        return Ok(missing);
    }
    let vfs = nics.iter().filter(|nic| nic.is_vf()).count();
    let pfs = nics.len() - vfs;
    let of_nics = match vfs {
        0 => String::new(),
        _ => format!(", {}", counted(vfs, "VF")),
    };
    let text = format!("{}, {}{of_nics}", counted(gpus.len(), "GPU"), counted(pfs, "RDMA NIC"));
    Ok(Outcome::pass(text).evidence(of_count, AT))
}

/// Reports functions that may also be GPUs or NICs of the host: the inventory may be incomplete.
fn may_hide_more(tree: &PciTree) -> Option<Outcome> {
    if let Some(gap) = tree.unread().first() {
        let what = match tree.unread().len() {
            1 => format!("type of {}", gap.address),
            count => {
                format!("type of {} and {}", gap.address, counted(count - 1, "more PCI function"))
            }
        };
        let of_count = counted(tree.functions.len(), "PCI function");
        return Some(unread(&what, &gap.reason).evidence(of_count, AT));
    }
    // A function with an unknown driver may be assigned to a VM; neither list has it.
    let is_wanted = |at: &PciAddress| {
        tree.get(*at).is_some_and(|function| function.is_gpu() || !function.infiniband.is_empty())
    };
    let (at, why) = tree.unread_drivers.iter().find(|(at, _)| is_wanted(at))?;
    Some(unread(format_args!("whether {at} is assigned to a VM"), why))
}

/// Reports GPUs or NICs that are all assigned to VMs: GPUDirect in a guest cannot be checked from here.
fn with_guests(input: &CheckInput<'_>, tree: &PciTree) -> Option<Outcome> {
    let of_guests = |is: fn(&Function) -> bool| {
        let guests = input.guests.iter().filter_map(|guest| tree.get(*guest));
        guests.filter(|function| is(function) && !function.is_vf()).count()
    };
    let (gpus, nics) = (of_guests(Function::is_gpu), of_guests(Function::is_nic));
    let what = match (input.gpus.is_empty(), input.rdma_nics.is_empty()) {
        (true, _) if gpus > 0 => counted(gpus, "GPU"),
        (_, true) if nics > 0 => counted(nics, "NIC"),
        _ => return None,
    };
    Some(
        Outcome::unknown(format!(
            "{what} assigned to VMs (VFIO), and none used by the host itself"
        ))
        .evidence(counted(tree.functions.len(), "PCI function"), AT)
        .hint("run `bedplate verify` in the guests"),
    )
}

/// Returns the outcome for a host without GPU or NIC.
fn none(input: &CheckInput<'_>, tree: &PciTree) -> Outcome {
    let kind = if input.gpus.is_empty() { DeviceKind::Gpu } else { DeviceKind::Nic };
    let (gpus, nics) = (input.gpus.len(), input.rdma_nics.len());
    let (function_count, guests) = (tree.functions.len(), input.guests.len());
    Outcome::fail([DeviceFinding::NoDevices { kind, function_count, guests }])
        .evidence(format!("{}, {}", counted(gpus, "GPU"), counted(nics, "RDMA NIC")), AT)
}

/// GPUs and NICs below one root port.
#[derive(Default)]
struct Branch<'a> {
    /// Ids of the switches above the devices; only branches with the same switches are compared.
    switches: BTreeSet<(u16, u16)>,
    gpus: Vec<&'a Function>,
    nics: Vec<&'a Function>,
}

/// Returns GPUs and their NICs by the root port above them, if there is a switch in between. Unresponsive devices
/// count.
fn branches<'a>(input: &CheckInput<'a>) -> Result<BTreeMap<PciAddress, Branch<'a>>, Outcome> {
    let tree = input.topology()?.tree();
    let mut branches: BTreeMap<PciAddress, Branch<'a>> = BTreeMap::new();
    let dead = |is: fn(&Function) -> bool| input.dead.iter().filter(move |f| is(f)).copied();
    let gpus = input.gpus.iter().copied().chain(dead(Function::is_gpu));
    let is_pf = |function: &Function| function.is_nic() && !function.is_vf();
    let nics = input.rdma_nics.iter().copied().chain(dead(Function::is_nic)).filter(|f| is_pf(f));
    let all = gpus.map(|gpu| (gpu, true)).chain(nics.map(|nic| (nic, false)));
    for (function, is_gpu) in all {
        let path = tree.path_up(function.address);
        let [.., _, root] = path[..] else { continue };
        let branch = branches.entry(root).or_default();
        let switches = path[..path.len() - 1].iter().filter_map(|at| tree.get(*at));
        branch.switches.extend(switches.map(|switch| (switch.vendor.0, switch.device.0)));
        if is_gpu { branch.gpus.push(function) } else { branch.nics.push(function) }
    }
    // Functions assigned to VMs are in none of the lists: a branch with one cannot be compared.
    let guests: Vec<PciAddress> =
        input.guests.iter().filter_map(|guest| tree.path_up(*guest).last().copied()).collect();
    branches.retain(|root, _| !guests.contains(root));
    Ok(branches)
}

/// Number of branches that must agree before a deviating one counts as incomplete.
const OTHERS: usize = 3;

fn models(functions: &[&Function]) -> Vec<Model> {
    let mut models: Vec<Model> = functions.iter().map(|function| model(function)).collect();
    models.sort();
    models
}

/// Finds branches with fewer devices of one kind than every other branch with the same devices of the other kind.
fn incomplete_branches(
    branches: &BTreeMap<PciAddress, Branch<'_>>,
    kind: DeviceKind,
) -> Vec<DeviceFinding> {
    let row = |(root, branch): (&PciAddress, &Branch<'_>)| {
        let (of, beside) = match kind {
            DeviceKind::Gpu => (&branch.gpus, &branch.nics),
            _ => (&branch.nics, &branch.gpus),
        };
        (*root, of.len(), (branch.switches.clone(), models(beside)))
    };
    let all: Vec<_> = branches.iter().map(row).collect();
    let mut found = Vec::new();
    for (root, there, shape) in all.iter().filter(|(.., (_, beside))| !beside.is_empty()) {
        let alike = all.iter().filter(|(other, _, that)| other != root && that == shape);
        let counts: Vec<usize> = alike.map(|(_, count, _)| *count).collect();
        if let (Some(usual), Some(most)) = (counts.iter().min(), counts.iter().max())
            && usual == most
            && counts.len() >= OTHERS
            && there < usual
        {
            let (root, there, usual) = (*root, *there, *usual);
            found.push(DeviceFinding::FewerDevices { kind, root, found: there, usual });
        }
    }
    found
}

/// Reports devices that every other switch of its kind has.
fn missing(input: &CheckInput<'_>) -> Result<Option<Outcome>, Outcome> {
    let branches = branches(input)?;
    let of_kind = |kind| incomplete_branches(&branches, kind);
    let codes = [of_kind(DeviceKind::Gpu), of_kind(DeviceKind::Nic)].concat();
    if codes.is_empty() {
        return Ok(None);
    }
    let seen = branches.iter().map(|(root, Branch { gpus, nics, .. })| {
        let (gpus, nics) = (counted(gpus.len(), "GPU"), counted(nics.len(), "RDMA NIC"));
        Evidence::new(format!("below {root}: {gpus}, {nics}"), PLACES)
    });
    Ok(Some(Outcome::fail(codes).all_evidence(seen)))
}

pub(crate) const DATA_DIRECT: Check = Check {
    id: "topology.data-direct",
    group: Group::Topology,
    verifies: "every ConnectX-8 of an Arm superchip has its Data Direct function, with a driver",
    severity: Severity::Fail,
    needs_root: false,
    what: "On hosts with Data Direct functions (15b3:2100), each has its driver (mlx5_ib), and each ConnectX-8 of the GPUs \
           has one. They are matched by the serial number in their Vital Product Data, or only counted if it is unreadable.",
    why: "Through that function the NIC reaches the GPU below the same switch. Without it, the traffic of that GPU goes \
          through the CPU, unlike that of the others.",
    source: "handbook §14.1; Linux drivers/infiniband/hw/mlx5/data_direct.c",
    how: "ids, driver and Vital Product Data (vpd) of each function in /sys/bus/pci/devices",
    judge: data_direct,
};

/// ConnectX-8 (pci.ids).
const CONNECTX_8: (u16, u16) = (0x15b3, 0x1023);

fn data_direct(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let tree = topology.tree();
    let all: Vec<&Function> = tree.functions.values().filter(|f| f.is_data_direct()).collect();
    let is_connectx_8 = |nic: &&&Function| (nic.vendor.0, nic.device.0) == CONNECTX_8;
    let nics = input.rdma_nics.iter().filter(|nic| !nic.is_vf());
    let nics: Vec<&Function> = nics.filter(is_connectx_8).copied().collect();
    if nics.is_empty() || all.is_empty() && matches!(superchip(input.facts), Superchip::No) {
        return Ok(Outcome::not_applicable("no ConnectX-8 with Data Direct functions"));
    }
    let without_driver = all.iter().filter(|dma| dma.driver.as_deref().is_none_or(serves_guests));
    let is_the_hosts = |nic: &PciAddress| input.rdma_nics.iter().any(|own| own.address == *nic);
    // A function whose NIC is assigned to a VM belongs to that VM.
    let hosts = |dma: &&&Function| {
        let nics = topology.nics_of(dma.address);
        nics.is_empty() || nics.iter().any(is_the_hosts)
    };
    let mut codes: Vec<DeviceFinding> = without_driver
        .filter(hosts)
        .map(|dma| DeviceFinding::DataDirectUnbound {
            device: input.device(dma),
            driver: dma.driver.clone(),
        })
        .collect();
    let owned: BTreeSet<PciAddress> =
        all.iter().flat_map(|dma| topology.nics_of(dma.address)).collect();
    let is_unpaired = |dma: &&&Function| topology.nics_of(dma.address).is_empty();
    let unpaired = all.iter().filter(is_unpaired).count();
    let lacking: Vec<&Function> =
        nics.iter().filter(|nic| !owned.contains(&nic.address)).copied().collect();
    if unpaired < lacking.len() && (unpaired == 0 || codes.is_empty()) {
        codes.extend(
            lacking.iter().map(|nic| DeviceFinding::NoDataDirect { device: input.device(nic) }),
        );
    }
    if !codes.is_empty() {
        let verdict = if all.is_empty() { Verdict::Warn } else { Verdict::Fail };
        return Ok(Outcome::with_findings(verdict, codes).all_evidence(all.iter().map(|dma| {
            Evidence::new(
                format!("{}: driver {}", dma.address, dma.driver.as_deref().unwrap_or("none")),
                dma.attribute("uevent"),
            )
        })));
    }
    Ok(Outcome::pass(format!(
        "{}, each with its driver",
        counted(all.len(), "Data Direct function")
    )))
}
