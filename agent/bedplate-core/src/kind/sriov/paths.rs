//! Paths of VFs: recorded in snapshots, watched by the daemon; and node labels.

use super::resolve;
use crate::desired::WantedAttributes;
use crate::kind::{RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use bedplate_host::Reader;

/// udev rules that `render` writes for VFs.
pub const UDEV_RULES: &str = "70-bedplate-sriov.rules";
/// Directory of these rules on hosts, and in bootc images.
pub const UDEV_DIRECTORIES: [&str; 2] = ["/etc/udev/rules.d", "/usr/lib/udev/rules.d"];
/// Directory of the `.link` files that `render` writes for VFs.
pub const LINK_DIRECTORY: &str = "/etc/systemd/network";
/// Prefix of their names.
pub const LINK_PREFIX: &str = "10-bedplate-";

/// Recorded in snapshots.
pub(crate) const RECORDED: &[(&str, RecordMode)] = &[
    ("/sys/class/net/*/flags", RecordMode::Whole),
    ("/sys/class/net/*/operstate", RecordMode::Whole),
    ("/sys/class/net/*/phys_port_name", RecordMode::Whole),
    ("/sys/class/net/*", RecordMode::Names),
    ("/sys/class/net/*/bonding/slaves", RecordMode::Whole),
    ("/proc/net/route", RecordMode::Whole),
    ("/proc/net/ipv6_route", RecordMode::Whole),
    ("/etc/systemd/network/*", RecordMode::Whole),
    ("/run/systemd/network/*", RecordMode::Whole),
    ("/etc/sriov-operator", RecordMode::Presence),
    ("/usr/bin/mlxconfig", RecordMode::Presence),
    ("/usr/bin/mstconfig", RecordMode::Presence),
];

/// Paths that this resource type writes: VF counts, probing and drivers of VFs. VF attributes and eswitch modes go through
/// netlink.
pub(crate) const OWNS: WriteScope = WriteScope {
    attributes: &[
        "/sys/bus/pci/devices/*/sriov_numvfs",
        "/sys/bus/pci/devices/*/sriov_drivers_autoprobe",
        "/sys/bus/pci/devices/*/driver_override",
    ],
    nics: true,
    ..WriteScope::NONE
};

/// Watches VF counts, and resets, which remove VFs. Also attributes of VFs, if the profile sets any, and interfaces of VFs,
/// which block a removal while they are up.
pub(crate) fn watch(profile: &Profile, facts: &Facts) -> Watch {
    let Some(tree) = facts.pci.known() else { return Watch::default() };
    let pfs = tree.functions.values().filter(|function| function.sriov.known().is_some());
    let paths = pfs.flat_map(|pf| ["sriov_numvfs", "reset"].map(|name| pf.attribute(name)));
    let wanted = resolve(&profile.sriov, facts).vfs;
    let named = wanted.iter().filter_map(|wanted| tree.get(wanted.pf));
    let of_vfs = named.filter_map(|pf| pf.sriov.known()).flat_map(|sriov| &sriov.vfs);
    let links = of_vfs.filter_map(|vf| tree.get(*vf)).flat_map(|vf| vf.net.clone()).collect();
    let set = wanted.iter().filter(|wanted| wanted.rule.vf != WantedAttributes::default());
    let interfaces = set.filter_map(|wanted| tree.get(wanted.pf)).flat_map(|pf| pf.net.clone());
    Watch {
        attributes: paths.collect(),
        interfaces: interfaces.collect(),
        links,
        ..Watch::default()
    }
}

/// Labels the node with its number of VFs.
pub(crate) fn labels(facts: &Facts, _: &dyn Reader) -> Vec<(&'static str, String)> {
    let Some(tree) = facts.pci.known() else { return Vec::new() };
    let vfs = tree.functions.values().filter(|function| function.physfn.is_some()).count();
    vec![("vfs", vfs.to_string())]
}
