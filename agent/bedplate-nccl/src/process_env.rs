//! Variables that give the process of each GPU its NICs: UCX, NVSHMEM and NIXL. Pure.
//!
//! NVSHMEM's lists per host do not express a pairing: it sorts HCA_LIST and HCA_PE_MAPPING by the order of
//! ibv_get_device_list and then deals devices to PEs in turn (src/modules/transport/ibrc/ibrc.cpp,
//! src/host/transport/transport.cpp, tag v3.4.5-0). A list of one port per process does.

use std::fmt;

use serde::Serialize;

use super::env::Setting;
use super::ports::{PlacedPort, listed_name};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::gpu::NVIDIA;
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::pairing::Pairing;

/// Library whose variables name the NICs of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessLibrary {
    /// UCX, and programs that use it.
    Ucx,
    /// NVIDIA's OpenSHMEM library.
    Nvshmem,
    /// NIXL with its UCX backend.
    Nixl,
}

/// A variable that names NICs, and the versions that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct NicVariable {
    /// Name.
    pub name: &'static str,
    /// Versions that have the variable.
    pub versions: String,
    /// Source of the versions.
    pub source: &'static str,
}

/// Name, versions and source of each library's variables (handbook §8.9).
type Row = (&'static str, &'static str, &'static str);

const UCX: [Row; 1] = [(
    "UCX_NET_DEVICES",
    "1.2.0 and later, read up to 1.22.0",
    "openucx/ucx src/ucp/core/ucp_context.c",
)];
const NIXL: [Row; 1] = [(
    "UCX_NET_DEVICES",
    "read by UCX, in NIXL 0.1.0 to 1.4.0 unless the UCX backend's device_list is set",
    "ai-dynamo/nixl src/plugins/ucx",
)];
const NVSHMEM: [Row; 3] = [
    (
        "NVSHMEM_ENABLE_NIC_PE_MAPPING",
        "3.1.7 to 3.5.1; earlier versions unknown",
        "NVIDIA/nvshmem src/include/host/env/env_defs.h",
    ),
    (
        "NVSHMEM_HCA_LIST",
        "3.1.7 to 3.5.1; earlier versions unknown",
        "NVIDIA/nvshmem src/modules/transport/common/env_defs.h",
    ),
    (
        "NVSHMEM_HCA_PREFIX",
        "3.4.5 to 3.5.1; not in 3.1.7",
        "NVIDIA/nvshmem src/modules/transport/common/env_defs.h",
    ),
];

impl ProcessLibrary {
    /// Returns the variables that [`settings`](Self::settings) may set.
    pub fn variables(self) -> Vec<NicVariable> {
        let rows: &[Row] = match self {
            ProcessLibrary::Ucx => &UCX,
            ProcessLibrary::Nixl => &NIXL,
            ProcessLibrary::Nvshmem => &NVSHMEM,
        };
        let variable = |(name, versions, source): &Row| NicVariable {
            name,
            versions: (*versions).to_owned(),
            source,
        };
        rows.iter().map(variable).collect()
    }

    /// Whether the library can use the GPU.
    pub fn supports(self, gpu: &Function) -> bool {
        self != ProcessLibrary::Nvshmem || gpu.vendor == NVIDIA
    }

    /// Returns the ports that one process can use: NVSHMEM gives a process one NIC, the rest use all.
    pub fn usable<'a>(self, active: &[&'a RdmaPort]) -> Vec<&'a RdmaPort> {
        let most = if self == ProcessLibrary::Nvshmem { 1 } else { active.len() };
        active.iter().take(most).copied().collect()
    }

    /// Returns the settings for a process that uses these ports. None without a port.
    pub fn settings(self, active: &[&RdmaPort], why: &str) -> Vec<Setting> {
        let ports = self.usable(active);
        let Some(first) = ports.first() else { return Vec::new() };
        let set = |name, value: &str, why: &str| Setting {
            name,
            value: value.to_owned(),
            why: why.to_owned(),
        };
        let list: Vec<String> = ports.iter().map(|port| listed_name(port)).collect();
        let list = list.join(",");
        if self != ProcessLibrary::Nvshmem {
            return vec![set("UCX_NET_DEVICES", &list, why)];
        }
        let mut all = vec![
            set("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1", "NVSHMEM_HCA_LIST requires it"),
            set("NVSHMEM_HCA_LIST", &list, why),
        ];
        // The transports ibgda and ibdevx skip devices whose name does not contain the prefix, by default `mlx5`.
        if !first.device().contains("mlx5") {
            let why = "ibgda and ibdevx otherwise accept only names with mlx5";
            all.push(set("NVSHMEM_HCA_PREFIX", first.device(), why));
        }
        all
    }
}

