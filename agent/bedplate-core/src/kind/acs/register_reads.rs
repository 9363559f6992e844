//! Reads the ACS registers of ports: those that can be set, and the omitted ones with their reasons.

use crate::desired::AcsPolicy;
use crate::kind::some_of;
use crate::plan::{Device, DeviceRole, Subject};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::caps;
use bedplate_facts::pci::{Acs, PciTree, PortType};
use bedplate_facts::topology::{Role, Topology};

use super::fabric::{Target, Targets};
use super::guests::guests_below;
use super::resolved::ResolvedAcs;

/// Ports with ACS, and their targets.
pub(super) type ReadablePorts = Vec<(PciAddress, Acs, Target)>;

/// Omitted ports.
#[derive(Default)]
pub(super) struct OmittedPorts {
    /// Intel ports with registers at another location.
    misplaced: Vec<PciAddress>,
    /// Ports without ACS: they redirect nothing.
    without: Vec<PciAddress>,
    /// Unreadable ports, with the reason.
    unreadable: Vec<(PciAddress, String)>,
}

/// Splits the targets into ports with ACS and omitted ones.
pub(super) fn readings(
    tree: &PciTree,
    topology: &Topology,
    targets: Targets,
) -> (ReadablePorts, OmittedPorts) {
    let (mut readable, mut others) = (Vec::new(), OmittedPorts::default());
    for (port, target) in targets {
        let Some(function) = tree.get(port) else {
            let reason = "not visible among the PCI functions";
            others.unreadable.push((port, reason.to_owned()));
            continue;
        };
        match &function.acs {
            // Checked before the reading: a register at another location is not an unknown.
            _ if caps::has_misplaced_acs(function.vendor, function.device, PortType::RootPort) => {
                others.misplaced.push(port);
            }
            Reading::Known(acs) => readable.push((port, *acs, target)),
            // Other bridges are not expected to have ACS (handbook §3.1).
            Reading::Absent if matches!(topology.role(port), Role::RootPort | Role::Downstream) => {
                others.without.push(port);
            }
            Reading::Absent => {}
            Reading::Unknown(reason) => others.unreadable.push((port, reason.to_string())),
        }
    }
    (readable, others)
}

/// Reports the reason for each omitted port.
pub(super) fn report_others(others: OmittedPorts, tree: &PciTree, resolved: &mut ResolvedAcs) {
    let OmittedPorts { misplaced, without, unreadable } = others;
    for port in misplaced {
        let text = "skipped: this Intel PCH port has its ACS control at another location (Linux drivers/pci/quirks.c; \
                    handbook §3.1)";
        resolved.note(format!("port {port}"), text);
    }
    if !without.is_empty() {
        let text = "no ACS: redirects nothing, nothing to clear";
        let named = some_of(without.iter().map(PciAddress::to_string), 8, "ports");
        resolved.note(format!("port {named}"), text);
    }
    if let Some((_, reason)) = unreadable.first() {
        let named = some_of(unreadable.iter().map(|(port, _)| port.to_string()), 4, "ports");
        let guests = guests_below(tree, &[]);
        let exposed = unreadable.iter().any(|(port, _)| guests.contains_key(port));
        if resolved.acs.policy == AcsPolicy::Keep && !exposed {
            let text = format!("unknown ({reason}); left unchanged by policy `keep`");
            resolved.note(format!("ACS of {named}"), text);
        } else {
            let only = match unreadable.as_slice() {
                [(port, _)] => Some(Device::new(DeviceRole::Port, *port)),
                _ => None,
            };
            resolved.unknown(Subject::about(format!("ACS of {named}"), only), reason.clone());
        }
    }
}
