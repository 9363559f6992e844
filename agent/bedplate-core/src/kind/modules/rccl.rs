//! AMD's side of `modules.gpudirect`: RCCL's kernel requirements for registering GPU memory by DMA-BUF. There is no module
//! to load: amdgpu does it, or registers itself with an ib_core that has peer memory (handbook §6.3, §14.6).

use super::section::GpuDirect;
use crate::desired::Desired;
use crate::kind::{some_of, sysctl};
use crate::plan::{Blocker, KindId};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_facts::Facts;
use bedplate_facts::gpu::{FORCE_DMABUF, Rccl, is_amd_accelerator};

const KIND: KindId = KindId::Modules;
const SUBJECT: &str = "GPUDirect on AMD GPUs";
const MOVE_NOTIFY: &str = "CONFIG_DMABUF_MOVE_NOTIFY";
const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const SOURCE: &str = "ROCm/rccl src/misc/rocmwrap.cc, src/init.cc; handbook §14.6";

/// Adds blockers if neither path works, and notes for RCCL's warnings.
pub(super) fn resolve(asked: GpuDirect, profile: &Profile, facts: &Facts, desired: &mut Desired) {
    let Some(rccl) = &facts.gpu.rccl else { return };
    if !matches!(asked, GpuDirect::Auto | GpuDirect::Dmabuf) {
        return;
    }
    desired.blockers.extend(no_driver(facts));
    let missing = missing(rccl);
    let has_peers = facts.gpu.peer_memory_symbols == Reading::Known(true)
        || matches!(rccl.peer_client, Reading::Known(_));
    let peer = asked == GpuDirect::Auto && has_peers;
    if !missing.is_empty() && !peer {
        desired.blockers.push(blocker(&missing));
    }
    let unread = [&rccl.move_notify, &rccl.p2pdma].into_iter().find_map(|option| match option {
        Reading::Unknown(why) => Some(why.to_string()),
        Reading::Known(_) | Reading::Absent => None,
    });
    if let (Some(reason), false) = (unread, peer) {
        desired.unknowns.push(KIND.unknown(SUBJECT, reason));
    }
    let writes_pt = writes_pt(rccl, desired);
    let mut note = |text: &str| {
        let text = format!("{text} ({SOURCE})");
        desired.notes.push(KIND.note(SUBJECT, text));
    };
    if rccl.numa_balancing == Reading::Known(true) && !sysctl::sets(profile, NUMA_BALANCING, "0") {
        note(
            "kernel.numa_balancing is on, and RCCL warns about it; add [sysctl] set = { \"kernel.numa_balancing\" = 0 }",
        );
    }
    let looks_in_vain = rccl.always_notifies && rccl.move_notify == Reading::Known(false);
    if looks_in_vain && !peer && rccl.is_forced != Reading::Known(true) && !forces(profile) {
        note(
            "Linux 7.1 removed CONFIG_DMABUF_MOVE_NOTIFY, which RCCL checks before it uses DMA-BUF; add [nccl] set = { \
             RCCL_FORCE_ENABLE_DMABUF = 1 }",
        );
    }
    if rccl.says_pt == Reading::Known(false) && !writes_pt {
        note(
            "RCCL warns if iommu=pt is missing from the running command line, whatever the IOMMU mode",
        );
    }
}

/// Whether the profile forces DMA-BUF in RCCL.
fn forces(profile: &Profile) -> bool {
    profile.nccl.set.iter().any(|variable| variable.name == FORCE_DMABUF && variable.value != "0")
}

/// Whether the resolved command line sets `iommu=pt`. It is not written if the IOMMU already passes through.
fn writes_pt(rccl: &Rccl, desired: &Desired) -> bool {
    rccl.passes_through == Reading::Known(false)
        && desired.cmdline.set.iter().any(|arg| arg.token == "iommu=pt")
}

/// Returns a blocker for accelerators without a driver: RCCL cannot see them. Skips those whose driver cannot be read.
fn no_driver(facts: &Facts) -> Option<Blocker> {
    let tree = facts.pci.known()?;
    let bare = tree.functions.values().filter(|function| {
        is_amd_accelerator(function) && function.driver.is_none() && !tree.may_be_a_guests(function)
    });
    let bare: Vec<String> = bare.map(|function| function.address.to_string()).collect();
    (!bare.is_empty()).then(|| KIND.blocker(
        SUBJECT,
        format!("no driver is bound to {}", some_of(bare.into_iter(), 8, "GPUs")),
        "install and load the amdgpu driver (detected at once). Already loaded? The kernel log has the reason. Host \
         needs no driver? Set `gpudirect = \"none\"` in [modules] of the profile",
    ))
}

fn missing(rccl: &Rccl) -> Vec<&'static str> {
    let options = [(MOVE_NOTIFY, &rccl.move_notify), ("CONFIG_PCI_P2PDMA", &rccl.p2pdma)];
    let off = options.into_iter().filter(|(_, set)| **set == Reading::Known(false));
    let off = off.filter(|(name, _)| !(rccl.always_notifies && *name == MOVE_NOTIFY));
    off.map(|(name, _)| name).collect()
}

fn blocker(missing: &[&str]) -> Blocker {
    KIND.blocker(
        SUBJECT,
        format!(
            "the running kernel was built without {}, which RCCL requires for DMA-BUF ({SOURCE})",
            missing.join(" and ")
        ),
        format!(
            "boot a kernel with {}, or install DOCA-OFED/MLNX_OFED, so that amdgpu registers GPU memory itself. Host \
             needs neither? Set `gpudirect = \"none\"` in [modules] of the profile",
            missing.join(" and ")
        ),
    )
}
