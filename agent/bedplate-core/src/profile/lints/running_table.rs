//! Lints about settings of the running kernel: CPUs, huge pages, PCIe registers.

use super::Severity::{Error, Warning};
use super::{Lint, running};

/// The lints, as in `table.rs`.
pub(super) static LINTS: &[Lint] = &[
    Lint {
        id: "intel-idle-on-amd",
        severity: Warning,
        find: running::intel_idle_on_amd,
        reason: "has no effect on AMD CPUs: their idle driver is acpi_idle",
        source: "drivers/idle/intel_idle.c intel_idle_ids; drivers/acpi/processor_idle.c",
        fix: "remove it; `max_idle_latency_us` in [cpu] limits idle states of any driver",
    },
    Lint {
        id: "hugepages-twice",
        severity: Error,
        find: running::hugepages_twice,
        reason: "sets the same pages as [hugepages], over all NUMA nodes together: each undoes the other",
        source: "mm/hugetlb.c hugetlb_sysctl_handler, nr_hugepages_store",
        fix: "keep one of the two; [hugepages] sets each NUMA node",
    },
    Lint {
        id: "hugepages-by-argument",
        severity: Warning,
        find: running::hugepages_by_argument,
        reason: "reserves huge pages of a size that [hugepages] sets too: bedplate changes their number after the boot",
        source: "Documentation/admin-guide/mm/hugetlbpage.rst",
        fix: "request the sum of all NUMA nodes (`hugepages=0:N,1:N` for each), or keep one of the two",
    },
    Lint {
        id: "governor-twice",
        severity: Error,
        find: running::governor_twice,
        reason: "contradicts `governor` in [cpu]",
        source: "drivers/cpufreq/cpufreq.c cpufreq_default_governor",
        fix: "remove it; images get the argument from `governor`",
    },
    Lint {
        id: "memlock-limited",
        severity: Warning,
        find: running::memlock_limited,
        reason: "limits the memory that a job may lock: RDMA locks all memory that it registers, and fails above the limit",
        source: "drivers/infiniband/core/umem.c ib_umem_get; handbook §5.6",
        fix: "set `unlimited`",
    },
    Lint {
        id: "payload-policy",
        severity: Warning,
        find: running::payload_policy,
        reason: "changes the payloads of all devices: `pcie_bus_perf` also makes read requests as small as payloads, and \
                 `pcie_bus_peer2peer` makes all payloads 128 bytes",
        source: "drivers/pci/probe.c pcie_bus_configure_set; handbook §1.4",
        fix: "leave it out, or set `pci=pcie_bus_safe` if `bedplate verify --check pcie.mps` fails",
    },
    Lint {
        id: "read-request-against-policy",
        severity: Error,
        find: running::read_request_against_policy,
        reason: "can exceed the payload size under the profile's `pci=pcie_bus_perf`; the device treats the answers as \
                 malformed",
        source: "drivers/pci/probe.c pcie_write_mrrs; commit a1c473aa11e6",
        fix: "remove `pci=pcie_bus_perf` from [cmdline], or `max_read_request` from [pcie]",
    },
    Lint {
        id: "read-request-small",
        severity: Warning,
        find: running::read_request_small,
        reason: "costs bandwidth: each request carries little data, and a device has a limited number of them",
        source: "handbook §7; wiki.ubuntu.com FirmwareTestSuite maxreadreq",
        fix: "set 512 or more, or `auto`, which leaves the size of the firmware and the driver",
    },
    Lint {
        id: "pcie-without-source",
        severity: Warning,
        find: running::pcie_without_source,
        reason: "has no source: large requests and relaxed ordering help some devices, and delay or break others",
        source: "handbook §7",
        fix: "name the vendor's document as `source` of the rule, or set `auto`, which is right if there is none",
    },
];
