//! Real tools in a root of Debian 13, on files that bedplate has written: kernel-install of its systemd, and grubby of
//! Fedora or RHEL, which `BEDPLATE_GRUBBY` names. grubby is a shell script that Debian does not have, and its license
//! keeps it out of this repository.

use bedplate_tests::image_root::{self, DebianRoot, NATIVE};
use bedplate_tests::{fixtures, program};

use crate::root::Root;

const CMDLINE: &str = "etc/kernel/cmdline";
/// Machine id.
const ID: &str = "0123456789abcdef0123456789abcdef";

/// A root with these packages, and a profile that sets iommu=pt and removes quiet.
fn trixie(packages: &[&str]) -> Root {
    let root = Root::new("", &["iommu=pt"], &["quiet"]);
    DebianRoot { suite: "trixie", architecture: NATIVE, packages }.unpack(root.path());
    root.put("etc/machine-id", &format!("{ID}\n"));
    root
}

/// Runs a tool of the root in it. Returns its output.
fn run(root: &Root, argv: &[&str]) -> String {
    let done = image_root::inside(root.path(), argv).output().expect("unshare runs");
    let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(done.status.success(), "{argv:?}: {}\n{}", done.status, text.concat());
    text.concat()
}

/// Arguments of an entry.
fn options(root: &Root, entry: &str) -> String {
    let text = root.text(&format!("boot/loader/entries/{entry}.conf"));
    let options = text.lines().find_map(|line| line.strip_prefix("options "));
    options.unwrap_or_else(|| panic!("no options: {text}")).trim().to_owned()
}

/// Installs the files of a kernel, but no boot entry.
fn put_kernel(root: &Root, release: &str) {
    root.put(&format!("usr/lib/modules/{release}/vmlinuz"), &"image".repeat(200));
    root.put(&format!("usr/lib/modules/{release}/modules.dep"), "");
}

/// Installs a kernel as its package does.
fn add_kernel(root: &Root, release: &str) {
    put_kernel(root, release);
    let image = format!("/usr/lib/modules/{release}/vmlinuz");
    run(root, &["kernel-install", "add", release, &image]);
}

#[test]
#[cfg_attr(
    not(all(has = "mmdebstrap", has = "root", has = "unshare")),
    ignore = "needs mmdebstrap, root and unshare"
)]
fn kernel_install_gives_new_kernels_the_arguments() {
    let root = trixie(&["systemd"]);
    root.put("boot/loader/loader.conf", "timeout 3\n");
    root.put("etc/kernel/entry-token", "0123\n");
    root.put(CMDLINE, "root=/dev/vda2 rw quiet\n");
    // kernel-install writes entries if this directory exists.
    std::fs::create_dir_all(root.at("boot/0123")).expect("ours");
    add_kernel(&root, "6.1.0");
    assert_eq!(options(&root, "0123-6.1.0"), "root=/dev/vda2 rw quiet");
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(options(&root, "0123-6.1.0"), "root=/dev/vda2 rw iommu=pt", "{}", done.text);
    add_kernel(&root, "6.2.0");
    assert_eq!(options(&root, "0123-6.2.0"), "root=/dev/vda2 rw iommu=pt");
    let plan = root.plan();
    assert_eq!(plan.code, Some(0), "{}", plan.text);
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(0), "{}", back.text);
    assert_eq!(root.text(CMDLINE), "root=/dev/vda2 rw quiet\n");
    add_kernel(&root, "6.3.0");
    for entry in ["0123-6.1.0", "0123-6.2.0", "0123-6.3.0"] {
        assert_eq!(options(&root, entry), "root=/dev/vda2 rw quiet", "{}", back.text);
    }
}

const KERNELS: [&str; 2] = ["5.14.0-503.11.1.el9_5.x86_64", "5.14.0-427.13.1.el9_4.x86_64"];
const DEFAULTS: &str = "GRUB_TIMEOUT=5\nGRUB_DEFAULT=saved\nGRUB_CMDLINE_LINUX=\"crashkernel=192M\"\n\
                        GRUB_ENABLE_BLSCFG=true\n";

