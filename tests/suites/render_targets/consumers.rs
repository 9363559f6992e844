//! Rendered files, read by the programs that consume them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bedplate_render::{GrubFamily, Options, RenderResult};
use bedplate_tests::fixtures::{document, tool};
use linux_kernel_cmdline::utf8::Cmdline;
use serde_json::Value;

use crate::shipped::{Made, made, made_with};

/// Writes the rendered files below a directory.
pub fn write(rendered: &RenderResult, directory: &Path) {
    for file in &rendered.files {
        let path = directory.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode)).unwrap();
    }
}

/// Returns stdout and stderr of a program.
pub fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub fn succeeds(command: &mut Command, what: &str) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    assert!(output.status.success(), "{what}: {}: {said}", output.status);
    said
}

#[test]
#[cfg_attr(not(has = "ignition-validate"), ignore = "needs ignition-validate")]
fn ignition_validate_accepts_every_configuration() {
    let validate = tool("ignition-validate");
    let some = made("ignition").into_iter().filter(|made| !made.rendered.files.is_empty());
    for Made { what, rendered } in some {
        let directory = tempfile::tempdir().unwrap();
        write(&rendered, directory.path());
        let said =
            succeeds(Command::new(&validate).arg(directory.path().join("bedplate.ign")), &what);
        assert!(!said.contains("warning") && !said.contains("Unused key"), "{what}: {said}");
    }
}

/// Debian has no package of Butane: the test translates its keys to Ignition's and compares with the other target.
#[test]
fn butane_matches_ignition() {
    for (bu, ign) in made("butane").iter().zip(made("ignition")) {
        let Some(file) = bu.file("bedplate.bu") else {
            assert!(ign.rendered.files.is_empty(), "{}", bu.what);
            continue;
        };
        let mut config = document(&file.text);
        let fields = config.as_object_mut().unwrap();
        assert_eq!(fields.remove("variant").unwrap(), "fcos");
        assert_eq!(fields.remove("version").unwrap(), "1.5.0");
        let mut expected: Value =
            serde_json::from_str(&ign.file("bedplate.ign").unwrap().text).unwrap();
        expected.as_object_mut().unwrap().remove("ignition");
        if let Some(arguments) = fields.remove("kernel_arguments") {
            let renamed = [("should_exist", "shouldExist"), ("should_not_exist", "shouldNotExist")];
            let all = renamed
                .iter()
                .filter_map(|(from, to)| Some(((*to).to_owned(), arguments.get(from)?.clone())));
            fields.insert("kernelArguments".to_owned(), all.collect());
        }
        let (ours, theirs) =
            (config.pointer_mut("/storage/files"), expected.pointer_mut("/storage/files"));
        let (ours, theirs) = (ours.map(Value::take), theirs.map(Value::take));
        let texts = |files: Option<Value>, key: &str, strip: &str| -> Vec<(Value, Value, String)> {
            let Some(Value::Array(files)) = files else { return Vec::new() };
            let one = |file: &Value| {
                let text =
                    file["contents"][key].as_str().unwrap().strip_prefix(strip).unwrap().to_owned();
                (file["path"].clone(), file["mode"].clone(), text)
            };
            files.iter().map(one).collect()
        };
        let ours = texts(ours, "inline", "");
        let theirs = texts(theirs, "source", "data:,");
        let theirs: Vec<_> =
            theirs.into_iter().map(|(path, mode, text)| (path, mode, decoded(&text))).collect();
        assert_eq!(ours, theirs, "{}", bu.what);
        assert_eq!(config, expected, "{}", bu.what);
    }
}

/// Butane refuses keys that its specification does not list (docs/config-fcos-v1_5.md of coreos/butane). For each mapping
/// the test lists the allowed keys.
#[test]
fn butane_files_have_only_keys_of_the_specification() {
    let known = |place: &str| -> &'static [&'static str] {
        match place {
            "" => &[
                "variant",
                "version",
                "ignition",
                "storage",
                "systemd",
                "passwd",
                "kernel_arguments",
                "boot_device",
                "grub",
            ],
            "kernel_arguments" => &["should_exist", "should_not_exist"],
            "storage" => {
                &["disks", "raid", "filesystems", "files", "directories", "links", "luks", "trees"]
            }
            "storage.files" => {
                &["path", "overwrite", "contents", "append", "mode", "user", "group"]
            }
            "storage.files.contents" => {
                &["source", "inline", "local", "compression", "http_headers", "verification"]
            }
            "systemd" => &["units"],
            "systemd.units" => {
                &["name", "enabled", "mask", "contents", "contents_local", "dropins"]
            }
            other => panic!("{other} is not written"),
        }
    };
    fn look(value: &Value, place: &str, known: &dyn Fn(&str) -> &'static [&'static str]) -> usize {
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| {
                    assert!(known(place).contains(&key.as_str()), "{place}: {key}");
                    let place = format!("{place}.{key}");
                    1 + look(value, place.trim_start_matches('.'), known)
                })
                .sum(),
            Value::Array(items) => items.iter().map(|item| look(item, place, known)).sum(),
            _ => 0,
        }
    }
    let files = made("butane");
    let texts = files.iter().filter_map(|made| made.file("bedplate.bu"));
    let keys: usize = texts.map(|file| look(&document(&file.text), "", &known)).sum();
    assert!(keys >= 100, "{keys}");
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

