//! Machines and their QEMU command lines. Only describes hardware; starts nothing.
//!
//! Every machine has the topology of a two-socket GPU node (`lspci -tv` of one half; the other is at bus 0x80):
//!
//! ```text
//! 20:00.0 root port ─ 21:00.0 switch ┬ 22:00.0 port, ACS    ─ 23:00.0 GPU stand-in [10de:2330]; arm64: [10de:2342]
//!                                    ├ 22:01.0 port, ACS    ─ 24:00.0 igb PF, 7 VFs
//!                                    └ 22:02.0 port, no ACS ─ 25:00.0 empty
//! 20:01.0 root port                  ─ 26:00.0 empty (86:00.0 igb PF on the second socket: a NIC at the root complex)
//! ```
//!
//! The addresses are the same on both architectures: OVMF and its build for arm64 number buses alike, and Linux keeps
//! their numbers.

use std::path::Path;

/// Debian release of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Linux 6.1 (knows no `pci=config_acs`), systemd 252, GRUB 2.06.
    Bookworm,
    /// Linux 6.12 (knows it), systemd 257, GRUB 2.12.
    Trixie,
}

impl Suite {
    /// Debian's code name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// Architecture of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86_64.
    X86,
    /// arm64.
    Arm,
}

impl Arch {
    /// Name as in names of programs and Rust targets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Debian's name.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Serial console.
    pub const fn console(self) -> &'static str {
        match self {
            Self::X86 => "ttyS0",
            Self::Arm => "ttyAMA0",
        }
    }

    /// Files of the UEFI firmware: code, and initial variables.
    pub const fn firmware(self) -> (&'static str, &'static str) {
        match self {
            Self::X86 => ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
            Self::Arm => ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
        }
    }

    /// PCI device id of the emulated GPU (pci.ids): an H100 SXM5; on arm64 a GH200, which exists only with NVIDIA's CPU.
    pub const fn gpu(self) -> u16 {
        match self {
            Self::X86 => 0x2330,
            Self::Arm => 0x2342,
        }
    }

    /// Environment variable with the path of the program that nodes get.
    pub const fn program_variable(self) -> &'static str {
        match self {
            Self::X86 => "BEDPLATE_VM_PROGRAM",
            Self::Arm => "BEDPLATE_VM_PROGRAM_ARM64",
        }
    }

    /// Factor for time limits: QEMU emulates arm64 more slowly.
    pub const fn time_factor(self) -> u32 {
        match self {
            Self::X86 => 1,
            Self::Arm => 2,
        }
    }
}

/// Firmware that starts the boot loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Firmware {
    /// OVMF, or its build for arm64.
    Uefi,
    /// SeaBIOS.
    Bios,
}

/// IOMMU of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Iommu {
    /// VT-d with interrupt remapping.
    Intel,
    /// AMD-Vi, on an EPYC; interrupt remapping is off, because Linux panics with QEMU's.
    Amd,
    /// SMMUv3 of an arm64 machine.
    Smmu,
    /// No IOMMU.
    None,
}

/// Boot loader installed before the first snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loader {
    /// Debian's GRUB, as in the built disk.
    Grub,
    /// systemd-boot with one entry per kernel.
    SystemdBoot,
    /// systemd-boot with unified kernel images.
    Uki,
}

/// Disk layout of the root file system and /boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One ext4 file system.
    Plain,
    /// /boot on its own partition: paths in the boot menu are relative to it.
    SeparateBoot,
    /// btrfs with root in the subvolume `@rootfs`: paths in the boot menu start with its name.
    Btrfs,
}

impl Layout {
    /// Name for `build-image`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::SeparateBoot => "boot",
            Self::Btrfs => "btrfs",
        }
    }
}

/// A virtual GPU node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Name for `vm-shell`.
    pub name: &'static str,
    /// Architecture.
    pub arch: Arch,
    /// Debian release of the guest.
    pub suite: Suite,
    /// Firmware.
    pub firmware: Firmware,
    /// IOMMU.
    pub iommu: Iommu,
    /// Boot loader.
    pub loader: Loader,
    /// Disk layout.
    pub layout: Layout,
}

