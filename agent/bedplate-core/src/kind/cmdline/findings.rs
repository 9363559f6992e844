//! A command line against what is wanted, with the build-time defaults of the kernels that may boot.

use bedplate_cmdline::{CommandLine, Edit, Finding, KernelDefaults, worst};

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
