//! Refusal to disable redirect on a port, or to leave it disabled, because a VM uses functions below it. Pure.

use super::{NAME, Port, guests};
use crate::plan::Blocker;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};

impl Port<'_> {
    /// Returns the blocker if redirect must not be, or become, disabled: IOMMU groups are built once, when devices appear.
    pub(super) fn guest_blocker(&self, is_right: bool) -> Option<Blocker> {
        match (self.wanted.exposes_guests(), is_right) {
            (false, _) => None,
            (true, false) => Some(self.refused_for_guests()),
            // Redirect is already disabled on a port that the command line should set, perhaps by an earlier argument that
            // must go.
            (true, true) => {
                self.exposed().or_else(|| self.by_argument().then(|| self.refused_for_guests()))
            }
        }
    }

    /// Returns the blocker for a port above functions of VMs. A runtime write would leave groups that still show the VM as
    /// isolated. With the kernel argument, the VM would lose its device at boot, because the group then includes its
    /// neighbours.
    fn refused_for_guests(&self) -> Blocker {
        NAME.blocker(
            self.subject(),
            format!(
                "{}: disabling redirect now would let the guest reach its neighbours while its IOMMU group reports \
                 isolation; at boot, the group would include the neighbours (Linux drivers/iommu/iommu.c; handbook \
                 §3.3)",
                self.used_by(&self.wanted.vfio_below)
            ),
            format!(
                "{}; or, if guests use GPUs or NICs, leave ACS unchanged: acs.policy = \"keep\" (profile vfio)",
                guests::set_free(self.topology.tree(), &self.wanted.vfio_below)
            ),
        )
    }

    /// Returns a blocker if redirect is disabled and VMs below are in groups that show isolation. An unreadable group
    /// counts as isolated.
    pub(super) fn exposed(&self) -> Option<Blocker> {
        let tree = self.context.facts.pci.known()?;
        let missing = AcsBits::ISOLATION.and(self.acs.capable).without(self.acs.control);
        let group = tree.get(self.wanted.port).map(|port| &port.iommu_group);
        let is_apart = |guest: &&PciAddress| match (
            tree.get(**guest).map(|function| &function.iommu_group),
            group,
        ) {
            (Some(Reading::Known(own)), Some(Reading::Known(ports))) => own != ports,
            (Some(Reading::Absent), _) | (_, Some(Reading::Absent)) => false,
            _ => true,
        };
        let apart: Vec<PciAddress> =
            self.wanted.vfio_below.iter().filter(is_apart).copied().collect();
        (!missing.is_empty() && !apart.is_empty()).then(|| NAME.blocker(
            self.subject(),
            guests::reach_neighbours(missing, &self.used_by(&apart)),
            format!(
                "{}; or, if guests use GPUs or NICs, set acs.policy = \"keep\" (profile vfio) and reboot, so that \
                 Linux enables ACS again",
                guests::set_free(tree, &apart)
            ),
        ))
    }

    fn used_by(&self, guests: &[PciAddress]) -> String {
        let here = self.topology.below(self.wanted.port);
        let place = match guests.iter().all(|guest| here.contains(guest)) {
            true => " below it",
            false => " perhaps below it (the function or a bridge above it is not visible)",
        };
        guests::used_by(self.topology.tree(), guests, place)
    }
}