/// bootc rejects any other key, uses Rust's names of architectures, and reads all arguments as one line with the crate used
/// here (bootc-dev/bootc crates/lib/src/bootc_kargs.rs): each must remain one argument, with its quotes.
#[test]
fn kargs_files_are_read_by_bootc() {
    let (mut bound, mut quoted) = (0, 0);
    for made in made("bootc") {
        let Some(file) = made.file("usr/lib/bootc/kargs.d/50-bedplate.toml") else { continue };
        let table: toml::Table = toml::from_str(&file.text).unwrap();
        for (key, value) in &table {
            let list: Vec<&str> =
                value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            match key.as_str() {
                "kargs" => {
                    let line = Cmdline::from(list.join(" "));
                    assert_eq!(line.iter_str().collect::<Vec<_>>(), list, "{}", made.what);
                    assert!(!list.is_empty(), "{}", made.what);
                    quoted += list.iter().filter(|one| one.contains('"')).count();
                }
                "match-architectures" => {
                    let is_arm = table["kargs"].to_string().contains("\"iommu.");
                    let arch = if is_arm { "aarch64" } else { "x86_64" };
                    assert_eq!(list, [arch], "{}", made.what);
                    bound += 1;
                }
                other => panic!("{}: {other}", made.what),
            }
        }
    }
    assert!(bound >= 10 && quoted >= 3, "{bound} {quoted}");
}

#[test]
fn kernel_install_script_merges_the_line_once() {
    let tail = "-- single";
    for Made { what, rendered } in made("kernel-install") {
        let Some(script) = rendered.file("bedplate-kernel-cmdline.sh") else { continue };
        let directory = tempfile::tempdir().unwrap();
        write(&rendered, directory.path());
        let script_path = directory.path().join(&script.path);
        let root = directory.path().join("root");
        let file = root.join("etc/kernel/cmdline");
        let run = || Command::new(&script_path).arg(&root).output().unwrap();
        // Without a file the script could only use this machine's command line, so it fails.
        assert_eq!(run().status.code(), Some(1), "{what}");
        fs::create_dir_all(root.join("usr/lib/kernel")).unwrap();
        let before = "root=UUID=1  ro iommu=off intel-iommu=off console=* pci=noats";
        fs::write(root.join("usr/lib/kernel/cmdline"), format!("{before} {tail}\n")).unwrap();
        assert!(run().status.success(), "{what}: {}", text_of(&run()));
        let merged = fs::read_to_string(&file).unwrap();
        assert!(merged.starts_with("root=UUID=1 ro "), "{what}: {merged}");
        assert!(
            merged.ends_with(&format!(" {tail}\n")) && merged.contains(" console=* "),
            "{what}: {merged}"
        );
        if script.text.contains("ours='") && script.text.contains("iommu=pt") {
            assert!(
                !merged.contains("iommu=off") || merged.contains("intel-iommu=off"),
                "{what}: {merged}"
            );
            assert_eq!(merged.matches(" iommu=").count(), 1, "{what}: {merged}");
        }
        assert!(run().status.success());
        assert_eq!(fs::read_to_string(&file).unwrap(), merged, "{what}");
    }
}

/// Prints names and values as TuneD's own loader reads them.
const LOAD: &str = r#"
import json, sys
from tuned.profiles import factory, loader, locator, merger, variables
profile = loader.Loader(locator.Locator([sys.argv[1]]), factory.Factory(), merger.Merger(), None, variables.Variables()).load(["bedplate"])
print(json.dumps({name: dict(unit.options) for name, unit in profile.units.items()}))
"#;

