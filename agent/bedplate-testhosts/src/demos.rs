//! The embedded demos, and hosts made from a description.

use crate::HostSpec;
use crate::boot;
use crate::machine;
use crate::system;
use bedplate_host::snapshot::{Node, Snapshot};

/// The embedded demos: name, what it is, description.
const DEMOS: [(&str, &str, &str); 9] = [
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
    (
        "b300",
        "B300 node, Ubuntu 24.04: 8 GPUs, each behind the inline switch of its ConnectX-8",
        "machine = \"b300\"\nkernel = \"6.14.0-37-generic\"\n",
    ),
    (
        "gb200",
        "GB200 tray, Ubuntu 24.04 arm64: 4 GPUs and 4 ConnectX-7, each on a root port of its own",
        "machine = \"gb200\"\nkernel = \"6.8.0-1025-nvidia-64k\"\n",
    ),
    (
        "gb300",
        "GB300 tray, Ubuntu 24.04 arm64: 4 GPUs, each with the Data Direct function of a ConnectX-8 below one switch",
        "machine = \"gb300\"\nkernel = \"6.17.0-1008-nvidia-64k\"\n",
    ),
    (
        "vera-rubin",
        "Vera Rubin tray, Ubuntu 24.04 arm64: 4 GPUs and 8 ConnectX-9, each on a root port of its own",
        "machine = \"vera-rubin\"\nkernel = \"6.17.0-1014-nvidia-64k\"\n",
    ),
    (
        "epyc-l40s",
        "EPYC server, Ubuntu 24.04: 8 L40S and 2 ConnectX-7 (RoCE) on root ports, no PCIe switch",
        "machine = \"epyc-l40s\"\nkernel = \"6.8.0-90-generic\"\n",
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

impl HostSpec {
    /// Make the host: a snapshot in which everything not there is known not to be there.
    pub fn build(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.running);
        system::files(self, &mut snapshot);
        boot::files(self, &mut snapshot);
        if self.running {
            system::running(self, &mut snapshot);
            machine::pci(self, &mut snapshot);
        }
        for path in &self.remove {
            snapshot.remove(&snapshot.canonical(path));
        }
        for (path, text) in &self.files {
            snapshot.insert(&snapshot.canonical(path), Node::File(text.clone().into_bytes()));
        }
        for (path, text) in &self.latin1 {
            let bytes = text.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
            snapshot.insert(&snapshot.canonical(path), Node::File(bytes));
        }
        for (path, target) in &self.links {
            snapshot.insert(&snapshot.canonical(path), Node::Link(target.clone()));
        }
        for path in &self.denied {
            let path = snapshot.canonical(path);
            snapshot.remove(&path);
            snapshot.insert(&path, Node::Denied);
        }
        snapshot.complete();
        for path in &self.unrecorded {
            snapshot.remove(&snapshot.canonical(path));
        }
        snapshot
    }
}
