//! Machines with x86 CPUs, except HGX boards with their few large switches.

use super::{Adapter, Bus, Layout};
use bedplate_facts::pci::PortType;

const CONNECTX_8: Adapter =
    Adapter { device: 0x1023, name: "NVIDIA ConnectX-8 SuperNIC", board: u32::MAX };

/// Bus numbers of the root complexes of two EPYC sockets, four each.
const EPYC_ROOTS: [u8; 8] = [0x00, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0];
const EPYC_ROOT_PORT: (u16, u16) = (0x1022, 0x14ab);

impl Layout<'_> {
    /// Adds B300 with inline ConnectX-8: one root port per pair of GPU and NIC; the switch in between is the NIC's own.
    /// The GPU is behind a second one (rdma-core kernel-boot/rdma_topo, inline topology). Bus numbers are made up.
    pub(super) fn b300(&mut self) {
        const ROOT_PORT: (u16, u16) = (0x8086, 0x0db0);
        const BRIDGE: (u16, u16) = (0x15b3, 0x197c);
        let nvidia = self.nvidia_if_installed();
        let root = self.root(0x00, 0);
        self.chipset(&root);
        for (index, number) in
            [0x15, 0x35, 0x55, 0x75, 0x95, 0xb5, 0xd5, 0xf5].into_iter().enumerate()
        {
            let root = self.root(number, (index / 4) as i32);
            let last = number + 6;
            let (up, down) = (PortType::Upstream, PortType::Downstream);
            let port =
                self.bridge(&root, (1, 0), ROOT_PORT, PortType::RootPort, (number + 1, last));
            let inside = self.bridge(&port, (0, 0), BRIDGE, up, (number + 2, last));
            let nic = self.bridge(&inside, (0, 0), BRIDGE, down, (number + 3, number + 3));
            self.connectx(&nic, &CONNECTX_8, 0, true);
            let outer = self.bridge(&inside, (1, 0), BRIDGE, down, (number + 4, last));
            let second = self.bridge(&outer, (0, 0), BRIDGE, up, (number + 5, last));
            let gpu = self.bridge(&second, (0, 0), BRIDGE, down, (last, last));
            self.gpu(&gpu, 0x03_0200, (0x10de, 0x3182), nvidia);
        }
        for (number, is_disk) in [(0x05, false), (0x0b, true), (0x8b, true)] {
            let root = self.root(number, i32::from(number >= 0x80));
            let bus = (number + 1, number + 1);
            let port = self.bridge(&root, (1, 0), ROOT_PORT, PortType::RootPort, bus);
            if is_disk { self.nvme(&port) } else { self.management(&port) }
        }
        self.domain += 1;
    }

    /// Adds one of [`EPYC_ROOTS`], with the CPU's own functions.
    fn epyc_root(&mut self, index: usize, number: u8) -> Bus {
        let root = self.root(number, (index / 4) as i32);
        let system =
            [(0, 0, 0x06_0000, 0x14a4), (0, 2, 0x08_0600, 0x149e), (1, 0, 0x06_0000, 0x149f)];
        self.fill(&root, 0x1022, &system);
        root
    }

    /// Adds two EPYC sockets with eight MI300X, each with a NIC and a disk behind a large switch.
    pub(super) fn mi300x(&mut self) {
        for (index, number) in EPYC_ROOTS.into_iter().enumerate() {
            let root = self.epyc_root(index, number);
            let ports = self.switch(&root, (1, 1), EPYC_ROOT_PORT, 4);
            self.gpu(&ports[0], 0x12_0000, (0x1002, 0x74a1), Some("amdgpu"));
            self.connectx7(&ports[1], false);
            self.nvme(&ports[2]);
            if index == 0 {
                let bus = (number + 0x10, number + 0x10);
                let port = self.bridge(&root, (3, 1), EPYC_ROOT_PORT, PortType::RootPort, bus);
                self.management(&port);
            }
        }
        self.domain += 1;
    }

    /// Adds two EPYC sockets with L40S cards and NICs directly on root ports, without switches.
    pub(super) fn epyc_l40s(&mut self) {
        let nvidia = self.nvidia_if_installed();
        for (index, number) in EPYC_ROOTS.into_iter().enumerate() {
            let root = self.epyc_root(index, number);
            let bus = (number + 1, number + 1);
            let port = self.bridge(&root, (1, 1), EPYC_ROOT_PORT, PortType::RootPort, bus);
            self.gpu(&port, 0x03_0200, (0x10de, 0x26b9), nvidia);
            let bus = (number + 2, number + 2);
            let port = self.bridge(&root, (3, 1), EPYC_ROOT_PORT, PortType::RootPort, bus);
            match index {
                1 | 5 => self.connectx7(&port, false),
                2 | 6 => self.nvme(&port),
                3 => self.management(&port),
                _ => {}
            }
        }
        self.domain += 1;
    }
}
