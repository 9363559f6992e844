//! GPUDirect Storage.

use serde::Serialize;

use super::{FindingText, in_profile, named, text};
use bedplate_base::value::PciAddress;
use bedplate_facts::cufile::{PATH, Problem};

/// First driver branch whose open modules support P2PDMA to NVMe disks.
pub(in crate::verify) const P2PDMA_DRIVER: u32 = 570;

/// A finding about GPUDirect Storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "StorageCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum StorageFinding {
    /// cufile.json forbids copies through host memory, but neither nvidia_fs nor P2PDMA is available.
    CufileWouldFail,
    /// This version of nvidia_fs needs the open kernel modules.
    NvidiaFsNeedsOpenModules {
        /// Version of nvidia_fs.
        version: String,
    },
    /// P2PDMA is configured, but the driver lacks it.
    P2pdmaNeedsOpenModules {
        /// Version of the NVIDIA driver.
        driver: String,
        /// Whether the kernel modules are the open ones.
        open: bool,
    },
    /// P2PDMA is configured, but no NVIDIA driver is loaded.
    P2pdmaWithoutDriver,
    /// P2PDMA is configured, but the kernel was built without it.
    KernelWithoutP2pdma,
    /// The library of GPUDirect Storage cannot read cufile.json.
    CufileInvalid {
        /// Line number, from 1.
        line: usize,
        /// Error in that line.
        problem: Problem,
    },
    /// ACS redirects traffic between GPUs and NVMe disks through the root complex.
    DiskRedirected {
        /// Redirected pairs.
        pairs: usize,
        /// All pairs.
        of: usize,
        /// Ports that redirect.
        ports: Vec<PciAddress>,
    },
}

impl StorageFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::CufileWouldFail => text(
                "cuFile must not copy, but has no direct path: no nvidia_fs, no P2PDMA mode",
                "",
                "run `modprobe nvidia_fs`, or set `\"use_pci_p2pdma\": true` in properties of /etc/cufile.json",
            ),
            Self::NvidiaFsNeedsOpenModules { version } => text(
                "{} works with the open kernel modules only",
                format!("nvidia_fs {version}"),
                "install the open NVIDIA kernel modules",
            ),
            Self::P2pdmaNeedsOpenModules { .. } => text(
                format!("P2PDMA mode needs open kernel modules from R{P2PDMA_DRIVER} on"),
                "",
                "install such a driver, or load nvidia_fs and remove `use_pci_p2pdma`",
            ),
            Self::P2pdmaWithoutDriver => text("P2PDMA mode without an NVIDIA driver", "", ""),
            Self::KernelWithoutP2pdma => text(
                "this kernel was built without CONFIG_PCI_P2PDMA=y",
                "",
                "boot a kernel that has it, or load nvidia_fs and remove `use_pci_p2pdma`",
            ),
            Self::CufileInvalid { line, problem } => text(
                problem.to_string(),
                format!("{PATH}:{line}"),
                match problem {
                    Problem::Type { key: Some(key), expected } => {
                        format!("make `{key}` {}", expected.description())
                    }
                    Problem::Twice { .. } => "remove one of the two".to_owned(),
                    Problem::Syntax | Problem::NoObject | Problem::Type { key: None, .. } => {
                        "compare it with the file from the package".to_owned()
                    }
                },
            ),
            Self::DiskRedirected { pairs, of, ports } => in_profile(
                format!(
                    "{pairs} of {of} GPU–NVMe pairs detour through the root complex: ACS redirect (RR, CR, EC) is on at {{}}"
                ),
                named(ports, "ports"),
                "[acs] peers = [\"nic\", \"gpu\", \"nvme\"]",
                ": effective at once; IOMMU groups follow at the next boot",
            ),
        }
    }
}
