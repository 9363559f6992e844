//! The sections that say what the host is to be like: one a kind, and `[iommu]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::at::At;
use super::entry::{ArgEntry, ModuleEntry, OptionEntry};
use crate::profile::model::{
    AcsPersist, AcsPolicy, GpuDirect, IommuMode, ModuleLoad, SriovManaged,
};

/// `[iommu]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct IommuFragment {
    /// What the IOMMU does with the DMA of devices that host drivers use. Devices given to guests are translated in any
    /// case.
    #[schemars(
        extend("default" = "keep"),
        example = &"passthrough",
        extend("x-source" = "drivers/iommu/iommu.c; drivers/iommu/Kconfig; CUDA GPUDirect RDMA guide")
    )]
    pub mode: Option<At<IommuMode>>,

    /// Why this mode; shown in plans.
    #[schemars(example = &"NCCL over RDMA needs bus addresses that are physical addresses")]
    pub why: Option<At<String>>,

    /// Where the fact stands.
    pub source: Option<At<String>>,
}

/// `[cmdline]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct CmdlineFragment {
    /// Arguments that must be on the kernel command line. Entries are merged by parameter, those of `pci=` and other
    /// option lists by option: a later file's entry takes the place of an earlier one, and of an `absent` one.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["iommu.strict=0", "pci=realloc=off"],
        extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
    )]
    pub args: Option<Vec<ArgEntry>>,

    /// Arguments that must not be there: `name` (with any value), `pci=option`, or `name=value` for just that value. A
    /// later file's entry takes the place of an earlier `args` entry for the same parameter.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["pci=noats", "nomodeset"],
        extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
    )]
    pub absent: Option<Vec<ArgEntry>>,
}

/// `[modules]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct ModulesFragment {
    /// Modules that must be loaded, now or from the next boot on. A module that is built in counts as loaded.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["ib_umad"],
        extend("x-source" = "modules-load.d(5)")
    )]
    pub load: Option<Vec<ModuleEntry>>,

    /// When modules are loaded whose entry does not say.
    #[schemars(extend("default" = "now"))]
    pub load_default: Option<At<ModuleLoad>>,

    /// How the NIC driver gets at GPU memory.
    #[schemars(
        extend("default" = "none"),
        example = &"auto",
        extend("x-source" = "NVIDIA GPU Operator, GPUDirect RDMA; nccl src/transport/net_ib/gdr.cc; handbook §6.3")
    )]
    pub gpudirect: Option<At<GpuDirect>>,

    /// Modules that are not to be loaded by alias. A module that is named explicitly still loads.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["nouveau"],
        extend("x-source" = "modprobe.d(5); kmod libkmod/libkmod-config.c")
    )]
    pub blacklist: Option<Vec<ModuleEntry>>,

    /// Modules that are unloaded now if they are loaded. Nothing is unloaded that this list does not name.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["nouveau"],
        extend("x-source" = "modprobe(8)")
    )]
    pub unload: Option<Vec<ModuleEntry>>,

    /// Module parameters, `options.MODULE = { PARAMETER = value }`. They count when the module is next loaded.
    #[schemars(
        extend("default" = {}),
        extend("examples" = [{ "nvidia": { "NVreg_EnableStreamMemOPs": 1 } }]),
        extend("x-source" = "modprobe.d(5); /sys/module/MODULE/parameters")
    )]
    pub options: Option<BTreeMap<At<String>, Parameters>>,
}

/// `[modules.options.MODULE]`.
type Parameters = BTreeMap<At<String>, OptionEntry>;

