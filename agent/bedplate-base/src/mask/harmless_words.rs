//! Harmless words: kernel arguments whose values are options, numbers and devices (Linux
//! Documentation/admin-guide/kernel-parameters.txt; handbook §1), arguments without a value, and keyword values.
//! Excludes arguments whose value is a path, a network, a disk, a credential or free text: `root=`, `ip=`, `ds=`,
//! `rd.luks.*`.

#[rustfmt::skip]
/// Arguments with harmless values, sorted; `-` is written as `_`.
pub(super) const ARGUMENTS: &[&str] = &[
    "LINK_TYPE_P1", "LINK_TYPE_P2", "NUM_OF_VFS", "SRIOV_EN", "acpi", "acpi_enforce_resources",
    "acpi_irq_nobalance", "acpi_osi", "amd_iommu", "amd_iommu_intr", "amd_pstate",
    "amdgpu.gpu_recovery", "amdgpu.mcbp", "amdgpu.noretry", "apic", "apparmor", "arm64.nosve",
    "arm_smmu.disable_bypass", "arm_smmu_v3.disable_msipolling", "audit", "audit_backlog_limit",
    "biosdevname", "cgroup_disable", "cgroup_enable", "cgroup_no_v1", "clocksource", "cma",
    "console", "consoleblank", "cpufreq.default_governor", "cpuidle.off", "crashkernel",
    "debug_pagealloc", "default_hugepagesz", "dom0_mem", "earlycon", "earlyprintk", "edac_report",
    "efi", "einj", "elevator", "enforcing", "fbcon", "fsck.mode", "fsck.repair",
    "gather_data_sampling", "gfxpayload", "ghes.disable", "hardlockup_panic", "housekeeping",
    "hugepages", "hugepagesz", "hugetlb_cma", "hugetlb_free_vmemmap", "i8042.noaux", "i8042.nomux",
    "ib_core.send_queue_size", "idle", "init_on_alloc", "init_on_free", "initcall_blacklist",
    "intel_idle.max_cstate", "intel_iommu", "intel_pstate", "iomem", "iomem_resource", "iommu",
    "iommu.forcedac", "iommu.passthrough", "iommu.strict", "irqaffinity", "isolcpus", "kaslr",
    "kernelcore", "kpti", "kthread_cpus", "kvm_amd.nested", "kvm_amd.sev", "kvm_amd.sev_es",
    "kvm_amd.sev_snp", "kvm_intel.nested", "l1tf", "libata.force", "lockdown", "log_buf_len",
    "loglevel", "lsm", "maxcpus", "mce", "mce.ignore_ce", "mds", "mem", "mem_encrypt",
    "memhp_default_state", "memmap", "mitigations", "mlx5_core.prof_sel", "mmio_stale_data",
    "modprobe.blacklist", "module.sig_enforce", "module_blacklist", "movable_node", "movablecore",
    "net.ifnames", "nmi_watchdog", "noapic", "nohz", "nohz_full", "nokaslr", "nomodeset", "nopti",
    "nosmt", "nouveau.modeset", "nowatchdog", "nr_cpus", "numa", "numa.balancing",
    "numa_balancing", "numa_zonelist_order", "nvidia.NVreg_EnableGpuFirmware",
    "nvidia.NVreg_OpenRmEnableUnsupportedGpus", "nvidia_drm.fbdev", "nvidia_drm.modeset",
    "nvidia_peermem.peerdirect_support", "nvme_core.default_ps_max_latency_us",
    "nvme_core.io_timeout", "nvme_core.multipath", "oops", "page_alloc.shuffle", "page_owner",
    "panic", "pci", "pci_hotplug", "pcie_acs_override", "pcie_aspm", "pcie_bus_perf",
    "pcie_port_pm", "pcie_ports", "plymouth.enable", "possible_cpus", "preempt", "printk.devkmsg",
    "processor.max_cstate", "pti", "quirks", "random.trust_bootloader", "random.trust_cpu",
    "rcu_nocb_poll", "rcu_nocbs", "rd.break", "rd.driver.blacklist", "rd.driver.post",
    "rd.driver.pre", "reboot", "retbleed", "ro", "rodata", "rootdelay", "rootfstype", "rootwait",
    "rw", "sched_debug", "scsi_mod.use_blk_mq", "security", "selinux", "skew_tick", "slab_nomerge",
    "softlockup_panic", "spec_store_bypass_disable", "spectre_v2", "spectre_v2_user", "srbds",
    "sve", "swiotlb", "systemd.log_level", "systemd.show_status",
    "systemd.unified_cgroup_hierarchy", "systemd.unit", "transparent_hugepage",
    "transparent_hugepage_shmem", "tsc", "tsx", "tsx_async_abort", "usbcore.autosuspend",
    "vfio_iommu_type1.allow_unsafe_interrupts", "vfio_pci.disable_idle_d3", "vfio_pci.disable_vga",
    "vfio_pci.enable_sriov", "vga", "video", "vmalloc", "vsyscall", "watchdog",
    "workqueue.power_efficient", "x2apic", "xen_pciback.passthrough",
];
#[rustfmt::skip]
/// Arguments without a value.
pub(super) const FLAGS: &[&str] = &[
    "$vt_handoff", "--", "-s", "debug", "emergency", "ignore_loglevel", "intel_iommu", "iommu",
    "keep_bootcon", "movable_node", "noapic", "noexec", "nofb", "nohibernate", "noht", "nohz",
    "nokaslr", "nolapic", "nomce", "nomodeset", "nomodule", "nopti", "nopv", "norandmaps",
    "noreplace-smp", "noresume", "nosmt", "nosoftlockup", "nospectre_v1", "nospectre_v2",
    "nosplash", "nowatchdog", "nox2apic", "numa", "panic_on_oops", "quiet", "rescue", "rhgb", "ro",
    "rootwait", "rw", "single", "skew_tick", "splash", "text", "threadirqs",
];
#[rustfmt::skip]
/// Values that are keywords of the kernel.
pub(super) const VALUES: &[&str] = &[
    "on", "off", "yes", "no", "y", "n", "true", "false", "auto", "none", "force", "default",
    "enable", "enabled", "disable", "disabled", "never", "always", "madvise", "ignore", "strict",
    "lazy", "pt", "nopt", "soft", "full", "half", "permissive", "enforcing", "performance",
    "powersave", "passive", "active", "guided", "quiet", "info", "debug", "warning", "error",
    "legacy", "any", "(null)", "casper", "live", "never-open", "cold", "warm", "deadline", "bfq", "kyber",
    "integrity", "confidentiality", "native", "host", "rw", "ro", "gzip", "zstd", "lz4", "xz",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_sorted() {
        assert!(super::ARGUMENTS.is_sorted());
    }
}
