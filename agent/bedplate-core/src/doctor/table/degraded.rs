//! Symptoms of hosts that work, but not as they should.

use super::super::{Symptom, conditions};
use super::{because, has, together_with, when};

pub(super) const GROUPS_LARGE: Symptom = Symptom {
    id: "groups-large",
    title: "IOMMU groups too large",
    means: "functions meant for different VMs share a group",
    phrases: &[
        "groups too large",
        "iommu group",
        "iommu groups",
        "same group",
        "group too large",
        "not viable",
    ],
    lines: &[has(&["vfio", "group", "is not viable"])],
    causes: &[
        because("acs.isolation", "ports above functions of VMs let these reach each other"),
        because("iommu.active", "without an IOMMU in use there are no groups"),
    ],
};

pub(super) const DMA_FAULTS: Symptom = Symptom {
    id: "dma-faults",
    title: "DMA faults",
    means: "the IOMMU refuses transfers: they fail or hang",
    phrases: &[
        "dma fault",
        "dma faults",
        "io page fault",
        "dmar fault",
        "iommu fault",
        "fault addr",
    ],
    lines: &[
        has(&["DMAR: [DMA ", "fault addr"]),
        has(&["AMD-Vi: Event logged [IO_PAGE_FAULT"]),
        has(&["event: F_", "client: "]),
        has(&["event: C_", "client: "]),
        has(&["event 0x", "received:"]),
    ],
    causes: &[
        because("iommu.log", "the kernel log names the function whose DMA was refused"),
        together_with(
            "iommu.log",
            "iommu.mode",
            "with translation on, a peer's address is valid only if it was mapped in the IOMMU",
        ),
    ],
};

pub(super) const BAR_SPACE: Symptom = Symptom {
    id: "bar-space",
    title: "GPU memory cannot be registered: BAR1",
    means: "registering GPU memory fails for lack of addresses",
    phrases: &["bar1", "bar 1", "no space for bar", "above 4g", "resizable bar", "rebar"],
    lines: &[
        has(&["BAR ", "no space for"]),
        has(&["BAR ", "failed to assign"]),
        has(&["can't assign; no space"]),
    ],
    causes: &[
        because(
            "firmware.above-4g",
            "below 4 GiB there is no space for the window to a GPU's memory",
        ),
        because("firmware.bar1-size", "all memory registered at a time must fit into the window"),
    ],
};

pub(super) const NOT_IN_EFFECT: Symptom = Symptom {
    id: "not-in-effect",
    title: "reboot pending, or the profile is not in effect",
    means: "the configuration differs from what runs",
    phrases: &[
        "reboot pending",
        "reboot required",
        "not in effect",
        "profile drift",
        "iommu pt ignored",
        "has no effect",
        "argument ignored",
    ],
    lines: &[
        has(&["Unknown kernel command line parameters"]),
        has(&["PCI: Unknown option"]),
        has(&["PCI: Can't parse"]),
        has(&["Unknown option - '"]),
    ],
    causes: &[
        because(
            "profile.in-effect",
            "the plan lists the remaining changes, and which of them wait for a boot",
        ),
        because("cmdline.rejected", "the kernel was booted with the argument, but rejected it"),
        because(
            "cmdline.states",
            "the configuration, the boot entry and the running kernel differ",
        ),
        because("cmdline.harmful", "an argument that no kernel reads does nothing"),
    ],
};

pub(super) const PCIE_ERRORS: Symptom = Symptom {
    id: "pcie-errors",
    title: "PCIe errors (AER)",
    means: "links lose transactions",
    phrases: &["aer", "pcie errors", "pcie error", "pcie bus error", "correctable errors", "dpc"],
    lines: &[
        has(&["PCIe Bus Error: severity="]),
        has(&["DPC: containment event"]),
        has(&["AER: Correct", " received"]),
        has(&["AER: Multiple Correct", " received"]),
    ],
    causes: &[
        when(conditions::of_links, "pcie.log", "the kernel log names the port and the error"),
        because("pcie.aer", "the counters name the function that sees the errors"),
        because("pcie.link-width", "a link that lost lanes has a bad contact"),
        because("pcie.link-speed", "a link that was slowed down failed at full speed"),
    ],
};

