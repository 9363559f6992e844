//! The effective state: IOMMU group types of the functions that carry GPUDirect traffic. Passthrough is only a default,
//! since each IOMMU group has its own type (handbook §1.3, §4). A kernel that was booted with passthrough and still
//! translates is a blocker: no argument that bedplate could write would change that.

use super::{NAME, arch, passthrough_wanted, running_line};
use crate::kind::{Context, some_of};
use crate::plan::{Blocker, KindPlan};
use bedplate_base::value::PciAddress;
use bedplate_cmdline::iommu_passthrough;
use bedplate_facts::iommu_groups::{IommuGroups, iommu_groups};
use bedplate_facts::kernel_defaults::kernel_defaults;

/// Maximum number of functions that a blocker names.
const NAMED: usize = 3;

/// Adds a note on the IOMMU group types of GPUs and NICs, and a blocker if the running kernel was booted with
/// passthrough and still translates.
pub(crate) fn report(context: &Context, section: &mut KindPlan) {
    if !passthrough_wanted(context) {
        return;
    }
    let IommuGroups { types, translated, unread, why_unread, .. } =
        iommu_groups(context.reader, context.facts);
    if !types.is_empty() {
        let said: Vec<String> =
            types.iter().map(|(kind, count)| format!("{count} × {}", meaning(kind))).collect();
        section.notes.push(NAME.note("in effect on GPUs and NICs", said.join(", ")));
    }
    if !translated.is_empty() && booted_with_passthrough(context) {
        section.iommu.passthrough_refused = true;
        section.blockers.push(refused(&translated, types.values().sum()));
    }
    if unread > 0 {
        section.unknowns.push(NAME.unknown(
            "IOMMU group type",
            format!("of {unread} GPU or NIC functions: {}", why_unread.unwrap_or_default()),
        ));
    }
}

/// Whether the running kernel was booted with passthrough. Otherwise passthrough waits for a boot.
fn booted_with_passthrough(context: &Context) -> bool {
    let Ok(line) = running_line(context.reader) else { return false };
    // By its line, or by a default that every kernel here has.
    let defaults = kernel_defaults(context.reader, context.facts);
    let passes = |defaults| iommu_passthrough(&line, defaults, arch(context.facts)) == Some(true);
    !defaults.is_empty() && defaults.iter().all(passes)
}

fn refused(translated: &[PciAddress], all: usize) -> Blocker {
    NAME.blocker(
        "IOMMU passthrough",
        format!(
            "{} of {all} GPU and NIC functions are translated although the kernel was booted with passthrough: {}",
            translated.len(),
            some_of(translated.iter().map(PciAddress::to_string), NAMED, "functions")
        ),
        "find the cause: a write to /sys/kernel/iommu_groups/*/type since the boot (a reboot undoes it), or a reason in \
         `journalctl -k -b` why the IOMMU cannot pass these devices through",
    )
}

fn meaning(kind: &str) -> String {
    match kind {
        "identity" => "passthrough (identity)".into(),
        "DMA" => "translated, strict (DMA)".into(),
        "DMA-FQ" => "translated, lazy (DMA-FQ)".into(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Reading;
    use bedplate_testhosts::fixture::{Files, Machine, at};

    /// Groups of a GPU and a NIC below one switch, an RDMA NIC and a management port elsewhere, with these types.
    fn seen(types: [&str; 4]) -> IommuGroups {
        let mut machine = Machine::default();
        machine.root_port("0000:20:00.0", 0);
        let down = machine.switch("0000:20:00.0", "0000:21:00.0", 2);
        machine.gpu("0000:23:00.0", Some(&down[0]));
        machine.nic("0000:24:00.0", Some(&down[1]));
        for (rdma, address) in [(true, "0000:41:00.0"), (false, "0000:01:00.0")] {
            machine.root_port(&address.replace(":00.0", ":1f.0"), 0);
            let nic = machine.nic(address, None);
            nic.infiniband = if rdma { vec!["mlx5_0".into()] } else { Vec::new() };
        }
        let addresses = ["0000:23:00.0", "0000:24:00.0", "0000:41:00.0", "0000:01:00.0"];
        let mut files = Files::default();
        for (number, (address, kind)) in addresses.iter().zip(types).enumerate() {
            machine.get(address).iommu_group = Reading::Known(u32::try_from(number).unwrap());
            files
                .files
                .insert(format!("/sys/kernel/iommu_groups/{number}/type"), format!("{kind}\n"));
        }
        iommu_groups(&files, &machine.facts())
    }

    #[test]
    fn management_port_may_be_translated() {
        let groups = seen(["identity", "identity", "identity", "DMA-FQ"]);
        assert_eq!((groups.translated.len(), groups.all_translated()), (0, false));
        assert_eq!(groups.types["DMA-FQ"], 1, "it is shown all the same");
    }

    #[test]
    fn gpudirect_functions_must_not_be_translated() {
        let groups = seen(["identity", "DMA", "DMA-FQ", "identity"]);
        assert_eq!(groups.translated, [at("0000:24:00.0"), at("0000:41:00.0")]);
        assert!(!groups.all_translated(), "a device's affair, not the kernel's default");
        assert!(seen(["DMA"; 4]).all_translated());
        let unknown = seen(["unknown"; 4]);
        assert_eq!((unknown.translated.len(), unknown.all_translated()), (0, false));
    }
}
