//! Functions with registers that the profile sets. Pure.

use std::collections::BTreeMap;

use super::section::{Pcie, PcieRule};
use super::{NAME, RELAXED_ORDERING, read_request};
use crate::kind::selector::{self, Claims};
use crate::kind::some_of;
use crate::plan::{DeviceRole, KindPlan, Rationale};
use bedplate_base::Reading;
use bedplate_base::value::{PciAddress, PciId, RegisterBits};
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::Topology;

/// Mellanox, now NVIDIA: the only vendor of RDMA NICs that names a size of read requests (handbook §7).
const MELLANOX: PciId = PciId(0x15b3);

/// Desired device control of a function; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Max_Read_Request_Size in bytes; `None`: unchanged.
    pub max_read_request: Option<u16>,
    /// Enable Relaxed Ordering; `None`: unchanged.
    pub relaxed_ordering: Option<bool>,
    /// Whether a rule names its address.
    pub is_named: bool,
    /// Reasons.
    pub why: Vec<Rationale>,
}

impl Target {
    /// Returns the desired bits of device control.
    pub(super) fn bits(&self) -> RegisterBits {
        let size = self.max_read_request.map(read_request);
        let ordering = self.relaxed_ordering.map(|granted| RegisterBits {
            mask: RELAXED_ORDERING,
            value: if granted { RELAXED_ORDERING } else { 0 },
        });
        let parts = [size, ordering].into_iter().flatten();
        parts.fold(RegisterBits { mask: 0, value: 0 }, |all, part| RegisterBits {
            mask: all.mask | part.mask,
            value: all.value | part.value,
        })
    }
}

/// Functions by address.
pub(super) type Targets = BTreeMap<PciAddress, Target>;

/// Returns the role of a function in plans.
pub(super) fn role(function: &Function) -> DeviceRole {
    match function {
        gpu if gpu.is_gpu() => DeviceRole::Gpu,
        nic if nic.is_nic() => DeviceRole::Nic,
        _ => DeviceRole::Function,
    }
}

/// Returns the desired registers, and reports rules that select nothing. `numa` returns the NUMA node of a function.
pub(super) fn targets(
    section: &Pcie,
    facts: &Facts,
    numa: impl Fn(&Function) -> Reading<i32>,
    out: &mut KindPlan,
) -> Targets {
    let Some(tree) = facts.pci.known() else { return Targets::new() };
    let candidates = tree.functions.values().filter(|function| !function.is_bridge());
    let candidates = candidates.filter(|function| !function.has_reserved_registers());
    let Claims { functions, matches, undecided } =
        selector::claims(&section.rules, candidates, numa);
    let mut targets = match facts.cpu.is_virtual() {
        true => in_vm(section, out),
        false => of_gpus_and_nics(section, tree, out),
    };
    targets.retain(|address, _| undecided.iter().all(|(one, ..)| one.address != *address));
    let unclear = undecided.first().map(|(_, rule, reason)| {
        let named = undecided.iter().map(|(one, ..)| one.address.to_string());
        let text = format!("cannot tell whether rule {rule} selects it: {reason}");
        NAME.unknown(some_of(named, 6, "functions"), text)
    });
    out.unknowns.extend(unclear);
    for (n, rule) in section.rules.iter().enumerate() {
        let is_unclear = undecided.iter().any(|(_, name, _)| *name == rule.name);
        let text = match (matches[n], functions[n].len()) {
            _ if is_unclear => None,
            (0, _) => Some("selects no function on this machine"),
            (_, 0) => Some("selects only functions of earlier rules"),
            _ => None,
        };
        out.notes.extend(text.map(|text| NAME.note(format!("rule {}", rule.name), text)));
        for function in &functions[n] {
            targets.remove(&function.address);
            targets.extend(of_rule(rule).map(|target| (function.address, target)));
        }
    }
    targets
}

/// Notes that the section's own keys select nothing in a VM: a PF there is not distinguishable from a VF, and bits of VFs
/// are reserved.
fn in_vm(section: &Pcie, out: &mut KindPlan) -> Targets {
    let is_asked = section.read_request_bytes().is_some() || section.ordering().is_some();
    let text = "skipped in a VM: the host of the VM sets the registers; rules under [[pcie.devices]] apply";
    out.notes.extend(is_asked.then(|| NAME.note("GPUs and NICs", text)));
    Targets::new()
}

fn of_rule(rule: &PcieRule) -> Option<Target> {
    let because = Rationale::because(format!("rule {} requests it", rule.name));
    target(Target {
        max_read_request: rule.max_read_request.bytes(),
        relaxed_ordering: rule.relaxed_ordering.granted(),
        is_named: rule.select.address.is_some(),
        why: std::iter::once(because).chain(rule.why.iter().cloned()).collect(),
    })
}

/// Returns the target if it sets anything.
fn target(target: Target) -> Option<Target> {
    let sets = target.max_read_request.is_some() || target.relaxed_ordering.is_some();
    sets.then_some(target)
}

/// Returns the targets of the section's own keys: GPUs, and RDMA NICs near GPUs. Notes NICs of vendors that name no size of
/// read requests.
fn of_gpus_and_nics(section: &Pcie, tree: &PciTree, out: &mut KindPlan) -> Targets {
    let topology = Topology::new(tree);
    let near = nics_near_gpus(&topology);
    let is_open = |address: &&PciAddress| {
        tree.get(**address).is_some_and(|function| !function.has_reserved_registers())
    };
    let sized = section.read_request_bytes();
    let (mut targets, mut without_size) = (Targets::new(), Vec::new());
    for address in near.iter().filter(is_open) {
        let vendor = tree.get(*address).map(|function| function.vendor);
        let has_size = vendor == Some(MELLANOX);
        without_size.extend((sized.is_some() && !has_size).then(|| address.to_string()));
        targets.extend(
            target(Target {
                max_read_request: sized.filter(|_| has_size),
                relaxed_ordering: section.ordering(),
                is_named: false,
                why: vec![Rationale::because("RDMA NIC nearest to a GPU")],
            })
            .map(|target| (*address, target)),
        );
    }
    for address in topology.gpus().iter().filter(is_open) {
        targets.extend(
            target(Target {
                max_read_request: None,
                relaxed_ordering: section.ordering(),
                is_named: false,
                why: vec![Rationale::because("GPU")],
            })
            .map(|target| (*address, target)),
        );
    }
    if !without_size.is_empty() {
        let named = some_of(without_size.into_iter(), 8, "NICs");
        let text = "read requests left unchanged: their vendor names no size (handbook §7); a rule under \
                    [[pcie.devices]] can set one";
        out.notes.push(NAME.note(format!("NIC {named}"), text));
    }
    targets
}

/// Returns the RDMA NICs that are as near to some GPU as its nearest one.
fn nics_near_gpus(topology: &Topology<'_>) -> Vec<PciAddress> {
    let tree = topology.tree();
    let carries_rdma = |nic: &PciAddress| {
        let function = tree.get(*nic);
        function.is_some_and(|nic| !nic.infiniband.is_empty() || nic.vendor == MELLANOX)
    };
    let nics: Vec<PciAddress> = topology.nics().into_iter().filter(carries_rdma).collect();
    let mut near: Vec<PciAddress> = Vec::new();
    for gpu in topology.gpus() {
        let distance = |nic: &PciAddress| topology.distance(gpu, *nic);
        let Some(least) = nics.iter().map(distance).min() else { continue };
        near.extend(nics.iter().filter(|nic| distance(nic) == least));
    }
    near.sort();
    near.dedup();
    near
}