pub(super) const LOW_BANDWIDTH: Symptom = Symptom {
    id: "low-bandwidth",
    title: "low bandwidth",
    means: "RDMA works, but slower than the links",
    phrases: &[
        "low bandwidth",
        "busbw",
        "algbw",
        "topology wrong",
        "wrong topology",
        "acs enabled",
        "acs is enabled",
        "acs is on",
        "acs on",
        "port is only",
        "only 100g",
        "half the bandwidth",
        "slow",
        "low busbw",
        "poor performance",
        "bandwidth",
        "bus bandwidth",
        "low throughput",
        "slow all reduce",
        "all reduce is slow",
        "slow allreduce",
        "slow nccl",
        "slower",
        "straggler",
        "slow node",
        "packet loss",
        "retransmissions",
    ],
    lines: &[has(&["available PCIe bandwidth, limited by"])],
    causes: &[
        because("acs.path", "ACS redirect sends peer-to-peer traffic up to the CPU and back"),
        when(
            conditions::of_translation,
            "iommu.mode",
            "translated DMA between peers goes through the root complex",
        ),
        because("modules.gpudirect", "every transfer is copied through host memory"),
        because("rdma.nccl-conf", "the file for all jobs disables what makes them fast"),
        because("acs.groups", "transfers that the driver refuses are copied through host memory"),
        because(
            "topology.data-direct",
            "without its Data Direct function, a NIC reaches GPU memory over the CPU's links",
        ),
        because(
            "modules.imex",
            "NCCL sends over the network although NVLink between trays could carry it",
        ),
        because("limits.shm", "without shared memory, ranks of one host use the network"),
        because("rdma.port-state", "the other ports carry the traffic of ports that are down"),
        because("rdma.rate", "NCCL spreads a job over all ports, and the slowest sets the pace"),
        because("pcie.link-width", "half the lanes give half the bandwidth"),
        because("pcie.link-speed", "a link of a lower generation has half the bandwidth"),
        because(
            "pcie.gpu-link-speed",
            "a slot of an older generation halves what its GPU can send",
        ),
        because("topology.pairing", "a GPU whose NIC is beyond the CPU sends over the CPU's links"),
        because(
            "topology.sharing",
            "GPUs that share a NIC share its bandwidth, and collectives wait for them",
        ),
        because(
            "topology.numa",
            "GPUs of a NUMA node without a NIC send across the link between sockets",
        ),
        because("acs.shape", "a path with wrong ACS bits for its topology is not direct"),
        when(
            conditions::of_missing_ats,
            "acs.ats",
            "in a switch for guests, requests of a NIC without ATS go through the root complex",
        ),
        because("rdma.pfc", "packets dropped by a congested network are sent again"),
        because(
            "rdma.netdev",
            "packets of 1,024 instead of 4,096 bytes cost bandwidth and packet rate",
        ),
        because(
            "rdma.names",
            "an NCCL_IB_HCA that matches one kind of names leaves the other ports unused",
        ),
        because("pcie.mps", "smaller payloads mean more headers"),
        because("pcie.aer", "lost transactions are sent again"),
        when(conditions::of_links, "pcie.log", "a link that failed and recovered trains slower"),
        because("pcie.relaxed-ordering", "strictly ordered writes wait for each other"),
        because("pcie.mrrs", "small read requests leave the link idle"),
        because(
            "firmware.numa",
            "without node numbers, memory and interrupts are on the wrong socket",
        ),
    ],
};

pub(super) const STORAGE: Symptom = Symptom {
    id: "storage-copies",
    title: "GPUDirect Storage fails or copies",
    means: "cuFile does not start, or reads through host memory",
    phrases: &[
        "gds",
        "gpudirect storage",
        "gpu direct storage",
        "cufile",
        "nvidia fs",
        "compat mode",
        "compatible mode",
        "compatibility mode",
    ],
    lines: &[has(&["cufio", "running in compatible mode"])],
    causes: &[
        because("storage.gds", "without its prerequisites, cuFile copies and does not report it"),
        because("storage.cufile", "the library does not start with a file that it cannot read"),
        because(
            "storage.path",
            "disks with redirected traffic are reached through the root complex",
        ),
        because("limits.memlock", "cuFile locks the buffers that it registers"),
    ],
};
