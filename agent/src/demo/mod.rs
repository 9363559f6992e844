//! Made-up hosts: machines that nobody has on a laptop, built in memory as snapshots from a short description.
//! They are what `--demo NAME` shows and what test cases start from. No host is read here.

mod boot;
mod device;
mod machine;
mod nic;
pub mod spec;
mod system;
mod tree;

use crate::host::snapshot::Snapshot;

pub use spec::HostSpec;
pub use tree::write_tree;

/// The embedded demos: name, what it is, description.
const DEMOS: [(&str, &str, &str); 4] = [
    (
        "hgx",
        "HGX H100 node, Ubuntu 24.04: 8 GPUs and 8 ConnectX-7 below 4 switches, IOMMU translating, ACS on, no VFs",
        "machine = \"hgx\"",
    ),
    (
        "mi300x",
        "AMD MI300X node, Ubuntu 22.04: 8 GPUs and 8 ConnectX-7 (RoCE) below 8 switches",
        "machine = \"mi300x\"\nos-version = \"22.04\"\nkernel = \"6.5.0-45-generic\"\n\
         [modules]\namdgpu = \"live\"\n",
    ),
    (
        "grace",
        "Grace Hopper node, Ubuntu 24.04 arm64: 4 superchips, each GPU and NIC on a host bridge of its own",
        "machine = \"grace\"\nkernel = \"6.8.0-1012-nvidia-64k\"\n",
    ),
    (
        "hgx-rhel9",
        "HGX H100 node, RHEL 9.4 with BLS entries",
        "machine = \"hgx\"\nloader = \"rhel9\"\nkernel = \"5.14.0-427.13.1.el9_4.x86_64\"\n",
    ),
];

/// Names of the embedded demos with one line about each.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    DEMOS.iter().map(|(name, about, _)| (*name, *about))
}

/// An embedded demo; `None` = no such name.
pub fn snapshot(name: &str) -> Option<Snapshot> {
    let (_, _, text) = DEMOS.iter().find(|(known, _, _)| *known == name)?;
    // The texts above are parsed by a test; a demo that could not be parsed would not be there.
    HostSpec::from_toml(text).ok().map(|spec| spec.build())
}

#[cfg(test)]
mod tests;
