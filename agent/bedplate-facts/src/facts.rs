//! Facts of a host, and how they are observed.

use crate::boot;
use crate::gpu;
use crate::os;
use crate::pci;
use crate::scan;
use crate::system;
use std::collections::BTreeMap;

use serde::Serialize;

use bedplate_base::{Arch, CpuVendor, Reading};
use bedplate_host::{HostKind, Reader};

/// CPU facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Maker.
    pub vendor: Reading<CpuVendor>,
    /// Marketing name.
    pub model: Reading<String>,
    /// Family number (AMD ≥ 0x17 is always accepted for P2P by the kernel; handbook §3.2).
    pub family: Reading<u32>,
    /// Whether it is a virtual machine's (CPUID, leaf 1, bit 31 of ECX); `Absent`: Arm CPUs do not say.
    #[serde(skip)]
    pub is_guest: Reading<bool>,
    /// Online logical CPUs, e.g. `0-111` as the kernel writes it.
    pub online: Reading<String>,
    /// Online NUMA nodes, e.g. `0-1`.
    pub nodes: Reading<String>,
}

impl Cpu {
    /// Whether it is known to be a virtual machine's.
    pub fn is_virtual(&self) -> bool {
        self.is_guest.known() == Some(&true)
    }
}

/// DMI identity; the fields readable without root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dmi {
    /// `/sys/class/dmi/id/sys_vendor`.
    pub sys_vendor: Reading<String>,
    /// `/sys/class/dmi/id/product_name`.
    pub product_name: Reading<String>,
    /// `/sys/class/dmi/id/board_name`.
    pub board_name: Reading<String>,
    /// `/sys/class/dmi/id/bios_version`.
    pub bios_version: Reading<String>,
}

/// Operating system facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Os {
    /// `ID` of os-release (`ubuntu`, `debian`, `rhel`, `fedora`, `sles`, `talos` …).
    pub id: Reading<String>,
    /// `ID_LIKE`, split at blanks; empty when absent.
    pub id_like: Vec<String>,
    /// `VERSION_ID`.
    pub version: Reading<String>,
    /// `PRETTY_NAME`.
    pub pretty: Reading<String>,
    /// Running kernel release (`uname -r`); an image has none and reports the newest installed one in `installed_kernels`.
    pub kernel: Reading<String>,
    /// `/proc/version_signature` of Ubuntu's kernels: package, flavour and the upstream stable release they are made from.
    pub version_signature: Reading<String>,
    /// Release of the kernel that the default boot entry starts. Boot entries are read by the kind that manages the command
    /// line (`engine::observe`); until it was asked this is unknown.
    pub next_kernel: Reading<String>,
    /// The same from the boot after it on, where an entry was chosen for one boot only (`grub-reboot`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasting_kernel: Option<Reading<String>>,
    /// Kernel releases that have a directory in /lib/modules, in version order.
    pub installed_kernels: Vec<String>,
    /// Kernel lockdown mode (`none`, `integrity`, `confidentiality`).
    pub lockdown: Reading<String>,
}

/// Who owns the kernel command line on this host (handbook §10.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub enum BootLoader {
    /// Debian, Ubuntu and kin: /etc/default/grub, grub.d drop-ins, update-grub.
    GrubDebian,
    /// RHEL, Fedora and kin with BLS entries read by GRUB.
    GrubBls,
    /// RHEL family without BLS (GRUB_ENABLE_BLSCFG not true): /etc/default/grub and grub2-mkconfig.
    GrubRhel,
    /// SUSE: /etc/default/grub and grub2-mkconfig / update-bootloader.
    GrubSuse,
    /// systemd-boot with kernel-install (type 1 entries or UKI).
    SystemdBoot {
        /// The running system was started from a unified kernel image (StubInfo), so options are embedded.
        uki: bool,
    },
    /// SUSE with entries that sdbootutil makes from /etc/kernel/cmdline.
    Sdbootutil {
        /// GRUB reads them (`grub2-bls`), not systemd-boot.
        grub: bool,
    },
    /// rpm-ostree deployments: `rpm-ostree kargs`.
    RpmOstree,
    /// bootc: kargs.d files and `bootc`.
    Bootc,
    /// Known, but nothing on the host can own it (Talos, a container …): the reason.
    Unmanaged {
        /// Reason.
        reason: String,
        /// Way to change the kernel arguments without bedplate.
        remedy: String,
    },
    /// Cannot tell: the reason. Never skipped silently.
    Unknown {
        /// Signs that were looked for and not found.
        reason: String,
        /// Way to change the kernel arguments without bedplate.
        remedy: String,
    },
}

