//! Hand-built machines for tests: PCI trees, matching facts, and a reader over a map of files.

// Only tests call this; a wrongly built machine must abort them.
#![allow(clippy::expect_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::value::{AcsBits, PciAddress, PciId};
use bedplate_base::{Arch, CpuVendor, ReadError, Reading};
use bedplate_facts::gpu::GpuStack;
use bedplate_facts::pci::{Acs, Function, PciTree, PortType, SriovPf};
use bedplate_facts::{BootLoader, Cpu, CpuId, Dmi, Facts, IommuFacts, Os};
use bedplate_host::{ConfigSpace, HostKind, Reader};

/// Parses an address.
pub fn at(text: &str) -> PciAddress {
    text.parse().expect("an address")
}

/// ACS of an ordinary port as enabled by Linux: SV RR CR UF.
pub const ACS: Acs = Acs { offset: 0x148, capable: AcsBits(0x5f), control: AcsBits(0x1d) };

/// A tree under construction.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Tree so far.
    pub tree: PciTree,
}

impl Machine {
    /// Adds a function; root and NUMA node are its parent's.
    pub fn add(
        &mut self,
        address: &str,
        parent: Option<&str>,
        class: u32,
        id: (u16, u16),
    ) -> &mut Function {
        let above = parent.and_then(|parent| self.tree.get(at(parent)));
        let root = above.map_or_else(|| root_of(address), |f| f.root.clone());
        let numa_node = above.map_or(Reading::Known(0), |f| f.numa_node.clone());
        let function = Function {
            address: at(address),
            class,
            vendor: PciId(id.0),
            device: PciId(id.1),
            subsystem: (PciId(id.0), PciId(0)),
            driver: None,
            parent: parent.map(at),
            root,
            numa_node,
            iommu_group: Reading::Absent,
            port: Reading::unknown("only bridges are read"),
            acs: Reading::unknown("only bridges are read"),
            physfn: None,
            sriov: Reading::Absent,
            net: Vec::new(),
            infiniband: Vec::new(),
            vfio: false,
            ats: Reading::Absent,
            vpd: Reading::Absent,
            detail: None,
        };
        self.tree.functions.insert(at(address), function);
        self.get(address)
    }

    /// Returns the function already in the tree.
    pub fn get(&mut self, address: &str) -> &mut Function {
        self.tree.functions.get_mut(&at(address)).expect("in the tree")
    }

    /// Returns the SR-IOV state of a PF already in the tree.
    pub fn sriov(&mut self, pf: &str) -> &mut SriovPf {
        let Reading::Known(sriov) = &mut self.get(pf).sriov else { panic!("{pf} is no PF") };
        sriov
    }

    /// Gives a port in the tree the capable bits of [`ACS`], with these control bits.
    pub fn set_acs(&mut self, port: &str, control: u16) {
        self.get(port).acs = Reading::Known(Acs { control: AcsBits(control), ..ACS });
    }

    /// Adds a bridge. Root and downstream ports get [`ACS`], upstream ports do not.
    pub fn port(&mut self, address: &str, parent: Option<&str>, port: PortType) -> &mut Function {
        let function = self.add(address, parent, 0x060400, (0x1000, 0xc010));
        function.port = Reading::Known(port);
        function.driver = Some("pcieport".into());
        function.acs =
            if port == PortType::Upstream { Reading::Absent } else { Reading::Known(ACS) };
        function
    }

    /// Adds a root port on a NUMA node.
    pub fn root_port(&mut self, address: &str, node: i32) {
        self.port(address, None, PortType::RootPort).numa_node = Reading::Known(node);
    }

    /// Adds a switch below a port: the upstream port at `BUS:00.0`, downstream ports at `BUS+1:00.0`, `:01.0` … Returns
    /// the downstream ports.
    pub fn switch(&mut self, parent: &str, up: &str, ports: u8) -> Vec<String> {
        self.port(up, Some(parent), PortType::Upstream);
        let bus = at(up).bus + 1;
        let down: Vec<String> = (0..ports).map(|n| format!("0000:{bus:02x}:{n:02x}.0")).collect();
        for address in &down {
            self.port(address, Some(up), PortType::Downstream);
        }
        down
    }

