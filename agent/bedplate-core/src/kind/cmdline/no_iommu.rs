//! Hosts without an active IOMMU. Their DMA is 1:1, which is the purpose of passthrough, so on bare metal they stay
//! unchanged. Where an IOMMU is needed and the firmware has it off, no kernel argument helps (handbook §14.4).

use super::section::iommu::IommuMode;
use crate::desired::{DesiredCmdline, VfDriver};
use crate::plan::{Blocker, KindId};
use crate::profile::model::Profile;
use bedplate_base::{CpuVendor, Reading};
use bedplate_facts::Facts;

const KIND: KindId = KindId::Cmdline;
/// IOMMU arguments that bedplate may have written. They are harmless without an IOMMU, and no reason for a reboot.
const LEFT_AS_THEY_ARE: [&str; 4] = ["intel_iommu", "amd_iommu", "iommu", "iommu.passthrough"];

/// Leaves the IOMMU arguments unchanged: those that bedplate wrote stay its own.
pub(crate) fn keep_arguments(cmdline: &mut DesiredCmdline) {
    cmdline.keep.extend(LEFT_AS_THEY_ARE.map(str::to_owned));
}

/// Keeps the arguments if the host is without an IOMMU and the mode does not need one. Returns whether it did.
///
/// # Errors
/// If an IOMMU is needed and the firmware does not offer one.
pub(crate) fn keep_where_none_is_needed(
    mode: IommuMode,
    profile: &Profile,
    vendor: CpuVendor,
    facts: &Facts,
    cmdline: &mut DesiredCmdline,
) -> Result<bool, Blocker> {
    let needed = match mode {
        IommuMode::Off => None,
        IommuMode::PassthroughRequired => Some("iommu.mode = \"passthrough-required\""),
        IommuMode::Translated => Some("iommu.mode = \"translated\""),
        _ => has_guests(profile).then_some("VFIO"),
    };
    let active = facts.iommu.active.known().is_some_and(|units| !units.is_empty());
    let state = match (&facts.iommu.firmware, &facts.iommu.off_by, needed) {
        (Reading::Absent, _, Some(needed)) if !active => {
            return Err(off_in_firmware(needed, vendor));
        }
        (Reading::Absent, _, None) if !active => {
            format!("not offered by the firmware (no {}); DMA is 1:1", table(vendor))
        }
        (_, Reading::Known(by), None)
            if mode == IommuMode::Passthrough && !names_arguments(profile) =>
        {
            let when = if active { " from the next boot on" } else { "" };
            format!("off{when} by {by}, and stays off; DMA is 1:1")
        }
        _ => return Ok(false),
    };
    keep_arguments(cmdline);
    cmdline.unchanged.push(KIND.up_to_date("IOMMU", state));
    Ok(true)
}

/// Whether the profile itself lists one of these arguments, present or absent, beyond the mode.
fn names_arguments(profile: &Profile) -> bool {
    let arguments = profile.cmdline.args.iter().chain(&profile.cmdline.absent);
    arguments
        .map(|arg| arg.token.folded_name())
        .any(|name| LEFT_AS_THEY_ARE.contains(&name.as_str()))
}

/// Whether the profile assigns devices to VMs: VFIO needs an IOMMU (Documentation/driver-api/vfio.rst).
fn has_guests(profile: &Profile) -> bool {
    let vfio = |name: &String| name.contains("vfio");
    let (mut rules, mut loaded) = (profile.sriov.rules.iter(), profile.modules.load.iter());
    rules.any(|rule| matches!(&rule.vf_driver, VfDriver::Named(driver) if vfio(driver)))
        || loaded.any(|module| vfio(&module.name.to_string()))
}

fn table(vendor: CpuVendor) -> &'static str {
    match vendor {
        CpuVendor::Intel => "DMAR table",
        CpuVendor::Amd => "IVRS table",
        CpuVendor::Arm => "IORT table with an SMMU",
        CpuVendor::Other => "DMAR or IVRS table",
    }
}

fn off_in_firmware(needed: &str, vendor: CpuVendor) -> Blocker {
    let setting = match vendor {
        CpuVendor::Intel => "\"Intel VT for Directed I/O (VT-d)\"",
        CpuVendor::Amd => "\"IOMMU\" (AMD CBS, NBIO options)",
        CpuVendor::Arm => "the SMMU",
        CpuVendor::Other => "the IOMMU",
    };
    KIND.blocker(
        "IOMMU",
        format!(
            "{needed} needs an IOMMU, but the firmware offers none: no {} in /sys/firmware/acpi/tables; no kernel \
             argument can enable it",
            table(vendor)
        ),
        format!(
            "enable {setting} in the BIOS setup; without VMs, iommu.mode = \"passthrough\" needs no IOMMU"
        ),
    )
}
