//! ostree and bootc roots, one of each shape. Real tools: none are run.

use crate::root::Root;

const KARGS: &str = "usr/lib/bootc/kargs.d/50-bedplate.toml";

fn fedora() -> Root {
    Root::new("ID=fedora\n", &["iommu=pt"], &["quiet"])
}

fn assert_refused(root: &Root, texts: &[&str]) {
    let before = root.files();
    for ran in [root.plan(), root.apply(&[]), root.apply(&["--chroot-tools"])] {
        assert_eq!(ran.code, Some(4), "{}", ran.text);
        for text in texts {
            assert!(ran.text.contains(text), "{text}: {}", ran.text);
        }
    }
    assert_eq!(root.files(), before);
}

#[test]
fn container_of_a_bootable_image_gets_kargs() {
    let root = fedora();
    root.tool("usr/bin/bootc", "");
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\nGRUB_ENABLE_BLSCFG=true\n");
    std::os::unix::fs::symlink("sysroot/ostree", root.at("ostree")).expect("ours");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text(KARGS), "kargs = [\"iommu=pt\"]\n");
    assert!(root.text("etc/default/grub").contains("\"quiet\""), "bootc never reads it");
    assert_eq!(root.plan().code, Some(0));
}

#[test]
fn image_of_rpm_ostree_is_refused() {
    let root = fedora();
    root.tool("usr/bin/rpm-ostree", "#!/bin/sh\n");
    root.put("sysroot/ostree/x", "");
    root.put("boot/loader/entries/ostree-1.conf", "linux /x\noptions root=/dev/r quiet\n");
    assert_refused(&root, &["rpm-ostree kargs --append-if-missing=iommu=pt"]);
}

#[test]
fn physical_root_is_refused() {
    let root = fedora();
    root.put("ostree/repo/config", "");
    root.put("boot/loader/entries/ostree-1-fedora.conf", "linux /x\noptions root=/dev/r quiet\n");
    assert_refused(&root, &["ostree admin", "rpm-ostree kargs"]);
}

#[test]
fn argument_of_another_kargs_file_is_refused() {
    let root = fedora();
    root.tool("usr/bin/bootc", "");
    root.put("sysroot/ostree/x", "");
    root.put("usr/lib/bootc/kargs.d/10-vendor.toml", "kargs = [\"quiet\"]\n");
    assert_refused(&root, &["10-vendor.toml", "quiet"]);
    root.put("usr/lib/bootc/kargs.d/10-vendor.toml", "kargs = [\"rhgb\"]\n");
    root.put("usr/lib/bootc/kargs.d/90-late.toml", "kargs = [\"iommu=nopt\"]\n");
    assert_refused(&root, &["90-late.toml", "iommu=nopt"]);
    root.put("usr/lib/bootc/kargs.d/90-late.toml", "kargs = []\n");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text(KARGS), "kargs = [\"iommu=pt\"]\n");
}