    /// Adds an H100.
    pub fn gpu(&mut self, address: &str, parent: Option<&str>) -> &mut Function {
        self.add(address, parent, 0x030200, (0x10de, 0x2330))
    }

    /// Adds a ConnectX-7 with its driver, one interface, and capacity for 8 VFs.
    pub fn nic(&mut self, address: &str, parent: Option<&str>) -> &mut Function {
        let nic = self.add(address, parent, 0x020000, (0x15b3, 0x1021));
        nic.driver = Some("mlx5_core".into());
        nic.net = vec![format!("net{}", address.replace([':', '.'], ""))];
        nic.sriov = Reading::Known(SriovPf {
            total: Reading::Known(8),
            enabled: Reading::Known(0),
            vf_device: Reading::Known(PciId(0x101e)),
            autoprobe: Reading::Known(true),
            vfs: Vec::new(),
        });
        nic
    }

    /// Adds a VF to a PF in the tree.
    pub fn vf(&mut self, address: &str, pf: &str) -> &mut Function {
        let parent = self.get(pf).parent.map(|parent| parent.to_string());
        let sriov = self.sriov(pf);
        sriov.vfs.push(at(address));
        sriov.enabled = Reading::Known(sriov.vfs.len() as u16);
        let vf = self.add(address, parent.as_deref(), 0x020000, (0x15b3, 0x101e));
        vf.physfn = Some(at(pf));
        vf.driver = Some("mlx5_core".into());
        vf.net = vec![format!("vf{}", address.replace([':', '.'], ""))];
        vf
    }

    /// Returns the facts of a running Intel machine with Linux 6.12.117 and this tree.
    pub fn facts(&self) -> Facts {
        facts(Reading::Known(self.tree.clone()))
    }
}

fn root_of(address: &str) -> String {
    let address = at(address);
    format!("pci{:04x}:{:02x}", address.domain, address.bus)
}

/// Returns an 8-GPU machine: four switches, each with two GPUs, two NICs and an empty port; two switches per socket. Root
/// ports `16`, `36`, `96`, `b6`; GPUs and NICs at BUS+3 … BUS+6.
pub fn hgx() -> Machine {
    let mut machine = Machine::default();
    for (n, bus) in [0x16u8, 0x36, 0x96, 0xb6].into_iter().enumerate() {
        let root = format!("0000:{bus:02x}:01.0");
        machine.root_port(&root, if n < 2 { 0 } else { 1 });
        let down = machine.switch(&root, &format!("0000:{:02x}:00.0", bus + 1), 5);
        for (m, port) in down[..4].iter().enumerate() {
            let address = format!("0000:{:02x}:00.0", bus + 3 + m as u8);
            match m {
                0 | 2 => machine.gpu(&address, Some(port)),
                _ => machine.nic(&address, Some(port)),
            };
        }
    }
    machine
}

/// Returns the emulated GPU node: two sockets. Ports below the upstream port report the type of root ports, one downstream
/// port has no ACS, and a second NIC is directly on a root port of the second socket.
pub fn lab() -> Machine {
    let mut machine = Machine::default();
    for (node, bus) in [(0, 0x20u8), (1, 0x80)] {
        let name = |offset: u8, device: u8| format!("0000:{:02x}:{device:02x}.0", bus + offset);
        machine.root_port(&name(0, 0), node);
        machine.root_port(&name(0, 1), node);
        machine.get(&name(0, 1)).root = machine.get(&name(0, 0)).root.clone();
        machine.port(&name(1, 0), Some(&name(0, 0)), PortType::Upstream);
        for device in 0..2 {
            machine.port(&name(2, device), Some(&name(1, 0)), PortType::RootPort);
        }
        machine.port(&name(2, 2), Some(&name(1, 0)), PortType::Downstream).acs = Reading::Absent;
        machine.gpu(&name(3, 0), Some(&name(2, 0))).class = 0x038000;
        machine.nic(&name(4, 0), Some(&name(2, 1)));
    }
    machine.nic("0000:86:00.0", Some("0000:80:01.0"));
    machine
}

