//! Drivers and kernel modules.

use serde::Serialize;

use super::{FindingText, in_profile, named, text};
use crate::kind::modules::DmabufObstacle;
use crate::kind::modules::topo_check::PARAMETER;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;

/// Vendors of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GpuVendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Any other vendor.
    Other,
}

impl GpuVendor {
    /// Returns the vendor of a GPU.
    pub fn of(gpu: &Function) -> GpuVendor {
        match gpu.vendor.0 {
            0x10de => GpuVendor::Nvidia,
            0x1002 => GpuVendor::Amd,
            0x8086 => GpuVendor::Intel,
            _ => GpuVendor::Other,
        }
    }
}

bedplate_base::named! {
    /// Variants of NVIDIA's kernel modules.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum ModuleKind {
        /// Open kernel modules.
        Open = "open",
        /// Proprietary kernel modules.
        Proprietary = "proprietary",
    }
}

impl ModuleKind {
    fn other(self) -> ModuleKind {
        match self {
            ModuleKind::Open => ModuleKind::Proprietary,
            ModuleKind::Proprietary => ModuleKind::Open,
        }
    }
}

/// A finding about drivers and kernel modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "ModulesCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ModulesFinding {
    /// GPUs are not bound to their vendor's driver.
    WrongDriver {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// Vendor of the first GPU.
        vendor: GpuVendor,
        /// Driver of the first GPU. `None`: no driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// The loaded NVIDIA kernel modules are not the variant that the GPUs need.
    WrongKernelModules {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// Variant that the GPUs need.
        needs: ModuleKind,
    },
    /// The kernel was built without an option that RCCL looks for.
    KernelOptionMissing {
        /// `CONFIG_PCI_P2PDMA`.
        option: String,
    },
    /// A parameter of the NVIDIA driver denies peers access to GPU memory.
    PeersRefused {
        /// The parameter's value.
        value: u32,
        /// File that sets the value for the next load of the driver. `None`: the loaded driver has the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// NVIDIA GPUs are there, but no NVIDIA driver is loaded.
    NoNvidiaDriver,
    /// nvidia_peermem could register GPU memory, but is not loaded.
    PeermemNotLoaded {
        /// Obstacle to DMA-BUF.
        obstacle: DmabufObstacle,
    },
    /// Neither DMA-BUF nor nvidia_peermem can register GPU memory.
    NoWayToRegister {
        /// Obstacle to DMA-BUF.
        obstacle: DmabufObstacle,
    },
    /// nv_peer_mem is loaded.
    NvPeerMemLoaded,
    /// nv_peer_mem, or amd_peer_mem, is listed to be loaded at boot.
    NvPeerMemListed {
        /// The module.
        module: String,
        /// First list that names the module.
        path: String,
    },
    /// The NVIDIA driver's user-space library and its kernel module differ in version.
    DriverVersions {
        /// Version of the library.
        library: String,
        /// Version of the kernel module.
        module: String,
    },
    /// The GSP firmware for GPUs is missing in the loaded driver's version.
    GspFirmwareMissing {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// A file of the firmware.
        file: String,
        /// Version of the driver.
        driver: String,
    },
}

impl ModulesFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::WrongDriver { gpus, vendor, driver } => text(
                match driver {
                    Some(driver) => format!("GPU {{}}: bound to {driver}"),
                    None => "GPU {}: bound to no driver".to_owned(),
                },
                named(gpus, "GPUs"),
                bind_driver(*vendor, driver.as_deref()),
            ),
            Self::WrongKernelModules { gpus, needs } => {
                let (needed, loaded) = (needs.name(), needs.other().name());
                text(
                    format!(
                        "GPU {{}} needs the {needed} kernel modules, but the {loaded} ones are loaded"
                    ),
                    named(gpus, "GPUs"),
                    format!(
                        "replace the driver's {loaded} kernel modules by the {needed} ones, then reboot"
                    ),
                )
            }
            Self::KernelOptionMissing { option } => text(
                "this kernel was built without {}: RCCL registers no GPU memory by DMA-BUF",
                format!("{option}=y"),
                format!("boot a kernel with {option}=y"),
            ),
            Self::PeersRefused { value, path } => peers_refused(*value, path.as_deref()),
            Self::NoNvidiaDriver => text("no NVIDIA driver is loaded", "", "run `modprobe nvidia`"),
            Self::PeermemNotLoaded { obstacle } => in_profile(
                "nvidia_peermem is not loaded, and DMA-BUF is unavailable: {}",
                obstacle,
                "[modules] gpudirect = \"auto\"",
                "; until the next boot, run `modprobe nvidia_peermem`",
            ),
            Self::NoWayToRegister { obstacle } => no_way_to_register(obstacle),
            Self::NvPeerMemLoaded => text(
                "nv_peer_mem is loaded",
                "",
                "run `apt purge nvidia-peer-memory-dkms` or similar, then `modprobe -r nv_peer_mem`",
            ),
            Self::NvPeerMemListed { module, path } => text(
                "{} is listed for loading at boot",
                module,
                format!("remove {module} from {path}"),
            ),
            Self::DriverVersions { library, module } => text(
                "different versions: CUDA starts no program (error 803)",
                format!("the NVIDIA driver's library {library} and its kernel module {module}"),
                "reboot, or stop all jobs and reload the nvidia modules",
            )
            .recovery(Recovery::Reboot),
            Self::GspFirmwareMissing { gpus, file, driver } => text(
                format!(
                    "firmware {file} of driver {driver} is missing: GPU {{}} cannot start again"
                ),
                named(gpus, "GPUs"),
                "install the firmware package of that driver. Driver updated since boot? Reboot",
            ),
        }
    }
}

