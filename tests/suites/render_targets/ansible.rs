//! The rendered role on a running host, run by ansible-playbook: the next run repairs every failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bedplate_tests::{fixtures, program};

use crate::consumers::text_of;

/// A profile with settings for every step.
const PROFILE: &str = r#"schema = 1
name = "host"
[iommu]
mode = "passthrough"
[modules]
load = ["ib_uverbs"]
[modules.options.ib_core]
netns_mode = "0"
[sysctl]
set = { "kernel.numa_balancing" = 0 }
"#;

const PLAY: &str =
    "- hosts: localhost\n  gather_facts: false\n  connection: local\n  roles: [bedplate]\n";

/// Fake tools of the host. Each fails while `fail/NAME` exists, and otherwise changes files as the tool does.
const TOOLS: [(&str, &str); 6] = [
    (
        "update-grub",
        ". /etc/default/grub; for file in /etc/default/grub.d/*.cfg; do . \"$file\"; done\n\
         echo \"linux /vmlinuz root=/dev/vda1 ro $GRUB_CMDLINE_LINUX_DEFAULT\" >/boot/grub/grub.cfg",
    ),
    ("update-initramfs", "touch /boot/initrd.img-*"),
    ("dracut", "touch /boot/initramfs-*.img"),
    (
        "systemctl",
        "case $1 in restart) for module in $(grep -hv '^#' /etc/modules-load.d/*.conf); do mkdir -p /sys/module/$module; done ;; esac",
    ),
    (
        "sysctl",
        "case $1 in -n) cat \"$HOST/values/$(echo \"$2\" | tr / .)\" ;; \
         *) grep -h = /etc/sysctl.d/*.conf | while IFS=' =' read -r key value; do echo \"$value\" >\"$HOST/values/$(echo \"$key\" | tr / .)\"; done ;; esac",
    ),
    ("udevadm", ":"),
];

