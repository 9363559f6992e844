//! Resolves `[sriov]` of a profile on given facts: the PFs and their VF counts. Pure; no comparison with the current state.

use std::collections::BTreeMap;

use crate::desired::{Desired, SriovCount, SriovRule, WantedVfs};
use crate::kind::selector::{self, Claims};
use crate::kind::some_of;
use crate::ledger::Ledger;
use crate::plan::{Blocker, Device, DeviceRole, Note, Rationale, Subject, Unknown};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_base::value::PciId;
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::Topology;
use bedplate_host::HostKind;

use super::NAME;
use super::section::{Sriov, SriovManaged};

/// Mellanox, now NVIDIA: the NIC's firmware limits the VF count (handbook §5.2).
const MELLANOX: PciId = PciId(0x15b3);

/// Result of resolving `[sriov]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedSriov {
    /// Desired VFs, sorted by PF address.
    pub vfs: Vec<WantedVfs>,
    /// PFs that cannot have the requested VFs.
    pub blockers: Vec<Blocker>,
    /// PFs with an undecidable request.
    pub unknowns: Vec<Unknown>,
    /// Notes: rules that select nothing, PFs managed by other tools.
    pub notes: Vec<Note>,
}

/// Adds the result to the machine's desired state.
pub(super) fn resolve_into(profile: &Profile, facts: &Facts, _: &Ledger, desired: &mut Desired) {
    let ResolvedSriov { vfs, blockers, unknowns, notes } = resolve(&profile.sriov, facts);
    desired.sriov = vfs;
    desired.blockers.extend(blockers);
    desired.unknowns.extend(unknowns);
    desired.notes.extend(notes);
}

/// Returns the selected PFs and their VF counts. A PF belongs to the first rule that selects it.
pub fn resolve(profile: &Sriov, facts: &Facts) -> ResolvedSriov {
    let mut resolved = ResolvedSriov::default();
    if profile.rules.is_empty() {
        return resolved;
    }
    let empty = PciTree::default();
    let tree = match &facts.pci {
        Reading::Known(tree) if !tree.functions.is_empty() => tree,
        _ if facts.host == HostKind::Image => {
            for rule in &profile.rules {
                let text = "decided on the machine: an image has no PCI devices, and VFs do not survive a boot; \
                            `bedplate apply` creates them there";
                resolved.note(rule_name(rule), text);
            }
            return resolved;
        }
        Reading::Known(_) | Reading::Absent => &empty,
        Reading::Unknown(reason) => {
            resolved.unknown("PCI functions".to_owned(), reason.to_string());
            return resolved;
        }
    };
    let claims = claims(&profile.rules, tree, &mut resolved);
    if profile.managed == SriovManaged::External {
        let pfs = claims.iter().flatten().map(|pf| pf.address.to_string()).collect::<Vec<_>>();
        if !pfs.is_empty() {
            let text = "skipped: another tool creates their VFs (sriov.managed in the profile)";
            resolved.note(format!("PF {}", some_of(pfs.into_iter(), 8, "PFs")), text);
        }
        return resolved;
    }
    let topology = Topology::new(tree);
    for (rule, pfs) in profile.rules.iter().zip(&claims) {
        on_pfs(rule, pfs, &topology, &mut resolved);
    }
    resolved.vfs.sort_by_key(|wanted| wanted.pf);
    resolved
}

impl ResolvedSriov {
    fn note(&mut self, subject: String, text: &str) {
        self.notes.push(NAME.note(subject, text.to_owned()));
    }

    fn unknown(&mut self, subject: impl Into<Subject>, reason: String) {
        self.unknowns.push(NAME.unknown(subject.into(), reason));
    }
}

fn rule_name(rule: &SriovRule) -> String {
    format!("rule {}", rule.name)
}

/// Returns PFs by rule. Includes physical NICs without SR-IOV, so that the plan can report why they get no VFs.
fn claims<'a>(
    rules: &[SriovRule],
    tree: &'a PciTree,
    resolved: &mut ResolvedSriov,
) -> Vec<Vec<&'a Function>> {
    let candidate =
        |f: &&Function| !f.is_vf() && !f.is_bridge() && (f.is_nic() || f.sriov != Reading::Absent);
    let Claims { functions, matches, undecided } =
        selector::claims(rules, tree.functions.values().filter(candidate), |pf| {
            pf.numa_node.clone()
        });
    for (function, rule, reason) in undecided {
        resolved.unknown(
            Device::new(DeviceRole::Pf, function.address),
            format!("cannot tell whether rule {rule} selects it: {reason}"),
        );
    }
    for (n, rule) in rules.iter().enumerate() {
        match (matches[n], functions[n].len()) {
            (0, _) => {
                resolved.note(rule_name(rule), "selects no PF on this machine; creates no VFs")
            }
            (_, 0) => {
                resolved.note(rule_name(rule), "selects only PFs that an earlier rule already has")
            }
            _ => {}
        }
    }
    functions
}

