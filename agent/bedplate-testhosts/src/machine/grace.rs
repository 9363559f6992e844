//! Machines with NVIDIA's own CPUs. Every root port has its own PCI domain; the domain number is part of the topology.
//! Locations follow publications: `rdma_topo topo` of a GB300 tray in NVIDIA's guide to GPUDirect RDMA on Grace
//! Blackwell with ConnectX-8, the list of ports of a GB200 tray in its deployment guide for DGX GB200, and users'
//! reports for DGX Spark. The assignment of ids to Grace root ports is not published; nothing depends on it.

use super::{Adapter, Bus, CONNECTX_7, Layout, MIB, Port, adapter_number};
use bedplate_facts::pci::PortType;

const GRACE_PORT: (u16, u16) = (0x10de, 0x22b1);
const GRACE_PORT_SMALL: (u16, u16) = (0x10de, 0x22b2);
const GRACE_PORT_GPU: (u16, u16) = (0x10de, 0x22b8);
const VERA_PORT: (u16, u16) = (0x10de, 0x2f95);
const VERA_PORT_GPU: (u16, u16) = (0x10de, 0x2f96);
/// Ports of the switches inside adapters (pci.ids).
const CONNECTX_7_BRIDGE: (u16, u16) = (0x15b3, 0x1979);
const BLUEFIELD_3_BRIDGE: (u16, u16) = (0x15b3, 0x197b);
const CONNECTX_8_BRIDGE: (u16, u16) = (0x15b3, 0x197c);

/// Two adapters share a board and its serial number: those of domains 0 and 2, and of 10 and 12.
const CONNECTX_8: Adapter = Adapter {
    device: 0x1023,
    name: "NVIDIA Dual ConnectX-8 SuperNIC C8280Z Mezzanine Board",
    board: !0x3ff,
};
const CONNECTX_9: Adapter =
    Adapter { device: 0x1025, name: "NVIDIA ConnectX-9 SuperNIC", board: u32::MAX };
const BLUEFIELD_3: Adapter =
    Adapter { device: 0xa2dc, name: "NVIDIA BlueField-3", board: u32::MAX };