/// The fake grubby stores the default entry's line in a file.
const GRUBBY: &str = "case $1 in --info=*) echo \"args=\\\"$(cat \"$HOST/args\")\\\"\" ;; \
     *) for word; do case $word in --args=*) echo \"ro ${word#--args=}\" >\"$HOST/args\" ;; esac; done ;; esac";

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    fn new(family: &str) -> Host {
        let host = Host { directory: tempfile::tempdir().unwrap() };
        fs::write(host.at("p.toml"), PROFILE).unwrap();
        let (profile, role) = (host.at("p.toml"), host.at("roles/bedplate"));
        let (profile, role) = (profile.to_str().unwrap(), role.to_str().unwrap());
        let args =
            ["render", "ansible", "-p", profile, "--cpu", "intel", "--family", family, "-o", role];
        let rendered = program::run(&args);
        assert!(rendered.status.success(), "{}", text_of(&rendered));
        fs::write(host.at("site.yml"), PLAY).unwrap();
        for directory in
            ["fail", "values", "bin", "tree/boot/grub", "tree/sys/module", "tree/usr/local"]
        {
            fs::create_dir_all(host.at(directory)).unwrap();
        }
        // Unreadable files are not needed here.
        let _ = Command::new("cp").args(["-a", "/etc"]).arg(host.at("tree")).output().unwrap();
        for directory in
            ["default/grub.d", "modprobe.d", "modules-load.d", "sysctl.d", "udev/rules.d"]
        {
            let _ = fs::remove_dir_all(host.at("tree/etc").join(directory));
            fs::create_dir_all(host.at("tree/etc").join(directory)).unwrap();
        }
        fs::write(host.at("tree/etc/default/grub"), "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
            .unwrap();
        fs::write(host.at("tree/boot/grub/grub.cfg"), "linux /vmlinuz quiet\n").unwrap();
        let release = release();
        for image in [
            format!("vmlinuz-{release}"),
            format!("initrd.img-{release}"),
            format!("initramfs-{release}.img"),
        ] {
            fs::write(host.at("tree/boot").join(image), "").unwrap();
        }
        fs::write(host.at("args"), "ro quiet\n").unwrap();
        fs::write(host.at("values/kernel.numa_balancing"), "1\n").unwrap();
        for (name, does) in TOOLS.iter().chain(&[("grubby", GRUBBY)]) {
            let text = format!(
                "#!/bin/sh\n[ \"$1\" = -n ] || [ ! -e \"$HOST/fail/{name}\" ] || exit 1\n{does}\n"
            );
            let path = host.at("bin").join(name);
            fs::write(&path, text).unwrap();
            assert!(Command::new("chmod").arg("755").arg(&path).status().unwrap().success());
        }
        host
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// Runs the playbook while these tools fail.
    fn play(&self, playbook: &Path, failing: &[&str]) -> Output {
        fs::remove_dir_all(self.at("fail")).unwrap();
        fs::create_dir(self.at("fail")).unwrap();
        failing.iter().for_each(|name| fs::write(self.at("fail").join(name), "").unwrap());
        let binds = "for at in etc boot sys/module usr/local; do \
                     mount --bind \"$HOST/tree/$at\" \"/$at\" || exit 99; done\n\
                     exec \"$@\"";
        let path = std::env::var("PATH").unwrap();
        Command::new("unshare")
            .args(["-rm", "sh", "-c", binds, "sh"])
            .arg(playbook)
            .args(["-i", "localhost,", "site.yml"])
            .current_dir(self.directory.path())
            .env("HOST", self.directory.path())
            .env("HOME", self.directory.path())
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

/// Returns ansible-playbook. Requires user namespaces for the host.
fn playbook() -> PathBuf {
    fixtures::user_namespaces();
    fixtures::tool("ansible-playbook")
}

/// Returns a kernel release that has modules on this machine, if there is one.
fn release() -> String {
    let found = fs::read_dir("/lib/modules").into_iter().flatten().flatten().next();
    found.map_or("6.8.0-45-generic".to_owned(), |entry| {
        entry.file_name().to_string_lossy().into_owned()
    })
}

fn changed(output: &Output) -> bool {
    !text_of(output).contains("changed=0 ")
}

#[test]
#[cfg_attr(
    not(all(has = "ansible-playbook", has = "user-namespaces")),
    ignore = "needs ansible-playbook and user-namespaces"
)]
fn failed_step_is_done_by_the_next_run() {
    let playbook = playbook();
    let host = Host::new("debian");
    let has_arguments = || host.read("tree/boot/grub/grub.cfg").contains("iommu=pt");
    let first = host.play(&playbook, &["update-grub"]);
    assert!(!first.status.success() && !has_arguments(), "{}", text_of(&first));
    let second = host.play(&playbook, &["update-initramfs"]);
    assert!(!second.status.success() && has_arguments(), "{}", text_of(&second));
    let image = host.at("tree/boot").join(format!("initrd.img-{}", release()));
    let options = host.at("tree/etc/modprobe.d/zz-bedplate.conf");
    let age = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    assert!(age(&image) < age(&options));
    // Failed steps for the running system do not block the rest, and are retried.
    let third = host.play(&playbook, &["systemctl", "sysctl"]);
    assert!(!third.status.success() && age(&image) > age(&options), "{}", text_of(&third));
    assert_eq!(host.read("values/kernel.numa_balancing"), "1\n");
    assert!(!host.at("tree/sys/module/ib_uverbs").exists());
    let fourth = host.play(&playbook, &[]);
    assert!(fourth.status.success() && changed(&fourth), "{}", text_of(&fourth));
    assert_eq!(host.read("values/kernel.numa_balancing"), "0\n");
    assert!(host.at("tree/sys/module/ib_uverbs").exists());
    let fifth = host.play(&playbook, &[]);
    assert!(fifth.status.success() && !changed(&fifth), "{}", text_of(&fifth));
    // A menu without the arguments is noticed, whatever its origin.
    fs::write(host.at("tree/boot/grub/grub.cfg"), "linux /vmlinuz quiet\n").unwrap();
    let sixth = host.play(&playbook, &[]);
    assert!(sixth.status.success() && has_arguments(), "{}", text_of(&sixth));
}

#[test]
#[cfg_attr(
    not(all(has = "ansible-playbook", has = "user-namespaces")),
    ignore = "needs ansible-playbook and user-namespaces"
)]
fn entries_of_rhel_are_read_back() {
    let playbook = playbook();
    let host = Host::new("rhel");
    fs::create_dir_all(host.at("tree/etc/kernel")).unwrap();
    fs::write(host.at("tree/etc/kernel/cmdline"), "ro quiet\n").unwrap();
    let first = host.play(&playbook, &["grubby"]);
    assert!(!first.status.success() && host.read("args") == "ro quiet\n", "{}", text_of(&first));
    let second = host.play(&playbook, &[]);
    assert!(second.status.success(), "{}", text_of(&second));
    assert!(host.read("args").contains("iommu=pt"), "{}", host.read("args"));
    let age = |path: &str| fs::metadata(host.at(path)).unwrap().modified().unwrap();
    assert!(age("tree/etc/kernel/cmdline") >= age("tree/etc/default/grub"));
    let third = host.play(&playbook, &[]);
    assert!(third.status.success() && !changed(&third), "{}", text_of(&third));
    // An operator's later edit of /etc/default/grub must reach the older file.
    let line = host.at("tree/etc/kernel/cmdline");
    fs::write(&line, host.read("args")).unwrap();
    let file = fs::File::options().write(true).open(&line).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let fourth = host.play(&playbook, &[]);
    assert!(fourth.status.success() && !changed(&fourth), "{}", text_of(&fourth));
    fs::write(host.at("args"), "ro quiet\n").unwrap();
    let fifth = host.play(&playbook, &[]);
    assert!(fifth.status.success() && changed(&fifth), "{}", text_of(&fifth));
    assert!(age("tree/etc/kernel/cmdline") < age("tree/etc/default/grub"));
}