fn no_way_to_register(obstacle: &DmabufObstacle) -> FindingText {
    text(
        "GPU memory cannot be registered: DMA-BUF is unavailable ({}), and this ib_core has no peer-memory symbols",
        obstacle,
        match obstacle {
            DmabufObstacle::ProprietaryModules => {
                "install the open NVIDIA kernel modules (DMA-BUF), or DOCA-OFED (nvidia_peermem)"
            }
            _ => {
                "boot Linux 5.12 or newer with the open NVIDIA kernel modules of R515 or newer (DMA-BUF), or install DOCA-OFED \
                 (nvidia_peermem)"
            }
        },
    )
}

fn peers_refused(value: u32, path: Option<&str>) -> FindingText {
    let (description, fix) = match path {
        None => (
            "the NVIDIA driver is set to refuse peers: {}",
            format!(
                "remove `{PARAMETER}` from modprobe.d (or from [modules] `options.nvidia` in the profile), then reload the \
                 driver or reboot"
            ),
        ),
        Some(path) => (
            "the NVIDIA driver will refuse peers after its next load: {}",
            format!("remove `{PARAMETER}` from {path}"),
        ),
    };
    text(description, format!("{PARAMETER}={value}"), fix)
}

/// Returns the fix that replaces a GPU's driver by its vendor's.
pub(crate) fn bind_driver(vendor: GpuVendor, driver: Option<&str>) -> &'static str {
    match (vendor, driver) {
        (GpuVendor::Nvidia, Some("nouveau")) => {
            "install the NVIDIA driver, set [modules] blacklist = [\"nouveau\"] in the profile, run `bedplate apply`, reboot"
        }
        (GpuVendor::Nvidia, _) => {
            "run `modprobe nvidia`, then check `dmesg | grep -i nvrm` for why the driver rejects the GPU (Blackwell needs \
             the open kernel modules). No such module? Install the NVIDIA driver for this kernel"
        }
        _ => "check `dmesg | grep -iE 'amdgpu|xe '` for why the driver rejects the GPU",
    }
}
