//! NVLink SHARP: reduction inside NVSwitches.

use super::fabric::{nvlink5, switches};
use super::gpu::NVIDIA;
use super::pci::{Function, PciTree};
use super::superchip::{ArmCpu, arm_cpu, is_gb10};
use bedplate_base::Reading;

/// NVLink SHARP of a host's NVSwitches: reduction inside the switches, since the third generation (Hopper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvlinkSharp {
    /// NVSwitches without it: V100 and A100 boards.
    Without,
    /// H100, H200.
    Hopper,
    /// B200, B300.
    Blackwell,
}

/// Returns NVLink SHARP of a host's NVSwitches; `Absent`: no NVSwitches.
pub fn nvlink_sharp(tree: &PciTree, is_guest: &Reading<bool>) -> Reading<NvlinkSharp> {
    if nvlink5(tree) > 0 {
        return Reading::Known(NvlinkSharp::Blackwell);
    }
    let is_hopper = |switch: &Function| matches!(switch.device.0, 0x22a0..=0x22a7);
    match switches(tree).map(is_hopper).max() {
        Some(true) => return Reading::Known(NvlinkSharp::Hopper),
        Some(false) => return Reading::Known(NvlinkSharp::Without),
        None => {}
    }
    let mut gpus = tree.functions.values().filter(|function| {
        function.is_gpu() && function.vendor == NVIDIA && !function.vfio && !is_gb10(function)
    });
    if gpus.next().is_none() {
        return Reading::Absent;
    }
    if matches!(arm_cpu(tree), ArmCpu::Nvidia) {
        return Reading::unknown("NVSwitches of a rack are not PCI functions of its hosts");
    }
    match (is_guest, tree.unread().first()) {
        (Reading::Known(true), _) => {
            Reading::unknown("a VM may not see the NVSwitches of its board")
        }
        (Reading::Unknown(why), _) => Reading::Unknown(why.clone()),
        (_, Some(gap)) => Reading::unknown(format!("{} cannot be read", gap.address)),
        _ => Reading::Absent,
    }
}
