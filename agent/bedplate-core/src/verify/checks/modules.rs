//! Drivers and modules.

use super::super::finding::bind_driver;
use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Check, CheckInput, Evidence, GpuVendor, Group, Judgement, ModuleKind, ModulesFinding, Outcome,
    Severity,
};
use super::addresses;
use crate::kind::modules::dmabuf_obstacle;
use crate::kind::modules::topo_check::{self, Access, DmaPath, PARAMS, TopoCheck};
use bedplate_base::{Reading, counted};
use bedplate_facts::gpu::{FORCE_DMABUF, NvidiaDriver};
use bedplate_facts::kernel_config;
use bedplate_facts::nccl_conf::RCCL_CONF;
use bedplate_facts::nvidia_modules::needs_open;
use bedplate_facts::pci::Function;
use bedplate_facts::superchip::{Superchip, superchip};

const VERSION: &str = "/proc/driver/nvidia/version";

pub(crate) const DRIVER: Check = Check {
    id: "modules.driver",
    group: Group::Modules,
    verifies: "every GPU of the host is bound to its vendor's driver",
    severity: Severity::Fail,
    needs_root: false,
    what: "Every GPU not assigned to a VM is bound to its vendor's driver: NVIDIA's to `nvidia`, AMD's to `amdgpu`, Intel's \
           to `xe` or `i915`. nouveau cannot compute, and pci-stub is no driver. The loaded NVIDIA kernel modules are the \
           variant that each GPU needs: open for GH200 and from Blackwell on, proprietary before Turing.",
    why: "A GPU without its driver is invisible to CUDA, ROCm and NCCL. Kernel modules of the other variant do not start it.",
    source: "handbook §6.2",
    how: "DRIVER= in uevent of each GPU; /proc/driver/nvidia/version",
    judge: driver,
};

fn driver(input: &CheckInput<'_>) -> Judgement {
    let tree = input.topology()?.tree();
    let undriven = tree.unread_drivers.iter().find(|(address, _)| {
        tree.get(**address).is_some_and(|function| function.is_gpu() && !function.vfio)
    });
    if let Reading::Known(loaded) = &input.facts.gpu.nvidia {
        let is_other = |gpu: &&Function| {
            matches!(gpu.driver.as_deref(), None | Some("nvidia"))
                && needs_open(gpu).is_some_and(|open| open != loaded.open)
        };
        let others: Vec<&Function> = input.gpus.iter().copied().filter(is_other).collect();
        if !others.is_empty() {
            return Ok(other_modules(&others, loaded));
        }
    }
    let is_right = |gpu: &&Function| match (&gpu.driver, GpuVendor::of(gpu)) {
        (Some(driver), GpuVendor::Nvidia) => driver == "nvidia",
        (Some(driver), GpuVendor::Amd) => driver == "amdgpu",
        (Some(driver), GpuVendor::Intel) => matches!(driver.as_str(), "xe" | "i915"),
        (driver, _) => driver.is_some(),
    };
    let (right, wrong): (Vec<&Function>, Vec<&Function>) =
        input.gpus.iter().copied().partition(is_right);
    if let Some(first) = wrong.first() {
        let shown = first.driver.as_deref().unwrap_or("no DRIVER= line");
        return Ok(Outcome::fail([ModulesFinding::WrongDriver {
            gpus: addresses(&wrong),
            vendor: GpuVendor::of(first),
            driver: first.driver.clone(),
        }])
        .evidence(shown, first.attribute("uevent")));
    }
    if let Some((address, why)) = undriven {
        return Ok(unread(format_args!("the driver of GPU {address}"), why));
    }
    let Some(first) = right.first() else {
        return Ok(Outcome::not_applicable("no GPU used by the host itself"));
    };
    let count = right.len();
    if GpuVendor::of(first) != GpuVendor::Nvidia {
        let driver = first.driver.as_deref().unwrap_or_default();
        return Ok(Outcome::pass(format!("{} bound to {driver}", counted(count, "GPU")))
            .evidence(driver, first.attribute("uevent")));
    }
    Ok(match &input.facts.gpu.nvidia {
        Reading::Known(found) => {
            let kind = kind(found.open).name();
            let text = format!(
                "{} bound to nvidia {}, {kind} kernel modules",
                counted(count, "GPU"),
                found.version
            );
            Outcome::pass(text).evidence(&found.version, VERSION)
        }
        // The GPUs are bound, which is all that the check requires.
        Reading::Absent => Outcome::pass(format!("{} bound to nvidia", counted(count, "GPU")))
            .evidence("not there", VERSION),
        Reading::Unknown(why) => unread("the NVIDIA driver's version", why),
    })
}

fn kind(is_open: bool) -> ModuleKind {
    if is_open { ModuleKind::Open } else { ModuleKind::Proprietary }
}

/// Returns the outcome for loaded modules of the wrong variant for these GPUs.
fn other_modules(gpus: &[&Function], loaded: &NvidiaDriver) -> Outcome {
    let has = kind(loaded.open).name();
    Outcome::fail([ModulesFinding::WrongKernelModules {
        gpus: addresses(gpus),
        needs: kind(!loaded.open),
    }])
    .evidence(format!("{}, {has} kernel modules", loaded.version), VERSION)
    .all_evidence(gpus.first().map(|gpu| {
        Evidence::new(format!("{}:{}", gpu.vendor, gpu.device), gpu.attribute("uevent"))
    }))
}