/// `[acs]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct AcsFragment {
    /// What to do with the ACS control bits of switch and root ports.
    #[schemars(
        extend("default" = "keep"),
        example = &"direct-p2p",
        extend("x-source" = "drivers/pci/p2pdma.c; rdma-core kernel-boot/rdma_topo; handbook §3.2")
    )]
    pub policy: Option<At<AcsPolicy>>,

    /// How the bits survive a reboot, a device reset and a driver bind.
    #[schemars(
        extend("default" = "auto"),
        extend("x-source" = "drivers/pci/pci.c; Documentation/admin-guide/kernel-parameters.txt; handbook §1.4, §3.4")
    )]
    pub persistence: Option<At<AcsPersist>>,

    /// Treat the root port above a switch like the ports below it, so that the IOMMU groups show what can reach what.
    #[schemars(
        extend("default" = true),
        extend("x-source" = "rdma-core kernel-boot/rdma_topo; drivers/iommu/iommu.c")
    )]
    pub root_port: Option<At<bool>>,

    /// Why this policy; shown in plans.
    pub why: Option<At<String>>,

    /// Where the fact stands.
    pub source: Option<At<String>>,
}

/// `[sriov]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct SriovFragment {
    /// Who creates virtual functions on this host.
    #[schemars(extend("default" = "bedplate"))]
    pub managed: Option<At<SriovManaged>>,

    /// Rules; the first one that selects a physical function has it. A later file's rule replaces the one of the same
    /// name, in its place.
    #[schemars(extend("default" = [] as [&str; 0]))]
    pub devices: Option<Vec<At<DeviceFragment>>>,
}

/// One `[[sriov.devices]]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct DeviceFragment {
    /// The rule's name, unique in the profile.
    #[schemars(length(min = 1), example = &"compute")]
    pub name: At<String>,

    /// Which physical functions; every condition must hold.
    pub select: Option<SelectFragment>,

    /// How many virtual functions each of them gets. More than the firmware allows is reported, with the command that
    /// would allow it.
    #[schemars(
        example = 8,
        example = &"max",
        extend("x-source" = "drivers/pci/iov.c; Documentation/ABI/testing/sysfs-bus-pci")
    )]
    pub vfs: At<Vfs>,

    /// The driver of the virtual functions: `auto` is whatever the kernel probes, `none` leaves them unbound, any other
    /// word is a driver (`vfio-pci`).
    #[schemars(
        extend("default" = "auto"),
        example = &"vfio-pci",
        regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
        extend("x-source" = "Documentation/ABI/testing/sysfs-bus-pci driver_override, sriov_drivers_autoprobe")
    )]
    pub vf_driver: Option<At<String>>,

    /// Why; shown in plans.
    pub why: Option<At<String>>,

    /// Where the fact stands.
    pub source: Option<At<String>>,
}

/// `select` of a `[[sriov.devices]]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct SelectFragment {
    /// PCI vendor id, hexadecimal.
    #[schemars(example = &"15b3", regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}$"), extend("x-source" = "pci.ids"))]
    pub vendor: Option<At<String>>,

    /// PCI device id, hexadecimal.
    #[schemars(
        example = &"1021",
        regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}$"),
        extend("x-source" = "drivers/net/ethernet/mellanox/mlx5/core/main.c; pci.ids")
    )]
    pub device: Option<At<String>>,

    /// Name of the bound driver.
    #[schemars(example = &"mlx5_core")]
    pub driver: Option<At<String>>,

    /// Shell pattern on the name of a network interface of the function.
    #[schemars(example = &"ens*np0")]
    pub interface: Option<At<String>>,

    /// One PCI address.
    #[schemars(
        example = &"0000:17:00.0",
        regex(pattern = r"^([0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{1,2}:[01]?[0-9A-Fa-f]\.[0-7]$")
    )]
    pub address: Option<At<String>>,

    /// NUMA node; -1 selects functions for which the firmware gave none.
    #[schemars(range(min = -1), example = 0)]
    pub numa_node: Option<At<i32>>,
}

/// How many virtual functions.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::profile) enum Vfs {
    /// Exactly this many.
    Number(u16),
    /// Counted on the host.
    Word(VfsWord),
}

/// A number of virtual functions that is counted on the host.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::profile) enum VfsWord {
    /// As many as the firmware and the driver allow (`sriov_totalvfs`).
    Max,
    /// As many as there are GPUs nearest to the physical function.
    PerGpu,
}
