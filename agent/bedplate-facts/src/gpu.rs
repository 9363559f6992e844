//! GPU driver facts: those that decide between DMA-BUF and nvidia_peermem (handbook §6.2, §6.3), RCCL's kernel
//! requirements (handbook §14.6), and the drivers of other vendors' GPUs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::kernel_config;
use super::nccl_conf;
use super::nccl_conf::RCCL_CONF;
use super::pci::{Function, PciTree};
use bedplate_base::Reading;
use bedplate_base::value::{KernelVersion, PciId};
use bedplate_host::Reader;

const AMD: PciId = PciId(0x1002);
/// PCI vendor id of NVIDIA.
pub const NVIDIA: PciId = PciId(0x10de);

/// The loaded NVIDIA kernel driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NvidiaDriver {
    /// For example `570.86.15`.
    pub version: String,
    /// Whether it was built from the open kernel modules.
    pub open: bool,
}

/// GPU software stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuStack {
    /// NVIDIA driver, from /proc/driver/nvidia/version; `Absent` = not loaded.
    pub nvidia: Reading<NvidiaDriver>,
    /// Whether the kernel's ib_core exports `ib_register_peer_memory_client` (MLNX_OFED / DOCA-OFED do, mainline does not).
    pub peer_memory_symbols: Reading<bool>,
    /// Drivers bound to other vendors' GPUs (`amdgpu`, `xe`, `i915`), by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherDriver>,
    /// RCCL's kernel requirements; only with an AMD GPU that the host uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rccl: Option<Rccl>,
}

/// A driver of a GPU from another vendor than NVIDIA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherDriver {
    /// Module name.
    pub name: String,
    /// Module version; `Absent` for drivers in the kernel's own tree.
    pub version: Reading<String>,
}

/// Conditions that RCCL checks before it registers GPU memory by DMA-BUF (ROCm/rccl src/misc/rocmwrap.cc, src/init.cc).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rccl {
    /// `CONFIG_DMABUF_MOVE_NOTIFY=y`.
    pub move_notify: Reading<bool>,
    /// Whether the kernel has this option's behaviour without the option (Linux 7.1).
    #[serde(skip)]
    pub always_notifies: bool,
    /// Whether /etc/rccl.conf forces DMA-BUF regardless of kernel options; `Absent`: not set.
    #[serde(skip)]
    pub is_forced: Reading<bool>,
    /// File by which amdgpu shows that it is a client of an ib_core with peer memory.
    #[serde(skip)]
    pub peer_client: Reading<&'static str>,
    /// `CONFIG_PCI_P2PDMA=y`.
    pub p2pdma: Reading<bool>,
    /// Whether `kernel.numa_balancing` is on.
    pub numa_balancing: Reading<bool>,
    /// Whether the running command line has the word `iommu=pt`; RCCL accepts nothing else.
    pub says_pt: Reading<bool>,
    /// Whether the IOMMU passes the DMA of an AMD GPU through, by any setting.
    #[serde(skip)]
    pub passes_through: Reading<bool>,
}

/// Variable that makes RCCL use DMA-BUF without checking the kernel's options (RCCL 2.27.3).
pub const FORCE_DMABUF: &str = "RCCL_FORCE_ENABLE_DMABUF";
/// First release with the behaviour of CONFIG_DMABUF_MOVE_NOTIFY built in, and without the option (commit
/// b7ba32425df8).
const WITHOUT_THE_OPTION: KernelVersion = KernelVersion::new(7, 1);
/// Files that RCCL checks for amdgpu as a client of peer memory, in its order.
const PEER_CLIENT: [&str; 3] = [
    "/sys/kernel/mm/memory_peers/amdkfd/version",
    "/sys/kernel/memory_peers/amdkfd/version",
    "/sys/memory_peers/amdkfd/version",
];

/// Symbol that nvidia_peermem needs from ib_core (handbook §6.3).
pub const PEER_SYMBOL: &str = "ib_register_peer_memory_client";

/// Observes the GPU stack. `kernel` is the release that selects the module index.
pub fn observe(reader: &dyn Reader, kernel: Option<&str>, pci: &Reading<PciTree>) -> GpuStack {
    let (others, amd) = other_drivers(reader, pci);
    let nvidia = Reading::from_result(reader.text("/proc/driver/nvidia/version"));
    let none = "/proc/driver/nvidia/version has no NVRM line";
    let nvidia = nvidia.and_then(|text| {
        parse_version(&text).map_or_else(|| Reading::unknown(none), Reading::Known)
    });
    // The answer only matters with an NVIDIA driver or an AMD GPU; other hosts skip a file of half a megabyte.
    let peer_memory_symbols = match (&nvidia, kernel) {
        (_, None) => Reading::Absent,
        (Reading::Absent, _) if amd.is_none() => Reading::Absent,
        (_, Some(release)) => {
            let index = reader.read(&format!("/lib/modules/{release}/modules.symbols"));
            Reading::from_result(index).map(|bytes| {
                let needle = format!("symbol:{PEER_SYMBOL} ");
                bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
            })
        }
    };
    let rccl = amd.map(|group| rccl(reader, kernel, group));
    GpuStack { nvidia, peer_memory_symbols, others, rccl }
}