/// Files of RHEL 9 with BLS entries, in a root of Debian with its tools: grubby needs only a shell, those of coreutils, sed,
/// grep, util-linux, and grub2-editenv, which Debian calls grub-editenv.
fn rhel(line: &str) -> Root {
    let root = trixie(&["grub2-common"]);
    let grubby = std::fs::read_to_string(fixtures::grubby()).expect("it is a script");
    root.tool("usr/sbin/grubby", &grubby);
    std::os::unix::fs::symlink("grub-editenv", root.at("usr/bin/grub2-editenv")).expect("ours");
    root.put("etc/os-release", "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.5\"\n");
    root.put("etc/default/grub", DEFAULTS);
    // Debian's, which RHEL does not read.
    _ = std::fs::remove_dir_all(root.at("etc/default/grub.d"));
    root.put(CMDLINE, &format!("{line}\n"));
    root.put(
        "boot/grub2/grub.cfg",
        "load_env -f ${config_directory}/grubenv\ninsmod blscfg\nblscfg\n",
    );
    for release in KERNELS {
        put_kernel(&root, release);
        root.put(&format!("boot/vmlinuz-{release}"), "image");
        let entry = format!(
            "title RHEL ({release}) 9.5\nversion {release}\nlinux /vmlinuz-{release}\n\
             initrd /initramfs-{release}.img\noptions {line}\ngrub_users $grub_users\n"
        );
        root.put(&format!("boot/loader/entries/{ID}-{release}.conf"), &entry);
    }
    run(&root, &["grub2-editenv", "/boot/grub2/grubenv", "create"]);
    let saved = format!("saved_entry={ID}-{}", KERNELS[0]);
    run(&root, &["grub2-editenv", "/boot/grub2/grubenv", "set", &saved]);
    root
}

#[test]
#[cfg_attr(
    not(all(has = "BEDPLATE_GRUBBY", has = "mmdebstrap", has = "root", has = "unshare")),
    ignore = "needs BEDPLATE_GRUBBY, mmdebstrap, root and unshare"
)]
fn grubby_reads_and_keeps_the_arguments() {
    let root = rhel("root=/dev/mapper/rhel-root ro crashkernel=192M quiet");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let info = run(&root, &["grubby", "--info=ALL"]);
    let shown = "args=\"ro crashkernel=192M iommu=pt\"";
    assert_eq!(info.matches(shown).count(), KERNELS.len(), "{info}");
    run(&root, &["grubby", "--update-kernel=ALL", "--args=foo=1"]);
    let plan = root.plan();
    assert_eq!(plan.code, Some(0), "{}", plan.text);
    for text in [root.text(CMDLINE), root.text("etc/default/grub")] {
        assert!(text.contains("iommu=pt") && text.contains("foo=1"), "{text}");
    }
    run(&root, &["grubby", "--update-kernel=ALL", "--remove-args=iommu"]);
    let plan = root.plan();
    assert_eq!(plan.code, Some(2), "{}", plan.text);
}

#[test]
#[cfg_attr(
    not(all(has = "BEDPLATE_GRUBBY", has = "mmdebstrap", has = "root", has = "unshare")),
    ignore = "needs BEDPLATE_GRUBBY, mmdebstrap, root and unshare"
)]
fn grubby_runs_the_rendered_script() {
    let root = rhel("root=/dev/mapper/rhel-root ro crashkernel=192M iommu=off");
    let rendered = root.at("rendered").display().to_string();
    let render =
        ["render", "grub", "--family", "rhel", "--demo", "hgx-rhel9", "-o", rendered.as_str()];
    let done = program::run(&render);
    assert!(done.status.success(), "{done:?}");
    run(&root, &["sh", "/rendered/bedplate-grubby.sh"]);
    let lines = KERNELS.map(|release| options(&root, &format!("{ID}-{release}")));
    for line in lines.iter().chain([&root.text(CMDLINE)]) {
        assert!(line.starts_with("root=/dev/mapper/rhel-root ro crashkernel=192M "), "{line}");
        assert!(line.contains(" iommu=pt") && !line.contains("iommu=off"), "{line}");
        assert!(line.contains(" pci=disable_acs_redir=\"0000:15:01.0;"), "{line}");
    }
    assert_eq!(root.text("etc/default/grub"), DEFAULTS);
}
