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
                "PF {}: some of its VFs are missing",
                named(pfs, "PFs"),
                format!(
                    "check `dmesg | grep {}`, then recreate them: write 0 to sriov_numvfs, then the count (this takes VFs \
                     away from their users)",
                    first(pfs)
                ),
            ),
            Self::VfWithoutDriver { vfs } => text(
                "VF {}: no driver",
                named(vfs, "VFs"),
                format!(
                    "run `echo {} > /sys/bus/pci/drivers_probe`. No effect? Check `dmesg | grep {0}`",
                    first(vfs)
                ),
            ),
            Self::VfWithoutRdma { vfs } => text(
                "VF {}: no RDMA device",
                named(vfs, "VFs"),
                "run `modprobe mlx5_ib` (other vendors: their RDMA driver), then check `devlink dev param show` for \
                 enable_roce or enable_rdma switched off for the VF",
            ),
            Self::VfWaitsForDriver { vfs } => text(
                "VF {}: no driver, and automatic binding is off",
                named(vfs, "VFs"),
                "leave them if they wait for VMs; otherwise bind them, or write 1 to sriov_drivers_autoprobe before VFs are \
                 created",
            ),
            Self::AddressesEqual { functions } => {
                let two: Vec<String> =
                    functions.iter().take(2).map(PciAddress::to_string).collect();
                text(
                    "{} have the same address",
                    two.join(" and "),
                    "give each VF its own before its driver binds: set [[sriov.devices]] vf = { mac = \"derived\" } \
                     (InfiniBand: `guid`) in the profile",
                )
            }
            Self::ZeroAddress { function } => text(
                "VF {}: no address",
                function,
                "give each VF one before its driver binds: set [[sriov.devices]] vf = { guid = \"derived\" } (Ethernet: \
                 `mac`) in the profile, or run `ip link set PF vf N node_guid …`, then unbind and bind the VF",
            ),
        };
        text.listed(FEW, "VFs")
    }
}
