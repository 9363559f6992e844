//! NVLink fabric: NVSwitches, and whether the program that sets them up runs (NVIDIA Fabric Manager User Guide; handbook §6.5).

use super::pci::{Function, PciTree};
use crate::host::{Reader, Reading, Reason};

/// Processes of the unit; gone with it (cgroup v2, and v1's named hierarchy).
pub const GROUPS: [&str; 2] = [
    "/sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs",
    "/sys/fs/cgroup/systemd/system.slice/nvidia-fabricmanager.service/cgroup.procs",
];
/// Where its process id stands: on the host, and in the root directory of a driver container (NVIDIA GPU Operator).
pub const PID_FILES: [&str; 2] = [
    "/run/nvidia-fabricmanager/nv-fabricmanager.pid",
    "/run/nvidia/driver/run/nvidia-fabricmanager/nv-fabricmanager.pid",
];
/// There where the driver is in a container.
const DRIVER_CONTAINER: &str = "/run/nvidia/driver";
/// There where units have groups that can be seen.
const SLICES: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
/// Its program.
pub const PROGRAM: &str = "/usr/bin/nv-fabricmanager";

/// The fabric manager of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fabric {
    /// Whether the fabric manager runs; `Absent`: the host has no NVSwitch to ask for.
    pub manager: Reading<bool>,
    /// Whether it is installed.
    pub installed: Reading<bool>,
}

/// NVSwitches (NVIDIA open-gpu-kernel-modules src/common/nvswitch/kernel/nvswitch.c; pci.ids).
pub fn switches(tree: &PciTree) -> impl Iterator<Item = &Function> {
    let known = |id: u16| matches!(id, 0x1ac2 | 0x1ae8 | 0x1af0..=0x1aff | 0x22a0..=0x22a7);
    let all = tree.functions.values().filter(|function| function.is_nvswitch());
    all.filter(move |function| known(function.device.0) && !function.vfio)
}

/// Reads it.
pub fn observe(reader: &dyn Reader, tree: Option<&PciTree>) -> Fabric {
    if tree.is_none_or(|tree| switches(tree).next().is_none()) {
        return Fabric { manager: Reading::Absent, installed: Reading::Absent };
    }
    Fabric { manager: runs(reader), installed: Reading::from_result(reader.exists(PROGRAM)) }
}

fn runs(reader: &dyn Reader) -> Reading<bool> {
    let mut unknown: Option<Reason> = None;
    for group in GROUPS {
        match Reading::from_result(reader.text(group)) {
            Reading::Known(text) if !text.trim().is_empty() => return Reading::Known(true),
            Reading::Unknown(why) => unknown = unknown.or(Some(why)),
            Reading::Known(_) | Reading::Absent => {}
        }
    }
    for file in PID_FILES {
        match Reading::from_result(reader.exists(file)) {
            Reading::Known(true) => return Reading::Known(true),
            Reading::Unknown(why) => unknown = unknown.or(Some(why)),
            Reading::Known(false) | Reading::Absent => {}
        }
    }
    if let Some(why) = unknown {
        return Reading::Unknown(why);
    }
    let is_there = |path: &str| reader.exists(path).is_ok_and(|there| there);
    if is_there(DRIVER_CONTAINER) {
        return Reading::unknown("the driver is in a container, and so may be the fabric manager");
    }
    match SLICES.into_iter().any(is_there) {
        true => Reading::Known(false),
        false => Reading::unknown("the control groups of units do not show here"),
    }
}
