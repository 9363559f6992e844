//! Settings of the firmware.

use serde::Serialize;

use super::{Device, FindingText, named, text};
use bedplate_base::value::PciAddress;
use bedplate_base::{Arch, Recovery, counted};

/// Fix that gives memory windows addresses.
const WINDOW_SPACE: &str = "enable \"Above 4G Decoding\" (\"64-bit BAR\", \"MMIO above 4 GB\") in the firmware setup, and \
                            raise \"MMIO High Size\" if available";

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
        /// Architecture of the host: settings of the firmware have other names on x86.
        #[serde(skip)]
        arch: Option<Arch>,
    },
}

impl FirmwareFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::NoIommuInFirmware { functions, arch } => text(
                "{} assigned to VMs, but the firmware provides no IOMMU",
                counted(functions.len(), "function"),
                match arch {
                    Some(Arch::X86_64) => {
                        "enable VT-d or AMD-Vi (\"IOMMU\", \"AMD I/O Virtualization\") in the firmware setup"
                    }
                    _ => "enable the SMMU in the firmware setup",
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
                "GPU {}: no large memory window, unlike others of its model",
                named(gpus, "GPUs"),
                format!(
                    "{WINDOW_SPACE}; check `dmesg | grep -i BAR`: the kernel drops windows that get no address"
                ),
            ),
            Self::WindowBelow4Gib { gpus } => {
                text("GPU {}: a large window below 4 GiB", named(gpus, "GPUs"), WINDOW_SPACE)
            }
            Self::WindowSmall { device, display_mode, .. } => window_small(device, *display_mode),
            Self::WindowResizable { gpus } => text(
                "GPU {}: the window could be larger",
                named(gpus, "GPUs"),
                "enable \"Resizable BAR\" and \"Above 4G Decoding\" in the firmware setup",
            ),
            Self::WindowDoubtful { gpus } => text(
                "GPU {}: a window of 256 MiB; the size specified for its model is unknown to this version",
                named(gpus, "GPUs"),
                "look up the size of BAR1 in the vendor's data sheet, and check \"Above 4G Decoding\" in the firmware setup",
            ),
            Self::NoWindowForVfs { nics } => text(
                "NIC {}: no memory window for VFs",
                named(nics, "NICs"),
                "enable \"SR-IOV\" in the firmware setup. Already on? To make space, set [cmdline] args = [\"pci=realloc\"] \
                 in the profile (not with Instinct MI300)",
            ),
            Self::NoAriForwarding { ports } => text(
                "port {}: ARI is not forwarded",
                named(ports, "ports"),
                "enable \"ARI\" (\"ARI Forwarding\") in the firmware setup, and remove `pci=noari` from the command line",
            ),
            Self::NoNumaNode { functions, arch } => {
                text("no NUMA node", named(functions, "devices"), numa_setup(*arch))
            }
        }
    }
}

fn numa_setup(arch: Option<Arch>) -> &'static str {
    match arch {
        Some(Arch::X86_64) => {
            "update the firmware, or check its setup (\"NUMA\", \"NPS\", \"SNC\")"
        }
        _ => "update the firmware, or check its setup (\"NUMA\")",
    }
}

fn window_small(device: &Device, display_mode: bool) -> FindingText {
    text(
        "a smaller memory window than specified for its model",
        device,
        match display_mode {
            true => {
                "disable the display mode of the GPU's firmware (NVIDIA's displaymodeselector), then reboot"
            }
            false => {
                "enable \"Above 4G Decoding\" and \"Resizable BAR\" in the firmware setup, then reboot. In a virtual \
                 machine, give it a larger 64-bit window"
            }
        },
    )
    .recovery(Recovery::Reboot)
}
