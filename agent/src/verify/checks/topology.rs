//! Where GPUs and NICs are.

use super::super::evidence::unread;
use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::{FEW, counted, named};
use crate::facts::pci::Function;
use crate::kind::cmdline::{Superchip, superchip};
use crate::kind::some_of;
use crate::topology::{Distance, Peer};

/// `topology.devices`.
pub const DEVICES: Check = Check {
    id: "topology.devices",
    group: Group::Topology,
    proves: "Linux sees a GPU and an RDMA NIC",
    severity: Severity::Fail,
    needs_root: false,
    explain: Explain {
        what: "There is at least one GPU, and at least one NIC that may carry RDMA: one with an RDMA device, a ConnectX, or \
               one below a switch that it shares with a GPU. Those that guests have (VFIO) do not count.",
        why: "A GPU that has fallen off the bus, or a NIC that the firmware has switched off, is missing here first; \
              nothing else can be right without them.",
        source: "handbook §6.1",
        how: "class, vendor and driver of every function in /sys/bus/pci/devices",
    },
    judge: devices,
};

fn devices(evidence: &Evidence<'_>) -> Judgement {
    let tree = evidence.topology()?.tree();
    let (gpus, nics) = (&evidence.gpus, &evidence.rdma_nics);
    let count = tree.functions.len();
    let at = "/sys/bus/pci/devices";
    let of_count = counted(count, "PCI function");
    // One that cannot be read may be a GPU: those that are seen need not be all there are.
    if let Some(gap) = tree.unread().first() {
        let unreadable = tree.unread().len();
        let what = format!("what {} is", gap.address);
        let what = match unreadable {
            1 => what,
            _ => format!("{what}, and {} more", counted(unreadable - 1, "PCI function")),
        };
        return Ok(unread(&what, &gap.reason).seen(of_count, at));
    }
    if !gpus.is_empty() && !nics.is_empty() {
        let vfs = nics.iter().filter(|nic| nic.is_vf()).count();
        let pfs = nics.len() - vfs;
        let of_nics = match vfs {
            0 => String::new(),
            _ => format!(", {}", counted(vfs, "VF")),
        };
        let text = format!("{}, {}{of_nics}", counted(gpus.len(), "GPU"), counted(pfs, "RDMA NIC"));
        return Ok(Outcome::pass(text).seen(of_count, at));
    }
    let of_guests = tree.functions.values().filter(|function| function.is_gpu() && function.vfio);
    let of_guests = of_guests.count();
    if gpus.is_empty() && of_guests > 0 {
        let text = format!(
            "{} with guests (VFIO), and none that the host itself uses: ask in the guests",
            counted(of_guests, "GPU")
        );
        return Ok(Outcome::not_applicable(text).seen(of_count, at));
    }
    let guests = evidence.guests.len();
    let besides = match guests {
        0 => String::new(),
        _ => format!(", but for {} that guests have", counted(guests, "function")),
    };
    let (missing, remedy) = match gpus.is_empty() {
        true => (
            "no GPU",
            "if this host should have one: `dmesg | grep -iE 'xid|fallen off|link down'` and the event log of the BMC; then power \
             the host off and on",
        ),
        false => (
            "no NIC that carries RDMA",
            "if this host should have one: `dmesg | grep -iE 'mlx5|link down'` and the event log of the BMC",
        ),
    };
    Ok(Outcome::fail(format!("{missing} among {count} PCI functions{besides}"))
        .seen(format!("{}, {}", counted(gpus.len(), "GPU"), counted(nics.len(), "RDMA NIC")), at)
        .remedy(remedy))
}

/// `topology.pairing`.
pub const PAIRING: Check = Check {
    id: "topology.pairing",
    group: Group::Topology,
    proves: "every GPU has an RDMA NIC near enough for GPUDirect RDMA by NCCL's default",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "The nearest RDMA NIC of each GPU is below the same switches (PIX, PXB), or is reached through its Data Direct \
               function. On Arm CPUs of NVIDIA with GPUs on them (C2C) the same NUMA node will do.",
        why: "By default NCCL uses GPUDirect RDMA up to PXB, and P2C on such superchips; beyond it stages in host memory. The \
              layout of a machine cannot be changed, so this is a warning: what to expect of its bandwidth.",
        source: "handbook §8.1, §8.3, §8.4",
        how: "places in the PCI tree, port types, numa_node",
    },
    judge: pairing,
};

fn pairing(evidence: &Evidence<'_>) -> Judgement {
    let topology = evidence.topology()?;
    let (gpus, nics) = (&evidence.gpus, &evidence.rdma_nics);
    if gpus.is_empty() || nics.is_empty() {
        return Ok(Outcome::not_applicable("no GPU and RDMA NIC that the host itself uses"));
    }
    let pairs = topology.pairs();
    let has_data_direct = |gpu: &Function| {
        pairs.iter().any(|pair| pair.gpu == gpu.address && pair.kind == Peer::DataDirect)
    };
    let nearest = |gpu: &Function| {
        let distance = |nic: &&Function| topology.distance(gpu.address, nic.address);
        let least = nics.iter().map(distance).min()?;
        let near = nics.iter().filter(|nic| distance(nic) == least);
        Some((least, near.map(|nic| nic.address.to_string()).collect::<Vec<_>>()))
    };
    let reach = match superchip(evidence.facts) {
        Superchip::No => Distance::Pxb,
        _ => Distance::Node,
    };
    let (mut far, mut unknown, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for gpu in gpus.iter().filter(|gpu| !has_data_direct(gpu)) {
        let Some((distance, near)) = nearest(gpu) else { continue };
        let near = some_of(near.into_iter(), FEW, "NICs");
        seen.push(Seen {
            what: format!("GPU {}: {distance} to NIC {near}", gpu.address),
            at: "places in /sys/bus/pci/devices".to_owned(),
        });
        match distance {
            Distance::Unknown => unknown.push(*gpu),
            distance if distance > reach => far.push(*gpu),
            _ => {}
        }
    }
    if !far.is_empty() {
        return Ok(Outcome::warn(format!(
            "GPU {}: no RDMA NIC below the same switches, so that NCCL stages in host memory by default",
            named(&far, "GPUs")
        ))
        .all_seen(seen)
        .remedy(
            "measure with `NCCL_NET_GDR_LEVEL=PHB` before it is set for jobs: beyond a switch it depends on the root complex \
             whether direct transfers are faster",
        ));
    }
    Ok(match unknown.is_empty() {
        false => Outcome::unknown(format!(
            "how far GPU {} is from RDMA NICs is not known: the firmware names no NUMA node",
            named(&unknown, "GPUs")
        ))
        .all_seen(seen),
        true => Outcome::pass(format!(
            "an RDMA NIC near enough to each of {}",
            counted(gpus.len(), "GPU")
        ))
        .all_seen(seen),
    })
}
