//! Whether the next boot leaves the IOMMU off, and why: an argument on the line, or the kernel's build. With the IOMMU
//! off, DMA is 1:1, which is the purpose of passthrough (handbook §14.4).

use super::owned_arguments::owned;
use super::section::iommu::IommuMode;
use super::{Context, NAME, arch, backend};
use crate::ledger::Ledger;
use crate::plan::{Effect, KindPlan, Pending};
use crate::profile::model::Profile;
use bedplate_base::{CpuVendor, Reading};
use bedplate_cmdline::{CommandLine, KernelDefaults, Token, iommu_off_by};
use bedplate_facts::Facts;
use bedplate_facts::iommu_groups::iommu_groups;
use bedplate_facts::kernel_defaults::kernel_defaults;
use bedplate_host::Reader;

/// Returns what keeps the IOMMU off. `Absent`: at least one of the lines that may apply does not keep it off.
pub(crate) fn iommu_off(reader: &dyn Reader, facts: &Facts) -> Reading<String> {
    // The kernel's build is evidence only if the IOMMU is off now: firmware can opt in (handbook §1.3).
    let off_now = facts.iommu.active.known().is_some_and(Vec::is_empty);
    off_on(&lines(reader, facts), off_now, reader, facts)
}

/// Returns the same without arguments that bedplate owns and the profile no longer requests (mode `off`, then another):
/// the next apply removes them, so they do not keep the IOMMU off. `None`: there are no owned arguments to ignore.
pub(crate) fn iommu_off_by_others(
    profile: &Profile,
    reader: &dyn Reader,
    facts: &Facts,
    ledger: &Ledger,
) -> Option<Reading<String>> {
    let vendor = *facts.cpu.vendor.known()?;
    if profile.iommu.mode == IommuMode::Off {
        return None;
    }
    let asked = |token: &Token| profile.cmdline.args.iter().any(|arg| arg.token == *token);
    let none = KernelDefaults::default();
    let turns_off = |token: &Token| {
        let alone = CommandLine::from_tokens([token.clone()]);
        iommu_off_by(&alone, &none, vendor, arch(facts)).is_some()
    };
    let mut own = owned(ledger);
    own.retain(|token| turns_off(token) && !asked(token));
    if own.is_empty() {
        return None;
    }
    let without = |line: &CommandLine| {
        CommandLine::from_tokens(line.tokens().filter(|token| !own.contains(token)).cloned())
    };
    let lines: Vec<CommandLine> = lines(reader, facts).iter().map(without).collect();
    // The IOMMU may be off because of that argument, so its current state proves nothing about the firmware.
    Some(off_on(&lines, false, reader, facts))
}

fn off_on(
    lines: &[CommandLine],
    off_now: bool,
    reader: &dyn Reader,
    facts: &Facts,
) -> Reading<String> {
    let vendor = match &facts.cpu.vendor {
        Reading::Known(vendor) => *vendor,
        Reading::Absent => return Reading::Absent,
        Reading::Unknown(why) => return Reading::unknown(why.clone()),
    };
    if lines.is_empty() {
        return Reading::unknown("no command line could be read");
    }
    let mut defaults = kernel_defaults(reader, facts);
    if defaults.is_empty() {
        defaults.push(KernelDefaults::default());
    }
    let off = |line: &CommandLine| {
        let said = defaults.iter().map(|one| iommu_off_by(line, one, vendor, arch(facts)));
        said.collect::<Option<Vec<_>>>().and_then(|by| by.first().copied()).or_else(|| {
            let built_off =
                defaults.iter().all(|one| one.leaves_intel_iommu_off(line, arch(facts)));
            (vendor == CpuVendor::Intel && off_now && built_off).then_some(BUILT)
        })
    };
    match lines.iter().map(off).collect::<Option<Vec<_>>>() {
        Some(by) => by.first().map_or(Reading::Absent, |by| Reading::Known((*by).to_owned())),
        None => Reading::Absent,
    }
}

/// Reports IOMMU states that need no argument as converged. An IOMMU that still translates and is off from the next
/// boot on is pending.
pub(crate) fn report(context: &Context, section: &mut KindPlan) {
    let unchanged = &context.desired.cmdline.unchanged;
    let on = context.facts.iommu.active.known().is_some_and(|units| !units.is_empty());
    match &context.facts.iommu.off_by {
        Reading::Known(by) if on && !unchanged.is_empty() && translates(context) => {
            section.pending.push(Pending {
                kind: NAME,
                effect: Effect::ColdBoot,
                running: Some("translating".to_owned()),
                next: Some(format!("off by {by}")),
                subject: "IOMMU".to_owned(),
            });
        }
        _ => section.unchanged.extend(unchanged.iter().cloned()),
    }
}

fn translates(context: &Context) -> bool {
    !iommu_groups(context.reader, context.facts).translated.is_empty()
}

const BUILT: &str = "the kernel's default (CONFIG_INTEL_IOMMU_DEFAULT_ON is not set)";

/// Returns the known lines of the configuration and the default boot entry, else the running line.
fn lines(reader: &dyn Reader, facts: &Facts) -> Vec<CommandLine> {
    let mut lines = Vec::new();
    if let Ok(backend) = backend(&facts.boot) {
        let observed = (backend.observe)(reader, facts);
        let known = |state: Reading<CommandLine>| state.known().cloned();
        lines.extend(known(observed.next));
        lines.extend(known(observed.configured));
    }
    if lines.is_empty() {
        lines.extend(super::running_line(reader).ok());
    }
    lines
}
