//! `[iommu] mode` → kernel arguments, by CPU vendor. Sources of the facts: handbook §1.3, §4.

use super::section::iommu::IommuMode;
use super::{NAME, no_iommu, nvidia_grace};
use crate::desired::{ArgSource, Desired, DesiredCmdline, KernelArg};
use crate::plan::{Blocker, Rationale, Unknown};
use crate::profile::model::Profile;
use bedplate_base::{Arch, CpuVendor, Reading};
use bedplate_cmdline::Token;
use bedplate_facts::Facts;

/// Adds the arguments that the mode needs on this CPU. If they are unknown, those on the line stay.
pub(super) fn resolve(profile: &Profile, facts: &Facts, desired: &mut Desired) {
    if let Err(obstacle) = add(profile, facts, desired) {
        no_iommu::keep_arguments(&mut desired.cmdline);
        match obstacle {
            Obstacle::Blocker(blocker) => desired.blockers.push(blocker),
            Obstacle::Unknown(unknown) => desired.unknowns.push(unknown),
        }
    }
}

/// Reason why the arguments cannot be determined.
enum Obstacle {
    Blocker(Blocker),
    Unknown(Unknown),
}

impl From<Blocker> for Obstacle {
    fn from(blocker: Blocker) -> Self {
        Obstacle::Blocker(blocker)
    }
}

fn add(profile: &Profile, facts: &Facts, desired: &mut Desired) -> Result<(), Obstacle> {
    let (mode, because) = nvidia_grace::iommu_mode(profile, facts, desired)?;
    if mode == IommuMode::Keep {
        return Ok(());
    }
    let vendor = match (&facts.cpu.vendor, &facts.arch) {
        (Reading::Known(vendor), _) => *vendor,
        (_, Reading::Known(Arch::Aarch64)) => CpuVendor::Arm,
        (Reading::Absent | Reading::Unknown(_), _) => {
            return Err(Obstacle::Unknown(NAME.unknown(
                "IOMMU parameters",
                "CPU vendor unknown: pass --cpu intel, amd or arm, or set [match] cpu_vendor in the profile",
            )));
        }
    };
    if no_iommu::keep_where_none_is_needed(mode, profile, vendor, facts, &mut desired.cmdline)? {
        return Ok(());
    }
    contradictions(mode, vendor, &mut desired.cmdline);
    desired.cmdline.set.extend(arguments(mode, vendor)?.iter().map(|(token, reason, source)| {
        let mut why = vec![Rationale::new(*reason, *source)];
        why.extend(because.clone());
        why.extend(profile.iommu.why.iter().cloned());
        KernelArg { token: Token::from_static(token), why, from: ArgSource::Iommu }
    }));
    Ok(())
}

/// Token, reason why the mode needs it, and source.
type Argument = (&'static str, &'static str, &'static str);

/// Returns the arguments that the mode needs on a CPU.
fn arguments(mode: IommuMode, vendor: CpuVendor) -> Result<&'static [Argument], Blocker> {
    Ok(match (mode, vendor) {
        // Resolved before, by the host.
        (IommuMode::Keep | IommuMode::Auto, _) => &[],
        (_, CpuVendor::Other) => return Err(unknown_cpu()),
        (IommuMode::Off, CpuVendor::Arm) => return Err(no_arm_off()),
        (IommuMode::Off, CpuVendor::Intel) => &[(
            "intel_iommu=off",
            "keeps VT-d off: no translation, and the kernel requests no ACS redirect",
            INTEL,
        )],
        (IommuMode::Off, CpuVendor::Amd) => &[(
            "amd_iommu=off",
            "keeps AMD-Vi off; the kernel still enables ACS because an IVRS table exists",
            AMD,
        )],
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, CpuVendor::Intel) => {
            &[("intel_iommu=on", VTD_ON, INTEL), ("iommu=pt", PASSTHROUGH, X86)]
        }
        // `amd_iommu=on` is not a value the kernel knows (handbook §1.3): AMD-Vi is on if there is an IVRS table.
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, CpuVendor::Amd) => {
            &[("iommu=pt", PASSTHROUGH, X86)]
        }
        (IommuMode::Passthrough | IommuMode::PassthroughRequired, CpuVendor::Arm) => &[(
            "iommu.passthrough=1",
            "arm64 ignores iommu=; every architecture reads this spelling",
            CORE,
        )],
        (IommuMode::Translated, CpuVendor::Intel) => {
            &[("intel_iommu=on", VTD_ON, INTEL), ("iommu=nopt", TRANSLATED, X86)]
        }
        (IommuMode::Translated, CpuVendor::Amd) => &[("iommu=nopt", TRANSLATED, X86)],
        (IommuMode::Translated, CpuVendor::Arm) => &[(
            "iommu.passthrough=0",
            "arm64 ignores iommu=; every architecture reads this spelling",
            CORE,
        )],
    })
}

