//! Virtual functions.

use serde::Serialize;

use super::{FEW, FindingText, first, named, text};
use bedplate_base::value::PciAddress;

/// A finding about VFs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "SriovCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum SriovFinding {
    /// Fewer VFs exist than sriov_numvfs reports.
    VfsGone {
        /// PFs.
        pfs: Vec<PciAddress>,
    },
    /// VFs have no driver.
    VfWithoutDriver {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// VFs have a network driver but no RDMA device, although their PFs have one.
    VfWithoutRdma {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// VFs have no driver, and sriov_drivers_autoprobe is 0.
    VfWaitsForDriver {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// Functions, including at least one VF, have the same GUID or MAC address.
    AddressesEqual {
        /// VFs and PFs.
        functions: Vec<PciAddress>,
    },
    /// The address of a VF is all zeros.
    ZeroAddress {
        /// The function.
        function: PciAddress,
    },
}

impl SriovFinding {
    pub(super) fn text(&self) -> FindingText {
        let text = match self {
            Self::VfsGone { pfs } => text(
                "PF {}: not all of its VFs are there",
                named(pfs, "PFs"),
                format!(
                    "`dmesg | grep {}`, then make them again: 0 into sriov_numvfs, then the count (it takes VFs away from whatever uses them)",
                    first(pfs)
                ),
            ),
            Self::VfWithoutDriver { vfs } => text(
                "VF {}: no driver",
                named(vfs, "VFs"),
                format!(
                    "`echo {} > /sys/bus/pci/drivers_probe`, and `dmesg | grep {0}` where that does not help",
                    first(vfs)
                ),
            ),
            Self::VfWithoutRdma { vfs } => text(
                "VF {}: no RDMA device",
                named(vfs, "VFs"),
                "`modprobe mlx5_ib` (for other makers their RDMA driver); `devlink dev param show` where enable_roce or \
                 enable_rdma was switched off for the VF",
            ),
            Self::VfWaitsForDriver { vfs } => text(
                "VF {}: no driver, and none is to bind by itself",
                named(vfs, "VFs"),
                "nothing, where they wait for guests; else bind them, or write 1 to sriov_drivers_autoprobe before VFs are made",
            ),
            Self::AddressesEqual { functions } => {
                let two: Vec<String> =
                    functions.iter().take(2).map(PciAddress::to_string).collect();
                text(
                    "{} have the same address",
                    two.join(" and "),
                    "give each VF one of its own before its driver binds: `vf = { mac = \"derived\" }`, on InfiniBand `guid`, in \
                     [[sriov.devices]] of the profile",
                )
            }
            Self::ZeroAddress { function } => text(
                "VF {}: no address",
                function,
                "give each VF one before its driver binds: `vf = { guid = \"derived\" }`, on Ethernet `mac`, in [[sriov.devices]] of the \
                 profile, or `ip link set PF vf N node_guid …`, then unbind and bind the VF",
            ),
        };
        text.listed(FEW, "VFs")
    }
}
