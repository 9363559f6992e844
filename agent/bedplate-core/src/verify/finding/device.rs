//! Devices: whether they are there and answer.

use serde::Serialize;

use super::{Device, DeviceKind, FindingText, text};
use bedplate_base::value::PciAddress;
use bedplate_base::{Recovery, counted};

const DATA_DIRECT: &str = "check `dmesg | grep -i mlx5` for why mlx5_ib did not bind it. Not listed? Enable it in the NIC's \
                           firmware (`mlxconfig -d DEVICE query | grep -i direct`)";

/// A finding about a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "DeviceCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum DeviceFinding {
    /// Every read of the device's config space returns ones.
    NoAnswer {
        /// The device.
        device: Device,
    },
    /// The device may not issue requests, or forwards no requests upstream.
    BusMasterOff {
        /// The device.
        device: Device,
    },
    /// A switch has fewer GPUs or NICs below it than all similar switches.
    FewerDevices {
        /// Kind of the missing device.
        kind: DeviceKind,
        /// The root port above the switch.
        root: PciAddress,
        /// Number of devices found.
        found: usize,
        /// Number of devices below the other switches.
        usual: usize,
    },
    /// The host has no GPU, or no NIC that carries RDMA.
    NoDevices {
        /// Kind of the missing devices.
        kind: DeviceKind,
        /// Number of PCI functions of the host.
        function_count: usize,
        /// Number of functions assigned to VMs.
        guests: usize,
    },
    /// A ConnectX-8 without its Data Direct function.
    NoDataDirect {
        /// The NIC.
        device: Device,
    },
    /// A Data Direct function without its driver, mlx5_ib.
    DataDirectUnbound {
        /// The function.
        device: Device,
        /// Driver that has the function. `None`: no driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
}

impl DeviceFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::NoAnswer { device } => text(
                "does not answer: its config space reads as all ones",
                device,
                "drain the node, then power it off and on. If it recurs, reseat or replace the card. `journalctl -k -b` and \
                 the BMC's event log show when it failed",
            )
            .recovery(Recovery::PowerCycle),
            Self::BusMasterOff { device } => text(
                match device.kind {
                    DeviceKind::Port => {
                        "bus mastering is off: the port forwards no requests of the devices below"
                    }
                    _ => "bus mastering is off: the device cannot do DMA",
                },
                device,
                "drain the node and reboot it; `dmesg` shows whether the device was reset. Without a reboot: unbind the \
                 device's driver and bind it again",
            )
            .recovery(Recovery::Drain),
            Self::FewerDevices { kind, root, found, usual } => text(
                match kind {
                    DeviceKind::Gpu => "fewer GPUs below its switch than below all similar ones",
                    _ => "fewer RDMA NICs below its switch than below all similar ones",
                },
                format!("root port {root} ({found} of {usual})"),
                "is one missing? Drain the node, check the BMC's event log, then power it off and on. Built this way? Set \
                 [verify.severity] \"topology.devices\" = { level = \"ignore\", reason = \"…\" } in the profile",
            )
            .recovery(Recovery::PowerCycle),
            Self::NoDevices { kind, function_count, guests } => {
                no_devices(*kind, *function_count, *guests)
            }
            Self::NoDataDirect { device } => {
                text("no Data Direct function", device, DATA_DIRECT).recovery(Recovery::Drain)
            }
            Self::DataDirectUnbound { device, .. } => {
                text("not bound to mlx5_ib", device, DATA_DIRECT).recovery(Recovery::Drain)
            }
        }
    }
}

fn no_devices(kind: DeviceKind, functions: usize, guests: usize) -> FindingText {
    let (missing, fix) = match kind {
        DeviceKind::Gpu => (
            "no GPU",
            "is one expected? Check `dmesg | grep -iE 'xid|fallen off|link down'` and the BMC's event log, then power the \
             host off and on. No GPU by design? Set [verify.severity] \"topology.devices\" = { level = \"ignore\", reason = \
             \"…\" } in the profile; the other checks then decide",
        ),
        _ => (
            "no NIC that carries RDMA",
            "is one expected? Check `dmesg | grep -iE 'mlx5|link down'` and the BMC's event log",
        ),
    };
    let besides = match guests {
        0 => String::new(),
        guests => format!(", except {} assigned to VMs", counted(guests, "function")),
    };
    text("", format!("{missing} among {functions} PCI functions{besides}"), fix)
}
