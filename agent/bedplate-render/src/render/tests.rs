//! Tests of all targets.

use super::*;
use crate::common::tests::{desired, of_text, with_profile};
use crate::{GrubFamily, Job, OutFile, is_ours};
use bedplate_base::value::vf::EswitchMode;
use bedplate_base::{CpuVendor, Reading};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::KindId;

fn made(target: &Target, desired: &Desired, options: &Options) -> RenderResult {
    let sections =
        "[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n[limits]\nmemlock = \"unlimited\"\n";
    let mut made = written(target, with_profile(sections, desired), options).unwrap();
    made.inexpressible.extend(common::unresolved(desired));
    made.notes.extend(common::remarks(desired, true));
    made
}

fn options() -> Options {
    Options {
        talos_version: Some("1.11".to_owned()),
        job: Job { image: Some("registry.example/nccl-tests".to_owned()), ..Job::default() },
        profile_text: Some(
            "schema = 1\n[sysctl.set]\n\"kernel.numa_balancing\" = \"0\"\n".to_owned(),
        ),
        ..Options::default()
    }
}

#[test]
fn targets_are_sorted_and_found_by_name() {
    assert!(TARGETS.is_sorted_by_key(|target| target.name));
    for row in TARGETS {
        assert_eq!(target(row.name).unwrap().about, row.about);
    }
    let error = target("grup").err().unwrap().to_string();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert!(error.contains(&names.join(", ")), "{error}");
}

#[test]
fn every_target_is_deterministic_and_has_headings() {
    for target in TARGETS {
        let rendered = made(target, &desired(), &options());
        assert_eq!(rendered, made(target, &desired(), &options()), "{}", target.name);
        for file in &rendered.files {
            assert!(!file.path.starts_with('/') && !file.path.contains(".."), "{}", file.path);
            assert!(file.text.ends_with('\n'), "{}", file.path);
            // The schematic's id is the hash of its bytes, so it must not have a comment; JSON has no comments.
            let bare = file.path.starts_with("schematic.") || file.path.ends_with(".ign");
            let headed = file.text.contains("# written by bedplate from profile hgx;");
            assert_eq!(headed, !bare, "{}", file.path);
            // Files that bedplate also writes to hosts are the same for every release.
            let of_hosts = [".d/zz-bedplate.conf", "modules-load.d/bedplate.conf"];
            let stamped = file
                .text
                .contains(&format!("# {}\n", stamp(options().profile_text.as_deref().unwrap())));
            let plain = bare || of_hosts.iter().any(|name| file.path.ends_with(name));
            assert_eq!(stamped, !plain, "{}", file.path);
        }
    }
}

#[test]
fn empty_profile_renders_no_files() {
    let nothing = with_profile("", &Desired::default());
    for name in ["grub", "ignition", "machineconfig", "tuned", "udev"] {
        let rendered = written(target(name).unwrap(), nothing.clone(), &Options::default());
        assert_eq!(rendered.unwrap(), RenderResult::default(), "{name}");
    }
}

#[test]
fn every_target_lists_paths_of_its_files() {
    let fits = |pattern: &str, path: &str| match pattern.split_once('*') {
        Some((before, after)) => path.starts_with(before) && path.ends_with(after),
        None => path == pattern,
    };
    for family in [GrubFamily::Debian, GrubFamily::Rhel] {
        let options = Options { grub_family: family, ..options() };
        for target in TARGETS {
            for file in made(target, &desired(), &options).files {
                let known = target.paths(&options);
                let known = known.iter().any(|pattern| fits(pattern, &file.path));
                assert!(known, "{}: {}", target.name, file.path);
                let bare = file.path.starts_with("schematic.");
                assert_eq!(is_ours(&file.path, &file.text), !bare, "{}", file.path);
            }
        }
    }
    assert!(!is_ours("tasks/main.yml", "- name: of another\n"));
}

#[test]
fn every_target_renders_or_lists_all_contributions() {
    let mut desired = desired();
    desired.sriov[0].rule.vf.mac = true;
    desired.sriov[0].rule.eswitch = Some(EswitchMode::Switchdev);
    // A job does not configure hosts.
    for target in TARGETS.iter().filter(|target| target.name != "nccl-job") {
        let rendered = made(target, &desired, &options());
        let listed = |what: &str| {
            let left = rendered.inexpressible.iter().filter(|item| !item.instead.is_empty());
            let left = left.map(|item| &item.what);
            left.chain(rendered.deferred.iter().map(|item| &item.what))
                .any(|listed| listed.contains(what))
        };
        assert!(listed("ACS control of port 0000:17:01.0"), "{}", target.name);
        assert!(listed("unload module nouveau"), "{}", target.name);
        let says = |file: &OutFile, parts: &[&str]| {
            let text = file.text.replace("%3A", ":").replace("%3D", "=").replace("%22", "\"");
            parts.iter().all(|part| text.contains(part))
        };
        let words: [&[&str]; 4] = [
            &["0000:18:00.0/sriov_numvfs"],
            &["\"0000:18:00.0\"", "ATTR{sriov_numvfs}=\"8\""],
            &["Path=pci-0000:18:00.0\n", "SR-IOVVirtualFunctions=8\n"],
            &["rootDevices:\n    - \"0000:18:00.0\"\n", "numVfs: 8\n"],
        ];
        let in_files = rendered.files.iter().any(|file| {
            let unquoted = OutFile {
                text: file.text.replace("\\\"", "\"").replace("%7B", "{").replace("%7D", "}"),
                ..file.clone()
            };
            words.iter().any(|parts| says(&unquoted, parts))
        });
        assert!(in_files || listed("8 VFs on 0000:18:00.0"), "{}", target.name);
        assert!(listed("VFs of rule compute: MAC address derived"), "{}", target.name);
        let mode = rendered.files.iter().any(|file| file.text.contains("eSwitchMode: switchdev"));
        assert!(mode || listed("eswitch of the PFs of rule compute: switchdev"), "{}", target.name);
        let sysctl = rendered.files.iter().any(|file| file.text.contains("kernel.numa_balancing"));
        assert!(sysctl || listed("kernel.numa_balancing"), "{}", target.name);
    }
}