/// Default machine: trixie, UEFI, GRUB, VT-d.
pub const TRIXIE: Machine = Machine {
    name: "trixie",
    arch: Arch::X86,
    suite: Suite::Trixie,
    firmware: Firmware::Uefi,
    iommu: Iommu::Intel,
    loader: Loader::Grub,
    layout: Layout::Plain,
};
/// Machine with an older kernel, systemd and GRUB.
pub const BOOKWORM: Machine = Machine { name: "bookworm", suite: Suite::Bookworm, ..TRIXIE };
/// Machine with SeaBIOS, and the disk of the default machine.
pub const BIOS: Machine = Machine { name: "bios", firmware: Firmware::Bios, ..TRIXIE };
/// Machine without an IOMMU.
pub const NO_IOMMU: Machine = Machine { name: "no-iommu", iommu: Iommu::None, ..TRIXIE };
/// Machine with AMD-Vi. With QEMU's, Linux 6.12 pauses several times for half a minute, so that the boot takes too long.
pub const AMD: Machine = Machine { name: "amd", iommu: Iommu::Amd, ..BOOKWORM };
/// Machine with /boot on its own partition.
pub const SEPARATE_BOOT: Machine =
    Machine { name: "separate-boot", layout: Layout::SeparateBoot, ..TRIXIE };
/// Machine with root in a btrfs subvolume.
pub const BTRFS: Machine = Machine { name: "btrfs", layout: Layout::Btrfs, ..TRIXIE };
/// Machine with systemd-boot and entries.
pub const SYSTEMD_BOOT: Machine =
    Machine { name: "systemd-boot", loader: Loader::SystemdBoot, ..TRIXIE };
/// Machine with systemd-boot and unified kernel images.
pub const UKI: Machine = Machine { name: "uki", loader: Loader::Uki, ..TRIXIE };
/// arm64 machine with an SMMUv3.
pub const ARM: Machine = Machine { name: "arm", arch: Arch::Arm, iommu: Iommu::Smmu, ..TRIXIE };

/// All machines.
pub const MACHINES: [Machine; 10] =
    [TRIXIE, BOOKWORM, BIOS, NO_IOMMU, AMD, SEPARATE_BOOT, BTRFS, SYSTEMD_BOOT, UKI, ARM];

/// QEMU's own BMC. It refuses to power-cycle (`ipmi_do_hw_op`, hw/ipmi/ipmi.c).
pub(super) const OWN_BMC: &str = "ipmi-bmc-sim,id=bmc";

/// Guest memory in MiB, half of it on each NUMA node.
const MEMORY: u32 = 2048;

impl Machine {
    /// Machine with this name.
    pub fn named(name: &str) -> Option<Self> {
        MACHINES.into_iter().find(|machine| machine.name == name)
    }

    /// Whether its state can be saved: QEMU's AMD-Vi cannot be migrated, and a snapshot is a migration.
    pub const fn snapshots(&self) -> bool {
        !matches!(self.iommu, Iommu::Amd)
    }

    /// QEMU's arguments. Disk and firmware variables are in `dir`, sockets in `sockets`; nothing listens on a network.
    pub fn arguments(&self, dir: &Path, sockets: &Path) -> Vec<String> {
        let mut line = Line::default();
        line.flag("-nodefaults").flag("-no-user-config");
        // The program may be a copy (see `patched_qemu`), which searches for its data only next to itself.
        for data in ["/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu"] {
            line.pair("-L", data);
        }
        line.board(self);
        line.pair("-smp", "2,sockets=2,cores=1").pair("-m", format!("{MEMORY}M"));
        line.pair("-display", "none").pair("-vga", "none").pair("-rtc", "base=utc,clock=host");
        let (sockets, dir) = (sockets.display(), dir.display());
        line.pair("-qmp", format!("unix:{sockets}/qmp,server=on,wait=off"));
        line.pair(
            "-chardev",
            format!("socket,id=console,path={sockets}/console,server=on,wait=off,logfile={dir}/serial.log,logappend=on"),
        );
        line.pair("-serial", "chardev:console");
        if self.firmware == Firmware::Uefi {
            let (code, _) = self.arch.firmware();
            line.pair("-drive", format!("if=pflash,unit=0,format=raw,readonly=on,file={code}"));
            line.pair("-drive", format!("if=pflash,unit=1,format=qcow2,file={dir}/vars.qcow2"));
        }
        match self.iommu {
            Iommu::Intel => line.device("intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"),
            Iommu::Amd => line.device("amd-iommu,intremap=off"),
            // The SMMU is a part of the board.
            Iommu::Smmu | Iommu::None => &mut line,
        };
        line.plumbing(&dir.to_string(), &sockets.to_string());
        if self.arch == Arch::X86 {
            line.device(OWN_BMC).device("isa-ipmi-kcs,bmc=bmc,irq=5");
        }
        line.node(0, 0x20).node(1, 0x80);
        line.pair("-numa", "dist,src=0,dst=1,val=20");
        line.device("igb,id=s1root,bus=s1rp1,romfile=,mac=52:54:00:be:d1:50");
        line.0
    }
}