fn unknown_cpu() -> Blocker {
    NAME.blocker(
        "IOMMU parameters",
        "CPU is neither Intel, AMD nor Arm: IOMMU parameters unknown",
        "set iommu.mode = \"keep\" and list the parameters in cmdline.args",
    )
}

fn no_arm_off() -> Blocker {
    NAME.blocker(
        "IOMMU off",
        "no kernel parameter disables an Arm SMMU; only the firmware can",
        "set iommu.mode = \"passthrough\", or disable the SMMU in the firmware and set \"keep\"",
    )
}

const VTD_ON: &str = "distributions differ in whether VT-d is on by default";
const TRANSLATED: &str = "host drivers' DMA is translated, whatever the kernel's built-in default";
const PASSTHROUGH: &str = "1:1 DMA addresses for host drivers; VMs keep translation";
const INTEL: &str = "linux drivers/iommu/intel/iommu.c; handbook §1.3";
const AMD: &str = "linux drivers/iommu/amd/init.c; handbook §1.3";
const X86: &str = "linux arch/x86/kernel/pci-dma.c; handbook §1.3";
const CORE: &str = "linux drivers/iommu/iommu.c; handbook §1.3";

/// Adds tokens to `absent` that would silently defeat the mode: `iommu=off` ends detection early, and `amd_iommu=off`
/// is sticky (no later value turns it back on; handbook §1.2).
fn contradictions(mode: IommuMode, vendor: CpuVendor, cmdline: &mut DesiredCmdline) {
    if mode == IommuMode::Off {
        return;
    }
    let mut never = |token, reason: &str, source: &str| {
        cmdline.absent.push(KernelArg {
            token: Token::from_static(token),
            why: vec![Rationale::new(reason, source)],
            from: ArgSource::Iommu,
        });
    };
    match vendor {
        CpuVendor::Intel => never("iommu=off", "ends IOMMU detection before VT-d", X86),
        CpuVendor::Amd => {
            never("iommu=off", "ends IOMMU detection before AMD-Vi", X86);
            never("amd_iommu=off", "sticky: no later value turns AMD-Vi back on", AMD);
        }
        CpuVendor::Arm | CpuVendor::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`Token::from_static`] panics on a text that is not an argument.
    #[test]
    fn constants_are_valid_arguments() {
        let modes = [
            IommuMode::Off,
            IommuMode::Passthrough,
            IommuMode::PassthroughRequired,
            IommuMode::Translated,
        ];
        for (mode, vendor) in modes.into_iter().flat_map(|mode| {
            [CpuVendor::Intel, CpuVendor::Amd, CpuVendor::Arm].map(|vendor| (mode, vendor))
        }) {
            contradictions(mode, vendor, &mut DesiredCmdline::default());
            for (token, ..) in arguments(mode, vendor).unwrap_or_default() {
                Token::from_static(token);
            }
        }
    }
}
