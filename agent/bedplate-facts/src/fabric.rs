//! NVLink fabric: NVSwitches, and the state of the programs that configure them (NVIDIA Fabric Manager User Guide;
//! handbook §6.5).

use super::pci::{Function, PciTree};
use super::process::Daemon;
use super::systemd_units;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Unit of the fabric manager.
pub(crate) const UNIT: &str = "nvidia-fabricmanager";
/// Control group of the fabric manager's unit; removed with its last process.
pub const GROUP: &str = "/sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs";
const PID_FILE: &str = "/run/nvidia-fabricmanager/nv-fabricmanager.pid";
/// Path of the fabric manager.
pub const PROGRAM: &str = "/usr/bin/nv-fabricmanager";
/// Present once ib_umad is loaded or built in (drivers/infiniband/core/user_mad.c, `umad_class`).
pub const UMAD: &str = "/sys/class/infiniband_mad";
const MANAGER: Daemon =
    Daemon { unit: UNIT, pid_file: PID_FILE, program: "nv-fabricmanager", is_main: true };
/// NVIDIA's NVLink subnet manager, started by the fabric manager's unit.
const NVLSM: Daemon =
    Daemon { unit: UNIT, pid_file: "/run/nvlsm.pid", program: "nvlsm", is_main: false };
/// B200 and B300 (README of open-gpu-kernel-modules). Their NVSwitches are always behind a ConnectX-7, not PCI
/// functions.
const NVLINK5: [u16; 3] = [0x2901, 0x2909, 0x3182];

/// NVSwitches of a board, and how they appear on PCI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Board {
    /// Number of NVSwitches that are PCI functions.
    Switches(usize),
    /// Number of GPUs on a board with NVSwitches behind a ConnectX-7; the fabric manager and NVLSM configure these
    /// switches.
    Nvlink5(usize),
}

/// State of the fabric manager and its helpers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fabric {
    /// NVSwitches that this host must configure, if any.
    pub board: Option<Board>,
    /// Whether the fabric manager runs.
    pub manager: Reading<bool>,
    /// Whether the fabric manager is installed.
    pub installed: Reading<bool>,
    /// Whether the fabric manager's unit is masked, so that it cannot be started.
    pub is_masked: bool,
    /// Whether NVLSM runs; `Absent`: not needed on this board.
    pub nvlsm: Reading<bool>,
    /// Whether programs can send management datagrams (ib_umad), as NVLSM does; `Absent`: not needed on this board.
    pub umad: Reading<bool>,
}

/// Iterates over NVSwitches not assigned to a VM (NVIDIA open-gpu-kernel-modules src/common/nvswitch/kernel/nvswitch.c;
/// pci.ids).
pub(crate) fn switches(tree: &PciTree) -> impl Iterator<Item = &Function> {
    let known = |id: u16| matches!(id, 0x1ac2 | 0x1ae8 | 0x1af0..=0x1aff | 0x22a0..=0x22a7);
    let all = tree.functions.values().filter(|function| function.is_nvswitch());
    all.filter(move |function| known(function.device.0) && !function.vfio)
}

/// Counts GPUs with NVSwitches that are not PCI functions, without GPUs assigned to VMs.
pub(crate) fn nvlink5(tree: &PciTree) -> usize {
    let gpus = tree.functions.values().filter(|function| is_nvlink5(function));
    gpus.filter(|gpu| !gpu.vfio && !gpu.is_vf()).count()
}

/// Whether the GPU's board has NVSwitches behind a ConnectX-7.
pub(crate) fn is_nvlink5(gpu: &Function) -> bool {
    gpu.vendor.0 == 0x10de && NVLINK5.contains(&gpu.device.0)
}

/// Determines the board. With `is_guest`, the VM's host configures the NVSwitches, unless they were passed through.
fn board(tree: &PciTree, is_guest: bool) -> Option<Board> {
    let managers = tree.functions.values().filter(|function| function.is_switch_manager()).count();
    match (switches(tree).count(), nvlink5(tree)) {
        (0, 0) => None,
        (0, _) if is_guest && managers == 0 => None,
        (0, gpus) => Some(Board::Nvlink5(gpus)),
        (count, _) => Some(Board::Switches(count)),
    }
}

/// Reads the state of the fabric manager, NVLSM and ib_umad.
pub fn observe(reader: &dyn Reader, tree: Option<&PciTree>, is_guest: bool) -> Fabric {
    let board = tree.and_then(|tree| board(tree, is_guest));
    let absent = Reading::Absent;
    let mut fabric = Fabric {
        board,
        manager: absent.clone(),
        installed: absent.clone(),
        is_masked: false,
        nvlsm: absent.clone(),
        umad: absent,
    };
    let Some(board) = board else { return fabric };
    fabric.manager = MANAGER.runs(reader);
    fabric.installed = Reading::from_result(reader.exists(PROGRAM));
    fabric.is_masked = systemd_units::is_masked(reader, UNIT);
    if matches!(board, Board::Nvlink5(_)) {
        fabric.nvlsm = NVLSM.runs(reader);
        fabric.umad = Reading::from_result(reader.exists(UMAD));
    }
    fabric
}