#[test]
#[cfg_attr(not(has = "tuned"), ignore = "needs tuned")]
fn tuned_reads_its_profile() {
    tool("tuned");
    let mut seen = 0;
    for Made { what, rendered } in made("tuned") {
        let Some(file) = rendered.file("bedplate/tuned.conf") else { continue };
        let directory = tempfile::tempdir().unwrap();
        write(&rendered, directory.path());
        // TuneD belongs to the distribution's Python, whichever comes first in PATH.
        let output = Command::new("/usr/bin/python3")
            .args(["-c", LOAD])
            .arg(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{what}: {}", text_of(&output));
        let units: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut read = Vec::new();
        for (section, key) in [
            ("bootloader", "cmdline_bedplate"),
            ("sysctl", "kernel.numa_balancing"),
            ("modules", "nvidia"),
        ] {
            if let Some(value) = units[section][key].as_str() {
                assert!(file.text.contains(&format!("\n{key}={value}\n")), "{what}: {units}");
                read.push(section);
            }
        }
        if what.ends_with("with VFs") {
            assert!(read.contains(&"sysctl") && read.contains(&"modules"), "{what}: {units}");
            assert_eq!(units["sysctl"]["net.ipv4.conf.eth0/100.rp_filter"], "2", "{what}");
        }
        seen += read.len();
    }
    assert!(seen >= 60, "{seen}");
}

#[test]
#[cfg_attr(not(has = "cloud-init"), ignore = "needs cloud-init")]
fn cloud_init_accepts_every_key() {
    let cloud_init = tool("cloud-init");
    // Every run starts a Python with all of cloud-init's modules. Profiles differ only in values, so a sample is enough.
    let mut files = 0;
    for family in [GrubFamily::Debian, GrubFamily::Rhel] {
        let options = Options { grub_family: family, ..Options::default() };
        for Made { what, rendered } in
            made_with("cloud-init", &options).into_iter().skip(1).step_by(6)
        {
            let directory = tempfile::tempdir().unwrap();
            write(&rendered, directory.path());
            let file = directory.path().join("bedplate.cloud-config.yaml");
            let said = succeeds(
                Command::new(&cloud_init).args(["schema", "--config-file"]).arg(file),
                &what,
            );
            assert!(
                said.contains("Valid") && !said.to_lowercase().contains("deprecat"),
                "{what}: {said}"
            );
            files += 1;
        }
    }
    assert!(files >= 12, "{files}");
}

const PLAY: &str =
    "- hosts: localhost\n  gather_facts: false\n  connection: local\n  roles: [bedplate]\n";

#[test]
#[cfg_attr(not(has = "ansible-playbook"), ignore = "needs ansible-playbook")]
fn ansible_changes_nothing_the_second_time() {
    let playbook = tool("ansible-playbook");
    for family in [GrubFamily::Debian, GrubFamily::Rhel] {
        let options = Options { grub_family: family, ..Options::default() };
        // A run takes many seconds. Hosts differ only in values, so one is enough.
        let some = made_with("ansible", &options)
            .into_iter()
            .filter(|made| made.what.ends_with("hgx-h100 with VFs"));
        let mut plays = 0;
        for Made { what, rendered } in some {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("root");
            fs::create_dir_all(root.join("etc/default")).unwrap();
            fs::write(root.join("etc/default/grub"), "GRUB_TIMEOUT=5\n").unwrap();
            write(&rendered, &directory.path().join("roles/bedplate"));
            fs::write(directory.path().join("site.yml"), PLAY).unwrap();
            let play = |more: &[&str]| {
                let mut command = Command::new(&playbook);
                command
                    .args(["-i", "localhost,", "site.yml", "-e"])
                    .arg(format!("bedplate_root={}", root.display()));
                command
                    .args(more)
                    .current_dir(directory.path())
                    .env("HOME", directory.path())
                    .env("LC_ALL", "C.UTF-8");
                succeeds(&mut command, &what)
            };
            assert!(!play(&[]).contains("changed=0 "), "{what}");
            for _ in 0..2 {
                let said = play(&["--check"]);
                assert!(said.contains("changed=0 "), "{what}: {said}");
            }
            let said = play(&[]);
            assert!(said.contains("changed=0 "), "{what}: {said}");
            for file in rendered
                .files
                .iter()
                .filter_map(|file| Some((file.path.strip_prefix("files/")?, file)))
            {
                // A block of another file, and a script that stays with Ansible.
                if !["default-grub.append", "bedplate-is-done.sh"].contains(&file.0) {
                    assert_eq!(
                        fs::read_to_string(root.join(file.0)).unwrap(),
                        file.1.text,
                        "{what}"
                    );
                }
            }
            plays += 1;
        }
        assert_eq!(plays, 1);
    }
}

/// Scripts of all targets.
#[test]
#[cfg_attr(not(has = "shellcheck"), ignore = "needs shellcheck")]
fn shellcheck_has_no_complaint_about_scripts() {
    let shellcheck = tool("shellcheck");
    let mut scripts = 0;
    for target in ["ansible", "grub", "kernel-install", "mkosi", "packer"] {
        for family in [GrubFamily::Debian, GrubFamily::Rhel] {
            let options = Options { grub_family: family, ..Options::default() };
            // One process for all scripts, each below a directory with its profile's name.
            let directory = tempfile::tempdir().unwrap();
            let mut check = Command::new(&shellcheck);
            // `a= b=` is intended, and patterns of names from a profile may overlap.
            check.args(["--shell=sh", "--severity=warning", "--exclude=SC1007,SC2221,SC2222"]);
            let before = scripts;
            for Made { what, rendered } in made_with(target, &options) {
                let directory = directory.path().join(what);
                write(&rendered, &directory);
                for file in rendered.files.iter().filter(|file| file.mode & 0o100 != 0) {
                    check.arg(directory.join(&file.path));
                    scripts += 1;
                }
            }
            if scripts > before {
                succeeds(&mut check, target);
            }
        }
    }
    assert!(scripts >= 100, "{scripts}");
}
