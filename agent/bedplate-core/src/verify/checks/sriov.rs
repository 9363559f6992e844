//! Virtual functions: whether all exist, have a driver, and have unique addresses. The profile decides how many there
//! should be.

use std::collections::{BTreeMap, BTreeSet};

use super::super::unread::{OrUnread as _, some, unread};
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, Outcome, Severity, SriovFinding, Verdict,
};
use super::addresses;
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::{Function, PciTree, SriovPf};
use bedplate_facts::vfs::{AddressKind, NicAddress};

/// Class and subclass of InfiniBand controllers.
const INFINIBAND: u32 = 0x0207;

pub(crate) const COUNTS: Check = Check {
    id: "sriov.counts",
    group: Group::SrIov,
    verifies: "every VF that a PF reports exists",
    severity: Severity::Fail,
    needs_root: false,
    what: "For each PF, the number of VFs among the PCI functions equals sriov_numvfs. `profile.in-effect` checks whether it \
           is the desired number.",
    why: "Device plugins and operators rely on sriov_numvfs. A VF that was removed, or fell off the bus, is assigned to a \
          job, which then does not start.",
    source: "handbook §5.1; Linux drivers/pci/iov.c",
    how: "sriov_numvfs and virtfn* of each PF; /sys/bus/pci/devices",
    judge: counts,
};

pub(crate) const DRIVERS: Check = Check {
    id: "sriov.drivers",
    group: Group::SrIov,
    verifies: "VFs of NICs have a driver or are reserved for VMs, and those of RDMA NICs have an RDMA device",
    severity: Severity::Fail,
    needs_root: false,
    what: "Every VF of a NIC is bound to a driver, including VFIO. If the PF has an RDMA device and the VF a network driver, \
           the VF has an RDMA device too, possibly in another namespace (a container's). With sriov_drivers_autoprobe 0, a \
           VF without a driver is a warning: it may be waiting for a VM.",
    why: "A VF without its RDMA device gives a pod a network interface but no RDMA: NCCL falls back to sockets.",
    source: "handbook §5.1, §5.2",
    how: "DRIVER= in uevent and infiniband/ of each VF; sriov_drivers_autoprobe of its PF",
    judge: drivers,
};

pub(crate) const IDENTITY: Check = Check {
    id: "sriov.identity",
    group: Group::SrIov,
    verifies: "VFs used by the host have unique addresses",
    severity: Severity::Fail,
    needs_root: false,
    what: "The node GUID of every VF's RDMA device and the MAC of every Ethernet VF are not zero, and not those of another \
           VF or PF. Ports of a bond are excluded: they show the bond's MAC. A zero GUID on Ethernet is a warning.",
    why: "An InfiniBand VF without a GUID stays down: the subnet manager rejects it. Two VFs with the same address take each \
          other's traffic. VFs have no address of their own: it must be set before the driver binds.",
    source: "handbook §5.2",
    how: "/sys/class/infiniband/*/node_guid, /sys/class/net/*/address; snapshots have them masked, equal ones alike",
    judge: identity,
};

fn pfs(tree: &PciTree) -> impl Iterator<Item = (&Function, &SriovPf)> {
    tree.functions.values().filter_map(|function| Some((function, function.sriov.known()?)))
}

fn counts(input: &CheckInput<'_>) -> Judgement {
    let tree = input.topology()?.tree();
    let (mut all, mut with, mut short, mut unknown) = (0, 0, Vec::new(), None);
    for (function, pf) in pfs(tree) {
        let enabled = match &pf.enabled {
            Reading::Known(0) | Reading::Absent => continue,
            Reading::Known(enabled) => usize::from(*enabled),
            Reading::Unknown(why) => {
                unknown.get_or_insert((function, why));
                continue;
            }
        };
        let listed = |vf: &&_| {
            tree.get(**vf).is_some() || tree.gaps.iter().any(|gap| gap.whole && gap.address == **vf)
        };
        let there = pf.vfs.iter().filter(listed).count();
        (all, with) = (all + enabled, with + 1);
        if there != enabled {
            short.push((function, there, enabled));
        }
    }
    if !short.is_empty() {
        let pfs = short.iter().map(|(function, ..)| function.address).collect();
        return Ok(Outcome::fail([SriovFinding::VfsGone { pfs }]).all_evidence(short.iter().map(
            |(function, there, enabled)| {
                Evidence::new(format!("{there} of {enabled}"), function.attribute("sriov_numvfs"))
            },
        )));
    }
    Ok(match (unknown, all) {
        (Some((function, why)), _) => {
            unread(format_args!("the number of VFs of PF {}", function.address), why)
        }
        (None, 0) => Outcome::not_applicable("no PF has VFs"),
        (None, all) => Outcome::pass(format!("{} of {}", counted(all, "VF"), counted(with, "PF"))),
    })
}

/// Returns the VFs of NICs.
///
/// # Errors
/// The outcome to report if there is no VF.
fn vfs<'a>(input: &CheckInput<'a>) -> Result<Vec<&'a Function>, Outcome> {
    let tree = input.topology()?.tree();
    let vfs = tree.functions.values().filter(|function| function.is_vf() && function.is_nic());
    some(vfs.collect(), "no NIC has VFs")
}

