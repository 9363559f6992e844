//! Whether the programs run that set up NVLink beyond one GPU's own links.

use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, DeviceKind, FabricCause, FabricFinding, Group, Judgement, Outcome, Severity,
};
use bedplate_base::{Reading, counted};
use bedplate_facts::fabric::{Board, Fabric, GROUP, PROGRAM};
use bedplate_facts::imex;

pub(crate) const MANAGER: Check = Check {
    id: "modules.fabric-manager",
    group: Group::Modules,
    verifies: "the programs that set up the NVSwitches of this host are running",
    severity: Severity::Fail,
    needs_root: false,
    what: "If NVSwitches are PCI functions of the host (HGX and DGX from V100 to H200), nvidia-fabricmanager runs, on the \
           host or in a driver container: its unit has a process, or its pid file names one. On B200 and B300 boards, NVLSM \
           runs as well. The fabric manager refuses any version but the driver's, so a running one has the right version. \
           Compute trays of NVL72 racks are not checked: their NVSwitches are in other trays. A virtual machine is checked \
           only if it sees NVSwitches, or the ConnectX-7 that manages them.",
    why: "Until the switches are set up, CUDA starts no program on any GPU of the board: cudaErrorSystemNotReady (802).",
    source: "handbook §6.5; NVIDIA Fabric Manager User Guide",
    how: "classes and ids in /sys/bus/pci/devices; cgroup.procs of nvidia-fabricmanager.service; pid files in /run; \
          /proc/PID/comm; /sys/class/infiniband_mad",
    judge: manager,
};

fn manager(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    let has_nvidia = gpus.iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    let fabric = &input.observed.fabric;
    let (Some(board), true) = (fabric.board, has_nvidia) else {
        return Ok(Outcome::not_applicable("no NVSwitch that the host itself sets up"));
    };
    let (kind, count, what) = match board {
        Board::Switches(1) => (DeviceKind::NvSwitch, 1, "1 NVSwitch".to_owned()),
        Board::Switches(count) => (DeviceKind::NvSwitch, count, format!("{count} NVSwitches")),
        Board::Nvlink5(count) => (DeviceKind::Gpu, count, counted(count, "GPU")),
    };
    if let Reading::Known(false) | Reading::Absent = fabric.manager {
        let code = FabricFinding::FabricManagerDown { kind, count, cause: cause(fabric) };
        return Ok(Outcome::fail([code]).evidence("no process", GROUP));
    }
    if fabric.nvlsm == Reading::Known(false) {
        let code = FabricFinding::NvlsmDown { gpus: count, cause: cause(fabric) };
        return Ok(Outcome::fail([code]).evidence("no nvlsm process", GROUP));
    }
    for (what, found) in [("the fabric manager", &fabric.manager), ("NVLSM", &fabric.nvlsm)] {
        found
            .or_unread(format_args!("whether {what} runs"))
            .map_err(|outcome| outcome.evidence("not known", PROGRAM))?;
    }
    Ok(Outcome::pass(format!("the fabric manager runs for {what}")).evidence("a process", GROUP))
}

fn cause(fabric: &Fabric) -> FabricCause {
    match fabric.installed {
        Reading::Known(false) | Reading::Absent => FabricCause::NotInstalled,
        _ if fabric.umad == Reading::Known(false) => FabricCause::NoUmad,
        _ if fabric.is_masked => FabricCause::Masked,
        _ => FabricCause::Stopped,
    }
}

pub(crate) const IMEX: Check = Check {
    id: "modules.imex",
    group: Group::Modules,
    verifies: "IMEX, if set up, lets jobs share GPU memory over NVLink with the other trays of the rack",
    severity: Severity::Warn,
    needs_root: false,
    what: "On compute trays of GB200 and GB300 with nvidia-imex installed: its daemon runs, the list of trays has one \
           address of this host exactly once, and /dev/nvidia-caps-imex-channels has a channel. A list of names is not \
           resolved. Without nvidia-imex the check does not apply: under Kubernetes it runs in pods, and jobs within one \
           tray need none.",
    why: "Without it, NCCL uses the slower network instead of NVLink between trays (MNNVL).",
    source: "handbook §6.5; NVIDIA IMEX Service guide; open-gpu-kernel-modules kernel-open/nvidia/nv-caps-imex.c",
    how: "cgroup.procs of nvidia-imex.service; config.cfg and nodes_config.cfg in /etc/nvidia-imex; /proc/net/fib_trie and \
          if_inet6; /dev/nvidia-caps-imex-channels",
    judge: imex,
};

fn imex(input: &CheckInput<'_>) -> Judgement {
    input.some_gpus()?;
    let Some(imex) = &input.observed.imex else {
        return Ok(Outcome::not_applicable("no IMEX on this host"));
    };
    if let Reading::Known(false) | Reading::Absent = imex.runs {
        return Ok(Outcome::warn([FabricFinding::ImexDown]).evidence(
            "no process",
            "/sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs",
        ));
    }
    if let Reading::Known(nodes) = &imex.nodes
        && let Some(times) = nodes.own.filter(|times| *times != 1)
    {
        let code = FabricFinding::ImexNodes { path: nodes.path.clone(), times };
        return Ok(Outcome::warn([code])
            .evidence(format!("{times} lines with an address of this host"), &nodes.path));
    }
    if imex.channels == Reading::Known(0) {
        return Ok(Outcome::warn([FabricFinding::NoImexChannel])
            .evidence("no device node", imex::CHANNELS));
    }
    imex.runs.or_unread("whether IMEX runs")?;
    imex.nodes.or_unread("the list of trays")?;
    imex.channels.or_unread("the IMEX channels")?;
    Ok(Outcome::pass("IMEX runs, and has a channel"))
}
