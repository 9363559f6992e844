//! Settings of the firmware.

use serde::Serialize;

use super::{Device, FindingText, named, text};
use bedplate_base::value::PciAddress;
use bedplate_base::{Arch, Recovery, counted};

/// Remedy that gives memory windows addresses.
const WINDOW_SPACE: &str = "switch \"Above 4G Decoding\" (\"64-bit BAR\", \"MMIO above 4 GB\") on in the firmware's setup, and raise \
                            \"MMIO High Size\" where there is such a setting";

/// A finding about the firmware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "FirmwareCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum FirmwareFinding {
    /// Functions are assigned to VMs, but no ACPI table describes an IOMMU.
    NoIommuInFirmware {
        /// Functions assigned to VMs.
        functions: Vec<PciAddress>,
        /// Architecture of the host. `None`: not known.
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
    /// The large window of a GPU is smaller than specified for its model.
    WindowSmall {
        /// The GPU.
        device: Device,
        /// Size in bytes.
        bytes: u64,
        /// Specified size of the model in bytes.
        by_design: u64,
        /// Whether the display mode of the model's firmware shrinks the window.
        display_mode: bool,
    },
    /// A resizable BAR could make the large window of these GPUs larger.
    WindowResizable {
        /// GPUs.
        gpus: Vec<PciAddress>,
    },
    /// The large window of these GPUs has 256 MiB, and the specified size is not known.
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
    /// The firmware reports no NUMA node for these GPUs and NICs.
    NoNumaNode {
        /// GPUs and NICs.
        functions: Vec<PciAddress>,
    },
}

impl FirmwareFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::NoIommuInFirmware { functions, arch } => text(
                "guests have {}, and the firmware offers no IOMMU",
                counted(functions.len(), "function"),
                match arch {
                    Some(Arch::X86_64) => {
                        "switch VT-d or AMD-Vi (\"IOMMU\", \"AMD I/O Virtualization\") on in the firmware's setup"
                    }
                    _ => "switch the SMMU on in the firmware's setup",
                },
            ),
            Self::WindowWithoutAddress { gpus } => text(
                "GPU {}: a memory window has no address",
                named(gpus, "GPUs"),
                format!(
                    "{WINDOW_SPACE}; `dmesg | grep -i \"can't assign\"` shows what did not fit"
                ),
            ),
            Self::WindowDropped { gpus } => text(
                "GPU {}: no large memory window, which others of its model have",
                named(gpus, "GPUs"),
                format!(
                    "{WINDOW_SPACE}; `dmesg | grep -i BAR`: windows that got no address at all are dropped"
                ),
            ),
            Self::WindowBelow4Gib { gpus } => {
                text("GPU {}: a large window below 4 GiB", named(gpus, "GPUs"), WINDOW_SPACE)
            }
            Self::WindowSmall { device, display_mode, .. } => window_small(device, *display_mode),
            Self::WindowResizable { gpus } => text(
                "GPU {}: the window could be larger",
                named(gpus, "GPUs"),
                "switch \"Resizable BAR\" on in the firmware's setup, with \"Above 4G Decoding\"",
            ),
            Self::WindowDoubtful { gpus } => text(
                "GPU {}: a window of 256 MiB, and whether its model has a larger one is not known to this version",
                named(gpus, "GPUs"),
                "its maker's data sheet says which size BAR1 has; in the firmware's setup look for \"Above 4G Decoding\"",
            ),
            Self::NoWindowForVfs { nics } => text(
                "NIC {}: no memory window for VFs",
                named(nics, "NICs"),
                "switch \"SR-IOV\" on in the firmware's setup; where it is on, `pci=realloc` makes room: `args = \
                 [\"pci=realloc\"]` in [cmdline] of the profile (not with Instinct MI300)",
            ),
            Self::NoAriForwarding { ports } => text(
                "port {} forwards no ARI",
                named(ports, "ports"),
                "switch \"ARI\" (\"ARI Forwarding\") on in the firmware's setup; `pci=noari` on the command line keeps it off",
            ),
            Self::NoNumaNode { functions } => text(
                "no NUMA node",
                named(functions, "devices"),
                "update the firmware; its setup may have the setting (\"NUMA\", \"NPS\", \"SNC\")",
            ),
        }
    }
}

fn window_small(device: &Device, display_mode: bool) -> FindingText {
    text(
        "a smaller memory window than its model has",
        device,
        match display_mode {
            true => {
                "switch the display mode of the GPU's firmware off (NVIDIA's \
                 displaymodeselector), and reboot"
            }
            false => {
                "switch \"Above 4G Decoding\" and \"Resizable BAR\" on in the firmware's \
                 setup, and reboot; in a virtual machine give it a larger 64-bit window"
            }
        },
    )
    .recovery(Recovery::Reboot)
}
