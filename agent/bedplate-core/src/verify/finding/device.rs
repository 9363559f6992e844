//! Devices: whether they are there and answer.

use std::borrow::Cow;

use serde::Serialize;

use super::{Device, DeviceKind, FindingText, counted};
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

/// A finding about a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "DeviceCode"))]
pub enum DeviceFinding {
    /// Every read of its config space gives ones.
    NoAnswer {
        /// The device.
        device: Device,
    },
    /// It may not issue requests, or forwards none upstream.
    BusMasterOff {
        /// The device.
        device: Device,
    },
    /// A switch has fewer GPUs or NICs below it than all others like it.
    FewerDevices {
        /// Kind of the missing device.
        kind: DeviceKind,
        /// The root port above the switch.
        root: PciAddress,
        /// How many are there.
        there: usize,
        /// How many the others have.
        usual: usize,
    },
    /// There is no GPU, or no NIC that carries RDMA.
    NoDevices {
        /// Kind of the missing devices.
        kind: DeviceKind,
        /// How many PCI functions there are.
        function_count: usize,
        /// How many functions guests have.
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
        /// The driver that has it; `None`: no driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
}

impl FindingText for DeviceFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            DeviceFinding::NoAnswer { .. } => "does not answer: its config space reads as all ones",
            DeviceFinding::BusMasterOff { device: Device { kind: DeviceKind::Port, .. } } => {
                "bus mastering is off, so that the port forwards no request of the devices below"
            }
            DeviceFinding::BusMasterOff { .. } => {
                "bus mastering is off, so that the device may not do DMA"
            }
            DeviceFinding::FewerDevices { kind: DeviceKind::Gpu, .. } => {
                "fewer GPUs below its switch than below every other one like it"
            }
            DeviceFinding::FewerDevices { .. } => {
                "fewer RDMA NICs below its switch than below every other one like it"
            }
            DeviceFinding::NoDevices { .. } => "",
            DeviceFinding::NoDataDirect { .. } => "no Data Direct function",
            DeviceFinding::DataDirectUnbound { .. } => "not bound to mlx5_ib",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            DeviceFinding::NoAnswer { device }
            | DeviceFinding::BusMasterOff { device }
            | DeviceFinding::NoDataDirect { device }
            | DeviceFinding::DataDirectUnbound { device, .. } => device.to_string(),
            DeviceFinding::FewerDevices { root, there, usual, .. } => {
                format!("root port {root} ({there} of {usual})")
            }
            DeviceFinding::NoDevices { kind, function_count, guests } => {
                none(*kind, *function_count, *guests)
            }
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            DeviceFinding::NoAnswer { .. } => {
                "drain the node, then power it off and on; if it happens again, reseat or replace the card. `journalctl -k -b` and the \
                 BMC's event log say when it went"
            }
            DeviceFinding::BusMasterOff { .. } => {
                "drain the node and reboot it; `dmesg` says whether the device was reset. To try without: unbind the driver of the \
                 device and bind it again"
            }
            DeviceFinding::FewerDevices { .. } => {
                "if it should be there: drain the node, look into the BMC's event log, then power it off and on. If the machine is built \
                 so: `\"topology.devices\" = { level = \"ignore\", reason = \"…\" }` in [verify.severity] of the profile"
            }
            DeviceFinding::NoDevices { kind: DeviceKind::Gpu, .. } => {
                "if this host should have one: `dmesg | grep -iE 'xid|fallen off|link down'` and the event log of the BMC; then power \
                 the host off and on. If it is to have none: `\"topology.devices\" = { level = \"ignore\", reason = \"…\" }` in \
                 [verify.severity] of the profile, and the other checks decide"
            }
            DeviceFinding::NoDevices { .. } => {
                "if this host should have one: `dmesg | grep -iE 'mlx5|link down'` and the event log of the BMC"
            }
            DeviceFinding::NoDataDirect { .. } | DeviceFinding::DataDirectUnbound { .. } => {
                "`dmesg | grep -i mlx5` says why mlx5_ib did not take it; a function that is not listed is switched off in the NIC's \
                 firmware (`mlxconfig -d DEVICE query | grep -i direct`)"
            }
        };
        remedy.into()
    }

    fn recovery(&self) -> Recovery {
        match self {
            DeviceFinding::NoAnswer { .. } | DeviceFinding::FewerDevices { .. } => {
                Recovery::PowerCycle
            }
            DeviceFinding::NoDevices { .. } => Recovery::None,
            _ => Recovery::Drain,
        }
    }
}

fn none(kind: DeviceKind, functions: usize, guests: usize) -> String {
    let missing = match kind {
        DeviceKind::Gpu => "no GPU",
        _ => "no NIC that carries RDMA",
    };
    let besides = match guests {
        0 => String::new(),
        guests => format!(", but for {} that guests have", counted(guests, "function")),
    };
    format!("{missing} among {functions} PCI functions{besides}")
}
