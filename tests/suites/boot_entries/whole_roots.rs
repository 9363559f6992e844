//! Whole image roots: a second `apply` changes nothing, and `revert` restores the tree byte for byte. Debian's roots are
//! real ([`DebianRoot`]); the rest are written by hand in their distribution's form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bedplate_tests::fake::tree::{everything, times};
use bedplate_tests::image_root::{DebianRoot, NATIVE};

use crate::root::Root;

const PROFILE: &str = "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\"]\nabsent = [\"quiet\"]\n\
                       [modules]\nload = [\"vfio\"]\nblacklist = [\"nouveau\"]\n\
                       [sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";

const KERNEL: &str = "6.4.0-1";

/// Directories that `apply` may write to.
const WRITTEN: [&str; 4] = ["etc", "boot", "efi", "usr/lib/bootc"];

fn root(os_release: &str) -> Root {
    let root = Root::new(os_release, &[], &[]);
    root.put("etc/bedplate/profile.toml", PROFILE);
    root.put(&format!("usr/lib/modules/{KERNEL}/modules.dep"), "kernel/drivers/vfio/vfio.ko:\n");
    root.put(&format!("usr/lib/modules/{KERNEL}/vmlinuz"), "image");
    std::os::unix::fs::symlink("usr/lib", root.at("lib")).expect("ours");
    root
}

fn content(root: &Root) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for name in WRITTEN.iter().filter(|name| root.has(name)) {
        let base = Path::new(name);
        all.insert(base.to_owned(), String::new());
        all.extend(everything(&root.at(name)).into_iter().map(|(path, it)| (base.join(path), it)));
    }
    all
}

/// `code`: the exit status of `apply` and `revert`; 6 if the image build has tools to run.
fn assert_applied_once_and_reverted(root: &Root, code: i32, arguments_in: &str) {
    let before = content(root);
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(code), "{}", done.text);
    let text = root.text(arguments_in);
    assert!(text.contains("iommu=pt"), "{arguments_in}: {text}\n{}", done.text);
    let after = WRITTEN.map(|name| root.has(name).then(|| times(&root.at(name))));
    let ledger = root.text("var/lib/bedplate/ledger.json");
    let again = root.apply(&[]);
    assert_eq!(again.code, Some(code), "{}", again.text);
    assert!(after == WRITTEN.map(|name| root.has(name).then(|| times(&root.at(name)))));
    assert_eq!(root.text("var/lib/bedplate/ledger.json"), ledger);
    let back = root.image("revert", &["--yes"]);
    assert_eq!(back.code, Some(code), "{}", back.text);
    assert_eq!(content(root), before);
}

#[test]
fn fedora_bootc_image_is_restored() {
    let root = root("ID=fedora\nVERSION_ID=42\n");
    root.tool("usr/bin/bootc", "");
    root.put("usr/lib/bootc/kargs.d/10-base.toml", "kargs = [\"console=ttyS0\"]\n");
    root.put("usr/lib/ostree/prepare-root.conf", "[composefs]\nenabled = true\n");
    root.put("sysroot/ostree/.keep", "");
    assert_applied_once_and_reverted(&root, 0, "usr/lib/bootc/kargs.d/50-bedplate.toml");
}

#[test]
fn unified_kernel_image_root_is_restored() {
    let root = root("ID=arch\n");
    root.put("etc/kernel/install.conf", "layout=uki\n");
    root.put("etc/kernel/cmdline", "root=LABEL=root rw quiet\n");
    root.put("boot/loader/loader.conf", "timeout 3\n");
    root.put("usr/lib/systemd/boot/efi/systemd-bootx64.efi", "");
    root.tool("usr/bin/kernel-install", "#!/bin/sh\n");
    assert_applied_once_and_reverted(&root, 0, "etc/kernel/cmdline");
}

#[test]
fn suse_image_is_restored() {
    let root = root("ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\nVERSION_ID=15.6\n");
    root.put(
        "etc/default/grub",
        "GRUB_TIMEOUT=8\nGRUB_CMDLINE_LINUX_DEFAULT=\"splash=silent quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
    );
    root.put(
        "boot/grub2/grub.cfg",
        "set default=0\nmenuentry 'openSUSE' --id a {\n linux /vmlinuz root=/dev/vda1 splash=silent quiet\n}\n",
    );
    root.tool("usr/sbin/grub2-mkconfig", "#!/bin/sh\n");
    assert_applied_once_and_reverted(&root, 6, "etc/default/grub");
}

/// A real root of this suite, with GRUB's tools but no menu.
fn debian(suite: &str) -> Root {
    let root = Root::new("", &[], &[]);
    DebianRoot { suite, architecture: NATIVE, packages: &["grub2-common"] }.unpack(root.path());
    root.put("etc/bedplate/profile.toml", PROFILE);
    // As written by grub-pc and grub-efi-amd64 when they are configured.
    root.put("etc/default/grub", &root.text("usr/share/grub/default/grub"));
    root
}

#[test]
#[cfg_attr(not(all(has = "mmdebstrap", has = "root")), ignore = "needs mmdebstrap and root")]
fn debian_12_root_of_mmdebstrap_is_restored() {
    let root = debian("bookworm");
    assert_applied_once_and_reverted(&root, 6, "etc/default/grub.d/zz-bedplate.cfg");
}

#[test]
#[cfg_attr(not(all(has = "mmdebstrap", has = "root")), ignore = "needs mmdebstrap and root")]
fn debian_13_root_of_mmdebstrap_is_restored() {
    let root = debian("trixie");
    assert_applied_once_and_reverted(&root, 6, "etc/default/grub.d/zz-bedplate.cfg");
}

/// The root is a directory, so GRUB finds no device for it: its real tools are left to the image build.
#[test]
#[cfg_attr(not(all(has = "mmdebstrap", has = "root")), ignore = "needs mmdebstrap and root")]
fn menu_tools_of_a_real_build_root_are_owed() {
    let root = debian("trixie");
    for _ in 0..2 {
        let done = root.apply(&["--chroot-tools"]);
        assert_eq!(done.code, Some(6), "{}", done.text);
        assert!(done.text.contains("cannot find a device for /"), "{}", done.text);
    }
    let done = root.apply(&["--ran", "update-grub"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
}