/// A command line under construction.
#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    fn pair(&mut self, key: &str, value: impl Into<String>) -> &mut Self {
        self.0.extend([key.into(), value.into()]);
        self
    }

    fn device(&mut self, device: impl Into<String>) -> &mut Self {
        self.pair("-device", device)
    }

    /// Adds board and processor: the simplest models that the kernel accepts, because more features cost more emulation.
    ///
    /// The SMMU of `virt` is set on its bus pcie.0 (hw/arm/smmu-common.c). It also covers the buses of both sockets: QEMU
    /// searches upwards for an IOMMU, and their host bridges are devices on pcie.0. The IORT maps the requester ids of
    /// each host bridge to it, unless `bypass_iommu` is set (hw/arm/virt-acpi-build.c, iort_host_bridges). For such a
    /// mapping Linux enables ACS (drivers/acpi/arm64/iort.c, iort_enable_acs).
    fn board(&mut self, machine: &Machine) -> &mut Self {
        match (machine.arch, machine.iommu) {
            (Arch::Arm, Iommu::Smmu) => self.pair("-machine", "virt,gic-version=3,iommu=smmuv3"),
            (Arch::Arm, _) => self.pair("-machine", "virt,gic-version=3"),
            // Nothing is connected to these two, and their drivers probe for seconds.
            (Arch::X86, _) => self.pair("-machine", "q35,sata=off,i8042=off"),
        };
        let cpu = match (machine.arch, machine.iommu) {
            (Arch::Arm, _) => "cortex-a57",
            (Arch::X86, Iommu::Amd) => "EPYC",
            (Arch::X86, _) => "Nehalem",
        };
        self.pair("-accel", "tcg,thread=multi,tb-size=512").pair("-cpu", cpu)
    }

    /// Adds disk, guest agent and randomness on the root complex.
    fn plumbing(&mut self, dir: &str, sockets: &str) -> &mut Self {
        // cache=unsafe: flushed data is in the page cache of this machine, whose power no test cuts.
        self.pair(
            "-drive",
            format!("file={dir}/disk.qcow2,if=none,id=disk,cache=unsafe,discard=unmap"),
        )
        .device("virtio-blk-pci,drive=disk,bus=pcie.0,addr=0x2,bootindex=1")
        .device("virtio-serial-pci,id=ports,bus=pcie.0,addr=0x4")
        .pair("-chardev", format!("socket,id=agent,path={sockets}/agent,server=on,wait=off"))
        .device("virtserialport,bus=ports.0,chardev=agent,name=org.qemu.guest_agent.0")
        .device("virtio-rng-pci,bus=pcie.0,addr=0x5")
    }

    /// Adds one socket: memory, host bridge, and the devices below.
    fn node(&mut self, node: u8, bus: u8) -> &mut Self {
        let half = MEMORY / 2;
        let s = format!("s{node}");
        self.pair("-object", format!("memory-backend-ram,id=m{node},size={half}M"))
            .pair("-numa", format!("node,nodeid={node},cpus={node},memdev=m{node}"))
            .device(format!("pxb-pcie,id={s}pxb,bus=pcie.0,addr={:#x},bus_nr={bus},numa_node={node}", 0x10 + node))
            .device(format!(
                "pcie-root-port,id={s}rp0,bus={s}pxb,addr=0x0,chassis={},slot=0,pref64-reserve=64M,mem-reserve=64M",
                10 + node
            ))
            .device(format!("pcie-root-port,id={s}rp1,bus={s}pxb,addr=0x1,chassis={},slot=1", 10 + node))
            .device(format!("x3130-upstream,id={s}up,bus={s}rp0"));
        // QEMU's switch port has no ACS. Its root port does, and below a switch Linux treats it as a switch port.
        for (slot, port) in
            ["pcie-root-port", "pcie-root-port", "xio3130-downstream"].iter().enumerate()
        {
            let chassis = 20 + node;
            self.device(format!(
                "{port},id={s}dn{slot},bus={s}up,addr={slot:#x},chassis={chassis},slot={slot}"
            ));
        }
        self.device(format!("bochs-display,id={s}gpu,bus={s}dn0"))
            .device(format!("igb,id={s}nic,bus={s}dn1,romfile=,mac=52:54:00:be:d1:{node:x}0"))
    }
}
