//! The shipped profiles on hosts that they are for, as they are and with VFs of every sort.

use bedplate_base::cpu::Arch;
use bedplate_core::engine::{assume_cpu, observe};
use bedplate_core::kind;
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, load, shipped, show};
use bedplate_facts::Depth;
use bedplate_render::{Job, Options, OutFile, Rendered, TARGETS};
use bedplate_testhosts as demo;

/// VFs with what a rule can say of them; what a port cannot have is not checked before it is applied.
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

/// What a target made of a profile.
pub struct Made {
    pub what: String,
    pub rendered: Rendered,
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

/// A target for every shipped profile, each with and without VFs.
///
/// # Panics
/// When one cannot be rendered.
pub fn made(target: &str) -> Vec<Made> {
    made_with(target, &Options::default())
}

/// The same with options; architecture, CPU and text of the profile are the profile's and its host's.
pub fn made_with(target: &str, options: &Options) -> Vec<Made> {
    let target = bedplate_render::target(target).unwrap();
    let mut all = Vec::new();
    for profile in shipped() {
        for more in [None, Some(VFS)] {
            let what =
                format!("{} for {}{}", target.name, profile.name, more.map_or("", |_| " with VFs"));
            let own = LayerText { path: "profile.toml", text: profile.text };
            let layers: Vec<LayerText<'_>> = std::iter::once(own)
                .chain(more.map(|text| LayerText { path: "profile.d/50-vfs.toml", text }))
                .collect();
            let loaded = load(&layers, shipped()).unwrap_or_else(|_| panic!("{what}: no profile"));
            let host = demo::snapshot(demo_for(profile.name)).unwrap();
            let mut facts = observe(&host, Depth::Plan);
            assume_cpu(&mut facts, &loaded.profile);
            let desired = kind::resolve(&loaded.profile, &facts, &Ledger::default());
            let options = Options {
                arch: facts.arch.known().copied().unwrap_or(Arch::X86_64),
                cpu: facts.cpu.vendor.known().copied(),
                profile_text: Some(show(&loaded, false)),
                // Selectors are in tests of their own.
                pin_addresses: true,
                ..options.clone()
            };
            let rendered =
                bedplate_render::render(target, &loaded.profile, &facts, &desired, &options)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            all.push(Made { what, rendered });
        }
    }
    assert!(all.len() >= 30, "only {} profiles", all.len() / 2);
    all
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