fn drivers(input: &CheckInput<'_>) -> Judgement {
    let vfs = vfs(input)?;
    let tree = input.topology()?.tree();
    let pf = |vf: &Function| vf.physfn.and_then(|pf| tree.get(pf));
    let waits = |vf: &Function| {
        let pf = pf(vf).and_then(|pf| pf.sriov.known());
        pf.is_some_and(|pf| pf.autoprobe.known() == Some(&false))
    };
    let (mut bare, mut waiting, mut no_rdma, mut unknown) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    for vf in vfs.iter().copied().filter(|vf| !vf.vfio) {
        if let Some(why) = tree.unread_drivers.get(&vf.address) {
            unknown.get_or_insert((format!("the driver of VF {}", vf.address), why));
        } else if vf.driver.is_none() {
            if waits(vf) { waiting.push(vf) } else { bare.push(vf) }
        } else if vf.infiniband.is_empty() && pf(vf).is_some_and(|pf| !pf.infiniband.is_empty()) {
            match input.observed.vfs.rdma_elsewhere.get(&vf.address) {
                Some(Reading::Known(true)) => {}
                Some(Reading::Unknown(why)) => {
                    unknown.get_or_insert((format!("the RDMA device of VF {}", vf.address), why));
                }
                _ => no_rdma.push(vf),
            }
        }
    }
    if let Some(first) = bare.first() {
        return Ok(Outcome::fail([SriovFinding::VfWithoutDriver { vfs: addresses(&bare) }])
            .evidence("no DRIVER= line", first.attribute("uevent")));
    }
    if let Some(first) = no_rdma.first() {
        return Ok(Outcome::fail([SriovFinding::VfWithoutRdma { vfs: addresses(&no_rdma) }])
            .evidence(first.driver.as_deref().unwrap_or_default(), first.attribute("uevent"))
            .evidence("not there", first.attribute("infiniband")));
    }
    if let Some((what, why)) = unknown {
        return Ok(unread(&what, why));
    }
    if let Some(first) = waiting.first() {
        return Ok(Outcome::warn([SriovFinding::VfWaitsForDriver { vfs: addresses(&waiting) }])
            .evidence("no DRIVER= line", first.attribute("uevent"))
            .evidence("0", pf(first).unwrap_or(first).attribute("sriov_drivers_autoprobe")));
    }
    let guests = vfs.iter().filter(|vf| vf.vfio).count();
    let drivers: BTreeSet<&str> = vfs.iter().filter_map(|vf| vf.driver.as_deref()).collect();
    let drivers: Vec<&str> = drivers.into_iter().collect();
    let of_guests = if guests > 0 { format!(", {guests} reserved for VMs") } else { String::new() };
    Ok(Outcome::pass(format!("{}{of_guests}", counted(vfs.len(), "VF")))
        .evidence(drivers.join(", "), "uevent of each VF"))
}

fn identity(input: &CheckInput<'_>) -> Judgement {
    let vfs = vfs(input)?;
    let tree = input.topology()?.tree();
    let addresses = &input.observed.vfs.addresses;
    let vf = |address: &&NicAddress| tree.get(address.function).is_some_and(Function::is_vf);
    let is_zero = |address: &&NicAddress| {
        let zeros = |text: &String| text.bytes().all(|c| matches!(c, b'0' | b':'));
        address.value.known().is_some_and(zeros)
    };
    let (zero, whole): (Vec<_>, Vec<_>) = addresses.iter().partition(is_zero);
    let mut owners: BTreeMap<(AddressKind, &str), Vec<&NicAddress>> = BTreeMap::new();
    for address in whole {
        if let Some(value) = address.value.known() {
            owners.entry((address.kind, value)).or_default().push(address);
        }
    }
    let double = owners.values().find(|owners| owners.len() > 1 && owners.iter().any(vf));
    let shown = |address: &NicAddress, what: &str| {
        Evidence::new(format!("{}: {what}", address.function), address.path.clone())
    };
    if let Some(double) = double {
        let functions = double.iter().map(|address| address.function).collect();
        return Ok(Outcome::fail([SriovFinding::AddressesEqual { functions }])
            .all_evidence(double.iter().map(|address| shown(address, "the same"))));
    }
    let zero: Vec<&NicAddress> = zero.into_iter().filter(vf).collect();
    let is_down = |address: &&&NicAddress| {
        let infiniband = tree.get(address.function).is_some_and(|f| f.class >> 8 == INFINIBAND);
        infiniband || address.kind == AddressKind::Mac
    };
    if !zero.is_empty() {
        let codes =
            zero.iter().map(|address| SriovFinding::ZeroAddress { function: address.function });
        let verdict = match zero.iter().any(|one| is_down(&one)) {
            true => Verdict::Fail,
            false => Verdict::Warn,
        };
        return Ok(Outcome::with_findings(verdict, codes)
            .all_evidence(zero.iter().map(|address| shown(address, "zero"))));
    }
    let mut known = 0;
    for address in addresses.iter().filter(vf) {
        let value =
            address.value.or_unread(format_args!("an address of VF {}", address.function))?;
        known += usize::from(value.is_some());
    }
    Ok(match known {
        0 => Outcome::not_applicable(format!(
            "{}, none with a visible address",
            counted(vfs.len(), "VF")
        )),
        count => Outcome::pass(format!("{count} VF addresses, all unique"))
            .evidence("no zeros, no duplicates", "node_guid, address"),
    })
}