/// Adds the VFs that a rule requests on its PFs.
fn on_pfs(rule: &SriovRule, pfs: &[&Function], topology: &Topology, resolved: &mut ResolvedSriov) {
    let (left_out, pfs): (Vec<&Function>, Vec<&Function>) =
        pfs.iter().partition(|pf| is_left_out(pf, pfs));
    for pf in left_out {
        let text = "skipped: no SR-IOV, while other PFs of this rule have it";
        resolved.note(format!("PF {}", pf.address), text);
    }
    let per_gpu = rule.vfs == SriovCount::PerGpu;
    if per_gpu && !pfs.is_empty() && topology.gpus().is_empty() {
        resolved.note(
            rule_name(rule),
            "requests VFs per GPU, but there is no GPU; its PFs stay unchanged",
        );
        return;
    }
    let near = match per_gpu {
        true => topology
            .gpus_per_nic(&topology.gpus(), &pfs.iter().map(|pf| pf.address).collect::<Vec<_>>()),
        false => BTreeMap::new(),
    };
    for pf in pfs {
        let near = near.get(&pf.address).copied().unwrap_or(0);
        let (asked, reason) = match rule.vfs {
            SriovCount::Number(count) => {
                (Some(count), format!("{} requests {count}", rule_name(rule)))
            }
            SriovCount::Max => (None, format!("{} requests the maximum", rule_name(rule))),
            // A PF that is nearest to no GPU still gets one VF.
            SriovCount::PerGpu => (
                Some(near.max(1)),
                format!(
                    "{} requests one per GPU, at least 1; GPUs nearest to this PF: {near}",
                    rule_name(rule)
                ),
            ),
        };
        if let Some(count) = resolve_count(pf, asked, resolved) {
            resolved.vfs.push(WantedVfs {
                pf: pf.address,
                count,
                rule: rule.clone(),
                why: std::iter::once(Rationale::because(reason))
                    .chain(rule.why.iter().cloned())
                    .collect(),
            });
        }
    }
}

/// Whether the selector matched a NIC without SR-IOV together with NICs that have it. Excludes Mellanox NICs: all of them
/// support SR-IOV, and only their firmware settings hide it.
fn is_left_out(pf: &Function, siblings: &[&Function]) -> bool {
    let able = |pf: &&Function| pf.sriov != Reading::Absent;
    pf.vendor != MELLANOX && pf.sriov == Reading::Absent && siblings.iter().any(able)
}

/// Returns the count for one PF within its firmware's limit; `asked` is `None` for the maximum. Reports a missing result.
fn resolve_count(pf: &Function, asked: Option<u16>, resolved: &mut ResolvedSriov) -> Option<u16> {
    let sriov = pf.sriov.optional();
    let total = match sriov.and_then(|sriov| sriov.map_or(Ok(None), |one| one.total.optional())) {
        Ok(total) => total.copied().unwrap_or_default(),
        Err(reason) => {
            resolved.unknown(
                Subject::about(
                    format!("VFs of PF {}", pf.address),
                    Some(Device::new(DeviceRole::Pf, pf.address)),
                ),
                reason.to_string(),
            );
            return None;
        }
    };
    match asked {
        // No VFs are requested, so the limit is irrelevant, and without the attribute there is nothing to change.
        Some(0) if total == 0 => None,
        Some(count) if count <= total => Some(count),
        None if total > 0 => Some(total),
        _ => {
            resolved.blockers.push(too_few(pf, asked, total));
            None
        }
    }
}

/// Returns the blocker for a firmware limit below the request.
fn too_few(pf: &Function, asked: Option<u16>, total: u16) -> Blocker {
    let address = pf.address;
    let wanted = asked.map_or("some".to_owned(), |count| format!("{count}"));
    let reason = match total {
        0 => format!(
            "no VFs available, {wanted} requested: SR-IOV is disabled in its firmware or in the BIOS"
        ),
        _ => format!("at most {total} VFs available, {wanted} requested"),
    };
    let fix = match pf.vendor {
        MELLANOX => {
            let count = asked.map_or("COUNT".to_owned(), |count| count.to_string());
            format!(
                "enable SR-IOV in the BIOS, run `mlxconfig -d {address} set SRIOV_EN=1 NUM_OF_VFS={count}` (or \
                 `mstconfig` with the same arguments), then run `mlxfwreset -d {address} reset` or reboot"
            )
        }
        _ => "enable SR-IOV in the BIOS and in the card's firmware setup, raise its number of VFs, then reboot; or \
              request fewer"
            .to_owned(),
    };
    NAME.blocker(Device::new(DeviceRole::Pf, address), reason, fix)
}
