//! The IOMMU.

use serde::Serialize;

use super::{FindingText, in_profile, named, text};
use bedplate_base::counted;
use bedplate_base::value::PciAddress;
use bedplate_facts::kernel_log::MessageKind;

const PASSTHROUGH: &str = "[iommu] mode = \"passthrough\"";

/// Functions that carry GPUDirect traffic, by type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Carriers {
    /// GPUs.
    pub gpus: Vec<PciAddress>,
    /// PFs of NICs.
    pub nics: Vec<PciAddress>,
    /// Data Direct functions.
    pub data_direct: Vec<PciAddress>,
    /// VFs of NICs.
    pub vfs: Vec<PciAddress>,
}

impl Carriers {
    /// Formats the counts: `8 GPUs, 8 NICs`.
    pub fn counted(&self) -> String {
        let counts = [
            (self.gpus.len(), "GPU"),
            (self.nics.len(), "NIC"),
            (self.data_direct.len(), "Data Direct function"),
            (self.vfs.len(), "VF"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, what)| counted(count, what)).collect::<Vec<_>>().join(", ")
    }
}

/// A finding about the IOMMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "IommuCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum IommuFinding {
    /// The IOMMU is off, but functions are assigned to VMs, which need it.
    IommuOffWithGuests {
        /// Argument that switches the IOMMU off, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        off_by: Option<String>,
        /// Number of functions assigned to VMs.
        function_count: usize,
    },
    /// The IOMMU translates the DMA of functions.
    DmaTranslated {
        /// The functions.
        #[serde(flatten)]
        carriers: Carriers,
        /// Whether the DMA of other functions passes through.
        mixed: bool,
    },
    /// The SMMU passes DMA through on an Arm CPU and kernel that need it translated.
    DmaPassesThrough {
        /// The functions.
        #[serde(flatten)]
        carriers: Carriers,
    },
    /// The kernel lacks the option by which processes share their memory with GPUs of an NVIDIA Arm CPU.
    NoSva {
        /// The GPUs.
        gpus: Vec<PciAddress>,
    },
    /// GPUs share their IOMMU group with bridges, and the kernel refuses PASIDs to such groups.
    PasidsRefused {
        /// The GPUs.
        gpus: Vec<PciAddress>,
    },
    /// The kernel log has messages about the IOMMU.
    IommuLog {
        /// Type of the most severe message.
        event: MessageKind,
        /// Functions named by these messages.
        functions: Vec<PciAddress>,
        /// Number of these messages.
        lines: usize,
        /// Whether CUDA needs translation on this Arm CPU and kernel, or may need it. Then passthrough does not help.
        #[serde(skip)]
        needs_translation: bool,
    },
}

impl IommuFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::IommuOffWithGuests { off_by, function_count } => {
                let by = off_by.as_ref().map(|by| format!(" (by `{by}`)")).unwrap_or_default();
                let functions = counted(*function_count, "function");
                in_profile(
                    "",
                    format!("the IOMMU is off{by}, but required by {functions} assigned to VMs"),
                    "[iommu] mode = \"passthrough-required\"",
                    ", reboot. No IOMMU in the firmware? Enable it there first",
                )
            }
            Self::DmaTranslated { carriers, mixed } => in_profile(
                match mixed {
                    false => "the IOMMU translates the DMA of {}",
                    true => {
                        "the IOMMU translates the DMA of {}; other DMA passes through: the modes are mixed"
                    }
                },
                carriers.counted(),
                PASSTHROUGH,
                ", reboot. Already booted with it? Run `bedplate plan`",
            ),
            Self::DmaPassesThrough { carriers } => in_profile(
                "the SMMU passes the DMA of {} through: on Linux before 6.11 CUDA then creates no context",
                carriers.counted(),
                "[iommu] mode = \"auto\"",
                ", reboot; or boot Linux 6.11 or newer",
            ),
            Self::NoSva { gpus } => text(
                "CUDA creates no context on {}: the running kernel was built without CONFIG_ARM_SMMU_V3_SVA",
                named(gpus, "GPUs"),
                "boot a kernel that was built with CONFIG_ARM_SMMU_V3_SVA",
            ),
            Self::PasidsRefused { gpus } => text(
                "CUDA creates no context on {}: this kernel gives no PASIDs to an IOMMU group with bridges",
                named(gpus, "GPUs"),
                "boot Linux 6.12.93, 6.15 or newer. To keep this kernel, remove `pci=config_acs=` from the command line, \
                 then reboot",
            ),
            Self::IommuLog { event, functions, lines, needs_translation } => {
                logged(*event).unwrap_or_else(|| refused(functions, *lines, *needs_translation))
            }
        }
    }
}

/// Returns the text for refused DMA. Before Linux 6.14, messages of an SMMU do not name the function.
fn refused(functions: &[PciAddress], lines: usize, needs_translation: bool) -> FindingText {
    let lines = counted(lines, "line");
    let (description, subject) = match functions {
        [] => ("the IOMMU refused DMA of a device that the log does not name ({})", lines),
        functions => {
            ("the IOMMU refused DMA of {}", format!("{} ({lines})", named(functions, "functions")))
        }
    };
    match needs_translation {
        true => text(
            description,
            subject,
            "report it to the driver's vendor. Passthrough is sure to work on this Arm CPU only from Linux 6.11 on",
        ),
        false => in_profile(
            description,
            subject,
            PASSTHROUGH,
            ", reboot. Already passthrough? Report it to the driver's vendor",
        ),
    }
}

/// Returns the text for a message that names no function. `None`: refused DMA.
fn logged(event: MessageKind) -> Option<FindingText> {
    let found = match event {
        MessageKind::IommuFirmware => {
            text("the firmware describes its IOMMU wrongly", "", "update the firmware (BIOS)")
        }
        MessageKind::IommuCopied => text(
            "this kernel was started by kexec and took over the IOMMU tables of its predecessor",
            "",
            "reboot through the firmware (`bedplate reboot schedule`), never by `systemctl kexec`",
        ),
        MessageKind::IommuRequested => text(
            "no IOMMU is in use despite `DMAR: IOMMU enabled`: that line only repeats `intel_iommu=on`",
            "",
            "enable VT-d in the firmware setup, or remove `intel_iommu=on` from the command line",
        ),
        _ => return None,
    };
    Some(found)
}
