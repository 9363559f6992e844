//! Stages of readiness: the checks and settings that need no GPU driver, and all of them. Pure.

use serde::{Deserialize, Serialize};

use super::{Check, Group};
use crate::plan::{KindId, Plan};

bedplate_base::named! {
    /// Stage of readiness. A later stage includes the earlier one.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Stage {
        /// The host before its GPU driver starts: firmware, boot entry, IOMMU, ACS, VFs, PCIe links, limits. An operator
        /// that installs the driver waits for this stage at most.
        Host = "host",
        /// GPUDirect RDMA: also drivers, peer memory, RDMA ports and storage. Jobs wait for this stage.
        #[default]
        Gpudirect = "gpudirect",
    }
}

/// Checks that depend on a driver, in groups whose other checks do not. Most faults of `pcie.log` are over once the GPU
/// driver was loaded again, which may wait for the host stage.
const OF_DRIVERS: [&str; 5] =
    ["acs.groups", "limits.device-nodes", "limits.persistence", "pcie.log", "topology.data-direct"];

impl Stage {
    /// Returns the first stage that has this check.
    pub fn of_check(check: &Check) -> Stage {
        match check.group {
            Group::Modules | Group::Rdma | Group::Storage => Stage::Gpudirect,
            _ if OF_DRIVERS.contains(&check.id) => Stage::Gpudirect,
            Group::Firmware
            | Group::Iommu
            | Group::CommandLine
            | Group::Acs
            | Group::SrIov
            | Group::Pcie
            | Group::Topology
            | Group::Limits
            | Group::Profile => Stage::Host,
        }
    }

    /// Returns the first stage that has the settings of a resource type: the host, unless they depend on drivers. Modules
    /// cannot be loaded before their driver is installed, and nccl.conf and cufile.json depend on ports and modules.
    pub fn of_kind(kind: KindId) -> Stage {
        match kind {
            KindId::Modules | KindId::Nccl | KindId::Cufile => Stage::Gpudirect,
            _ => Stage::Host,
        }
    }

    /// Whether this stage has a check.
    pub fn has_check(self, check: &Check) -> bool {
        Stage::of_check(check) <= self
    }

    /// Whether this stage has the settings of a resource type.
    pub fn has_kind(self, kind: KindId) -> bool {
        Stage::of_kind(kind) <= self
    }
}

/// Returns the part of a plan that a stage has.
pub(crate) fn part(plan: &Plan, stage: Stage) -> Plan {
    let mut part = plan.clone();
    let body = &mut part.body;
    body.changes.retain(|change| stage.has_kind(change.kind));
    body.blockers.retain(|blocker| stage.has_kind(blocker.kind));
    body.unknowns.retain(|unknown| stage.has_kind(unknown.kind));
    body.pending.retain(|pending| stage.has_kind(pending.kind));
    part.reboot = part.reboot.min(body.reboot_need());
    part
}

#[cfg(test)]
mod tests {
    use super::super::{CHECKS, find};
    use super::*;

    #[test]
    fn checks_of_drivers_exist() {
        assert!(OF_DRIVERS.iter().all(|id| find(id).is_some()));
    }

    /// Its faults end when the driver is loaded again, and a driver pod may wait for the host stage.
    #[test]
    fn host_stage_does_not_wait_for_a_reload_of_the_driver() {
        assert_eq!(find("pcie.log").map(Stage::of_check), Some(Stage::Gpudirect));
    }

    #[test]
    fn later_stage_includes_the_earlier_one() {
        let of = |stage: Stage| CHECKS.iter().filter(move |check| stage.has_check(check)).count();
        assert!(0 < of(Stage::Host) && of(Stage::Host) < of(Stage::Gpudirect));
        assert_eq!(of(Stage::Gpudirect), CHECKS.len());
        assert!(KindId::ALL.iter().all(|kind| Stage::Gpudirect.has_kind(*kind)));
    }
}
