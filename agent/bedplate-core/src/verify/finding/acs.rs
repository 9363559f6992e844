//! ACS, ATS and IOMMU groups.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, named};
use crate::plan::Subject;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

const DIRECT_P2P: &str = "`policy = \"direct-p2p\"` in [acs] of the profile, then `bedplate apply`: takes effect at once; IOMMU groups follow at \
                          the next boot";

/// A finding about ACS, ATS or IOMMU groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "AcsCode"))]
pub enum AcsFinding {
    /// Ports send traffic of pairs up to the root complex.
    Redirected {
        /// Pairs of a GPU and a NIC or GPU whose traffic they send there.
        detoured: usize,
        /// All such pairs of the host.
        pairs: usize,
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// Ports send traffic of pairs up to the root complex, and have to, for guests have functions below.
    RedirectedForGuests {
        /// Pairs of a GPU and a NIC or GPU whose traffic they send there.
        detoured: usize,
        /// All such pairs of the host.
        pairs: usize,
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// Bits are off at root ports of NVIDIA's Arm CPUs that Linux sets.
    LinuxBitsOff {
        /// The root ports.
        ports: Vec<PciAddress>,
    },
    /// Ports do not pass translated requests directly, as guests need.
    DtOff {
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// Ports have other bits than their fabric needs.
    AcsBitsDiffer {
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// A guest can reach functions that its IOMMU group keeps from it.
    GuestExposed {
        /// The port that lets it.
        #[serde(flatten)]
        port: Subject,
        /// Why, as a plan words it.
        #[serde(skip)]
        reason: String,
        /// The remedy of a plan.
        #[serde(skip)]
        remedy: String,
    },
    /// A GPU and a Data Direct function between which the NVIDIA driver refuses DMA-BUF.
    GroupsApart {
        /// The GPU.
        gpu: PciAddress,
        /// The Data Direct function.
        function: PciAddress,
    },
    /// A NIC has no ATS where guests need it.
    NoAts {
        /// The function.
        function: PciAddress,
    },
    /// NICs have ATS, and their fabric is that of bare metal.
    AtsNeedless {
        /// The NICs.
        nics: Vec<PciAddress>,
    },
    /// ATS is off in NICs that guests have.
    AtsOffForGuest {
        /// The NICs.
        nics: Vec<PciAddress>,
    },
}

impl FindingText for AcsFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            AcsFinding::Redirected { .. }
            | AcsFinding::RedirectedForGuests { .. }
            | AcsFinding::GuestExposed { .. } => "",
            AcsFinding::LinuxBitsOff { .. } => {
                "ACS bits that Linux sets on NVIDIA's Arm CPUs are off at root ports {}"
            }
            AcsFinding::DtOff { .. } => {
                "translated requests do not pass directly, as guests need: DT is off at {}"
            }
            AcsFinding::AcsBitsDiffer { .. } => "ACS bits differ from what this fabric needs at {}",
            AcsFinding::GroupsApart { .. } => {
                "in different IOMMU groups, so that the NVIDIA driver refuses DMA-BUF between them"
            }
            AcsFinding::NoAts { .. } => "NIC {}: no ATS, in a switch for guests",
            AcsFinding::AtsNeedless { .. } => {
                "NIC {}: ATS is on in its firmware, and its fabric is that of bare metal"
            }
            AcsFinding::AtsOffForGuest { .. } => "NIC {}: a guest has it, and ATS is switched off",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            AcsFinding::Redirected { detoured, pairs, ports } => {
                redirected(*detoured, *pairs, ports)
            }
            AcsFinding::RedirectedForGuests { detoured, pairs, ports } => {
                let redirected = redirected(*detoured, *pairs, ports);
                format!("{redirected}, and have to be, for a guest has a function below")
            }
            AcsFinding::LinuxBitsOff { ports }
            | AcsFinding::DtOff { ports }
            | AcsFinding::AcsBitsDiffer { ports } => named(ports, "ports"),
            AcsFinding::GuestExposed { port, reason, .. } => format!("{port}: {reason}"),
            AcsFinding::GroupsApart { gpu, function } => {
                format!("GPU {gpu} and function {function}")
            }
            AcsFinding::NoAts { function } => function.to_string(),
            AcsFinding::AtsNeedless { nics } | AcsFinding::AtsOffForGuest { nics } => {
                named(nics, "NICs")
            }
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            AcsFinding::NoAts { .. } => "NICs",
            _ => "of them",
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            AcsFinding::Redirected { .. } | AcsFinding::DtOff { .. } => DIRECT_P2P,
            AcsFinding::RedirectedForGuests { .. } => {
                "give guests functions of switches that the host does not use itself"
            }
            AcsFinding::LinuxBitsOff { .. } => {
                "look for what switched them off: `pci=disable_acs_redir=` or `pci=config_acs=` on the kernel command line, or a \
                 script with setpci; Linux sets them at the next boot without it"
            }
            AcsFinding::AcsBitsDiffer { .. } => {
                "`policy = \"direct-p2p\"` in [acs] of the profile, then `bedplate apply`; `bedplate plan -v` says why"
            }
            AcsFinding::GuestExposed { remedy, .. } => return remedy.clone().into(),
            AcsFinding::GroupsApart { .. } => {
                "`policy = \"direct-p2p\"` in [acs] of the profile, `bedplate apply`, and reboot: groups follow at the next boot"
            }
            AcsFinding::NoAts { function } => return switch_ats_on(*function).into(),
            AcsFinding::AtsNeedless { nics } => return switch_ats_off(nics).into(),
            AcsFinding::AtsOffForGuest { .. } => {
                "drop `pci=noats` where it is on the command line; else the IOMMU of this host does not support it"
            }
        };
        remedy.into()
    }

    fn recovery(&self) -> Recovery {
        match self {
            AcsFinding::GroupsApart { .. } => Recovery::Reboot,
            _ => Recovery::None,
        }
    }
}

fn redirected(detoured: usize, pairs: usize, ports: &[PciAddress]) -> String {
    format!(
        "traffic of {detoured} of {pairs} pairs of a GPU and a NIC or GPU goes up through the root complex: ACS redirects (RR, CR, EC) \
         at {}",
        named(ports, "ports")
    )
}

fn switch_ats_on(nic: PciAddress) -> String {
    format!(
        "`mlxconfig -d {nic} set ATS_ENABLED=1` (other makers: their firmware's setup) and a cold boot, or `guests = false` in [acs] of \
         the profile where no guest gets it"
    )
}

fn switch_ats_off(nics: &[PciAddress]) -> String {
    let nic = nics.first().map(PciAddress::to_string).unwrap_or_default();
    format!(
        "`mlxconfig -d {nic} set ATS_ENABLED=0` (other makers: their firmware's setup) and a cold boot; `guests = true` in [acs] of the \
         profile, where guests get it"
    )
}
