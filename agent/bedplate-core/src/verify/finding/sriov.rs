//! Virtual functions.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, named};
use bedplate_base::value::PciAddress;

/// A finding about VFs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "SriovCode"))]
pub enum SriovFinding {
    /// Fewer VFs are there than sriov_numvfs says.
    VfsGone {
        /// PFs.
        pfs: Vec<PciAddress>,
    },
    /// VFs have no driver.
    VfWithoutDriver {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// VFs with a network driver have no RDMA device, and their PFs have one.
    VfWithoutRdma {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// VFs have no driver, and sriov_drivers_autoprobe is 0.
    VfWaitsForDriver {
        /// VFs.
        vfs: Vec<PciAddress>,
    },
    /// Functions, of which one is a VF at least, have the same GUID or MAC address.
    AddressesEqual {
        /// VFs and PFs.
        functions: Vec<PciAddress>,
    },
    /// A VF has an address of zeros.
    ZeroAddress {
        /// The function.
        function: PciAddress,
    },
}

impl FindingText for SriovFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            SriovFinding::VfsGone { .. } => "PF {}: not all of its VFs are there",
            SriovFinding::VfWithoutDriver { .. } => "VF {}: no driver",
            SriovFinding::VfWithoutRdma { .. } => "VF {}: no RDMA device",
            SriovFinding::VfWaitsForDriver { .. } => {
                "VF {}: no driver, and none is to bind by itself"
            }
            SriovFinding::AddressesEqual { .. } => "{} have the same address",
            SriovFinding::ZeroAddress { .. } => "VF {}: no address",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            SriovFinding::VfsGone { pfs } => named(pfs, "PFs"),
            SriovFinding::VfWithoutDriver { vfs }
            | SriovFinding::VfWithoutRdma { vfs }
            | SriovFinding::VfWaitsForDriver { vfs } => named(vfs, "VFs"),
            SriovFinding::AddressesEqual { functions } => {
                let two: Vec<String> =
                    functions.iter().take(2).map(PciAddress::to_string).collect();
                two.join(" and ")
            }
            SriovFinding::ZeroAddress { function } => function.to_string(),
        }
    }

    fn noun(&self) -> &'static str {
        "VFs"
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            SriovFinding::VfsGone { pfs } => format!(
                "`dmesg | grep {}`, then make them again: 0 into sriov_numvfs, then the count (it takes VFs away from whatever uses them)",
                first(pfs)
            )
            .into(),
            SriovFinding::VfWithoutDriver { vfs } => format!(
                "`echo {} > /sys/bus/pci/drivers_probe`, and `dmesg | grep {0}` where that does not help",
                first(vfs)
            )
            .into(),
            SriovFinding::VfWithoutRdma { .. } => {
                "`modprobe mlx5_ib` (for other makers their RDMA driver); `devlink dev param show` where enable_roce or \
                 enable_rdma was switched off for the VF"
                    .into()
            }
            SriovFinding::VfWaitsForDriver { .. } => {
                "nothing, where they wait for guests; else bind them, or write 1 to sriov_drivers_autoprobe before VFs are made".into()
            }
            SriovFinding::AddressesEqual { .. } => {
                "give each VF one of its own before its driver binds: `vf = { mac = \"derived\" }`, on InfiniBand `guid`, in [[sriov.devices]] of the profile".into()
            }
            SriovFinding::ZeroAddress { .. } => {
                "give each VF one before its driver binds: `vf = { guid = \"derived\" }`, on Ethernet `mac`, in [[sriov.devices]] of the profile, or `ip link set \
                 PF vf N node_guid …`, then unbind and bind the VF"
                    .into()
            }
        }
    }
}

/// The first function, for a command; the address of none where there is no function.
fn first(functions: &[PciAddress]) -> String {
    functions.first().map(PciAddress::to_string).unwrap_or_default()
}
