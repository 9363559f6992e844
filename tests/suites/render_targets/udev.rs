//! Link files and rules, read by udev.

use std::fs;
use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures::{mount_namespaces, tool};

use crate::consumers::{text_of, write};
use crate::shipped::{Made, made};

/// Runs udev's own programs with only our rules and links in /etc.
fn beside_udev(directory: &Path, mounted: &str, command: &str) -> String {
    let user: &[&str] =
        if nix::unistd::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    mount_namespaces();
    let script = format!("mkdir -p {mounted}; mount --bind \"$1\" {mounted} && {command}");
    let output = Command::new(tool("unshare"))
        .args(user)
        .args(["--mount", "--propagation=private", "sh", "-c", &script, "sh"])
        .arg(directory)
        .env("SYSTEMD_LOG_LEVEL", "debug")
        .output()
        .unwrap();
    text_of(&output)
}

#[test]
#[cfg_attr(
    not(all(has = "mount-namespaces", has = "udevadm", has = "unshare")),
    ignore = "needs mount-namespaces, udevadm and unshare"
)]
fn udev_reads_every_link_file() {
    let udevadm = tool("udevadm");
    let command = format!("{} test-builtin net_setup_link /sys/class/net/lo", udevadm.display());
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("10-wrong.link"),
        "[Match]\nPath=pci-0\n[Link]\nVirtualFunctions=1\n",
    )
    .unwrap();
    let said = beside_udev(directory.path(), "/etc/systemd/network", &command);
    assert!(said.contains("10-wrong.link:4: Unknown key"), "{said}");
    let mut files = 0;
    for Made { what, rendered } in made("networkd") {
        if !rendered.files.iter().any(|file| file.path.ends_with(".link")) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        write(&rendered, directory.path());
        let links = directory.path().join("etc/systemd/network");
        let said = beside_udev(&links, "/etc/systemd/network", &command);
        for file in rendered.files.iter().filter(|file| file.path.ends_with(".link")) {
            let path = format!("/{}", file.path);
            assert!(
                said.contains(&format!("Parsed configuration file \"{path}\"")),
                "{what}: {said}"
            );
            assert!(!said.contains(&format!("{path}:")), "{what}: {said}");
            files += 1;
        }
    }
    assert!(files >= 30, "{files}");
}

#[test]
#[cfg_attr(
    not(all(has = "mount-namespaces", has = "udevadm", has = "unshare")),
    ignore = "needs mount-namespaces, udevadm and unshare"
)]
fn udev_reads_every_rule() {
    let udevadm = tool("udevadm");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("70-bedplate-sriov.rules");
    // Since systemd 254. Before, udev reads the rules to test them on a device, and complaints name file and line.
    let verify =
        Command::new(&udevadm).args(["verify", "--help"]).output().unwrap().status.success();
    let read = |text: &str| -> (bool, String) {
        fs::write(&path, text).unwrap();
        if verify {
            let output =
                Command::new(&udevadm).args(["verify", "--no-style"]).arg(&path).output().unwrap();
            return (output.status.success(), text_of(&output));
        }
        let command = format!("{} test /sys/class/net/lo", udevadm.display());
        let said = beside_udev(directory.path(), "/etc/udev/rules.d", &command);
        assert!(
            said.contains("Reading rules file: /etc/udev/rules.d/70-bedplate-sriov.rules"),
            "{said}"
        );
        (!said.contains("70-bedplate-sriov.rules:"), said)
    };
    let (good, said) = read("ACTION==\"add\", ATTR{x}==\"0\", ATTRIBUTE{x}=\"1\"\n");
    assert!(!good, "{said}");
    let mut files = 0;
    for Made { what, rendered } in made("udev") {
        let Some(file) = rendered.file("etc/udev/rules.d/70-bedplate-sriov.rules") else {
            continue;
        };
        let (good, said) = read(&file.text);
        assert!(good, "{what}: {said}\n{}", file.text);
        files += 1;
    }
    assert!(files >= 20, "{files}");
}
