//! Whether an IOMMU is in use once a plan's kernel arguments take effect. Resource types that plan for that boot use
//! this, so that switching the IOMMU on or off takes one boot and not two. Pure.

use super::arch;
use crate::desired::DesiredCmdline;
use bedplate_base::{CpuVendor, Reading};
use bedplate_cmdline::{CommandLine, KernelDefaults, fold_name, iommu_off_by};
use bedplate_facts::Facts;

/// Whether an IOMMU is in use now. An unreadable state counts as in use.
pub(crate) fn iommu_now(facts: &Facts) -> bool {
    !facts.iommu.active.known().is_some_and(Vec::is_empty)
}

/// Whether an IOMMU is in use from the next boot on. Unknown values count as unchanged.
pub(crate) fn iommu_after(facts: &Facts, wanted: &DesiredCmdline) -> bool {
    let now = iommu_now(facts);
    let Some(vendor) = facts.cpu.vendor.known().copied() else { return now };
    let line = CommandLine::from_tokens(wanted.set.iter().map(|arg| arg.token.clone()));
    if iommu_off_by(&line, &KernelDefaults::default(), vendor, arch(facts)).is_some() {
        return false;
    }
    let name = |token: &str| fold_name(token.split('=').next().unwrap_or_default());
    let names = |wanted: &str| line.tokens().any(|token| name(token.as_str()) == wanted);
    let goes =
        |by: &str| wanted.absent.iter().any(|arg| arg.token == by) || names(name(by).as_str());
    // VT-d needs its argument where the kernel was built with it off; AMD-Vi is on where there is a table (handbook §1.3).
    let switched_on = match vendor {
        CpuVendor::Intel => names("intel_iommu"),
        CpuVendor::Amd => names("iommu"),
        CpuVendor::Arm | CpuVendor::Other => false,
    };
    match &facts.iommu.off_by {
        // Off by an argument that stays, or by the kernel's build and not switched on.
        Reading::Known(by) if !(goes(by) || switched_on && !by.contains('=')) => false,
        _ => now || switched_on && facts.iommu.firmware.known().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::{ArgSource, KernelArg};
    use crate::engine;
    use bedplate_cmdline::Token;
    use bedplate_facts::Depth;
    use bedplate_testhosts::HostSpec;

    /// Evaluates a host of this description and a plan that sets and removes these arguments.
    fn after(host: &str, set: &[&str], absent: &[&str]) -> bool {
        let host = HostSpec::from_toml(&format!("machine = 'plain'\n{host}")).unwrap().build();
        let facts = engine::observe(&host, Depth::Identity);
        let arg = |token: &&str| KernelArg {
            token: Token::new(token).unwrap(),
            why: vec![],
            from: ArgSource::Cmdline,
        };
        let wanted = DesiredCmdline {
            set: set.iter().map(arg).collect(),
            absent: absent.iter().map(arg).collect(),
            ..DesiredCmdline::default()
        };
        iommu_after(&facts, &wanted)
    }

    #[test]
    fn planned_arguments_decide_before_the_host() {
        let (intel, amd) = (["intel_iommu=on", "iommu=pt"], ["iommu=pt"]);
        let off = "iommu = 'off'\ncmdline = 'intel_iommu=off'";
        let sticky = "iommu = 'off'\ncpu = 'amd'\ncmdline = 'amd_iommu=off'";
        let never = "iommu = 'off'\ncmdline = 'iommu=off'";
        for (host, set, absent, expected) in [
            ("", &[][..], &[][..], true),
            ("", &["intel_iommu=off"], &[], false),
            (off, &[], &[], false),
            (off, &intel, &["iommu=off"], true),
            (never, &["intel_iommu=on"], &[], false),
            (never, &["intel_iommu=on"], &["iommu=off"], true),
            ("iommu = 'off'\ncmdline = 'intel_iommu=on'", &intel, &[], true),
            ("iommu = 'off'\ncmdline = 'intel_iommu=on'", &[], &[], false),
            ("iommu = 'none'", &intel, &[], false),
            ("cmdline = 'intel_iommu=off'\nrunning-cmdline = 'quiet'", &[], &[], false),
            (sticky, &amd, &[], false),
            (sticky, &amd, &["amd_iommu=off"], true),
        ] {
            assert_eq!(after(host, set, absent), expected, "{host:?} {set:?} {absent:?}");
        }
    }
}
