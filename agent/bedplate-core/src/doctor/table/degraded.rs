//! Symptoms of hosts that work, but not as they should.

use super::super::{Symptom, conditions};
use super::{because, has, together_with, when};

pub(super) const GROUPS_LARGE: Symptom = Symptom {
    id: "groups-large",
    title: "IOMMU groups too large",
    means: "functions that should go to different guests share a group",
    phrases: &[
        "groups too large",
        "iommu group",
        "iommu groups",
        "same group",
        "group too large",
        "not viable",
    ],
    lines: &[has(&["group", "is not viable"]), has(&["not isolated"])],
    causes: &[
        because("acs.isolation", "ports above guests let their functions reach each other"),
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
        has(&["event: F_TRANSLATION"]),
    ],
    causes: &[
        because("iommu.log", "the kernel log names the function whose DMA was refused"),
        together_with(
            "iommu.log",
            "iommu.mode",
            "where the IOMMU translates, a peer's address means nothing to it unless it was mapped",
        ),
    ],
};

pub(super) const BAR_SPACE: Symptom = Symptom {
    id: "bar-space",
    title: "GPU memory cannot be registered: BAR1",
    means: "registering GPU memory fails for want of addresses",
    phrases: &["bar1", "bar 1", "no space for bar", "above 4g", "resizable bar", "rebar"],
    lines: &[
        has(&["BAR ", "no space for"]),
        has(&["BAR ", "failed to assign"]),
        has(&["can't assign; no space"]),
    ],
    causes: &[
        because(
            "firmware.above-4g",
            "below 4 GiB there is no room for the window to a GPU's memory",
        ),
        because("firmware.bar1-size", "what is registered at a time has to fit into the window"),
    ],
};

pub(super) const NOT_IN_EFFECT: Symptom = Symptom {
    id: "not-in-effect",
    title: "reboot pending, or the profile is not in effect",
    means: "what is configured is not what runs",
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
            "the plan names what is left to do, and which part waits for a boot",
        ),
        because("cmdline.rejected", "the kernel was booted with it and did not take it"),
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
        when(conditions::of_links, "pcie.log", "the kernel log names port and kind"),
        because("pcie.aer", "the counters name the function that sees them"),
        because("pcie.link-width", "a link that lost lanes is a link with a bad contact"),
        because("pcie.link-speed", "a link that was slowed down is one that failed at full speed"),
    ],
};

pub(super) const LOW_BANDWIDTH: Symptom = Symptom {
    id: "low-bandwidth",
    title: "low bandwidth",
    means: "RDMA works, slower than the links are",
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
        because(
            "acs.path",
            "a port that redirects sends peer-to-peer traffic up to the CPU and back",
        ),
        when(
            conditions::elsewhere,
            "iommu.mode",
            "translated DMA of peers goes through the root complex",
        ),
        because("modules.gpudirect", "every transfer is copied through the host's memory"),
        because("rdma.nccl-conf", "the file for all jobs leaves out what makes them fast"),
        because("acs.groups", "what the driver refuses is copied through the host's memory"),
        because(
            "topology.data-direct",
            "without its Data Direct function a NIC reaches GPU memory by the CPU's links",
        ),
        because(
            "modules.imex",
            "NCCL sends over the network what NVLink between trays could carry",
        ),
        because("limits.shm", "without shared memory ranks of one host talk over the network"),
        because("rdma.port-state", "traffic of ports that are down crowds on the others"),
        because("rdma.rate", "NCCL spreads a job over all ports, and the slowest sets the pace"),
        because("pcie.link-width", "half the lanes are half the bandwidth"),
        because("pcie.link-speed", "a link of a lower generation has half the bandwidth"),
        because(
            "pcie.gpu-link-speed",
            "a slot of an older generation halves what its GPU can send",
        ),
        because("topology.pairing", "a GPU whose NIC is beyond the CPU sends by the CPU's links"),
        because(
            "topology.sharing",
            "GPUs that share a NIC share its bandwidth, and collectives wait for them",
        ),
        because(
            "topology.numa",
            "GPUs of a node without a NIC send across the link between sockets",
        ),
        because("acs.shape", "a path with other bits than its shape wants is not the direct one"),
        when(
            conditions::of_missing_ats,
            "acs.ats",
            "in a switch for guests what a NIC without ATS sends goes through the root complex",
        ),
        because("rdma.pfc", "what a congested network drops is sent again"),
        because(
            "rdma.netdev",
            "packets of 1,024 bytes where there could be 4,096 cost bandwidth and packet rate",
        ),
        because(
            "rdma.names",
            "an NCCL_IB_HCA that fits one kind of names leaves the other ports unused",
        ),
        because("pcie.mps", "smaller payloads mean more headers"),
        because("pcie.aer", "what is lost is sent again"),
        when(conditions::of_links, "pcie.log", "a link that failed and came back trains slower"),
        because("pcie.relaxed-ordering", "strictly ordered writes wait for each other"),
        because("pcie.mrrs", "small read requests keep the pipe empty"),
        because(
            "firmware.numa",
            "without node numbers memory and interrupts are on the wrong socket",
        ),
    ],
};

pub(super) const STORAGE: Symptom = Symptom {
    id: "storage-copies",
    title: "GPUDirect Storage fails or copies",
    means: "cuFile does not start, or reads through the host's memory",
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
        because("storage.gds", "without what its way needs cuFile copies, and says nothing"),
        because("storage.cufile", "the library does not start with a file that it cannot read"),
        because(
            "storage.path",
            "disks whose traffic is redirected are reached through the root complex",
        ),
        because("limits.memlock", "buffers that cuFile registers are locked"),
    ],
};
