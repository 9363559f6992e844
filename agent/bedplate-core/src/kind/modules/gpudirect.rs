//! Resolves `modules.gpudirect`: no module (DMA-BUF), nvidia_peermem, or a blocker that gives the reason why neither works.
//! Rule: handbook §6.3.

use std::fmt;

use serde::Serialize;

use super::NAME;
use super::section::GpuDirect;
use crate::desired::{Desired, ModuleLoad, WantedModule};
use crate::plan::{Blocker, Rationale};
use bedplate_base::Reading;
use bedplate_base::value::{KernelVersion, ModuleName};
use bedplate_facts::Facts;
use bedplate_facts::gpu::NvidiaDriver;

const SUBJECT: &str = "GPUDirect memory registration";

/// Minimum kernel for DMA-BUF (handbook §6.3, vendor table).
const DMABUF_KERNEL: KernelVersion = KernelVersion::new(5, 12);
/// R515, the driver of CUDA 11.7 and the first with open kernel modules.
const DMABUF_DRIVER: u32 = 515;

/// An obstacle to DMA-BUF with NVIDIA's driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DmabufObstacle {
    /// Proprietary kernel modules.
    ProprietaryModules,
    /// Driver too old.
    OldDriver {
        /// Driver version.
        version: String,
    },
    /// Kernel too old.
    OldKernel {
        /// Kernel release.
        release: String,
    },
}

impl fmt::Display for DmabufObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DmabufObstacle::ProprietaryModules => f.write_str("proprietary NVIDIA kernel modules"),
            DmabufObstacle::OldDriver { version } => {
                write!(f, "driver {version} is older than R{DMABUF_DRIVER}")
            }
            DmabufObstacle::OldKernel { release } => {
                write!(f, "kernel {release} is older than {DMABUF_KERNEL}")
            }
        }
    }
}

/// Returns the module to load, if any.
pub(super) fn resolve(
    asked: GpuDirect,
    facts: &Facts,
    desired: &mut Desired,
) -> Option<WantedModule> {
    let functions = facts.pci.known().into_iter().flat_map(|tree| tree.functions.values());
    let (for_guests, of_the_host): (Vec<_>, Vec<_>) =
        functions.filter(|f| f.is_gpu() && f.vendor.0 == 0x10de).partition(|gpu| gpu.vfio);
    match asked {
        GpuDirect::None | GpuDirect::Dmabuf => None,
        GpuDirect::Peermem => Some(peermem("requested by the profile")),
        // AMD's amdgpu registers itself as a peer client or uses DMA-BUF: there is no module to load (handbook §6.3).
        GpuDirect::Auto if of_the_host.is_empty() => {
            desired.notes.extend((!for_guests.is_empty()).then(|| NAME.note(
                SUBJECT,
                "no host setup needed: all NVIDIA GPUs are bound to VFIO drivers; guests register GPU memory \
                 themselves",
            )));
            None
        }
        GpuDirect::Auto => match &facts.gpu.nvidia {
            Reading::Known(driver) => auto(dmabuf_obstacle(driver, facts), facts, desired),
            Reading::Unknown(why) => auto(Err(why.to_string()), facts, desired),
            // A blocker, not an unknown: GPUDirect needs a driver, which the operator must install.
            Reading::Absent => {
                desired.blockers.push(no_driver());
                None
            }
        },
    }
}

fn no_driver() -> Blocker {
    NAME.blocker(
        SUBJECT,
        "NVIDIA GPUs present, but no NVIDIA driver is loaded",
        "install and load the NVIDIA driver (detected at once). Host needs no driver? Set `gpudirect = \"none\"` in \
         [modules] of the profile",
    )
}

/// Decides between DMA-BUF and nvidia_peermem. `obstacle`: the obstacle to DMA-BUF, or the reason why it is unknown.
fn auto(
    obstacle: Result<Option<DmabufObstacle>, String>,
    facts: &Facts,
    desired: &mut Desired,
) -> Option<WantedModule> {
    match obstacle {
        Ok(None) => {
            desired.notes.push(NAME.note(
                SUBJECT,
                "DMA-BUF (open NVIDIA kernel modules, kernel 5.12 or later); no module to load. Benchmark with `ib_write_bw \
                 --use_cuda=N --use_cuda_dmabuf`, which otherwise requires nvidia_peermem",
            ));
            None
        }
        Ok(Some(obstacle)) => match &facts.gpu.peer_memory_symbols {
            Reading::Known(true) => Some(peermem(&format!("DMA-BUF unavailable ({obstacle})"))),
            Reading::Known(false) | Reading::Absent => {
                desired.blockers.push(NAME.blocker(
                    SUBJECT,
                    format!(
                        "no path works: DMA-BUF unavailable ({obstacle}), and this kernel's ib_core lacks the \
                         peer-memory symbols for nvidia_peermem"
                    ),
                    "install the open NVIDIA kernel modules (DMA-BUF), or DOCA-OFED/MLNX_OFED (peermem)",
                ));
                None
            }
            Reading::Unknown(why) => {
                desired.unknowns.push(NAME.unknown(SUBJECT, why.to_string()));
                None
            }
        },
        Err(reason) => {
            desired.unknowns.push(NAME.unknown(SUBJECT, reason));
            None
        }
    }
}

/// Returns the obstacle to DMA-BUF that the host shows, or `None`.
///
/// # Errors
/// The reason why the kernel or its version is unknown.
pub(crate) fn dmabuf_obstacle(
    driver: &NvidiaDriver,
    facts: &Facts,
) -> Result<Option<DmabufObstacle>, String> {
    let kernel = match &facts.os.kernel {
        Reading::Known(release) => release,
        Reading::Absent | Reading::Unknown(_) => {
            return Err("running kernel unknown".into());
        }
    };
    let version = KernelVersion::from_release(kernel)
        .ok_or_else(|| format!("cannot parse the version of kernel {kernel}"))?;
    Ok(obstacle(driver, kernel, version))
}

fn obstacle(driver: &NvidiaDriver, kernel: &str, version: KernelVersion) -> Option<DmabufObstacle> {
    if !driver.open {
        return Some(DmabufObstacle::ProprietaryModules);
    }
    let major: u32 =
        driver.version.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    if major < DMABUF_DRIVER {
        return Some(DmabufObstacle::OldDriver { version: driver.version.clone() });
    }
    (version < DMABUF_KERNEL).then(|| DmabufObstacle::OldKernel { release: kernel.to_owned() })
}

fn peermem(reason: &str) -> WantedModule {
    let why = Rationale::new(
        format!("{reason}: NCCL registers GPU memory through nvidia_peermem"),
        "nvidia open-gpu-kernel-modules kernel-open/nvidia-peermem; handbook §6.3",
    );
    #[allow(clippy::expect_used, reason = "a constant that the parser's own test covers")]
    let name: ModuleName = "nvidia_peermem".parse().expect("a valid module name");
    WantedModule { name, load: ModuleLoad::Now, why: vec![why] }
}
