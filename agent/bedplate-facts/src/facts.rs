//! Facts about a host, and their observation.

use serde::Serialize;

use bedplate_base::{Arch, CpuVendor, Reading};
use bedplate_host::{HostKind, Reader};

use crate::boot::{self, BootLoader};
use crate::depth::Depth;
use crate::os::{self, Os};
use crate::system::{self, Cpu, Dmi, IommuFacts, unknown};
use crate::{gpu, pci, scan};

/// Everything known about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Source of the facts.
    pub host: HostKind,
    /// Architecture.
    pub arch: Reading<Arch>,
    /// CPU.
    pub cpu: Cpu,
    /// Total memory in bytes.
    pub memory_bytes: Reading<u64>,
    /// DMI.
    pub dmi: Dmi,
    /// OS and kernel.
    pub os: Os,
    /// Boot-loader family.
    pub boot: BootLoader,
    /// IOMMU.
    pub iommu: IommuFacts,
    /// GPU software stack.
    pub gpu: gpu::GpuStack,
    /// PCI.
    pub pci: Reading<pci::PciTree>,
}

/// Observes a host. Never fails as a whole: an unreadable fact is `Unknown` in its own field.
pub fn observe(reader: &dyn Reader, depth: Depth) -> Facts {
    let cpuinfo = system::cpuinfo(reader);
    let os = os::observe(reader);
    let pci = scan::scan(reader, depth);
    let mut iommu = system::iommu(reader);
    if let (true, Reading::Known(tree)) = (depth >= Depth::Thorough, &pci) {
        // Bridges only forward traffic, so the type of their groups decides nothing.
        let asked = |function: &pci::Function| {
            depth > Depth::Thorough || function.takes_part() && !function.is_bridge()
        };
        iommu.groups = system::group_types(reader, tree, asked);
    }
    let kernel = os.kernel.known().or(os.installed_kernels.last()).cloned();
    Facts {
        host: reader.kind(),
        gpu: gpu::observe(reader, kernel.as_deref(), &pci),
        arch: system::arch(reader, &cpuinfo),
        memory_bytes: system::memory_bytes(reader),
        dmi: system::dmi(reader),
        boot: boot::family(reader, &os),
        cpu: system::cpu(reader, &cpuinfo),
        os,
        iommu,
        pci,
    }
}

impl Facts {
    /// Returns the name of the host in plans and tables. It describes the machine, not the source of the data, so a
    /// recorded host has the same name as the machine itself.
    pub fn label(&self) -> String {
        let machine = [self.dmi.sys_vendor.known(), self.dmi.product_name.known()];
        let machine: Vec<&str> = machine.into_iter().flatten().map(String::as_str).collect();
        let parts = [
            machine.join(" "),
            self.os.pretty.known().cloned().unwrap_or_default(),
            self.os.kernel.known().map(|release| format!("Linux {release}")).unwrap_or_default(),
        ];
        let said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if said.is_empty() { "unknown machine".to_owned() } else { said.join(", ") }
    }

    /// Whether there are PCI devices to report; an image has no devices.
    pub fn sees_devices(&self) -> bool {
        self.pci.known().is_some_and(|tree| !tree.functions.is_empty())
    }

    /// Returns a machine with the same CPU vendor and architecture, and nothing else known.
    pub fn of_the_same_cpu(&self) -> Facts {
        let mut facts = Facts::of_vendor(CpuVendor::Other);
        facts.arch.clone_from(&self.arch);
        facts.cpu.vendor.clone_from(&self.cpu.vendor);
        facts
    }

    /// Returns a machine with only its CPU vendor known. Image builds resolve profiles against it.
    pub fn of_vendor(vendor: CpuVendor) -> Facts {
        let arch = match vendor {
            CpuVendor::Intel | CpuVendor::Amd => Reading::Known(Arch::X86_64),
            CpuVendor::Arm => Reading::Known(Arch::Aarch64),
            CpuVendor::Other => unknown(),
        };
        Facts {
            host: HostKind::Image,
            arch,
            cpu: Cpu {
                vendor: Reading::Known(vendor),
                model: unknown(),
                family: unknown(),
                id: unknown(),
                is_guest: unknown(),
                online: unknown(),
                nodes: unknown(),
            },
            memory_bytes: unknown(),
            dmi: Dmi {
                sys_vendor: unknown(),
                product_name: unknown(),
                board_name: unknown(),
                bios_version: unknown(),
            },
            os: Os {
                id: unknown(),
                id_like: Vec::new(),
                version: unknown(),
                pretty: unknown(),
                kernel: unknown(),
                version_signature: unknown(),
                next_kernel: unknown(),
                lasting_kernel: None,
                installed_kernels: Vec::new(),
                lockdown: unknown(),
            },
            boot: BootLoader::Unknown {
                reason: "no machine was inspected".into(),
                fix: boot::BY_HAND.into(),
            },
            iommu: IommuFacts::unknown(),
            gpu: gpu::GpuStack {
                nvidia: unknown(),
                peer_memory_symbols: unknown(),
                others: Vec::new(),
                rccl: None,
            },
            pci: unknown(),
        }
    }
}
