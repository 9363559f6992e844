//! Kernel lockdown, which refuses writes to registers.

use bedplate_facts::Facts;

/// Returns why registers in PCI config space cannot be written, if that is so.
pub(crate) fn register_lockdown(facts: &Facts) -> Option<String> {
    let lockdown = facts.os.lockdown.known().map(String::as_str)?;
    matches!(lockdown, "integrity" | "confidentiality").then(|| {
        format!(
            "kernel lockdown ({lockdown}) refuses every write to PCI config space (Linux drivers/pci/pci-sysfs.c; handbook §3.1)"
        )
    })
}
