//! RDMA devices and their ports.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Device, Words};
use crate::recovery::Recovery;
use crate::value::PciAddress;

/// A finding about RDMA devices and ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum RdmaCode {
    /// A NIC without an RDMA device.
    NoRdmaDevice {
        /// The NIC.
        device: Device,
        /// Its driver; `None`: it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// No port of the GPUs' NICs is active.
    NoActivePort,
    /// A port is not active.
    PortNotActive {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `1: DOWN`.
        state: String,
    },
    /// A port runs slower than others of its model.
    PortSlow {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `100 Gb/sec (4X EDR)`.
        rate: String,
    },
}

impl Words for RdmaCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            RdmaCode::NoRdmaDevice { driver: None, .. } => "no driver, and so no RDMA device",
            RdmaCode::NoRdmaDevice { .. } => "a driver, and no RDMA device",
            RdmaCode::NoActivePort => "none is active",
            RdmaCode::PortNotActive { .. } => "not active, in a NIC of the GPUs",
            RdmaCode::PortSlow { .. } => "slower than others of its model",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            RdmaCode::NoRdmaDevice { device, .. } => device.to_string(),
            RdmaCode::NoActivePort => "ports of the GPUs' NICs".to_owned(),
            RdmaCode::PortNotActive { port, function, state } => {
                format!("{port} {function} ({state})")
            }
            RdmaCode::PortSlow { port, function, rate } => format!("{port} {function} ({rate})"),
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery::Drain
    }
}
