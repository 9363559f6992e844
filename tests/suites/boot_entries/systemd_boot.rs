//! systemd-boot. kernel-install is a script that writes one entry, or this machine's own where a test says so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bedplate_tests::fixtures;

use crate::root::{Ran, Root};

mod later_kernels;
mod revert_rollback;

const ARCH: &str = "ID=arch\n";
const CMDLINE: &str = "etc/kernel/cmdline";
/// Writes an entry with the token `new` instead of the entries' own token, and fails for the second kernel.
const FAILS: &str = "#!/bin/sh\nread -r line < /etc/kernel/cmdline\n\
                     echo \"options $line\" > /boot/loader/entries/new-$2.conf\n[ $2 != 6.2.0 ]\n";
const WRITES: &str = "#!/bin/sh\nread -r line < /etc/kernel/cmdline\n\
                      printf 'version %s\\noptions %s\\nlinux /x\\n' \"$2\" \"$line\" > /boot/loader/entries/0123-$2.conf\n";

fn entry(kernel: &str) -> String {
    format!(
        "title Arch\nversion {kernel}\nlinux /linux-{kernel}\noptions root=/dev/vda2 rw quiet\n"
    )
}

/// Two installed kernels, an entry for each of `kernels`, and this kernel-install.
fn arch(kernels: &[&str], tool: Option<&str>) -> Root {
    let root = Root::new(ARCH, &["iommu=pt"], &["quiet"]);
    root.put("boot/loader/loader.conf", "timeout 3\n");
    root.put("etc/kernel/entry-token", "new\n");
    root.put(CMDLINE, "root=/dev/vda2 rw quiet\n");
    for kernel in ["6.1.0", "6.2.0"] {
        root.put(&format!("usr/lib/modules/{kernel}/vmlinuz"), &"image".repeat(200));
        root.put(&format!("usr/lib/modules/{kernel}/modules.dep"), "");
    }
    // Images named by the entries.
    for image in ["linux-6.1.0", "linux-6.2.0", "linux-linux", "linux-Generation 6", "x"] {
        root.put(&format!("boot/{image}"), &"image".repeat(200));
    }
    std::os::unix::fs::symlink("usr/lib", root.at("lib")).expect("ours");
    for kernel in kernels {
        root.put(&format!("boot/loader/entries/0123-{kernel}.conf"), &entry(kernel));
    }
    if let Some(script) = tool {
        root.tool("usr/bin/kernel-install", script);
    }
    root
}

fn assert_blocked(ran: &Ran, text: &str) {
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    assert!(ran.text.contains(text), "{}", ran.text);
}

/// Asserts that an image and a running system are refused at plan time, with nothing written.
fn assert_refused(root: &Root, text: &str) {
    let before = root.files();
    assert_blocked(&root.plan(), text);
    assert_blocked(&root.apply(&[]), text);
    assert_eq!(root.files(), before);
    let plan = root.live(&["plan", "--exit-code"]);
    let before = root.files();
    assert_blocked(&plan, text);
    assert_blocked(&root.live(&["apply", "--yes"]), text);
    assert_eq!(root.files(), before);
}

