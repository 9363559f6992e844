//! ATS of NICs: whether it is enabled where the PCIe topology requires it, and only there.

use super::super::unread::unread;
use super::super::{AcsFinding, Check, CheckInput, Evidence, Group, Judgement, Outcome, Severity};
use crate::kind::acs::Ats;
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};

pub(crate) const ATS: Check = Check {
    id: "acs.ats",
    group: Group::Acs,
    verifies: "NICs have ATS where guests get the devices, and no ATS on bare metal",
    severity: Severity::Warn,
    needs_root: true,
    what: "A NIC that shares a switch for guests with a GPU has the ATS capability, and ATS is on while a VM has the NIC. On \
           bare metal, and on root ports of their own, NICs have no ATS. `acs.shape` checks whether the switch lets \
           translated requests pass (DT). ATS of GPUs is not checked: no topology class specifies it.",
    why: "A switch for guests lets only translated requests pass directly: requests of a NIC without ATS go through the root \
          complex. On bare metal, ATS costs a translation per page, and makes NVIDIA's tool configure the switch for guests.",
    source: "handbook §3.2, §14.1; rdma-core kernel-boot/rdma_topo",
    how: "ATS capability and control of each NIC, in its config space (root only)",
    judge: ats,
};

fn ats(input: &CheckInput<'_>) -> Judgement {
    let tree = input.topology()?.tree();
    let found = &input.acs.ats;
    let seen = |nics: &[PciAddress], what: &str| -> Vec<Evidence> {
        let seen = |nic: &PciAddress| {
            Evidence::new(format!("NIC {nic}: {what}"), "config space, ATS capability")
        };
        nics.iter().map(seen).collect()
    };
    if !found.lacking.is_empty() {
        return Ok(Outcome::warn(
            found.lacking.iter().map(|nic| AcsFinding::NoAts { function: *nic }),
        )
        .all_evidence(seen(&found.lacking, "no ATS capability")));
    }
    let needless = [&found.needless[..], &found.mixed].concat();
    if !needless.is_empty() {
        return Ok(Outcome::warn([AcsFinding::AtsNeedless { nics: needless.clone() }])
            .all_evidence(seen(&needless, "ATS capability")));
    }
    if let Some((nic, why)) = found.unread.first() {
        return Ok(unread(format_args!("ATS of NIC {nic}"), why));
    }
    if let Some(first) = input.acs.unknowns.first() {
        return Ok(super::acs::unknown(first, tree));
    }
    let is_off = |nic: &&PciAddress| {
        tree.get(**nic).is_some_and(|nic| nic.vfio && nic.ats == Reading::Known(false))
    };
    let off: Vec<PciAddress> = found.wanted.iter().filter(is_off).copied().collect();
    if !off.is_empty() {
        return Ok(Outcome::warn([AcsFinding::AtsOffForGuest { nics: off.clone() }])
            .all_evidence(seen(&off, "ATS control: off")));
    }
    Ok(passed(found))
}

fn passed(found: &Ats) -> Outcome {
    let with = counted(found.wanted.len(), "NIC");
    let without = counted(found.without.len(), "NIC");
    match (found.wanted.is_empty(), found.without.is_empty()) {
        (true, true) => Outcome::not_applicable("no PCIe topology in which ATS matters"),
        (true, false) => Outcome::pass(format!("{without} without ATS, as expected on bare metal")),
        (false, true) => Outcome::pass(format!("{with} with ATS, as guests need")),
        (false, false) => Outcome::pass(format!("{with} with ATS for guests, {without} without")),
    }
}