/// Build-time defaults of a kernel that matter, from /boot/config-RELEASE or /proc/config.gz.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IommuFacts {
    /// Names in /sys/class/iommu (`dmar0`, `ivhd0`, `smmu3.0x…`); empty = no IOMMU active.
    pub active: Reading<Vec<String>>,
    /// Firmware offers one: DMAR or IVRS (or IORT) table name present in /sys/firmware/acpi/tables.
    pub firmware: Reading<String>,
    /// What keeps it off at the next boot (`intel_iommu=off`, or how the kernel was built); `Absent` = nothing does. Like
    /// the next kernel this is for the kind that manages the command line to say (`engine::observe`).
    pub off_by: Reading<String>,
    /// `type` of every IOMMU group that has an endpoint which takes part (`DMA`, `DMA-FQ`, `identity` …); read by a thorough scan only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<u32, Reading<String>>,
}

/// Everything known about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Which sort of host it was read from.
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

/// How much to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// What tells one machine from another. Nothing for which the kernel asks or waits for a driver: sriov_numvfs waits for
    /// a PF's probe to end (drivers/pci/iov.c, sriov_numvfs_show: device_lock, until Linux 6.9).
    Identity,
    /// What planning needs, at the least cost: config space of bridges and of NICs behind them, and only the dwords that count.
    Plan,
    /// What GPUDirect RDMA depends on: links, windows, device control, NUMA nodes and group types of the functions that
    /// [take part](pci::Function::takes_part); of bridges no group types. Reading registers of the rest would tell nothing, and wakes what sleeps.
    Thorough,
    /// The same of every function: what `inspect --tree` shows, and what a snapshot keeps for questions to come.
    Everything,
}

/// Observe a host. Never fails as a whole: what cannot be read says so where it stands.
pub fn observe(reader: &dyn Reader, depth: Depth) -> Facts {
    let cpuinfo = system::cpuinfo(reader);
    let os = os::observe(reader);
    let pci = scan::scan(reader, depth);
    let mut iommu = system::iommu(reader);
    if let (true, Reading::Known(tree)) = (depth >= Depth::Thorough, &pci) {
        // Bridges pass on what others send: the type of their groups decides nothing.
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

fn unknown<T>() -> Reading<T> {
    Reading::unknown("no machine was looked at")
}

impl IommuFacts {
    /// Of a machine that was not looked at.
    pub fn unknown() -> Self {
        IommuFacts {
            active: unknown(),
            firmware: unknown(),
            off_by: unknown(),
            groups: BTreeMap::new(),
        }
    }
}

impl Facts {
    /// How plans and tables name a host: by what it is, not by where its bytes came from, so that a recorded host is called
    /// what the machine itself was called.
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

    /// Whether there is anything to tell of its PCI devices: an image has none.
    pub fn sees_devices(&self) -> bool {
        self.pci.known().is_some_and(|tree| !tree.functions.is_empty())
    }

    /// Another machine with a CPU of the same maker and architecture, of which nothing else is known.
    pub fn of_the_same_cpu(&self) -> Facts {
        let mut facts = Facts::of_vendor(CpuVendor::Other);
        facts.arch.clone_from(&self.arch);
        facts.cpu.vendor.clone_from(&self.cpu.vendor);
        facts
    }

    /// A machine of which nothing is known but its maker's CPU: what image builds resolve a profile against.
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
                reason: "no machine was looked at".into(),
                remedy: boot::BY_HAND.into(),
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