/// Returns the drivers of other vendors' GPUs, and the IOMMU group of one GPU that RCCL may use.
fn other_drivers(
    reader: &dyn Reader,
    pci: &Reading<PciTree>,
) -> (Vec<OtherDriver>, Option<Reading<u32>>) {
    let functions = pci.known().into_iter().flat_map(|tree| tree.functions.values());
    let (nvidia, gpus): (Vec<_>, Vec<_>) =
        functions.filter(|function| function.is_gpu()).partition(|gpu| gpu.vendor == NVIDIA);
    let amd = gpus.iter().find(|gpu| is_for_rccl(gpu, !nvidia.is_empty()));
    let amd = amd.map(|gpu| gpu.iommu_group.clone());
    let in_use = gpus.iter().filter(|gpu| !gpu.vfio);
    let names: BTreeSet<String> = in_use.filter_map(|gpu| gpu.driver.clone()).collect();
    let driver = |name: String| OtherDriver {
        version: Reading::from_result(reader.attribute(&format!("/sys/module/{name}/version"))),
        name,
    };
    (names.into_iter().map(driver).collect(), amd)
}

/// Whether RCCL may use the GPU: one of AMD's accelerators (class 0x1200; 0x0380 before MI300), or a graphics card on
/// amdgpu. Excludes GPUs assigned to VMs or bound to another driver (gim, which makes their VFs). With NVIDIA GPUs in
/// the host, AMD graphics belong to the CPU.
fn is_for_rccl(gpu: &Function, beside_nvidia: bool) -> bool {
    let accelerator = is_amd_accelerator(gpu);
    let amdgpu = gpu.driver.as_deref() == Some("amdgpu");
    let driven =
        if accelerator { amdgpu || gpu.driver.is_none() } else { amdgpu && !beside_nvidia };
    gpu.vendor == AMD && !gpu.vfio && driven
}

/// Whether the GPU is one of AMD's accelerators.
pub fn is_amd_accelerator(gpu: &Function) -> bool {
    gpu.vendor == AMD && matches!(gpu.class >> 8, 0x1200 | 0x0380)
}

fn peer_client(reader: &dyn Reader) -> Reading<&'static str> {
    let mut found = Reading::Absent;
    for path in PEER_CLIENT {
        match reader.exists(path) {
            Ok(true) => return Reading::Known(path),
            Ok(false) => {}
            Err(error) => found = Reading::from_result(Err(error)),
        }
    }
    found
}

/// Reads the first matching line, as RCCL does (handbook §8.6).
fn is_forced(reader: &dyn Reader) -> Reading<bool> {
    Reading::from_result(reader.text(RCCL_CONF)).and_then(|text| {
        Reading::from_option(nccl_conf::value(&text, FORCE_DMABUF).map(|value| value != "0"))
    })
}

/// Reads the conditions. `group` is the IOMMU group of a GPU that RCCL may use.
fn rccl(reader: &dyn Reader, kernel: Option<&str>, group: Reading<u32>) -> Rccl {
    let config = kernel_config::of_running(reader, kernel);
    let built = |option: &str| kernel_config::is_built(&config, option);
    let attribute = |path: &str| Reading::from_result(reader.attribute(path));
    let group_type = |number: u32| attribute(&format!("/sys/kernel/iommu_groups/{number}/type"));
    Rccl {
        passes_through: group.and_then(group_type).map(|text| text == "identity"),
        move_notify: built("CONFIG_DMABUF_MOVE_NOTIFY"),
        always_notifies: kernel.and_then(KernelVersion::from_release) >= Some(WITHOUT_THE_OPTION),
        is_forced: is_forced(reader),
        peer_client: peer_client(reader),
        p2pdma: built("CONFIG_PCI_P2PDMA"),
        numa_balancing: attribute("/proc/sys/kernel/numa_balancing").map(|value| value != "0"),
        says_pt: attribute("/proc/cmdline")
            .map(|line| line.split_whitespace().any(|word| word == "iommu=pt")),
    }
}

/// Parses the first line: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …`.
fn parse_version(text: &str) -> Option<NvidiaDriver> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let version = line.split_whitespace().find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })?;
    Some(NvidiaDriver { version: version.to_owned(), open: line.contains("Open Kernel Module") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_file_gives_version_and_flavour() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (root@host)  Thu\nGCC version: gcc 12\n";
        assert_eq!(
            parse_version(open),
            Some(NvidiaDriver { version: "570.86.15".into(), open: true })
        );
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n";
        assert_eq!(
            parse_version(closed),
            Some(NvidiaDriver { version: "535.183.01".into(), open: false })
        );
        assert_eq!(parse_version("GCC version: gcc 12.2.0\n"), None);
    }
}