impl Layout<'_> {
    /// Adds the root port of a domain, with buses up to `last` below. Domains of the second CPU start at 10.
    fn domain_port(&mut self, domain: u32, id: (u16, u16), last: u8) -> Bus {
        let mut root = self.root(0, i32::from(domain >= 0x10));
        root.domain += domain;
        root.directory = format!("/sys/devices/pci{:04x}:00", root.domain);
        self.bridge(&root, (0, 0), id, PortType::RootPort, (1, last))
    }

    /// Adds an adapter's own switch, and returns one bus per downstream port in the given slots. The last one gets the
    /// remaining buses.
    fn inner_switch(&mut self, above: &Bus, id: (u16, u16), slots: &[u8], last: u8) -> Vec<Bus> {
        let first = above.number + 1;
        let inside = self.bridge(above, (0, 0), id, PortType::Upstream, (first, last));
        let mut ports = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            let bus = first + 1 + index as u8;
            let end = if index + 1 == slots.len() { last } else { bus };
            ports.push(self.bridge(&inside, (*slot, 0), id, PortType::Downstream, (bus, end)));
        }
        ports
    }

    /// Adds a BlueField-3 with two Ethernet ports behind its own switch.
    fn bluefield(&mut self, domain: u32, root: (u16, u16)) {
        let port = self.domain_port(domain, root, 3);
        for bus in self.inner_switch(&port, BLUEFIELD_3_BRIDGE, &[0], 3) {
            (0..2).for_each(|function| self.connectx(&bus, &BLUEFIELD_3, function, false));
        }
    }

    /// Adds Grace Hopper: each GPU and each NIC has its own domain and only a root port above it.
    pub(super) fn grace(&mut self) {
        let nvidia = self.nvidia_if_installed();
        for numa in 0..4 {
            for is_gpu in [false, true] {
                let root = self.root(0, numa);
                let port = self.bridge(&root, (0, 0), GRACE_PORT, PortType::RootPort, (1, 1));
                if is_gpu {
                    self.gpu(&port, 0x03_0200, (0x10de, 0x2342), nvidia);
                } else {
                    self.connectx7(&port, true);
                }
                self.domain += 1;
            }
            let root = self.root(0, numa);
            let port = self.bridge(&root, (0, 0), GRACE_PORT_SMALL, PortType::RootPort, (1, 1));
            if numa == 0 {
                self.management(&port)
            } else {
                self.nvme(&port)
            }
            self.domain += 1;
        }
    }

    /// Adds a GB200 tray: GPUs directly on root ports, each ConnectX-7 alone behind its own switch.
    pub(super) fn gb200(&mut self) {
        let nvidia = self.nvidia_if_installed();
        for cpu in [0x00, 0x10] {
            for domain in [cpu, cpu + 0x02] {
                let port = self.domain_port(domain, GRACE_PORT, 3);
                for bus in self.inner_switch(&port, CONNECTX_7_BRIDGE, &[0], 3) {
                    self.connectx(&bus, &CONNECTX_7, 0, true);
                }
            }
            let port = self.domain_port(cpu + 0x05, GRACE_PORT_SMALL, 1);
            self.nvme(&port);
            self.bluefield(cpu + 0x06, GRACE_PORT);
            for domain in [cpu + 0x08, cpu + 0x09] {
                let port = self.domain_port(domain, GRACE_PORT_GPU, 1);
                self.gpu(&port, 0x03_0200, (0x10de, 0x2941), nvidia);
            }
        }
        self.domain += 0x20;
    }

    /// Adds a GB300 tray: the PF of each ConnectX-8 shares a domain with an NVMe disk, and its Data Direct function
    /// shares another with the GPU. PFs of domains 0, 2, 10 and 12 belong to the GPUs of 9, 8, 19 and 18.
    pub(super) fn gb300(&mut self) {
        let nvidia = self.nvidia_if_installed();
        for cpu in [0x00, 0x10] {
            for (pf, gpu, gpu_slot) in [(0x00, 0x09, 1), (0x02, 0x08, 3)] {
                let port = self.domain_port(cpu + pf, GRACE_PORT, 4);
                let ports = self.inner_switch(&port, CONNECTX_8_BRIDGE, &[0, 1], 4);
                self.connectx(&ports[0], &CONNECTX_8, 0, true);
                self.nvme(&ports[1]);
                let number = adapter_number(&ports[0]);

                let port = self.domain_port(cpu + gpu, GRACE_PORT_GPU, 6);
                let ports = self.inner_switch(&port, CONNECTX_8_BRIDGE, &[0, gpu_slot], 6);
                self.data_direct(&ports[0], number);
                for bus in self.inner_switch(&ports[1], CONNECTX_8_BRIDGE, &[0], 6) {
                    self.gpu(&bus, 0x03_0200, (0x10de, 0x31c2), nvidia);
                }
            }
            self.bluefield(cpu + 0x06, GRACE_PORT);
        }
        self.domain += 0x20;
    }

    /// Adds the Data Direct function of the ConnectX-8 with this number: a DMA controller, bound to the driver of its
    /// PF's RDMA device (drivers/infiniband/hw/mlx5/data_direct.c).
    fn data_direct(&mut self, bus: &Bus, number: u32) {
        let mut dma = self.device(bus, 0, 0, 0x08_0100, (0x15b3, 0x2100));
        dma.driver = Some("mlx5_ib");
        dma.subsystem = (0x15b3, 0x0041);
        dma.windows = vec![(0, 32 * MIB)];
        dma.link = (6, 16);
        dma.vpd = Some(CONNECTX_8.vpd(number));
        self.add(dma);
    }

    /// Adds a Vera Rubin tray: all devices on their own root ports. The topology follows rdma_topo; domains are made up
    /// like GB200's. For the GPU pci.ids (2026.08.22) has only a reserved id.
    pub(super) fn vera_rubin(&mut self) {
        let nvidia = self.nvidia_if_installed();
        for cpu in [0x00, 0x10] {
            for domain in 0..4 {
                let port = self.domain_port(cpu + domain, VERA_PORT, 1);
                self.connectx(&port, &CONNECTX_9, 0, true);
            }
            let port = self.domain_port(cpu + 0x05, VERA_PORT, 1);
            self.nvme(&port);
            self.bluefield(cpu + 0x06, VERA_PORT);
            for domain in [cpu + 0x08, cpu + 0x09] {
                let port = self.domain_port(domain, VERA_PORT_GPU, 1);
                self.gpu(&port, 0x03_0200, (0x10de, 0x3040), nvidia);
            }
        }
        self.domain += 0x20;
    }

    /// Adds a DGX Spark: one ConnectX-7 on two links of four lanes, each with both ports.
    pub(super) fn dgx_spark(&mut self) {
        const PORT: (u16, u16) = (0x10de, 0x22ce);
        let nvidia = self.nvidia_if_installed();
        for domain in [0x0, 0x2] {
            let port = self.domain_port(domain, PORT, 1);
            (0..2).for_each(|function| self.connectx(&port, &CONNECTX_7, function, false));
        }
        let port = self.domain_port(0x4, PORT, 1);
        self.nvme(&port);
        let port = self.domain_port(0x7, (0x10de, 0x22d0), 1);
        let mut lan = self.device(&port, 0, 0, 0x02_0000, (0x10ec, 0x8127));
        lan.driver = Some("r8127");
        lan.network = Some(Port::ethernet("enP7s7".to_owned(), None));
        self.add(lan);
        let port = self.domain_port(0xf, (0x10de, 0x22d1), 1);
        self.gpu(&port, 0x03_0000, (0x10de, 0x2e12), nvidia);
        self.domain += 0x10;
    }
}
