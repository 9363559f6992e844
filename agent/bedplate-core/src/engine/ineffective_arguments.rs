//! Profile lints applied to the host's own kernel arguments: each argument is checked as a profile of its own.

use crate::kind::cmdline::show::{Argument, CommandLineView};
use crate::profile::{LayerText, load};
use crate::section::toml_text;
use crate::verify::IneffectiveArgument;
use bedplate_base::CpuVendor;
use bedplate_facts::Facts;

/// Lints about the form of a profile, not about the kernel's handling of an argument.
const OF_PROFILES: [&str; 2] = ["acs-by-hand", "iommu-by-hand"];

/// Returns the arguments of the running kernel and of the next boot that a lint reports.
pub(super) fn ineffective_arguments(
    line: &CommandLineView,
    facts: &Facts,
) -> Vec<IneffectiveArgument> {
    let on_a_line =
        |argument: &&Argument| argument.running == Some(true) || argument.next_boot == Some(true);
    let cpu = match facts.cpu.vendor.known() {
        Some(CpuVendor::Intel) => "[match]\ncpu_vendor = \"intel\"\n",
        Some(CpuVendor::Amd) => "[match]\ncpu_vendor = \"amd\"\n",
        Some(CpuVendor::Arm) => "[match]\ncpu_vendor = \"arm\"\n",
        _ => "",
    };
    line.arguments
        .iter()
        .filter(on_a_line)
        .flat_map(|argument| ineffective(argument, cpu))
        .collect()
}

fn ineffective(argument: &Argument, cpu: &str) -> Vec<IneffectiveArgument> {
    let args = toml_text(&argument.argument);
    let text = format!("schema = 1\nname = \"host\"\n{cpu}[cmdline]\nargs = [{args}]\n");
    // No lint covers arguments that a profile may not set (`root=`).
    let Ok(loaded) = load(&[LayerText { path: "/proc/cmdline", text: &text }], &[]) else {
        return Vec::new();
    };
    let mut found: Vec<IneffectiveArgument> = Vec::new();
    for lint in loaded.lints.iter().filter(|lint| !OF_PROFILES.contains(&lint.id)) {
        if found.iter().all(|one| one.lint != lint.id) {
            found.push(IneffectiveArgument {
                argument: argument.argument.clone(),
                lint: lint.id,
                message: lint.message.clone(),
                fix: lint.help.first().cloned().unwrap_or_default(),
            });
        }
    }
    found
}