#[test]
fn every_target_reports_blockers_unknowns_and_notes() {
    let text = |text: &str| text.to_owned();
    let mut desired = desired();
    desired.blockers.push(KindId::Sriov.blocker(
        text("0000:18:00.0"),
        text("firmware offers 4 VFs"),
        text("mlxconfig"),
    ));
    desired.unknowns.push(KindId::Acs.unknown(text("PCI tree"), text("not recorded")));
    desired.notes.push(KindId::Sriov.note(text("0000:2a:00.0"), text("left alone")));
    for target in TARGETS {
        let made = made(target, &desired, &options());
        let left = made
            .inexpressible
            .iter()
            .map(|item| format!("{}: {}; {}", item.what, item.why, item.instead));
        let notes: Vec<String> = made.notes.iter().cloned().chain(left).collect();
        let notes = notes.join("\n");
        for part in ["firmware offers 4 VFs", "mlxconfig", "PCI tree", "left alone"] {
            assert!(notes.contains(part), "{}: {part} not in {notes}", target.name);
        }
    }
}

/// A list with `;`, and a value with blanks, as documented for each target in docs/render.md.
#[test]
fn arguments_are_quoted_for_their_reader() {
    let list = "ds=nocloud;s=http://host/";
    let blanks = "dyndbg=\"file a.c +p\"";
    let mut desired = super::common::tests::empty_desired();
    desired.cmdline.set = [list, blanks].map(super::common::tests::arg).to_vec();
    let written = |target: &Target, family: GrubFamily, words: &[&str]| {
        let options = Options { grub_family: family, ..options() };
        let rendered = made(target, &desired, &options);
        let listed = |token: &str| {
            let what = format!("kernel argument `{token}`");
            rendered.inexpressible.iter().any(|item| item.what == what)
        };
        // Reasons in comment lines quote the argument as written in the profile.
        let lines = rendered.files.iter().flat_map(|file| file.text.lines());
        let text: Vec<&str> = lines.filter(|line| !line.trim_start().starts_with("# ")).collect();
        let text = text.join("\n");
        for (word, token) in words.iter().zip([list, blanks]) {
            match word.is_empty() {
                true => assert!(listed(token), "{}: {token}", target.name),
                false => {
                    assert!(text.contains(word), "{}: {word} not in {text}", target.name);
                    assert!(!listed(token), "{}: {token}", target.name);
                }
            }
        }
    };
    // GRUB's quotes in a boot entry, and the same escaped in a format with its own quotes: shell or JSON.
    let entry = ["ds=\"nocloud;s=http://host/\"", blanks];
    let escaped = entry.map(|word| word.replace('"', "\\\""));
    let escaped: [&str; 2] = [&escaped[0], &escaped[1]];
    let mut seen = 0;
    for target in TARGETS {
        let words: [&str; 2] = match target.name {
            "grub" | "ansible" | "cloud-init" | "ignition" => escaped,
            "bootc" | "butane" | "machineconfig" => entry,
            "kernel-install" | "talos" => [list, ""],
            // These contain the profile; `apply --root` writes the arguments.
            "mkosi" | "packer" => continue,
            // It is for hosts that already have the arguments.
            "nccl-job" => continue,
            _ => ["", ""],
        };
        written(target, GrubFamily::Debian, &words);
        seen += 1;
    }
    assert_eq!(seen, TARGETS.len() - 3);
}

/// The vendor determines which arguments enable the IOMMU.
#[test]
fn unknown_cpu_is_reported() {
    let mut builder = Facts::of_vendor(CpuVendor::Intel);
    builder.cpu.vendor = Reading::unknown("/proc/cpuinfo is not there");
    let facts = builder.of_the_same_cpu();
    let profile = of_text("schema = 1\nname = \"p\"\n[iommu]\nmode = \"passthrough\"\n");
    let desired = kind::resolve(&profile, &facts, &Ledger::default());
    let rendered = render(target("grub").unwrap(), &profile, &facts, &desired, &options()).unwrap();
    let ids: Vec<&str> = rendered.inexpressible.iter().map(|item| item.id.as_str()).collect();
    assert!(!ids.is_empty(), "{rendered:?}");
}
