//! Everything of a fake host except PCI and boot configuration: directories, os-release, modules, `/proc` and the rest
//! of `/sys`.

use std::collections::BTreeMap;

use super::memory;
use super::spec::{HostSpec, IommuState, Loader, Machine, ModuleState, Nvidia};
use bedplate_base::CpuVendor;
use bedplate_facts::iort;
use bedplate_host::kmsg::Line;
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_host::{KernelLog, snapshot_paths};

/// Memory of every machine, in KiB.
const MEMORY_KIB: u64 = 2_113_384_448;
/// NVIDIA driver version on machines with the driver.
const NVIDIA_VERSION: &str = "570.133.20";

/// Adds a file to a host.
pub(crate) fn put(snapshot: &mut Snapshot, path: &str, text: &str) {
    snapshot.insert(path, Node::File(text.as_bytes().to_vec()));
}

/// Adds files that image roots have too.
pub(crate) fn files(spec: &HostSpec, snapshot: &mut Snapshot) {
    for directory in ["/boot", "/var/lib", "/usr/bin", "/usr/sbin", "/tmp"] {
        snapshot.insert(directory, Node::Dir(None));
    }
    for place in ["/etc", "/usr/lib"] {
        for directory in ["modprobe.d", "modules-load.d", "systemd/system"] {
            snapshot.insert(&format!("{place}/{directory}"), Node::Dir(None));
        }
    }
    for name in ["bin", "sbin", "lib"] {
        snapshot.insert(&format!("/{name}"), Node::Link(format!("usr/{name}")));
    }
    put(snapshot, "/usr/lib/os-release", &os_release(spec));
    put(snapshot, bedplate_facts::names::FILES[0], include_str!("pci.ids"));
    snapshot.insert("/etc/os-release", Node::Link("../usr/lib/os-release".to_owned()));
    let nouveau = "blacklist nouveau\noptions nouveau modeset=0\n";
    put(snapshot, "/etc/modprobe.d/blacklist-nouveau.conf", nouveau);
    // DOCA-OFED and rdma-core's cluster packages install this file.
    let limits = "* soft memlock unlimited\n* hard memlock unlimited\n";
    put(snapshot, "/etc/security/limits.d/rdma.conf", limits);
    put(snapshot, "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n");
    // The head of an ELF program determines an image's architecture.
    let mut program = vec![0; 64];
    program[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    program[18] = if spec.cpu_vendor() == CpuVendor::Arm { 183 } else { 62 };
    snapshot.insert("/usr/bin/sh", Node::File(program));
    for tool in ["/usr/sbin/modprobe", "/usr/sbin/depmod", "/usr/bin/systemctl"] {
        snapshot.insert(tool, Node::Present);
    }
    for kernel in spec.older_kernels.iter().chain([&spec.kernel]) {
        installed_kernel(spec, kernel, snapshot);
    }
}

fn os_release(spec: &HostSpec) -> String {
    let (id, like, name, version) = match spec.loader {
        Loader::Debian => ("ubuntu", "debian", "Ubuntu", "24.04"),
        Loader::Rhel9 => ("rhel", "fedora", "Red Hat Enterprise Linux", "9.4"),
        Loader::Rhel8 => ("rhel", "fedora", "Red Hat Enterprise Linux", "8.10"),
        Loader::Suse => ("sles", "suse", "SUSE Linux Enterprise Server", "15.6"),
        Loader::SystemdBoot | Loader::Uki | Loader::None => {
            ("debian", "", "Debian GNU/Linux", "13")
        }
        Loader::RpmOstree => ("fedora", "", "Fedora CoreOS", "41"),
        Loader::Bootc => ("centos", "rhel fedora", "CentOS Stream", "10"),
        Loader::Talos => ("talos", "", "Talos", "v1.12.1"),
    };
    let version = spec.os_version.as_deref().unwrap_or(version);
    let like = if like.is_empty() { String::new() } else { format!("ID_LIKE=\"{like}\"\n") };
    format!(
        "NAME=\"{name}\"\nID={id}\n{like}VERSION_ID=\"{version}\"\nPRETTY_NAME=\"{name} {version}\"\n"
    )
}

fn installed_kernel(spec: &HostSpec, kernel: &str, snapshot: &mut Snapshot) {
    let directory = format!("/usr/lib/modules/{kernel}");
    let (mut builtin, mut files) = (String::new(), String::new());
    for (module, state) in modules(spec) {
        match state {
            ModuleState::Builtin => builtin += &format!("kernel/drivers/{module}.ko\n"),
            ModuleState::Absent => {}
            _ => files += &format!("kernel/drivers/{}.ko.zst:\n", module.replace('_', "-")),
        }
    }
    put(snapshot, &format!("{directory}/modules.builtin"), &builtin);
    put(snapshot, &format!("{directory}/modules.dep"), &files);
    // Out-of-tree OFED's ib_core exports more than mainline's.
    let peers = if spec.ofed {
        "alias symbol:ib_register_peer_memory_client ib_core\nalias symbol:ib_unregister_peer_memory_client ib_core\n"
    } else {
        ""
    };
    let symbols = format!("alias symbol:ib_register_client ib_core\n{peers}");
    put(snapshot, &format!("{directory}/modules.symbols"), &symbols);
    let (lazy, passthrough) = match spec.machine {
        Machine::Mi300x => {
            ("# CONFIG_IOMMU_DEFAULT_DMA_LAZY is not set", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y")
        }
        _ => ("CONFIG_IOMMU_DEFAULT_DMA_LAZY=y", "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set"),
    };
    let config = format!(
        "CONFIG_INTEL_IOMMU=y\nCONFIG_INTEL_IOMMU_DEFAULT_ON={}\nCONFIG_AMD_IOMMU=y\n\
         # CONFIG_IOMMU_DEFAULT_DMA_STRICT is not set\n{lazy}\n{passthrough}\n\
         CONFIG_PCI_REALLOC_ENABLE_AUTO=y\nCONFIG_DMA_SHARED_BUFFER=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\nCONFIG_PCI_P2PDMA=y\n",
        if spec.iommu == IommuState::Off { "n" } else { "y" },
    );
    let of_arm = match (spec.cpu_vendor(), kernel.ends_with("64k")) {
        (CpuVendor::Arm, true) => "CONFIG_ARM64_64K_PAGES=y\nCONFIG_ARM_SMMU_V3_SVA=y\n",
        (CpuVendor::Arm, false) => "CONFIG_ARM64_4K_PAGES=y\nCONFIG_ARM_SMMU_V3_SVA=y\n",
        _ => "",
    };
    put(snapshot, &format!("/boot/config-{kernel}"), &(config + of_arm));
    for name in ["vmlinuz", "initrd.img"] {
        snapshot.insert(&format!("/boot/{name}-{kernel}"), Node::Present);
    }
}

/// Returns all modules with their states: the machine's own, overridden by the description.
fn modules(spec: &HostSpec) -> BTreeMap<String, ModuleState> {
    use ModuleState::{Available, Builtin, Live};
    let mut all: BTreeMap<String, ModuleState> = BTreeMap::new();
    let mut set =
        |names: &[&str], state| all.extend(names.iter().map(|name| ((*name).to_owned(), state)));
    set(&["vfio_pci", "vfio", "overlay", "br_netfilter", "ipmi_poweroff"], Available);
    set(&["nvme", "nvme_core", "ipmi_si", "ipmi_msghandler"], Live);
    set(&["acpi_pad", "vfat", "loop"], Builtin);
    if spec.machine != Machine::Plain {
        set(&["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"], Live);
        set(&["rdma_ucm", "ib_umad"], Available);
    }
    if spec.nvidia_driver() != Nvidia::None {
        set(&["nvidia", "nvidia_uvm", "nvidia_modeset"], Live);
        set(&["nvidia_peermem", "nvidia_drm"], Available);
    }
    all.extend(spec.modules.iter().map(|(name, state)| (name.replace('-', "_"), *state)));
    all
}

/// Adds files that only a running machine has.
pub(crate) fn running(spec: &HostSpec, snapshot: &mut Snapshot) {
    let (cpuinfo, online, nodes) = cpu(spec);
    put(snapshot, "/proc/cpuinfo", &cpuinfo);
    put(snapshot, "/sys/devices/system/cpu/online", online);
    put(snapshot, "/sys/devices/system/node/online", nodes);
    node_cpus(spec, (online, nodes), snapshot);
    let memory = format!("MemTotal:       {MEMORY_KIB} kB\nMemFree:        2001119404 kB\n");
    put(snapshot, "/proc/meminfo", &memory);
    memory::nodes(spec, (nodes, count(nodes)), MEMORY_KIB, snapshot);
    put(snapshot, "/proc/sys/kernel/osrelease", &format!("{}\n", spec.kernel));
    put(snapshot, "/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000001\n");
    // On by default on machines with more than one node (mm/mempolicy.c, check_numabalancing_enable).
    put(snapshot, "/proc/sys/kernel/numa_balancing", "1\n");
    put(snapshot, "/sys/kernel/kexec_loaded", "0\n");
    let shared_memory = "tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n";
    put(snapshot, bedplate_facts::limits::MOUNTS, shared_memory);
    let lockdown = ["none", "integrity", "confidentiality"]
        .map(|mode| if mode == spec.lockdown { format!("[{mode}]") } else { mode.to_owned() });
    put(snapshot, "/sys/kernel/security/lockdown", &format!("{}\n", lockdown.join(" ")));
    dmi(spec, snapshot);
    iommu(spec, snapshot);
    loaded_modules(spec, snapshot);
    kernel_log(spec, snapshot);
}

/// Adds the kernel log, redacted as in a snapshot.
fn kernel_log(spec: &HostSpec, snapshot: &mut Snapshot) {
    let up = match (spec.group_type().is_some(), spec.cpu_vendor()) {
        (true, CpuVendor::Intel) => {
            Some("DMAR: Intel(R) Virtualization Technology for Directed I/O")
        }
        (true, CpuVendor::Amd) => Some("AMD-Vi: Interrupt remapping enabled"),
        _ => None,
    };
    let texts = up.map(str::to_owned).into_iter().chain(spec.kernel_log.iter().cloned());
    let lines = texts.zip(1..).map(|(text, number)| Line { ms: number * 1000, text }).collect();
    let log = KernelLog { whole: spec.kernel_log_whole, lines };
    let node = match (spec.unprivileged, serde_json::to_vec(&log)) {
        (true, _) | (_, Err(_)) => Node::Denied,
        (false, Ok(bytes)) => Node::File(bytes),
    };
    snapshot.insert(snapshot_paths::KERNEL_LOG, node);
}

fn cpu(spec: &HostSpec) -> (String, &'static str, &'static str) {
    let x86 = |vendor: &str, family: u32, model: &str| {
        format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 143\nmodel name\t: {model}\n\
             flags\t\t: fpu tsc msr pae apic sse sse2 ht syscall nx pdpe1gb rdtscp lm constant_tsc\n\n"
        )
    };
    // Implementer and part (arch/arm64/include/asm/cputype.h).
    let (implementer, part) = match spec.machine {
        Machine::VeraRubin => ("0x4e", "0x010"),
        Machine::DgxSpark => ("0x41", "0xd85"),
        _ => ("0x41", "0xd4f"),
    };
    let text = match spec.cpu_vendor() {
        CpuVendor::Intel => x86("GenuineIntel", 6, "Intel(R) Xeon(R) Platinum 8480C"),
        CpuVendor::Amd => x86("AuthenticAMD", 25, "AMD EPYC 9554 64-Core Processor"),
        CpuVendor::Other => x86("CentaurHauls", 7, "Unknown"),
        CpuVendor::Arm => format!(
            "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm aes sve2\n\
             CPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\n\n"
        ),
    };
    match spec.machine {
        Machine::Hgx => (text, "0-223\n", "0-1\n"),
        Machine::Mi300x | Machine::B300 | Machine::EpycL40s => (text, "0-255\n", "0-1\n"),
        Machine::Grace => (text, "0-287\n", "0-3\n"),
        Machine::Gb200 | Machine::Gb300 => (text, "0-143\n", "0-1\n"),
        Machine::VeraRubin => (text, "0-175\n", "0-1\n"),
        Machine::DgxSpark => (text, "0-19\n", "0\n"),
        Machine::Plain | Machine::Bare => (text, "0-15\n", "0\n"),
    }
}

/// Returns the number of members of a range from 0: `0-3`.
fn count(range: &str) -> u32 {
    let last = range.trim().rsplit('-').next().and_then(|last| last.parse().ok());
    last.map_or(1, |last: u32| last + 1)
}

/// Adds CPUs and socket of each node: an equal share. With two threads per core, second threads are numbered after all
/// first ones.
fn node_cpus(spec: &HostSpec, (online, nodes): (&str, &str), snapshot: &mut Snapshot) {
    let (cpus, nodes) = (count(online), count(nodes));
    let threads = if spec.cpu_vendor() == CpuVendor::Arm { 1 } else { 2 };
    let share = cpus / threads / nodes;
    for node in 0..nodes {
        let ranges = (0..threads).map(|thread| {
            let first = thread * (cpus / threads) + node * share;
            format!("{first}-{}", first + share - 1)
        });
        let list = ranges.collect::<Vec<String>>().join(",");
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        put(snapshot, &path, &format!("{list}\n"));
        // One socket per node: these machines do not divide sockets.
        let first = node * share;
        let socket = format!("/sys/devices/system/cpu/cpu{first}/topology/physical_package_id");
        put(snapshot, &socket, &format!("{node}\n"));
    }
}

fn dmi(spec: &HostSpec, snapshot: &mut Snapshot) {
    let (vendor, product, board) = match spec.machine {
        Machine::Hgx => ("Supermicro", "SYS-821GE-TNHR", "X13DEG-OAD"),
        Machine::Mi300x => ("Supermicro", "AS -8125GS-TNMR2", "H13DSG-O-CPU-D"),
        Machine::Grace => ("NVIDIA", "GH200 P5042", "P5042"),
        Machine::B300 => ("NVIDIA", "DGX B300", "Board"),
        Machine::EpycL40s => ("Supermicro", "AS -4125GS-TNRT", "H13DSG-O-CPU"),
        Machine::Gb200 => ("NVIDIA", "DGX GB200", "Board"),
        Machine::Gb300 => ("NVIDIA", "DGX GB300", "Board"),
        Machine::VeraRubin => ("NVIDIA", "Vera Rubin", "Board"),
        Machine::DgxSpark => ("NVIDIA", "NVIDIA_DGX_Spark", "Board"),
        Machine::Plain => ("Example", "1U server", "Board"),
        Machine::Bare => ("Example", "GPU node", "Board"),
    };
    let fields = [
        ("sys_vendor", vendor),
        ("product_name", product),
        ("board_name", board),
        ("bios_version", "2.1"),
    ];
    for (name, value) in fields {
        put(snapshot, &format!("/sys/devices/virtual/dmi/id/{name}"), &format!("{value}\n"));
    }
    snapshot.insert("/sys/class/dmi/id", Node::Link("../../devices/virtual/dmi/id".to_owned()));
}

fn iommu(spec: &HostSpec, snapshot: &mut Snapshot) {
    snapshot.insert("/sys/class/iommu", Node::Dir(None));
    snapshot.insert("/sys/kernel/iommu_groups", Node::Dir(None));
    snapshot.insert("/sys/firmware/acpi/tables/FACP", Node::Present);
    let present = (spec.iommu != IommuState::None).then_some(Node::Present);
    let (table, node, units): (_, _, &[&str]) = match spec.cpu_vendor() {
        CpuVendor::Amd => ("IVRS", present, &["ivhd0", "ivhd1", "ivhd2", "ivhd3"]),
        CpuVendor::Arm => (
            "IORT",
            Some(iort_table(spec)),
            &["smmu3.0x0000000011000000", "smmu3.0x0000000012000000"],
        ),
        CpuVendor::Intel | CpuVendor::Other => ("DMAR", present, &["dmar0", "dmar1"]),
    };
    if let Some(node) = node {
        snapshot.insert(&format!("/sys/firmware/acpi/tables/{table}"), node);
    }
    if spec.group_type().is_some() {
        for unit in units {
            snapshot.insert(&format!("/sys/devices/virtual/iommu/{unit}"), Node::Dir(None));
            let target = format!("../../devices/virtual/iommu/{unit}");
            snapshot.insert(&format!("/sys/class/iommu/{unit}"), Node::Link(target));
        }
    }
}

/// Returns the IORT: an interrupt controller and a root complex, and an SMMUv3 if the firmware offers one.
fn iort_table(spec: &HostSpec) -> Node {
    let types: &[u8] = if spec.iommu == IommuState::None { &[0, 2] } else { &[0, 4, 2] };
    if spec.unprivileged { Node::Denied } else { Node::File(iort::with_nodes(types)) }
}

fn loaded_modules(spec: &HostSpec, snapshot: &mut Snapshot) {
    let mut lines = String::new();
    for (module, state) in modules(spec) {
        let directory = format!("/sys/module/{module}");
        let (state, word) = match state {
            ModuleState::Live => ("live", "Live"),
            ModuleState::Coming => ("coming", "Loading"),
            ModuleState::Going => ("going", "Unloading"),
            ModuleState::Builtin => {
                snapshot.insert(&format!("{directory}/parameters"), Node::Dir(None));
                continue;
            }
            ModuleState::Available | ModuleState::Absent => continue,
        };
        lines += &format!("{module} 65536 0 - {word} 0x0000000000000000\n");
        put(snapshot, &format!("{directory}/initstate"), &format!("{state}\n"));
        put(snapshot, &format!("{directory}/refcnt"), "0\n");
        snapshot.insert(&format!("{directory}/holders"), Node::Dir(None));
        if module.starts_with("nvidia") {
            put(snapshot, &format!("{directory}/version"), &format!("{NVIDIA_VERSION}\n"));
            let taint = if spec.nvidia_driver() == Nvidia::Proprietary { "POE\n" } else { "OE\n" };
            put(snapshot, &format!("{directory}/taint"), taint);
        }
    }
    put(snapshot, "/proc/modules", &lines);
    let arch = if spec.cpu_vendor() == CpuVendor::Arm { "aarch64" } else { "x86_64" };
    let flavour = match spec.nvidia_driver() {
        Nvidia::Open => format!("NVIDIA UNIX Open Kernel Module for {arch}"),
        Nvidia::Proprietary => format!("NVIDIA UNIX {arch} Kernel Module"),
        Nvidia::None => return,
    };
    let version = format!("NVRM version: {flavour}  {NVIDIA_VERSION}\n");
    put(snapshot, "/proc/driver/nvidia/version", &version);
    put(snapshot, "/proc/driver/nvidia/params", "EnableStreamMemOPs: 0\nDmaRemapPeerMmio: 1\n");
}
