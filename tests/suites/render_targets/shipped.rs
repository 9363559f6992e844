//! The shipped profiles on hosts that they fit, unchanged and with VFs of every sort.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bedplate_base::Arch;
use bedplate_core::desired::Desired;
use bedplate_core::engine::{assume_cpu, observe};
use bedplate_core::kind;
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, LoadedProfile, load, shipped, show};
use bedplate_facts::{Depth, Facts};
use bedplate_render::{self as render, Job, Options, OutFile, RenderResult, TARGETS};
use bedplate_testhosts as demo;

/// VFs with every setting of a rule. A port's abilities are checked only when the setting is applied.
const VFS: &str = r#"schema = 1
[[sriov.devices]]
name = "compute"
select = { vendor = "15b3" }
vfs = 4
vf = { vlan = 100, vlan_qos = 3, trust = true, spoof_check = false, link_state = "auto" }
[modules.options.ib_core]
netns_mode = "0"
[modules.options.nvidia]
NVreg_GrdmaPciTopoCheckOverride = "1"
[sysctl]
set = { "kernel.numa_balancing" = 0, "net/ipv4/conf/eth0.100/rp_filter" = 2 }
"#;

/// A target's rendering of a profile.
pub struct Made {
    pub what: String,
    pub rendered: RenderResult,
}

impl Made {
    pub fn file(&self, path: &str) -> Option<&OutFile> {
        self.rendered.file(path)
    }
}

fn demo_for(profile: &str) -> &'static str {
    match profile {
        "grace" | "generic-arm" | "dgx-spark" => "grace",
        "gb200" => "gb200",
        "gb300" => "gb300",
        "vera-rubin" => "vera-rubin",
        "b300" => "b300",
        "l40s" => "epyc-l40s",
        "generic-amd" | "mi300x" | "mi325x" | "mi350x" => "mi300x",
        _ => "hgx",
    }
}

/// Renders a target for every shipped profile, each with and without VFs.
///
/// # Panics
///
/// If one cannot be rendered.
pub fn made(target: &str) -> Vec<Made> {
    made_with(target, &Options::default())
}

/// A profile on its host.
struct Resolved {
    what: String,
    loaded: LoadedProfile,
    facts: Facts,
    desired: Desired,
}

/// Returns every shipped profile with and without VFs: the same for all targets and options.
fn resolved() -> Vec<Resolved> {
    let mut hosts = BTreeMap::new();
    let mut all = Vec::new();
    for profile in shipped() {
        let host = demo_for(profile.name);
        let facts: &Facts = hosts
            .entry(host)
            .or_insert_with(|| observe(&demo::snapshot(host).unwrap(), Depth::Plan));
        for more in [None, Some(VFS)] {
            let what = format!("{}{}", profile.name, more.map_or("", |_| " with VFs"));
            let own = LayerText { path: "profile.toml", text: profile.text };
            let layers: Vec<LayerText<'_>> = std::iter::once(own)
                .chain(more.map(|text| LayerText { path: "profile.d/50-vfs.toml", text }))
                .collect();
            let loaded = load(&layers, shipped()).unwrap_or_else(|_| panic!("{what}: no profile"));
            let mut facts = facts.clone();
            assume_cpu(&mut facts, &loaded.profile);
            let desired = kind::resolve(&loaded.profile, &facts, &Ledger::default());
            all.push(Resolved { what, loaded, facts, desired });
        }
    }
    assert!(all.len() >= 30, "only {} profiles", all.len() / 2);
    all
}

/// The same with options. Architecture, CPU and text of the profile come from the profile and its host.
pub fn made_with(target: &str, options: &Options) -> Vec<Made> {
    static RESOLVED: OnceLock<Vec<Resolved>> = OnceLock::new();
    let target = render::target(target).unwrap();
    let made = |Resolved { what, loaded, facts, desired }: &Resolved| {
        let what = format!("{} for {what}", target.name);
        let options = Options {
            arch: facts.arch.known().copied().unwrap_or(Arch::X86_64),
            cpu: facts.cpu.vendor.known().copied(),
            profile_text: Some(show(loaded, false)),
            // Selectors have separate tests.
            pin_addresses: true,
            ..options.clone()
        };
        let rendered = render::render(target, &loaded.profile, facts, desired, &options)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        Made { what, rendered }
    };
    RESOLVED.get_or_init(resolved).iter().map(made).collect()
}

#[test]
fn every_target_renders_every_shipped_profile() {
    let options = Options {
        talos_version: Some("1.14".to_owned()),
        job: Job { image: Some("registry.example/nccl-tests".to_owned()), ..Job::default() },
        ..Options::default()
    };
    for target in TARGETS {
        let all = made_with(target.name, &options);
        let files = all.iter().filter(|made| !made.rendered.files.is_empty()).count();
        assert!(files >= 4, "{}: only {files} of {} made files", target.name, all.len());
        for Made { what, rendered } in &all {
            for file in &rendered.files {
                assert!(
                    file.text.ends_with('\n') && !file.text.contains('\r'),
                    "{what}: {}",
                    file.path
                );
            }
        }
    }
}
