//! Build-time defaults of the kernels that may boot.

use super::facts::Facts;
use super::iommu_groups::iommu_groups;
use super::kernel_config::kernel_config;
use bedplate_cmdline::KernelDefaults;
use bedplate_host::Reader;

/// Returns the build-time defaults of the kernels that may boot: the running kernel, and the one of the default boot entry,
/// or the newest installed one if the entry does not name a kernel.
pub fn kernel_defaults(reader: &dyn Reader, facts: &Facts) -> Vec<KernelDefaults> {
    let next = facts.os.next_kernel.known().or(facts.os.installed_kernels.last());
    let mut releases: Vec<&String> = facts.os.kernel.known().into_iter().chain(next).collect();
    releases.dedup();
    let read = |release: &&String| {
        let config = kernel_config(reader, release);
        config.known().map(|text| KernelDefaults::parse(text)).unwrap_or_default()
    };
    let mut defaults: Vec<KernelDefaults> = releases.iter().map(read).collect();
    // Memory encryption drops the passthrough default without a kernel argument (drivers/iommu/iommu.c,
    // iommu_subsys_init). Translated groups show that the default does not hold, so passthrough must be requested.
    // Groups are read only in that case.
    let passes = |defaults: &KernelDefaults| defaults.passthrough == Some(true);
    if defaults.iter().any(passes) && iommu_groups(reader, facts).all_translated() {
        defaults.iter_mut().filter(|one| passes(one)).for_each(|one| one.passthrough = None);
    }
    defaults
}
