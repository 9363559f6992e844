//! Drivers and kernel modules.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, named};
use crate::kind::modules::DmabufObstacle;
use crate::kind::modules::topo_check::PARAMETER;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

/// Makers of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "Maker"))]
pub enum GpuVendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Another.
    Other,
}

impl GpuVendor {
    /// The maker with this vendor id.
    pub fn from_vendor(vendor: u16) -> GpuVendor {
        match vendor {
            0x10de => GpuVendor::Nvidia,
            0x1002 => GpuVendor::Amd,
            0x8086 => GpuVendor::Intel,
            _ => GpuVendor::Other,
        }
    }
}

bedplate_base::named! {
    /// Kinds of NVIDIA's kernel modules.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum ModuleKind {
        /// The open ones.
        Open = "open",
        /// The proprietary ones.
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "ModulesCode"))]
pub enum ModulesFinding {
    /// GPUs are not bound to their maker's driver.
    WrongDriver {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// Maker of the first.
        maker: GpuVendor,
        /// Driver of the first; `None`: it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// The loaded kernel modules of NVIDIA's driver are not those that GPUs need.
    WrongKernelModules {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// The kernel modules that they need.
        needs: ModuleKind,
    },
    /// The kernel was built without an option that RCCL looks for.
    KernelOptionMissing {
        /// `CONFIG_PCI_P2PDMA`.
        option: String,
    },
    /// The NVIDIA driver is set to let no peer reach GPU memory.
    PeersRefused {
        /// The parameter's value.
        value: u32,
        /// The file that sets it for the next load of the driver; `None`: the loaded driver is set so.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// There are NVIDIA GPUs, and no NVIDIA driver is loaded.
    NoNvidiaDriver,
    /// nvidia_peermem could register GPU memory, and is not loaded.
    PeermemNotLoaded {
        /// The obstacle to DMA-BUF.
        obstacle: DmabufObstacle,
    },
    /// Neither DMA-BUF nor nvidia_peermem can register GPU memory.
    NoWayToRegister {
        /// The obstacle to DMA-BUF.
        obstacle: DmabufObstacle,
    },
    /// nv_peer_mem is loaded.
    NvPeerMemLoaded,
    /// nv_peer_mem, or amd_peer_mem, is listed to be loaded at boot.
    NvPeerMemListed {
        /// The module.
        module: String,
        /// The first list that names it.
        path: String,
    },
    /// The NVIDIA driver's library for programs is of another version than its kernel module.
    DriverVersions {
        /// Version of the library.
        library: String,
        /// Version of the kernel module.
        module: String,
    },
    /// The firmware of GPUs' GSP is not there in the loaded driver's version.
    GspFirmwareMissing {
        /// The GPUs.
        gpus: Vec<PciAddress>,
        /// A file of it.
        file: String,
        /// Version of the driver.
        driver: String,
    },
}

impl FindingText for ModulesFinding {
    fn description(&self) -> Cow<'static, str> {
        match self {
            ModulesFinding::WrongDriver { driver: Some(driver), .. } => {
                format!("GPU {{}}: bound to {driver}").into()
            }
            ModulesFinding::WrongDriver { driver: None, .. } => "GPU {}: bound to no driver".into(),
            ModulesFinding::WrongKernelModules { needs, .. } => format!(
                "GPU {{}} needs the {} kernel modules, and the {} ones are loaded",
                needs.name(),
                needs.other().name()
            )
            .into(),
            ModulesFinding::KernelOptionMissing { .. } => {
                "this kernel was built without {}: RCCL registers no GPU memory by DMA-BUF".into()
            }
            ModulesFinding::PeersRefused { path: None, .. } => {
                "the NVIDIA driver is set to refuse peers: {}".into()
            }
            ModulesFinding::PeersRefused { .. } => {
                "the NVIDIA driver will refuse peers once it is loaded again: {}".into()
            }
            ModulesFinding::NoNvidiaDriver => "no NVIDIA driver is loaded".into(),
            ModulesFinding::PeermemNotLoaded { .. } => {
                "nvidia_peermem is not loaded, and DMA-BUF is out: {}".into()
            }
            ModulesFinding::NoWayToRegister { .. } => {
                "neither way works: DMA-BUF is out ({}), and this ib_core has no peer-memory symbols".into()
            }
            ModulesFinding::NvPeerMemLoaded => "nv_peer_mem is loaded".into(),
            ModulesFinding::NvPeerMemListed { .. } => "{} is listed to be loaded at boot".into(),
            ModulesFinding::DriverVersions { .. } => {
                "not one version, so that CUDA starts no program (error 803)".into()
            }
            ModulesFinding::GspFirmwareMissing { file, driver, .. } => format!(
                "the firmware {file} of driver {driver} is not there, without which GPU {{}} cannot start again"
            )
            .into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            ModulesFinding::WrongDriver { gpus, .. }
            | ModulesFinding::WrongKernelModules { gpus, .. }
            | ModulesFinding::GspFirmwareMissing { gpus, .. } => named(gpus, "GPUs"),
            ModulesFinding::KernelOptionMissing { option } => format!("{option}=y"),
            ModulesFinding::PeersRefused { value, .. } => format!("{PARAMETER}={value}"),
            ModulesFinding::NoNvidiaDriver | ModulesFinding::NvPeerMemLoaded => String::new(),
            ModulesFinding::PeermemNotLoaded { obstacle }
            | ModulesFinding::NoWayToRegister { obstacle } => obstacle.to_string(),
            ModulesFinding::NvPeerMemListed { module, .. } => module.clone(),
            ModulesFinding::DriverVersions { library, module } => {
                format!("the NVIDIA driver's library {library} and its kernel module {module}")
            }
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            ModulesFinding::WrongDriver { maker, driver, .. } => {
                bind_driver(*maker, driver.as_deref())
            }
            ModulesFinding::WrongKernelModules { needs, .. } => {
                return replace_modules(*needs).into();
            }
            ModulesFinding::KernelOptionMissing { option } => {
                return format!("boot a kernel with {option}=y").into();
            }
            ModulesFinding::PeersRefused { path, .. } => {
                return allow_peers(path.as_deref()).into();
            }
            ModulesFinding::NoNvidiaDriver => "`modprobe nvidia`",
            ModulesFinding::PeermemNotLoaded { .. } => {
                "`gpudirect = \"auto\"` in [modules] of the profile, then `bedplate apply`; until the next boot `modprobe nvidia_peermem`"
            }
            ModulesFinding::NoWayToRegister { obstacle: DmabufObstacle::ProprietaryModules } => {
                "install the open NVIDIA kernel modules (DMA-BUF), or DOCA-OFED (nvidia_peermem)"
            }
            ModulesFinding::NoWayToRegister { .. } => {
                "boot Linux 5.12 or newer with the open NVIDIA kernel modules of R515 or newer (DMA-BUF), or install DOCA-OFED \
                 (nvidia_peermem)"
            }
            ModulesFinding::NvPeerMemLoaded => {
                "`apt purge nvidia-peer-memory-dkms` or the like, `modprobe -r nv_peer_mem`"
            }
            ModulesFinding::NvPeerMemListed { module, path } => {
                return format!("take {module} out of {path}").into();
            }
            ModulesFinding::DriverVersions { .. } => {
                "reboot, or stop all jobs and load the nvidia modules again"
            }
            ModulesFinding::GspFirmwareMissing { .. } => {
                "install the firmware package of that driver, or reboot where the driver was updated since the boot"
            }
        };
        remedy.into()
    }

    fn recovery(&self) -> Recovery {
        match self {
            ModulesFinding::DriverVersions { .. } => Recovery::Reboot,
            _ => Recovery::None,
        }
    }
}

/// The remedy that gives a GPU its maker's driver in the place of this one.
pub(crate) fn bind_driver(maker: GpuVendor, driver: Option<&str>) -> &'static str {
    match (maker, driver) {
        (GpuVendor::Nvidia, Some("nouveau")) => {
            "install the NVIDIA driver and keep nouveau out: `blacklist = [\"nouveau\"]` in [modules] of the profile, \
             `bedplate apply`, and reboot"
        }
        (GpuVendor::Nvidia, _) => {
            "`modprobe nvidia`, then `dmesg | grep -i nvrm`: it says why the driver does not take the GPU (Blackwell needs the open \
             kernel modules); where there is no such module, install the NVIDIA driver for this kernel"
        }
        _ => "`dmesg | grep -iE 'amdgpu|xe '`: it says why the driver does not take the GPU",
    }
}

fn replace_modules(needs: ModuleKind) -> String {
    format!(
        "install the {} kernel modules of the driver in the place of the {} ones, and reboot",
        needs.name(),
        needs.other().name()
    )
}

fn allow_peers(path: Option<&str>) -> String {
    match path {
        Some(path) => format!("take `{PARAMETER}` out of {path}"),
        None => format!(
            "take `{PARAMETER}` out of modprobe.d (or `options.nvidia` in [modules] of the profile), then load the driver again, or \
             reboot"
        ),
    }
}
