//! Every target, for every CPU vendor with the profile alone and for every demo: each setting of the profile is in a file,
//! left to bedplate by a profile that the files include, or listed.

use bedplate_base::{Arch, CpuVendor};
use bedplate_core::desired::Desired;
use bedplate_core::engine::{assume_cpu, observe};
use bedplate_core::kind;
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, LoadedProfile, load, show};
use bedplate_facts::{Depth, Facts};
use bedplate_render::{Options, RenderResult, TARGETS};
use bedplate_testhosts as demo;

const PROFILE: &str = r#"schema = 1
name = "matrix"
[iommu]
mode = "passthrough"
[cmdline]
args = ["pci=realloc", "panic=30"]
absent = ["nosmt", "pci=noats"]
[modules]
gpudirect = "auto"
load = ["ib_uverbs"]
blacklist = ["nouveau"]
[modules.options.ib_core]
netns_mode = "0"
[sysctl]
set = { "kernel.numa_balancing" = 0 }
[acs]
policy = "direct-p2p"
[nccl]
hca = "near-gpus"
topology_file = true
socket_interface = "=bond0"
[cufile]
set = { "properties.use_pci_p2pdma" = true }
[[sriov.devices]]
name = "compute"
select = { vendor = "15b3", device = "1021" }
vfs = 4
vf = { trust = true }
[[sriov.devices]]
name = "near"
select = { vendor = "8086" }
vfs = "per-gpu"
"#;

struct Machine {
    name: String,
    facts: Facts,
}

fn machines(loaded: &LoadedProfile) -> Vec<Machine> {
    let vendors = [CpuVendor::Intel, CpuVendor::Amd, CpuVendor::Arm];
    let alone = vendors
        .map(|vendor| Machine { name: format!("{vendor:?}"), facts: Facts::of_vendor(vendor) });
    let demos = demo::names().map(|name| {
        let mut facts = observe(&demo::snapshot(name).unwrap(), Depth::Plan);
        assume_cpu(&mut facts, &loaded.profile);
        Machine { name: name.to_owned(), facts }
    });
    alone.into_iter().chain(demos).collect()
}

/// A rendering with queries.
struct Answer {
    /// All files, without the escapes of YAML, URLs, shells and GRUB.
    text: String,
    rendered: RenderResult,
}

impl Answer {
    fn from_rendered(rendered: RenderResult) -> Self {
        let text: String = rendered.files.iter().map(|file| file.text.as_str()).collect();
        let codes = [
            ("%3D", "="),
            ("%2C", ","),
            ("%22", "\""),
            ("%20", " "),
            ("%5B", "["),
            ("%2F", "/"),
            ("%7B", "{"),
            ("%7D", "}"),
        ];
        let text = codes.iter().fold(text, |text, (code, plain)| text.replace(code, plain));
        Answer { text: text.replace(['\\', '"', '\''], ""), rendered }
    }

    fn lists(&self, id: &str) -> bool {
        let ids = self.rendered.inexpressible.iter().map(|item| &item.id);
        ids.chain(self.rendered.deferred.iter().map(|item| &item.id)).any(|listed| listed == id)
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    fn remarks(&self, word: &str) -> bool {
        self.rendered.notes.iter().any(|note| note.contains(word))
    }
}

/// Returns settings that are neither in a file nor listed.
fn missing(answer: &Answer, facts: &Facts, desired: &Desired) -> Vec<String> {
    let mut missing = Vec::new();
    let mut need = |is_there: bool, what: &str| {
        if !is_there {
            missing.push(what.to_owned());
        }
    };
    for wanted in &desired.cmdline.set {
        let token = wanted.token.as_str();
        let (name, value) = token.split_once('=').unwrap_or((token, ""));
        let part = if name == "pci" { value } else { token };
        need(answer.says(&[part]) || answer.lists(&format!("cmdline/{name}")), token);
    }
    for unwanted in &desired.cmdline.absent {
        let token = unwanted.token.as_str();
        need(answer.says(&[token]) || answer.remarks(token), &format!("{token} absent"));
    }
    for (id, words) in [
        ("modules/ib_uverbs", &["ib_uverbs"][..]),
        ("modules/nouveau", &["blacklist nouveau"]),
        ("modules/ib_core.netns_mode", &["netns_mode=0", "rdmaMode: exclusive"]),
        (
            "sysctl/kernel.numa_balancing",
            &["numa_balancing = 0", "numa_balancing=0", "numa_balancing: 0"],
        ),
        ("file/etc/nccl.conf", &["NCCL_SOCKET_IFNAME==bond0"]),
        ("file/etc/cufile.json", &["use_pci_p2pdma"]),
        ("nccl/hca", &[]),
        ("nccl/topology_file", &[]),
        ("sriov/compute", &["sriov_numvfs}=4", "SR-IOVVirtualFunctions=4", "numVfs: 4"]),
        ("sriov.vf/compute", &["Trust=yes"]),
        ("sriov/near", &[]),
    ] {
        need(answer.lists(id) || answer.says(words), id);
    }
    if facts.sees_devices() {
        for wanted in
            desired.acs.ports.iter().filter(|wanted| !desired.acs.persistence.carries(wanted))
        {
            need(answer.lists(&format!("acs/{}", wanted.port)), &wanted.port.to_string());
        }
    } else {
        need(answer.lists("acs"), "acs");
        need(answer.lists("modules/gpudirect") || answer.says(&["kernelModuleType"]), "gpudirect");
    }
    missing
}

#[test]
fn no_setting_is_omitted_silently() {
    let loaded = load(&[LayerText { path: "matrix.toml", text: PROFILE }], &[])
        .unwrap_or_else(|_| panic!("no profile"));
    let machines = machines(&loaded);
    assert!(machines.len() > 10, "{}", machines.len());
    let mut wrong = Vec::new();
    // A job does not configure a host.
    for target in TARGETS.iter().filter(|target| target.name != "nccl-job") {
        for machine in &machines {
            let desired = kind::resolve(&loaded.profile, &machine.facts, &Ledger::default());
            let options = Options {
                arch: machine.facts.arch.known().copied().unwrap_or(Arch::X86_64),
                cpu: machine.facts.cpu.vendor.known().copied(),
                profile_text: Some(show(&loaded, false)),
                talos_version: Some("1.13".to_owned()),
                ..Options::default()
            };
            let rendered = bedplate_render::render(
                target,
                &loaded.profile,
                &machine.facts,
                &desired,
                &options,
            );
            let answer = Answer::from_rendered(rendered.unwrap());
            // The files of these targets run bedplate in the image, which applies the rest.
            let applies = ["mkosi", "packer"].contains(&target.name)
                && answer.says(&["bedplate apply --root"]);
            let brings = answer.says(&["policy = direct-p2p"]);
            assert!(answer.rendered.deferred.is_empty() || brings, "{}: no profile", target.name);
            for what in missing(&answer, &machine.facts, &desired) {
                let in_image = applies && brings && what != "acs" && what != "gpudirect";
                if !in_image {
                    wrong.push(format!("{} for {}: {what}", target.name, machine.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
