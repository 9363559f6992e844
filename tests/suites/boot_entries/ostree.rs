//! ostree and bootc roots of each form. No real tools are run.

use bedplate_tests::fixtures;

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
    assert_refused(&root, &["rpm-ostree kargs --append-if-missing iommu=pt"]);
}

#[test]
fn image_of_rpm_ostree_without_entries_is_refused() {
    let root = fedora();
    root.tool("usr/bin/rpm-ostree", "#!/bin/sh\n");
    root.put("sysroot/ostree/x", "");
    assert_refused(&root, &["rpm-ostree kargs --append-if-missing iommu=pt"]);
}

/// Modelled on bootupd's static configuration.
const STATIC: &str = "set pager=1\nif [ -d (md/md-boot)/grub2 ]; then\n  set prefix=md/md-boot\nelse\n  \
                      search --label boot --set boot --no-floppy\nfi\nset root=$boot\nblscfg\n";

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn live_host_with_an_empty_menu_is_not_rebooted() {
    let root = fedora();
    root.tool("usr/bin/rpm-ostree", "#!/bin/sh\n");
    root.put("run/ostree-booted", "");
    root.put("boot/loader/entries/ostree-1.conf", "linux /x\noptions root=/dev/r iommu=pt\n");
    root.put("boot/x", "kernel");
    root.put("boot/grub2/grub.cfg", STATIC);
    let sound = root.live(&["plan", "--exit-code"]);
    assert!(!sound.text.contains("unknown: /boot/grub2"), "{}", sound.text);
    for (menu, reason) in [("", "is empty"), ("set timeout=1\n", "has no entry")] {
        root.put("boot/grub2/grub.cfg", menu);
        let ran = root.live(&["plan", "--exit-code"]);
        assert_eq!(ran.code, Some(5), "{}", ran.text);
        assert!(ran.text.contains(reason), "{}", ran.text);
        assert!(ran.text.contains("Do not reboot"), "{}", ran.text);
    }
    root.put("boot/loader/entries/ostree-1.conf", "linux /x\noptions root=/dev/r quiet\n");
    let refused = root.live(&["apply", "--yes"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
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

const VENDOR: &str = "usr/lib/bootc/kargs.d/10-vendor.toml";

/// A bootc image with this text in another kargs file.
fn with_vendor_kargs(text: &str) -> Root {
    let root = fedora();
    root.tool("usr/bin/bootc", "");
    root.put("sysroot/ostree/x", "");
    root.put(VENDOR, text);
    root
}

#[test]
fn kargs_file_that_bootc_rejects_makes_the_line_unknown() {
    for (text, why) in [
        ("kargs = \"rhgb\"\n", "invalid type"),
        ("kargs = []\nextra = 1\n", "unknown field `extra`"),
    ] {
        let plan = with_vendor_kargs(text).plan();
        assert_eq!(plan.code, Some(5), "{}", plan.text);
        assert!(plan.text.contains(why), "{}", plan.text);
    }
}

#[test]
fn kargs_file_of_another_architecture_is_ignored() {
    let text = "kargs = [\"quiet\"]\nmatch-architectures = [\"sparc64\"]\n";
    let root = with_vendor_kargs(text);
    root.programs(&["/bin/sh"]);
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let text =
        format!("kargs = [\"quiet\"]\nmatch-architectures = [\"{}\"]\n", std::env::consts::ARCH);
    let root = with_vendor_kargs(&text);
    root.programs(&["/bin/sh"]);
    assert_refused(&root, &["10-vendor.toml", "quiet"]);
}

#[test]
fn kargs_that_are_too_long_are_refused() {
    let long = "x".repeat(2100);
    assert_refused(&with_vendor_kargs(&format!("kargs = [\"{long}\"]\n")), &["the kernel drops"]);
}

#[test]
fn root_of_the_composefs_backend_is_refused() {
    let root = fedora();
    root.tool("usr/bin/bootc", "");
    root.put(
        "boot/loader/entries/bootc_fedora-43-1.conf",
        "linux /boot/x\noptions root=/dev/r composefs=1 quiet\n",
    );
    assert_refused(&root, &["composefs", "/usr/lib/bootc/kargs.d"]);
}

#[test]
fn bootc_image_without_ostree_gets_kargs() {
    let root = fedora();
    root.tool("usr/bin/bootc", "");
    root.put("usr/lib/bootc/install/00-image.toml", "");
    // The package of bootc alone makes no such image.
    assert_refused(&root, &["no boot loader recognised"]);
    root.put("sysroot/x", "");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text(KARGS), "kargs = [\"iommu=pt\"]\n");
}

const MODPROBE: &str = "etc/modprobe.d/zz-bedplate.conf";

/// Image with a module option in its profile, and with a kernel.
fn image_with_options() -> Root {
    let root = fedora();
    root.put(
        "etc/bedplate/profile.toml",
        "schema = 1\nname = \"t\"\n[modules.options]\nnvidia = { NVreg_EnableMSI = \"1\" }\n",
    );
    root.tool("usr/bin/bootc", "");
    root.put("sysroot/ostree/x", "");
    root.put("usr/lib/modules/6.12.0-1/vmlinuz", "image");
    root.put("usr/lib/modules/6.12.0-1/initramfs.img", "old");
    std::os::unix::fs::symlink("usr/lib", root.at("lib")).expect("ours");
    root.put("usr/lib/dracut/modules.d/98ostree/module-setup.sh", "");
    let dracut = "#!/bin/sh\nset -e\ntest \"$2 $3 $4\" = '--no-hostonly --add ostree'\n\
                  test -e \"$6\"\necho new > \"$7\"\n";
    root.tool("usr/bin/dracut", dracut);
    root
}

#[test]
fn missing_kernel_of_an_image_is_named() {
    let root = image_with_options();
    std::fs::remove_file(root.at("usr/lib/modules/6.12.0-1/vmlinuz")).expect("ours");
    let plan = root.plan();
    assert!(plan.text.contains("/usr/lib/modules/RELEASE/vmlinuz not found"), "{}", plan.text);
    assert!(!plan.text.contains("dracut not found"), "{}", plan.text);
    std::fs::remove_file(root.at("usr/bin/dracut")).expect("ours");
    let plan = root.plan();
    assert!(plan.text.contains("dracut not found"), "{}", plan.text);
}

#[test]
fn image_without_dracut_module_for_deployments_is_refused() {
    let root = image_with_options();
    std::fs::remove_dir_all(root.at("usr/lib/dracut")).expect("ours");
    assert_refused(&root, &["/usr/lib/dracut/modules.d has neither ostree nor bootc"]);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_on_a_host_leaves_initramfs_of_its_image() {
    let root = image_with_options();
    root.programs(&["/bin/sh"]);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    // On a host /usr is read-only.
    root.put("run/ostree-booted", "");
    root.tool("usr/bin/dracut", "#!/bin/sh\nexit 1\n");
    let refused = root.live(&["revert", "--yes"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("profile of the image build"), "{}", refused.text);
    assert!(root.has(MODPROBE), "{}", refused.text);
    // A new image has removed the file.
    std::fs::remove_file(root.at(MODPROBE)).expect("ours");
    let reverted = root.live(&["revert", "--yes"]);
    assert_eq!(reverted.code, Some(0), "{}", reverted.text);
}

/// The image has the file, but not the record of its build.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn unrecorded_module_options_are_neither_adopted_nor_removed() {
    let root = image_with_options();
    root.programs(&["/bin/sh"]);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    std::fs::remove_dir_all(root.at("var/lib/bedplate")).expect("ours");
    root.put("run/ostree-booted", "");
    let before = root.text(MODPROBE);
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(!root.has("var/lib/bedplate"), "a run without changes: {}", done.text);
    let refused = root.live(&["revert", "--force", "--yes"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("remove the file in the image build"), "{}", refused.text);
    assert_eq!(root.text(MODPROBE), before);
}

/// The image build did not run the tool.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn pending_rebuild_of_an_image_is_refused_on_a_host() {
    let root = image_with_options();
    let owed = root.apply(&[]);
    assert_eq!(owed.code, Some(6), "{}", owed.text);
    root.put("run/ostree-booted", "");
    let refused = root.live(&["apply", "--yes"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("in the image build"), "{}", refused.text);
    assert_eq!(root.text("usr/lib/modules/6.12.0-1/initramfs.img"), "old");
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn initramfs_of_an_image_is_rebuilt_beside_its_kernel() {
    fixtures::root();
    let root = image_with_options();
    root.programs(&["/bin/sh"]);
    let owed = root.apply(&[]);
    assert_eq!(owed.code, Some(6), "{}", owed.text);
    assert!(
        owed.text.contains("/usr/lib/modules/6.12.0-1/initramfs.img 6.12.0-1"),
        "{}",
        owed.text
    );
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text("usr/lib/modules/6.12.0-1/initramfs.img"), "new\n");
    assert_eq!(root.plan().code, Some(0));
}