pub(crate) const GPUDIRECT: Check = Check {
    id: "modules.gpudirect",
    group: Group::Modules,
    verifies: "RDMA NICs can register GPU memory, by DMA-BUF or by nvidia_peermem",
    severity: Severity::Fail,
    needs_root: false,
    what: "NVIDIA: DMA-BUF (open kernel modules from R515 on, Linux from 5.12 on), or nvidia_peermem loaded, which needs an \
           ib_core with the peer-memory symbols (DOCA-OFED, MLNX_OFED). NVreg_GrdmaPciTopoCheckOverride is not 2, with which \
           drivers from R580 on refuse both. AMD: amdgpu among the clients of such an ib_core, or a kernel with \
           CONFIG_DMABUF_MOVE_NOTIFY and CONFIG_PCI_P2PDMA. Linux 7.1 no longer has the first option, and RCCL that still \
           looks for it needs RCCL_FORCE_ENABLE_DMABUF=1.",
    why: "Without either, NCCL stages every transfer in host memory. Measure DMA-BUF with `ib_write_bw --use_cuda=N \
          --use_cuda_dmabuf`: without the last option, perftest requests nvidia_peermem, and fails on a correct node.",
    source: "handbook §6.3, §14.6, §14.8",
    how: "/proc/driver/nvidia/version, /proc/sys/kernel/osrelease, /sys/module/nvidia_peermem, modules.symbols in \
          /lib/modules; /boot/config-RELEASE or config in /usr/lib/modules/RELEASE; amdkfd/version in /sys/kernel/mm/memory_peers, /sys/kernel/memory_peers or \
          /sys/memory_peers; /etc/rccl.conf",
    judge: gpudirect,
};

fn gpudirect(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    if gpus.iter().any(|gpu| GpuVendor::of(gpu) == GpuVendor::Nvidia) {
        return of_nvidia(input);
    }
    let Some(rccl) = &input.facts.gpu.rccl else {
        return Ok(match gpus.iter().find(|gpu| GpuVendor::of(gpu) == GpuVendor::Amd) {
            Some(gpu) => Outcome::unknown("no AMD GPU is bound to amdgpu, which RCCL needs")
                .evidence(gpu.driver.as_deref().unwrap_or("no driver"), gpu.attribute("uevent"))
                .hint(bind_driver(GpuVendor::of(gpu), gpu.driver.as_deref())),
            None => Outcome::unknown(
                "the GPUDirect RDMA requirements of this GPU vendor are unknown to this version",
            )
            .evidence(
                gpus[0].driver.as_deref().unwrap_or("no driver"),
                gpus[0].attribute("uevent"),
            ),
        });
    };
    if let Reading::Known(path) = rccl.peer_client {
        return Ok(Outcome::pass("peer memory: amdgpu is a client of this ib_core")
            .evidence("there", path));
    }
    let at = kernel_config::PLACES;
    for (option, built) in
        [("CONFIG_DMABUF_MOVE_NOTIFY", &rccl.move_notify), ("CONFIG_PCI_P2PDMA", &rccl.p2pdma)]
    {
        if built.or_unread(format_args!("whether the kernel has {option}=y"))? == Some(&true) {
            continue;
        }
        if rccl.always_notifies && option == "CONFIG_DMABUF_MOVE_NOTIFY" {
            if rccl.is_forced != Reading::Known(true) {
                return rccl_looks_in_vain(&rccl.is_forced);
            }
            continue;
        }
        let missing = format!("no line {option}=y");
        // amdgpu registers with the ib_core of OFED as a peer client, which RCCL prefers.
        if input.facts.gpu.peer_memory_symbols == Reading::Known(true) {
            return Ok(Outcome::unknown(format!(
                "DMA-BUF is unavailable (kernel built without {option}=y), but this ib_core has the peer-memory symbols, \
                 with which RCCL may register GPU memory"
            ))
            .evidence(missing, at)
            .hint("check `ls /sys/kernel/mm/memory_peers/amdkfd`: it exists if amdgpu has registered there"));
        }
        let code = ModulesFinding::KernelOptionMissing { option: option.to_owned() };
        return Ok(Outcome::fail([code]).evidence(missing, at));
    }
    let options = match rccl.move_notify {
        Reading::Known(true) => "CONFIG_DMABUF_MOVE_NOTIFY=y, CONFIG_PCI_P2PDMA=y".to_owned(),
        _ => format!("CONFIG_PCI_P2PDMA=y; {FORCE_DMABUF} in {RCCL_CONF}"),
    };
    Ok(Outcome::pass("DMA-BUF: the kernel has what RCCL needs").evidence(options, at))
}