impl fmt::Display for ProcessLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessLibrary::Ucx => "UCX",
            ProcessLibrary::Nvshmem => "NVSHMEM",
            ProcessLibrary::Nixl => "NIXL",
        })
    }
}

/// Ports of the NICs that a GPU is paired with.
#[derive(Debug, Default)]
pub struct PairedPorts<'a> {
    /// ACTIVE ports, those of the GPU's own NIC first.
    pub active: Vec<&'a RdmaPort>,
    /// NICs and ports that cannot be used, each with the reason.
    pub unused: Vec<String>,
    /// Ports of unknown state, each with the reason.
    pub unknown: Vec<String>,
}

impl<'a> PairedPorts<'a> {
    /// Sorts the ports of the NICs in `pairing` by their state.
    pub fn new(pairing: &Pairing, devices: &Devices, ports: &'a [PlacedPort]) -> Self {
        let mut paired = PairedPorts::default();
        if pairing.nics.is_empty() {
            paired.unused.push("no NIC to pair with".to_owned());
        }
        for choice in &pairing.nics {
            let own = ports.iter().map(|one| &one.port).filter(|port| port.function == choice.peer);
            let mut own = own.peekable();
            if own.peek().is_none() {
                paired.unused.push(without_port(choice.peer, devices));
            }
            own.for_each(|port| paired.sort(port));
        }
        paired
    }

    fn sort(&mut self, port: &'a RdmaPort) {
        let name = listed_name(port);
        match &port.state {
            Reading::Known(_) if port.is_active() => self.active.push(port),
            Reading::Known(state) => self.unused.push(format!("{name} is not ACTIVE ({state})")),
            Reading::Absent => self.unused.push(format!("{name} has no state")),
            Reading::Unknown(why) => self.unknown.push(format!("unknown state of {name}: {why}")),
        }
    }
}

/// Returns the reason why a NIC has no port.
fn without_port(nic: PciAddress, devices: &Devices) -> String {
    let Some(nic) = devices.at(nic) else { return format!("{nic} has no RDMA port") };
    match nic.function.vfio {
        true => format!("{} is assigned to a VM", nic.called()),
        false => format!("{} has no RDMA port", nic.called()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Reason;

    fn port(name: &str) -> RdmaPort {
        let nic = "0000:18:00.0".parse().unwrap();
        RdmaPort::unread(nic, name, &Reason::from("not read"))
    }

    #[test]
    fn ucx_gets_all_ports_and_nvshmem_one() {
        let (one, two) = (port("mlx5_0/1"), port("mlx5_1/2"));
        let values = |library: ProcessLibrary| -> Vec<(&'static str, String)> {
            let set = library.settings(&[&one, &two], "nearest");
            set.into_iter().map(|setting| (setting.name, setting.value)).collect()
        };
        let ucx = [("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:2".to_owned())];
        assert_eq!(values(ProcessLibrary::Ucx), ucx);
        assert_eq!(values(ProcessLibrary::Nixl), ucx);
        let nvshmem = [
            ("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1".to_owned()),
            ("NVSHMEM_HCA_LIST", "mlx5_0:1".to_owned()),
        ];
        assert_eq!(values(ProcessLibrary::Nvshmem), nvshmem);
        assert!(ProcessLibrary::Ucx.settings(&[], "").is_empty());
    }

    #[test]
    fn nvshmem_needs_a_prefix_for_names_without_mlx5() {
        let renamed = port("ibp3s0/1");
        let set = ProcessLibrary::Nvshmem.settings(&[&renamed], "nearest");
        let prefix = set.iter().find(|setting| setting.name == "NVSHMEM_HCA_PREFIX");
        assert_eq!(prefix.map(|setting| setting.value.as_str()), Some("ibp3s0"));
        let known = ProcessLibrary::Nvshmem.variables();
        assert!(set.iter().all(|setting| known.iter().any(|row| row.name == setting.name)));
    }

    #[test]
    fn only_active_ports_are_used() {
        let mut down = port("mlx5_0/1");
        down.state = Reading::Known("1: DOWN".to_owned());
        let mut absent = port("mlx5_0/2");
        absent.state = Reading::Absent;
        let mut active = port("mlx5_0/3");
        active.state = Reading::Known("4: ACTIVE".to_owned());
        let unread = port("mlx5_0/4");
        let mut paired = PairedPorts::default();
        [&down, &absent, &active, &unread].into_iter().for_each(|port| paired.sort(port));
        assert_eq!(paired.active, [&active]);
        assert_eq!(paired.unused, ["mlx5_0:1 is not ACTIVE (1: DOWN)", "mlx5_0:2 has no state"]);
        assert_eq!(paired.unknown, ["unknown state of mlx5_0:4: not read"]);
    }
}
