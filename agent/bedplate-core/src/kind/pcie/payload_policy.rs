//! The kernel's policy for payloads, which may limit read requests (Linux drivers/pci/probe.c pcie_write_mrrs; commit
//! a1c473aa11e6).

use crate::kind::{Context, cmdline};
use bedplate_base::ReadError;
use bedplate_cmdline::pci_suboption;
use bedplate_facts::kernel_config::kernel_config;

/// Argument and build option of the policy under which the kernel limits read requests to the payload of their function.
/// Larger requests bring completions that the function treats as malformed: a fatal error.
const LIMITING: (&str, &str) = ("pcie_bus_perf", "CONFIG_PCIE_BUS_PERFORMANCE=y");
/// Other policies. The words exclude each other, so a line with two kinds counts as limiting.
const OTHERS: [&str; 3] = ["pcie_bus_tune_off", "pcie_bus_safe", "pcie_bus_peer2peer"];

/// Returns the argument or the build option of the running kernel that limits read requests, if one is known. The
/// build option exists only for experts; distributors leave it at the default.
pub(super) fn limiting(context: &Context) -> Result<Option<&'static str>, ReadError> {
    let line = cmdline::running_line(context.reader)?;
    if pci_suboption(&line, LIMITING.0).is_some() {
        return Ok(Some(LIMITING.0));
    }
    if OTHERS.iter().any(|word| pci_suboption(&line, word).is_some()) {
        return Ok(None);
    }
    let kernel = context.facts.os.kernel.known();
    let config = kernel.map(|kernel| kernel_config(context.reader, kernel));
    let config = config.as_ref().and_then(|config| config.known());
    let is_built = config.is_some_and(|text| text.lines().any(|line| line == LIMITING.1));
    Ok(is_built.then_some(LIMITING.1))
}