/// Returns the outcome for a kernel that has the function without the option: the RCCL version of this host's jobs is not
/// known, and versions up to 2.31.2 look for the option.
fn rccl_looks_in_vain(is_forced: &Reading<bool>) -> Judgement {
    let seen = match is_forced.or_unread(format_args!("whether {FORCE_DMABUF} is set"))? {
        Some(_) => format!("{FORCE_DMABUF}=0"),
        None => format!("no {FORCE_DMABUF}"),
    };
    Ok(Outcome::unknown(
        "this kernel has the function of CONFIG_DMABUF_MOVE_NOTIFY without the option (Linux 7.1): RCCL that checks for it \
         registers no GPU memory by DMA-BUF, and the jobs' RCCL version is unknown",
    )
    .evidence(seen, RCCL_CONF)
    .setting_hint(&format!("[nccl] set = {{ {FORCE_DMABUF} = 1 }}")))
}

/// Returns the outcome if the driver is set to refuse peers.
fn denied(input: &CheckInput<'_>, driver: &NvidiaDriver) -> Option<Outcome> {
    let TopoCheck { running, next } = &input.observed.topo_check;
    let has_c2c = !matches!(superchip(input.facts), Superchip::No);
    let denies =
        |value: u32| topo_check::access(driver, has_c2c, DmaPath::Default, value) == Access::Denied;
    // An unreadable parameter counts as unset: only an explicit setting refuses peers.
    if let Reading::Known(value) = running
        && denies(*value)
    {
        let code = ModulesFinding::PeersRefused { value: *value, path: None };
        return Some(Outcome::fail([code]).evidence(value.to_string(), PARAMS));
    }
    match next {
        Reading::Known((value, path)) if denies(*value) => {
            let code = ModulesFinding::PeersRefused { value: *value, path: Some(path.clone()) };
            Some(Outcome::fail([code]).evidence(value.to_string(), path))
        }
        _ => None,
    }
}

fn of_nvidia(input: &CheckInput<'_>) -> Judgement {
    let facts = input.facts;
    let Some(driver) = facts.gpu.nvidia.or_unread("the NVIDIA driver's version")? else {
        return Ok(Outcome::fail([ModulesFinding::NoNvidiaDriver]).evidence("not there", VERSION));
    };
    if let Some(outcome) = denied(input, driver) {
        return Ok(outcome);
    }
    let obstacle = match dmabuf_obstacle(driver, facts) {
        Ok(None) => {
            let kind = format!("driver {}, open kernel modules", driver.version);
            return Ok(Outcome::pass("DMA-BUF").evidence(kind, VERSION));
        }
        Ok(Some(obstacle)) => obstacle,
        Err(why) => return Ok(Outcome::unknown(why)),
    };
    let peermem = "/sys/module/nvidia_peermem";
    let is_loaded = input.observed.peermem.or_unread("whether nvidia_peermem is loaded")?;
    if is_loaded == Some(&true) {
        let text = format!("nvidia_peermem is loaded (DMA-BUF is unavailable: {obstacle})");
        return Ok(Outcome::pass(text).evidence("loaded", peermem));
    }
    let symbols = &facts.gpu.peer_memory_symbols;
    Ok(match symbols.or_unread("whether ib_core exports the peer-memory symbols")? {
        Some(true) => Outcome::fail([ModulesFinding::PeermemNotLoaded { obstacle }])
            .evidence("not there", peermem),
        _ => Outcome::fail([ModulesFinding::NoWayToRegister { obstacle }])
            .evidence(format!("driver {}", driver.version), VERSION),
    })
}

pub(crate) const LEFTOVERS: Check = Check {
    id: "modules.leftovers",
    group: Group::Modules,
    verifies: "no trace is left of nv_peer_mem, which nvidia_peermem replaced",
    severity: Severity::Warn,
    needs_root: false,
    what: "nv_peer_mem is not loaded, and no list of modules for the boot names it or amd_peer_mem, which never existed.",
    why: "It is unmaintained and keeps nvidia_peermem from registering, and a boot that waits for a missing module looks \
          broken.",
    source: "handbook §6.3, §12.42",
    how: "/sys/module/nv_peer_mem; /etc/modules, and the files of modules-load.d in /etc, /run and /usr/lib",
    judge: leftovers,
};

fn leftovers(input: &CheckInput<'_>) -> Judgement {
    let observed = input.observed;
    if observed.nv_peer_mem.or_unread("whether nv_peer_mem is loaded")? == Some(&true) {
        return Ok(Outcome::warn([ModulesFinding::NvPeerMemLoaded])
            .evidence("loaded", "/sys/module/nv_peer_mem"));
    }
    let found = observed.leftovers.or_unread("a list of modules for the boot")?;
    let Some((path, module)) = found.and_then(|found| found.first()) else {
        let seen = if found.is_some() { "not named" } else { "no list" };
        return Ok(Outcome::pass("neither loaded nor listed")
            .evidence(seen, "modules-load.d, /etc/modules"));
    };
    let code = ModulesFinding::NvPeerMemListed { module: module.clone(), path: path.clone() };
    let seen = |(path, module): &(String, String)| Evidence {
        value: module.clone(),
        source: path.clone(),
    };
    Ok(Outcome::warn([code]).all_evidence(found.into_iter().flatten().map(seen)))
}
