//! Build-time defaults of kernels, and a command line with them.

use super::groups::groups;
use bedplate_cmdline::{CommandLine, Edit, Finding, KernelDefaults, worst};
use bedplate_facts::Facts;
use bedplate_host::Reader;

/// Build-time defaults of the kernels that may boot: the running one and the default boot entry's, or the newest
/// installed one where no entry tells.
pub(crate) fn kernel_defaults(reader: &dyn Reader, facts: &Facts) -> Vec<KernelDefaults> {
    let next = facts.os.next_kernel.known().or(facts.os.installed_kernels.last());
    let mut releases: Vec<&String> = facts.os.kernel.known().into_iter().chain(next).collect();
    releases.dedup();
    let read = |release: &&String| {
        reader
            .text(&format!("/boot/config-{release}"))
            .map(|text| KernelDefaults::parse(&text))
            .unwrap_or_default()
    };
    let mut defaults: Vec<KernelDefaults> = releases.iter().map(read).collect();
    // Memory encryption drops the default without a word on the line (drivers/iommu/iommu.c, iommu_subsys_init): groups
    // that translate show that it does not hold here, and passthrough has to be asked for. Read only where it counts.
    let passes = |defaults: &KernelDefaults| defaults.passthrough == Some(true);
    if defaults.iter().any(passes) && groups(reader, facts).all_translated() {
        defaults.iter_mut().filter(|one| passes(one)).for_each(|one| one.passthrough = None);
    }
    defaults
}

/// With several kernels installed, a default only counts when all of them were built so.
pub(super) fn findings(
    edit: &Edit,
    line: &CommandLine,
    defaults: &[KernelDefaults],
) -> Vec<Finding> {
    if defaults.is_empty() {
        return edit.satisfied_by(line, &KernelDefaults::default());
    }
    worst(defaults.iter().map(|defaults| edit.satisfied_by(line, defaults)))
}