/// Returns the facts of a running Intel machine with Linux 6.12.117.
pub fn facts(pci: Reading<PciTree>) -> Facts {
    let text = |text: &str| Reading::Known(text.to_owned());
    Facts {
        host: HostKind::Live,
        arch: Reading::Known(Arch::X86_64),
        cpu: Cpu {
            vendor: Reading::Known(CpuVendor::Intel),
            model: text("Intel(R) Xeon(R)"),
            family: Reading::Known(6),
            id: Reading::Known(CpuId { vendor: "GenuineIntel".to_owned(), family: 6, model: 143 }),
            is_guest: Reading::Known(false),
            online: text("0-111"),
            nodes: text("0-1"),
        },
        memory_bytes: Reading::Known(1 << 40),
        dmi: Dmi {
            sys_vendor: text("Maker"),
            product_name: text("Node"),
            board_name: text("Board"),
            bios_version: text("1.0"),
        },
        os: Os {
            id: text("debian"),
            id_like: Vec::new(),
            version: text("13"),
            pretty: text("Debian GNU/Linux 13"),
            kernel: text("6.12.117+deb13-amd64"),
            version_signature: Reading::Absent,
            next_kernel: text("6.12.117+deb13-amd64"),
            lasting_kernel: None,
            installed_kernels: vec!["6.12.117+deb13-amd64".into()],
            lockdown: text("none"),
        },
        boot: BootLoader::GrubDebian,
        iommu: IommuFacts {
            active: Reading::Known(vec!["dmar0".into()]),
            firmware: text("DMAR"),
            off_by: Reading::Absent,
            groups: BTreeMap::new(),
        },
        gpu: GpuStack {
            nvidia: Reading::Absent,
            peer_memory_symbols: Reading::Absent,
            others: Vec::new(),
            rccl: None,
        },
        pci,
    }
}

/// Builds a unified kernel image (PE) that only has a `.cmdline` section with this line.
pub fn unified_image(line: &str) -> Vec<u8> {
    let mut bytes = vec![0; 0x200];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x80;
    bytes[0x80..0x84].copy_from_slice(b"PE\0\0");
    bytes[0x86] = 1;
    let table = 0x80 + 24;
    let size = u32::try_from(line.len()).expect("a short line").to_le_bytes();
    bytes[table..table + 8].copy_from_slice(b".cmdline");
    bytes[table + 8..table + 12].copy_from_slice(&size);
    bytes[table + 16..table + 20].copy_from_slice(&size);
    bytes[table + 20..table + 24].copy_from_slice(&0x200u32.to_le_bytes());
    bytes.extend_from_slice(line.as_bytes());
    bytes
}

/// A fake host backed by a map from paths to contents. Directories follow from the paths; every path read is recorded.
#[derive(Debug, Default)]
pub struct Files {
    /// Content by path.
    pub files: BTreeMap<String, String>,
    /// Paths that give a permission error.
    pub denied: BTreeSet<String>,
    /// Paths read so far.
    pub asked: RefCell<Vec<String>>,
}

impl Files {
    /// Builds the host from (path, content) pairs.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Files { files, ..Files::default() }
    }

    fn ask(&self, path: &str) -> Result<(), ReadError> {
        self.asked.borrow_mut().push(path.to_owned());
        match self.denied.contains(path) {
            true => Err(ReadError::Denied { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    fn not_found<T>(path: &str) -> Result<T, ReadError> {
        Err(ReadError::NotFound { path: path.to_owned() })
    }
}

impl Reader for Files {
    fn kind(&self) -> HostKind {
        HostKind::Live
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.ask(path)?;
        self.files
            .get(path)
            .map_or_else(|| Self::not_found(path), |text| Ok(text.clone().into_bytes()))
    }

    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        self.read(path).map(|mut bytes| {
            bytes.truncate(limit);
            bytes
        })
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.ask(path)?;
        let inside = format!("{path}/");
        let names: BTreeSet<&str> = self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&inside)?.split('/').next())
            .collect();
        match names.is_empty() {
            true => Self::not_found(path),
            false => Ok(names.into_iter().map(str::to_owned).collect()),
        }
    }

    fn link(&self, path: &str) -> Result<String, ReadError> {
        Self::not_found(path)
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        Self::not_found(path)
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        self.ask(path)?;
        let inside = format!("{path}/");
        Ok(self.files.keys().any(|file| file == path || file.starts_with(&inside)))
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        Self::not_found(&format!("/sys/bus/pci/devices/{address}/config"))
    }
}
