//! Desired states for the render tests, from an empty one to one with everything.

use bedplate_base::CpuVendor;
use bedplate_base::value::{AcsBits, RegisterBits};
use bedplate_cmdline::Token;
use bedplate_core::desired::{
    ArgSource, Desired, DesiredCmdline, DesiredModules, KernelArg, SriovRule, WantedAcs,
    WantedModule, WantedOption, WantedVfs,
};
use bedplate_core::plan::Rationale;
use bedplate_core::profile::model::{AcsPolicy, ModuleLoad, Profile, VfDriver};
use bedplate_core::profile::{LayerText, load};
use bedplate_facts::Facts;
use bedplate_render::{Options, RenderResult};

/// A named desired state, and the profile with the settings that need no facts of a host.
pub struct Case {
    pub name: &'static str,
    pub profile: Profile,
    pub desired: Desired,
}

/// Renders a case for a target.
///
/// # Panics
///
/// If it cannot be rendered.
pub fn render(target: &str, case: &Case, options: &Options) -> RenderResult {
    let facts = Facts::of_vendor(CpuVendor::Intel);
    bedplate_render::render(
        bedplate_render::target(target).unwrap(),
        &case.profile,
        &facts,
        &case.desired,
        options,
    )
    .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

const SYSCTL: &str = r#"[sysctl]
set = { "kernel.numa_balancing" = 0, "net.ipv4.tcp_rmem" = "4096 131072 6291456", "net/ipv4/conf/eth0.100/rp_filter" = 2 }
"#;

/// The rules behind the VFs of [`everything`].
const VFS: &str = r#"
[[sriov.devices]]
name = "compute"
select = { address = "0000:18:00.0" }
vfs = 8
[[sriov.devices]]
name = "guests"
select = { address = "10000:e2:00.1" }
vfs = 16
vf_driver = "vfio-pci"
"#;

fn profile(sections: &str) -> Profile {
    let text = format!("schema = 1\n{sections}");
    load(&[LayerText { path: "test.toml", text: &text }], &[]).unwrap().profile
}

fn why() -> Vec<Rationale> {
    vec![Rationale::new("it is asked for: 100% # \"really\"", "handbook §10.1")]
}

fn arguments(set: &[&str], absent: &[&str]) -> Desired {
    let from = |token: &str| match token.starts_with("pci=config_acs") {
        true => ArgSource::Acs,
        false => ArgSource::Cmdline,
    };
    let arg =
        |text: &&str| KernelArg { token: Token::new(text).unwrap(), why: why(), from: from(text) };
    let cmdline = DesiredCmdline {
        keep: Vec::new(),
        unchanged: Vec::new(),
        set: set.iter().map(arg).collect(),
        absent: absent.iter().map(arg).collect(),
    };
    Desired { cmdline, ..Desired::default() }
}

fn modules() -> DesiredModules {
    let load = |name: &str| WantedModule {
        name: name.parse().unwrap(),
        load: ModuleLoad::Now,
        why: why(),
    };
    let option = |module: &str, parameter: &str, value: &str| WantedOption {
        module: module.parse().unwrap(),
        parameter: parameter.to_owned(),
        value: value.to_owned(),
        why: why(),
    };
    DesiredModules {
        load: vec![load("ib_uverbs"), load("nvidia_uvm")],
        options: vec![
            option("ib_core", "netns_mode", "0"),
            option("nvidia_uvm", "uvm_ats_mode", "0"),
            option("nvidia", "NVreg_RegistryDwords", "\"PeerMappingOverride=1; ForceP2P=0x11\""),
        ],
        blacklist: vec![load("nouveau")],
        unload: vec![load("nouveau")],
    }
}

fn vfs(rule: &str, pf: &str, count: u16, vf_driver: VfDriver) -> WantedVfs {
    WantedVfs {
        pf: pf.parse().unwrap(),
        count,
        rule: SriovRule { name: rule.to_owned(), vf_driver, ..SriovRule::default() },
        why: why(),
    }
}

fn everything() -> Desired {
    let acs = "pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0;xx000x0@pci:10b5:8747";
    let mut desired = arguments(
        &["iommu=pt", "intel_iommu=on", "pci=realloc,noats", "hugepages=64", acs],
        &["nomodeset", "iommu=off", "pci=noari"],
    );
    desired.modules = modules();
    let port = |port: &str| WantedAcs {
        port: port.parse().unwrap(),
        bits: RegisterBits { mask: AcsBits::REDIRECT.0, value: 0 },
        why: why(),
        vfio_below: Vec::new(),
    };
    desired.acs.policy = AcsPolicy::DirectP2p;
    desired.acs.ports = vec![port("0000:17:00.0"), port("10000:e1:00.0")];
    desired.sriov = vec![
        vfs("compute", "0000:18:00.0", 8, VfDriver::Auto),
        vfs("guests", "10000:e2:00.1", 16, VfDriver::Named("vfio-pci".to_owned())),
    ];
    desired
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let case = |name, desired| Case { name, profile: profile(""), desired };
    vec![
        case("nothing", Desired::default()),
        case("one argument", arguments(&["iommu=pt"], &[])),
        case("only removals", arguments(&[], &["nomodeset", "pci=noats"])),
        case(
            "arguments that loaders and shells stumble over",
            arguments(
                &[
                    "pci=config_acs=1@0000:17:00.0;0@0000:3a:00.0",
                    "a.b=$HOME",
                    "c={d}",
                    "e=f|g",
                    "h=<i>",
                    "j=`k`",
                    "l=#m",
                    "n=*",
                    "o=~p",
                    "q=!r",
                    "s=(t)",
                    "systemd.unit=x@y.service",
                ],
                &[],
            ),
        ),
        case(
            "a value with blanks",
            arguments(&["dyndbg=\"file a.c +p; file b.c +p\"", "quiet"], &[]),
        ),
        case(
            "sizes in order",
            arguments(&["hugepagesz=1G", "hugepages=16", "hugepagesz=2M", "hugepages=1024"], &[]),
        ),
        case("only modules", Desired { modules: modules(), ..Desired::default() }),
        Case {
            name: "only kernel parameters",
            profile: profile(SYSCTL),
            desired: Desired::default(),
        },
        Case {
            name: "everything",
            profile: profile(&format!("{SYSCTL}{VFS}")),
            desired: everything(),
        },
    ]
}
