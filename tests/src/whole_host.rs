//! All readers and reports of a host in one call.

use bedplate::report::topology::{self, Options, TopologyView};
use bedplate::report::{diff, inspect, style, text};
use bedplate_core::documents as json;
use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, LoadedProfile, load, shipped};
use bedplate_facts::names::Names;
use bedplate_facts::{Depth, placement};
use bedplate_host::snapshot::Snapshot;
use bedplate_testhosts::HostSpec;

/// Boot loaders.
pub const LOADERS: [&str; 9] =
    ["debian", "rhel9", "rhel8", "suse", "systemd-boot", "uki", "rpm-ostree", "bootc", "talos"];

/// Loads one of the shipped profiles.
pub fn loaded(profile: usize) -> LoadedProfile {
    let text = shipped()[profile % shipped().len()].text;
    load(&[LayerText { path: "profile.toml", text }], shipped()).expect("a shipped profile")
}

/// Builds a host with one of [`LOADERS`].
pub fn base(loader: usize) -> Snapshot {
    let description = format!("machine = \"plain\"\nloader = \"{}\"\n", LOADERS[loader]);
    HostSpec::from_toml(&description).expect("a description").build()
}

/// Returns all reports about a host.
pub fn everything(host: &Snapshot, loaded: &LoadedProfile) -> String {
    let mut facts = observe(host, Depth::Thorough);
    let names = Names::new(host, &facts);
    let mut said = inspect::tables(&facts, &names, 100) + &inspect::tree(&facts, &names);
    if let Some(tree) = facts.pci.known() {
        let (placement, options) =
            (placement::observe(host, tree), Options { vfs: true, all: true });
        let shown = TopologyView::new(&facts, tree, &placement, &names, options);
        said += &topology::text(&shown, options, 80);
        json::document(&topology::document(&shown, options, None, None))
            .expect("a topology is JSON");
    }
    engine::assume_cpu(&mut facts, &loaded.profile);
    let plan = engine::plan(&loaded.profile, &facts, host, &Ledger::default()).plan;
    said += &text::plan(&plan, &facts.label(), text::Detail { verbose: true, only: &[] });
    said += &diff::plan(&plan, &[]);
    json::plan(&plan, "host").expect("a plan is JSON");
    style::terminal(&said)
}
