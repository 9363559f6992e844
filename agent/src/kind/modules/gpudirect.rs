//! `modules.gpudirect` → nothing to load (DMA-BUF), nvidia_peermem, or a blocker that says why neither works.
//! The rule: handbook §6.3.

use super::NAME;
use super::section::GpuDirect;
use crate::desired::{Desired, ModuleLoad, WantedModule};
use crate::facts::Facts;
use crate::facts::gpu::NvidiaDriver;
use crate::host::Reading;
use crate::plan::{Blocker, Note, Unknown, Why};
use crate::value::ModuleName;

const SUBJECT: &str = "GPUDirect memory registration";

/// DMA-BUF needs a kernel of this generation (handbook §6.3, vendor table).
const DMABUF_KERNEL: (u32, u32) = (5, 12);
/// CUDA 11.7 came with the R515 driver, the first one with open kernel modules.
const DMABUF_DRIVER: u32 = 515;

/// The module to load, if any.
pub fn resolve(asked: GpuDirect, facts: &Facts, desired: &mut Desired) -> Option<WantedModule> {
    let has_nvidia_gpu = facts
        .pci
        .known()
        .is_some_and(|tree| tree.functions.values().any(|f| f.is_gpu() && f.vendor.0 == 0x10de));
    match asked {
        GpuDirect::None | GpuDirect::Dmabuf => None,
        GpuDirect::Peermem => Some(peermem("the profile asks for the legacy path")),
        // AMD registers amdgpu itself as a peer client or uses DMA-BUF: there is no module to load (handbook §6.3).
        GpuDirect::Auto if !has_nvidia_gpu => None,
        // Known, and no matter of reading: there is no GPUDirect without a driver, and people have to bring one.
        GpuDirect::Auto if matches!(facts.gpu.nvidia, Reading::Absent) => {
            desired.blockers.push(no_driver());
            None
        }
        GpuDirect::Auto => auto(facts, desired),
    }
}

fn no_driver() -> Blocker {
    Blocker {
        kind: NAME,
        subject: SUBJECT.into(),
        reason: "there are NVIDIA GPUs, and no NVIDIA driver is loaded".into(),
        remedy:
            "install the NVIDIA driver and load it, which is noticed at once; on a host that needs none, set \
                 `gpudirect = \"none\"` in [modules] of the profile"
                .into(),
    }
}

fn auto(facts: &Facts, desired: &mut Desired) -> Option<WantedModule> {
    match dmabuf_obstacle(facts) {
        Ok(None) => {
            desired.notes.push(Note {
                kind: NAME,
                subject: SUBJECT.into(),
                text: "DMA-BUF: open NVIDIA kernel modules and a kernel of 5.12 or later; no module to load. Measure with \
                       `ib_write_bw --use_cuda=N --use_cuda_dmabuf`: without the last option it asks for nvidia_peermem"
                    .into(),
            });
            None
        }
        Ok(Some(obstacle)) => match &facts.gpu.peer_memory_symbols {
            Reading::Known(true) => Some(peermem(&format!("DMA-BUF is out ({obstacle})"))),
            Reading::Known(false) | Reading::Absent => {
                desired.blockers.push(Blocker {
                    kind: NAME,
                    subject: SUBJECT.into(),
                    reason: format!(
                        "neither path works: DMA-BUF is out ({obstacle}), and this kernel's ib_core has no peer-memory symbols for nvidia_peermem"
                    ),
                    remedy: "install the open NVIDIA kernel modules (DMA-BUF), or DOCA-OFED/MLNX_OFED (peermem)".into(),
                });
                None
            }
            Reading::Unknown(why) => {
                desired.unknowns.push(Unknown {
                    kind: NAME,
                    subject: SUBJECT.into(),
                    reason: why.clone(),
                });
                None
            }
        },
        Err(reason) => {
            desired.unknowns.push(Unknown { kind: NAME, subject: SUBJECT.into(), reason });
            None
        }
    }
}

/// What rules DMA-BUF out, as far as a host can tell; `Err` = cannot tell.
fn dmabuf_obstacle(facts: &Facts) -> Result<Option<String>, String> {
    let driver = match &facts.gpu.nvidia {
        Reading::Known(driver) => driver,
        Reading::Absent => return Err("no NVIDIA driver is loaded".into()),
        Reading::Unknown(why) => return Err(why.clone()),
    };
    let kernel = match &facts.os.kernel {
        Reading::Known(release) => release,
        Reading::Absent | Reading::Unknown(_) => {
            return Err("the running kernel is not known".into());
        }
    };
    let mut numbers =
        kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Ok(obstacle(driver, kernel, version))
}

fn obstacle(driver: &NvidiaDriver, kernel: &str, version: (u32, u32)) -> Option<String> {
    if !driver.open {
        return Some("the NVIDIA kernel modules are the proprietary ones".into());
    }
    let major: u32 =
        driver.version.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    if major < DMABUF_DRIVER {
        return Some(format!("driver {} is older than R{DMABUF_DRIVER}", driver.version));
    }
    (version < DMABUF_KERNEL).then(|| format!("kernel {kernel} is older than 5.12"))
}

fn peermem(reason: &str) -> WantedModule {
    let why = Why::new(
        format!("{reason}: NCCL then registers GPU memory through nvidia_peermem"),
        "nvidia open-gpu-kernel-modules kernel-open/nvidia-peermem; handbook §6.3",
    );
    #[allow(clippy::expect_used, reason = "a constant that the parser's own test covers")]
    let name: ModuleName = "nvidia_peermem".parse().expect("a valid module name");
    WantedModule { name, load: ModuleLoad::Now, why: vec![why] }
}
