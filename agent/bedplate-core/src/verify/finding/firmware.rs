//! Settings of the firmware.

use std::borrow::Cow;

use serde::Serialize;

use super::{Device, FindingText, counted, named};
use bedplate_base::value::PciAddress;
use bedplate_base::{Arch, Recovery};

/// Settings of the firmware that give memory windows addresses.
const WINDOW_SPACE: &str = "switch \"Above 4G Decoding\" (\"64-bit BAR\", \"MMIO above 4 GB\") on in the firmware's setup, and raise \
                            \"MMIO High Size\" where there is such a setting";

/// A finding about the firmware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "FirmwareCode"))]
pub enum FirmwareFinding {
    /// Guests have functions, and no ACPI table describes an IOMMU.
    NoIommuInFirmware {
        /// Functions of guests.
        functions: Vec<PciAddress>,
        /// Architecture of the host; `None`: not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        arch: Option<Arch>,
    },
    /// A memory window of these GPUs has no address.
    WindowWithoutAddress {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// The kernel dropped the large memory window of these GPUs for lack of address space.
    WindowDropped {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// A memory window of 256 MiB or more starts below 4 GiB.
    #[serde(rename = "window-below-4-gib")]
    WindowBelow4Gib {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// The large window of a GPU is smaller than its model's.
    WindowSmall {
        /// The GPU.
        device: Device,
        /// Its size.
        bytes: u64,
        /// The size that its model has.
        by_design: u64,
        /// Whether the display mode of the model's firmware shrinks the window.
        display_mode: bool,
    },
    /// A resizable BAR could make the large window of these GPUs larger.
    WindowResizable {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// The large window of these GPUs has 256 MiB, and the size by design is not known.
    WindowDoubtful {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// These NICs have no memory window for their VFs.
    NoWindowForVfs {
        /// PFs.
        nics: Vec<PciAddress>,
    },
    /// These ports above NICs do not forward ARI.
    NoAriForwarding {
        /// Ports.
        ports: Vec<PciAddress>,
    },
    /// The firmware names no NUMA node for these GPUs and NICs.
    NoNumaNode {
        /// GPUs and NICs.
        functions: Vec<PciAddress>,
    },
}

impl FindingText for FirmwareFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            FirmwareFinding::NoIommuInFirmware { .. } => {
                "guests have {}, and the firmware offers no IOMMU"
            }
            FirmwareFinding::WindowWithoutAddress { .. } => {
                "GPU {}: a memory window has no address"
            }
            FirmwareFinding::WindowDropped { .. } => {
                "GPU {}: no large memory window, which others of its model have"
            }
            FirmwareFinding::WindowBelow4Gib { .. } => "GPU {}: a large window below 4 GiB",
            FirmwareFinding::WindowSmall { .. } => "a smaller memory window than its model has",
            FirmwareFinding::WindowResizable { .. } => "GPU {}: the window could be larger",
            FirmwareFinding::WindowDoubtful { .. } => {
                "GPU {}: a window of 256 MiB, and whether its model has a larger one is not known to this version"
            }
            FirmwareFinding::NoWindowForVfs { .. } => "NIC {}: no memory window for VFs",
            FirmwareFinding::NoAriForwarding { .. } => "port {} forwards no ARI",
            FirmwareFinding::NoNumaNode { .. } => "no NUMA node",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            FirmwareFinding::NoIommuInFirmware { functions, .. } => {
                counted(functions.len(), "function")
            }
            FirmwareFinding::WindowWithoutAddress { gpus }
            | FirmwareFinding::WindowDropped { gpus }
            | FirmwareFinding::WindowBelow4Gib { gpus }
            | FirmwareFinding::WindowResizable { gpus }
            | FirmwareFinding::WindowDoubtful { gpus } => named(gpus, "GPUs"),
            FirmwareFinding::WindowSmall { device, .. } => device.to_string(),
            FirmwareFinding::NoWindowForVfs { nics } => named(nics, "NICs"),
            FirmwareFinding::NoAriForwarding { ports } => named(ports, "ports"),
            FirmwareFinding::NoNumaNode { functions } => named(functions, "devices"),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            FirmwareFinding::NoIommuInFirmware { arch: Some(Arch::X86_64), .. } => {
                "switch VT-d or AMD-Vi (\"IOMMU\", \"AMD I/O Virtualization\") on in the firmware's setup"
                    .into()
            }
            FirmwareFinding::NoIommuInFirmware { .. } => {
                "switch the SMMU on in the firmware's setup".into()
            }
            FirmwareFinding::WindowWithoutAddress { .. } => {
                format!("{WINDOW_SPACE}; `dmesg | grep -i \"can't assign\"` shows what did not fit").into()
            }
            FirmwareFinding::WindowDropped { .. } => {
                format!("{WINDOW_SPACE}; `dmesg | grep -i BAR`: windows that got no address at all are dropped")
                    .into()
            }
            FirmwareFinding::WindowBelow4Gib { .. } => WINDOW_SPACE.into(),
            FirmwareFinding::WindowSmall { display_mode: true, .. } => {
                "switch the display mode of the GPU's firmware off (NVIDIA's displaymodeselector), and reboot".into()
            }
            FirmwareFinding::WindowSmall { .. } => {
                "switch \"Above 4G Decoding\" and \"Resizable BAR\" on in the firmware's setup, and reboot; in a virtual machine give it a \
                 larger 64-bit window"
                    .into()
            }
            FirmwareFinding::WindowResizable { .. } => {
                "switch \"Resizable BAR\" on in the firmware's setup, with \"Above 4G Decoding\"".into()
            }
            FirmwareFinding::WindowDoubtful { .. } => {
                "its maker's data sheet says which size BAR1 has; in the firmware's setup look for \"Above 4G Decoding\"".into()
            }
            FirmwareFinding::NoWindowForVfs { .. } => {
                "switch \"SR-IOV\" on in the firmware's setup; where it is on, `pci=realloc` makes room: `args = \
                 [\"pci=realloc\"]` in [cmdline] of the profile (not with Instinct MI300)"
                    .into()
            }
            FirmwareFinding::NoAriForwarding { .. } => {
                "switch \"ARI\" (\"ARI Forwarding\") on in the firmware's setup; `pci=noari` on the command line keeps it off".into()
            }
            FirmwareFinding::NoNumaNode { .. } => {
                "update the firmware; its setup may have the setting (\"NUMA\", \"NPS\", \"SNC\")".into()
            }
        }
    }

    fn recovery(&self) -> Recovery {
        match self {
            FirmwareFinding::WindowSmall { .. } => Recovery::Reboot,
            _ => Recovery::None,
        }
    }
}
