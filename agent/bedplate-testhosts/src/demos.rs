//! Demo hosts, and hosts built from a description.

use crate::HostSpec;
use crate::boot;
use crate::machine;
use crate::system;
use bedplate_host::snapshot::{Node, Snapshot};

/// Demo hosts as (name, description). `--demo` explains each (`agent/bedplate/src/demo.rs`).
const DEMOS: [(&str, &str); 9] = [
    ("hgx", "machine = \"hgx\""),
    (
        "mi300x",
        "machine = \"mi300x\"\nos-version = \"22.04\"\nkernel = \"6.5.0-45-generic\"\n\
         [modules]\namdgpu = \"live\"\n",
    ),
    ("grace", "machine = \"grace\"\nkernel = \"6.8.0-1012-nvidia-64k\"\n"),
    (
        "hgx-rhel9",
        "machine = \"hgx\"\nloader = \"rhel9\"\nkernel = \"5.14.0-427.13.1.el9_4.x86_64\"\n",
    ),
    ("b300", "machine = \"b300\"\nkernel = \"6.14.0-37-generic\"\n"),
    ("gb200", "machine = \"gb200\"\nkernel = \"6.8.0-1025-nvidia-64k\"\n"),
    ("gb300", "machine = \"gb300\"\nkernel = \"6.17.0-1008-nvidia-64k\"\n"),
    ("vera-rubin", "machine = \"vera-rubin\"\nkernel = \"6.17.0-1014-nvidia-64k\"\n"),
    ("epyc-l40s", "machine = \"epyc-l40s\"\nkernel = \"6.8.0-90-generic\"\n"),
];

/// Returns the names of the demo hosts.
pub fn names() -> impl Iterator<Item = &'static str> {
    DEMOS.iter().map(|(name, _)| *name)
}

/// Builds a demo host, if the name is known.
pub fn snapshot(name: &str) -> Option<Snapshot> {
    let (_, text) = DEMOS.iter().find(|(known, _)| *known == name)?;
    // A test parses the texts above.
    HostSpec::from_toml(text).ok().map(|spec| spec.build())
}

impl HostSpec {
    /// Builds the host: a complete snapshot, in which everything else is known to be absent.
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
