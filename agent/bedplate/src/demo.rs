//! Demo hosts: compressed snapshots of fake hosts, included in the program. bedplate-testhosts builds them; a test
//! compares.

use std::io::Read as _;

use bedplate_host::snapshot::Snapshot;
use ruzstd::decoding::StreamingDecoder;

struct Demo {
    name: &'static str,
    about: &'static str,
    /// Text of a snapshot, compressed by zstd.
    packed: &'static [u8],
}

macro_rules! demos {
    ($($name:literal: $about:literal,)*) => {
        &[$(Demo {
            name: $name,
            about: $about,
            packed: include_bytes!(concat!("../demos/", $name, ".bp.zst")),
        },)*]
    };
}

const DEMOS: &[Demo] = demos! {
    "hgx": "HGX H100 node, Ubuntu 24.04: 8 GPUs and 8 ConnectX-7 below 4 switches, IOMMU translating, ACS on, no VFs",
    "mi300x": "AMD MI300X node, Ubuntu 22.04: 8 GPUs and 8 ConnectX-7 (RoCE) below 8 switches",
    "grace": "Grace Hopper node, Ubuntu 24.04 arm64: 4 superchips, each GPU and NIC on a host bridge of its own",
    "hgx-rhel9": "HGX H100 node, RHEL 9.4 with BLS entries",
    "b300": "B300 node, Ubuntu 24.04: 8 GPUs, each behind the inline switch of its ConnectX-8",
    "gb200": "GB200 tray, Ubuntu 24.04 arm64: 4 GPUs and 4 ConnectX-7, each on a root port of its own",
    "gb300": "GB300 tray, Ubuntu 24.04 arm64: 4 GPUs, each with the Data Direct function of a ConnectX-8 below one switch",
    "vera-rubin": "Vera Rubin tray, Ubuntu 24.04 arm64: 4 GPUs and 8 ConnectX-9, each on a root port of its own",
    "epyc-l40s": "EPYC server, Ubuntu 24.04: 8 L40S and 2 ConnectX-7 (RoCE) on root ports, no PCIe switch",
};

/// Returns the name of each demo host, with a one-line description.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    DEMOS.iter().map(|demo| (demo.name, demo.about))
}

/// Returns the snapshot text of a demo host, or `None` if the name is unknown.
pub fn text(name: &str) -> Option<String> {
    let demo = DEMOS.iter().find(|demo| demo.name == name)?;
    let mut text = String::new();
    // The included data is constant, and a test unpacks all of it.
    StreamingDecoder::new(demo.packed).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the snapshot of a demo host, or `None` if the name is unknown.
pub fn snapshot(name: &str) -> Option<Snapshot> {
    Snapshot::from_text(&text(name)?).ok()
}