/// Asserts that the files of /boot and /etc/kernel/cmdline are unchanged.
fn assert_taken_back(root: &Root, before: &BTreeMap<PathBuf, Vec<u8>>, done: &Ran) {
    assert_eq!(done.code, Some(1), "{}", done.text);
    let boot = |files: &BTreeMap<PathBuf, Vec<u8>>| {
        let mut files = files.clone();
        files.retain(|path, _| path.starts_with(root.at("boot")) || *path == root.at(CMDLINE));
        files
    };
    assert_eq!(boot(&root.files()), boot(before), "{}", done.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn failed_kernel_install_leaves_no_new_entry() {
    let root = arch(&["6.1.0", "6.2.0"], Some(FAILS));
    let before = root.files();
    let done = root.live(&["apply", "--yes"]);
    assert_taken_back(&root, &before, &done);
}

/// kernel-install may take its token from a source that bedplate does not read.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn failed_kernel_install_leaves_no_entry_of_any_token() {
    let root = arch(&["6.1.0", "6.2.0"], Some(FAILS));
    root.put("etc/kernel/entry-token", "0123\n");
    let before = root.files();
    let done = root.live(&["apply", "--yes"]);
    assert_taken_back(&root, &before, &done);
}

const IMAGES: &str = "boot/EFI/Linux";
/// Makes an image and a new one next to it. Fails for the second kernel.
const FAILS_WITH_IMAGE: &str = "#!/bin/sh\nread -r line < /etc/kernel/cmdline\n\
     [ $2 = 6.2.0 ] && exit 1\n\
     for token in 0123 new; do\n\
     { cat /usr/lib/head; printf '%-64s' \"$line\"; } > /boot/EFI/Linux/$token-$2.efi\ndone\n";

/// Headers of a unified kernel image with its command line in the 64 bytes that follow.
fn head() -> Vec<u8> {
    let dos = [b"MZ".as_slice(), &[0; 58], &64_u32.to_le_bytes()].concat();
    let file = [b"PE\0\0\x64\x86\x01\0".as_slice(), &[0; 16]].concat();
    let at = u32::try_from(dos.len() + file.len() + 40).expect("small");
    let fields = [64, 0x1000, 64, at, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
    [dos, file, b".cmdline".to_vec(), fields].concat()
}

/// Two images of two kernels, and a kernel-install that fails for the second.
fn images() -> Root {
    let root = arch(&[], Some(FAILS_WITH_IMAGE));
    root.put("etc/kernel/install.conf", "layout=uki\n");
    let head = head();
    root.put("usr/lib/head", "");
    std::fs::write(root.at("usr/lib/head"), &head).expect("ours");
    for kernel in ["6.1.0", "6.2.0"] {
        let path = format!("{IMAGES}/0123-{kernel}.efi");
        root.put(&path, "");
        let line = format!("{:64}", "root=/dev/vda2 rw quiet");
        std::fs::write(root.at(&path), [head.as_slice(), line.as_bytes()].concat()).expect("ours");
    }
    root
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn failed_kernel_install_regenerates_images() {
    let root = images();
    let before = root.files();
    let done = root.live(&["apply", "--yes"]);
    assert_taken_back(&root, &before, &done);
    assert!(done.text.contains(&format!("{IMAGES}/0123-6.1.0.efi")), "{}", done.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn image_that_cannot_be_regenerated_is_listed() {
    let root = images();
    std::fs::remove_file(root.at(CMDLINE)).expect("ours");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert!(done.text.contains("may contain the new arguments"), "{}", done.text);
    assert!(!root.has(CMDLINE));
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn kernel_without_an_entry_gets_none() {
    let root = arch(&["6.1.0"], Some(WRITES));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    assert!(
        root.text("boot/loader/entries/0123-6.1.0.conf").contains("root=/dev/vda2 rw iommu=pt")
    );
    assert!(!root.has("boot/loader/entries/0123-6.2.0.conf"), "{}", done.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn entries_without_a_generator_are_refused() {
    let root = arch(&[], Some(WRITES));
    root.put("boot/loader/entries/arch.conf", &entry("linux"));
    assert_refused(&root, "kernel-install add");
    let root = arch(&["6.1.0"], None);
    assert_refused(&root, "kernel-install is not installed");
    let root = arch(&[], None);
    root.put("etc/os-release", "ID=nixos\n");
    root.put("boot/loader/entries/nixos-generation-6.conf", &entry("Generation 6"));
    assert_refused(&root, "boot.kernelParams");
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn kernel_cmdline_without_root_is_refused() {
    for text in ["\n", "rw quiet\n"] {
        let root = arch(&["6.1.0"], Some(WRITES));
        root.put(CMDLINE, text);
        assert_refused(&root, "/etc/kernel/cmdline has no root=");
    }
}

/// With kernel-install of this machine's systemd, and its plug-in that writes entries.
#[test]
#[cfg_attr(
    not(all(has = "kernel-install", has = "root")),
    ignore = "needs kernel-install and root"
)]
fn real_kernel_install_makes_the_entry_again() {
    const TOOL: &str = "/usr/bin/kernel-install";
    const PLUGIN: &str = "/usr/lib/kernel/install.d/90-loaderentry.install";
    let script = |path: &str| std::fs::read_to_string(path).expect("it is a script");
    let (tool, plugin) = (script(TOOL), script(PLUGIN));
    fixtures::root();
    let root = arch(&["6.1.0"], Some(&tool));
    root.tool(PLUGIN.trim_start_matches('/'), &plugin);
    root.put("etc/machine-id", "01234567012345670123456701234567\n");
    root.put("etc/kernel/entry-token", "0123\n");
    root.put("boot/0123/6.1.0/linux", "");
    root.put("tmp/x", "");
    let programs = [
        "sh", "cat", "stat", "install", "tr", "grep", "mktemp", "rm", "mkdir", "ls", "chown",
        "sort", "basename",
    ];
    let programs: Vec<String> = programs.iter().map(|name| format!("/usr/bin/{name}")).collect();
    root.programs(&programs.iter().map(String::as_str).collect::<Vec<_>>());
    std::os::unix::fs::symlink("usr/bin", root.at("bin")).expect("ours");
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let entry = root.text("boot/loader/entries/0123-6.1.0.conf");
    assert!(entry.contains("options    root=/dev/vda2 rw iommu=pt\n"), "{entry}");
    assert!(!root.has("boot/loader/entries/0123-6.2.0.conf"));
}

/// Saves what a kill would leave on the disk, and fails.
const SAVES: &str = "#!/bin/sh\ncd /var/lib/bedplate\ncat /etc/kernel/cmdline > /saved/cmdline\n\
                     for file in ledger.json blobs/*; do cat $file > /saved/$file; done\nexit 1\n";

/// A host whose `apply` was killed in kernel-install.
fn killed_in_kernel_install() -> Root {
    let root = arch(&["6.1.0", "6.2.0"], Some(SAVES));
    root.put("saved/blobs/.keep", "");
    root.live(&["apply", "--yes"]);
    std::fs::remove_file(root.at("saved/blobs/.keep")).expect("ours");
    std::fs::remove_dir_all(root.at("var/lib/bedplate")).expect("ours");
    std::fs::rename(root.at("saved/cmdline"), root.at(CMDLINE)).expect("the tool saved it");
    std::fs::rename(root.at("saved"), root.at("var/lib/bedplate")).expect("ours");
    assert!(root.text(CMDLINE).contains("iommu=pt"));
    assert!(root.text("var/lib/bedplate/ledger.json").contains("unfinished"));
    root
}

/// Packages have since removed a kernel with its entry, and the next kernel-install fails.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn entry_removed_since_a_kill_is_not_restored() {
    for command in ["apply", "revert"] {
        let root = killed_in_kernel_install();
        remove_first_kernel(&root);
        root.tool("usr/bin/kernel-install", "#!/bin/sh\nexit 1\n");
        let done = root.live(&[command, "--yes"]);
        assert_eq!(done.code, Some(1), "{}", done.text);
        assert!(!root.has("boot/loader/entries/0123-6.1.0.conf"), "{}", done.text);
        assert!(root.has("boot/loader/entries/0123-6.2.0.conf"), "{}", done.text);
    }
}

/// Removes Linux 6.1.0 with its entry, as packages do.
fn remove_first_kernel(root: &Root) {
    std::fs::remove_file(root.at("boot/loader/entries/0123-6.1.0.conf")).expect("ours");
    std::fs::remove_dir_all(root.at("usr/lib/modules/6.1.0")).expect("ours");
}

/// Like kernel-install, which cannot add a kernel without its image.
const ADDS: &str = "#!/bin/sh\n[ -e $3 ] || exit 1\nread -r line < /etc/kernel/cmdline\n\
                    printf 'version %s\\noptions %s\\nlinux /x\\n' \"$2\" \"$line\" > /boot/loader/entries/0123-$2.conf\n";

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_skips_a_kernel_that_is_gone() {
    let root = arch(&["6.1.0", "6.2.0"], Some(ADDS));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    remove_first_kernel(&root);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(done.text.contains("Linux 6.1.0 was removed with its boot entry"), "{}", done.text);
    assert!(!root.has("boot/loader/entries/0123-6.1.0.conf"));
    assert!(!root.text("boot/loader/entries/0123-6.2.0.conf").contains("iommu=pt"));
    assert_eq!(root.text(CMDLINE), "root=/dev/vda2 rw quiet\n");
    let done = root.live(&["revert", "--yes"]);
    assert!(done.text.contains("nothing to revert"), "{}", done.text);
}

/// The last kernel that kernel-install ran for is gone. If it then fails, the other kernels' entries are still restored.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn failed_kernel_install_restores_entries_despite_gone_kernel() {
    let root = arch(&["6.1.0", "6.2.0"], Some(ADDS));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let entry = "boot/loader/entries/0123-6.1.0.conf";
    let before = root.text(entry);
    std::fs::remove_file(root.at("boot/loader/entries/0123-6.2.0.conf")).expect("ours");
    std::fs::remove_dir_all(root.at("usr/lib/modules/6.2.0")).expect("ours");
    root.tool(
        "usr/bin/kernel-install",
        "#!/bin/sh\n: > /boot/loader/entries/0123-$2.conf\nexit 1\n",
    );
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert_eq!(root.text(entry), before, "{}", done.text);
    assert!(!root.has("boot/loader/entries/0123-6.2.0.conf"), "{}", done.text);
}

/// Without the file, kernel-install would use the line of /proc/cmdline, here one without `root=`.
const ADDS_WITHOUT_SOURCE: &str = "#!/bin/sh\n[ -e $3 ] || exit 1\nline=quiet\n\
     [ -e /etc/kernel/cmdline ] && read -r line < /etc/kernel/cmdline\n\
     printf 'version %s\\noptions %s\\nlinux /x\\n' \"$2\" \"$line\" > /boot/loader/entries/0123-$2.conf\n";

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_restores_entries_that_alone_had_the_line() {
    let root = arch(&["6.1.0", "6.2.0"], Some(ADDS_WITHOUT_SOURCE));
    std::fs::remove_file(root.at(CMDLINE)).expect("ours");
    let entries =
        || ["6.1.0", "6.2.0"].map(|v| root.text(&format!("boot/loader/entries/0123-{v}.conf")));
    let before = entries();
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    assert!(entries()[0].contains("root=/dev/vda2 rw iommu=pt"), "{}", done.text);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(entries(), before, "{}", done.text);
    assert!(!root.has(CMDLINE), "{}", done.text);
}

/// A package has since installed a kernel, and its entry has bedplate's arguments.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_keeps_the_line_of_later_entries() {
    let root = arch(&["6.1.0"], Some(ADDS_WITHOUT_SOURCE));
    std::fs::remove_file(root.at(CMDLINE)).expect("ours");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let line = root.text(CMDLINE);
    root.put(
        "boot/loader/entries/0123-6.2.0.conf",
        &format!("version 6.2.0\noptions {line}linux /x\n"),
    );
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(4), "{}", done.text);
    assert_eq!(root.text(CMDLINE), line, "{}", done.text);
}

/// Images are not in the ledger: the file with their line stays, and the message names the way out.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_keeps_the_line_of_images_it_cannot_generate() {
    let root = images();
    root.tool(
        "usr/bin/kernel-install",
        &FAILS_WITH_IMAGE.replace("[ $2 = 6.2.0 ] && exit 1", "").replace(" new;", ";"),
    );
    std::fs::remove_file(root.at(CMDLINE)).expect("ours");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let before = root.text(CMDLINE);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(4), "{}", done.text);
    assert!(
        done.text.contains("no other file has their complete kernel arguments"),
        "{}",
        done.text
    );
    assert_eq!(root.text(CMDLINE), before, "{}", done.text);
}
