//! Rules that select too much, or are not used.

use super::{PfSelector, Sriov, SriovLayer, SriovManaged};
use crate::section::{Lint, LintMatch, SectionLint, Severity};
use bedplate_base::value::vf::EswitchMode;

/// The section's lints.
pub(super) const LINTS: &[SectionLint<SriovLayer, Sriov>] = &[
    Lint {
        id: "vfs-everywhere",
        severity: Severity::Warning,
        find: vfs_everywhere,
        reason: "selects every device that can have virtual functions, GPUs and NVMe drives among them",
        source: "drivers/pci/iov.c",
        remedy: "give `select` a vendor, driver, interface or address",
    },
    Lint {
        id: "rules-unused",
        severity: Severity::Warning,
        find: rules_unused,
        reason: "makes no virtual functions on hosts: `managed` in [sriov] leaves them to another tool",
        source: "bedplate profile explain sriov.managed",
        remedy: "allow the lint if the rule is for `render sriov-operator`, else drop the rule, or set `managed` to `bedplate`",
    },
    Lint {
        id: "vf-in-switchdev",
        severity: Severity::Warning,
        find: vf_in_switchdev,
        reason: "sets a VLAN, trust or spoof check of VFs, which mlx5 refuses in switchdev mode",
        source: "drivers/net/ethernet/mellanox/mlx5/core/esw/legacy.c",
        remedy: "set them on the VFs' representors, by bridge or tc",
    },
];

fn vfs_everywhere(section: &SriovLayer, _: &Sriov) -> Vec<LintMatch> {
    let devices = section.devices.0.iter();
    let open = devices.filter(|(_, leaf)| leaf.value.select == PfSelector::default());
    open.map(|(name, leaf)| LintMatch::new(leaf.place, name)).collect()
}

fn vf_in_switchdev(section: &SriovLayer, _: &Sriov) -> Vec<LintMatch> {
    let refused = |device: &super::Device| {
        let set = &device.vf.set;
        let asks = set.vlan.is_some_and(|vlan| vlan.id != 0)
            || set.trust.is_some()
            || set.spoof_check.is_some();
        device.eswitch == Some(EswitchMode::Switchdev) && asks
    };
    let devices = section.devices.0.iter().filter(|(_, leaf)| refused(&leaf.value));
    devices.map(|(name, leaf)| LintMatch::new(leaf.place, name)).collect()
}

fn rules_unused(section: &SriovLayer, model: &Sriov) -> Vec<LintMatch> {
    let external = model.managed == SriovManaged::External;
    let devices = section.devices.0.iter().filter(|_| external);
    devices.map(|(name, leaf)| LintMatch::new(leaf.place, name)).collect()
}
