//! `revert` and the default boot entry, on Debian's GRUB, Red Hat's entry files and systemd-boot. The tools are short scripts.

use crate::root::{Ran, Root};

const CFG: &str = "boot/grub/grub.cfg";
const DROP_IN: &str = "etc/default/grub.d/zz-bedplate.cfg";
const TOOL: &str = "usr/sbin/update-grub";

/// An update-grub that makes one entry of this kernel.
fn update_grub(kernel: &str, root: &str, initrd: &str) -> String {
    format!(
        "#!/bin/sh\nset -e\n. /etc/default/grub\nfor f in /etc/default/grub.d/*.cfg; do [ ! -e \"$f\" ] || . \"$f\"; done\n\
         cat > /boot/grub/grub.cfg <<X\n### BEGIN /etc/grub.d/10_linux ###\nset default=0\nmenuentry 'A' --id a {{\n \
         linux /boot/vmlinuz-{kernel} {root} $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\n {initrd}\n}}\n\
         ### END /etc/grub.d/10_linux ###\nX\n"
    )
}

fn good(kernel: &str) -> String {
    update_grub(kernel, "root=/dev/vda1 ro", &format!("initrd /boot/initrd.img-{kernel}"))
}

/// Installs a kernel and generates the menu with it, as packages do.
fn install(root: &Root, kernel: &str) {
    root.put(&format!("boot/vmlinuz-{kernel}"), "image");
    root.put(&format!("boot/initrd.img-{kernel}"), "initrd");
    root.put(&format!("usr/lib/modules/{kernel}/modules.dep"), "");
    root.tool(TOOL, &good(kernel));
    let arguments = if root.has(DROP_IN) { "iommu=pt" } else { "" };
    let menu = format!(
        "### BEGIN /etc/grub.d/10_linux ###\nset default=0\nmenuentry 'A' --id a {{\n linux /boot/vmlinuz-{kernel} \
         root=/dev/vda1 ro {arguments} rhgb\n initrd /boot/initrd.img-{kernel}\n}}\n### END /etc/grub.d/10_linux ###\n"
    );
    root.put(CFG, &menu);
}

fn debian() -> Root {
    let root = Root::new("ID=debian\n", &["iommu=pt"], &[]);
    root.put("etc/debian_version", "12.5\n");
    let default = "GRUB_CMDLINE_LINUX_DEFAULT=\"rhgb\"\nGRUB_CMDLINE_LINUX=\"\"\n";
    root.put("etc/default/grub", default);
    install(&root, "6.1.0-1");
    root
}

fn assert_code(ran: &Ran, codes: &[i32]) {
    assert!(ran.code.is_some_and(|code| codes.contains(&code)), "{}", ran.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn tool_that_breaks_the_entry_is_rolled_back() {
    for (options, initrd) in [
        ("ro", "initrd /boot/initrd.img-6.1.0-1"),
        ("root=/dev/vda1 ro", ""),
        ("root=/dev/vdz9 ro", ""),
    ] {
        let root = debian();
        let done = root.live(&["apply", "--yes"]);
        assert_code(&done, &[0, 3]);
        let (menu, drop_in) = (root.text(CFG), root.text(DROP_IN));
        assert!(menu.contains("iommu=pt"), "{menu}");
        root.tool(TOOL, &update_grub("6.1.0-1", options, initrd));
        let ran = root.live(&["revert", "--yes"]);
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        assert!(ran.text.contains("default boot entry: failed its check"), "{}", ran.text);
        assert_eq!((root.text(CFG), root.text(DROP_IN)), (menu, drop_in), "{}", ran.text);
        root.tool(TOOL, &good("6.1.0-1"));
        let ran = root.live(&["revert", "--yes"]);
        assert_code(&ran, &[0, 3]);
        assert!(!root.text(CFG).contains("iommu=pt") && !root.has(DROP_IN), "{}", ran.text);
    }
}

/// An argument that another tool has added to the configuration stays in the entry.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn tool_that_drops_a_configured_argument_is_rolled_back() {
    let root = debian();
    let done = root.live(&["apply", "--yes"]);
    assert_code(&done, &[0, 3]);
    let menu = root.text(CFG);
    root.tool(TOOL, &good("6.1.0-1").replace("$GRUB_CMDLINE_LINUX_DEFAULT", ""));
    let ran = root.live(&["revert", "--yes"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    assert!(ran.text.contains("the entry lost rhgb"), "{}", ran.text);
    assert_eq!(root.text(CFG), menu);
}

const NORMAL: &str = "boot/loader/entries/0123-5.14.0.conf";
const NEWER: &str = "boot/loader/entries/0123-5.15.0.conf";

fn rocky() -> Root {
    let root = Root::new("ID=rocky\nID_LIKE=\"rhel fedora\"\n", &["iommu=pt"], &[]);
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"rhgb\"\nGRUB_ENABLE_BLSCFG=true\n");
    root.put("boot/grub2/grub.cfg", "set default=0\nblscfg\n");
    for (path, kernel) in [(NORMAL, "5.14.0"), (NEWER, "5.15.0")] {
        let entry = format!(
            "title Rocky\nversion {kernel}\nlinux /vmlinuz-{kernel}\ninitrd /initramfs-{kernel}.img\noptions root=/dev/r ro\n"
        );
        root.put(path, &entry);
        root.put(&format!("boot/vmlinuz-{kernel}"), "image");
    }
    root
}

#[test]
fn entry_file_without_its_kernel_is_not_restored() {
    for force in [false, true] {
        let root = rocky();
        let before = root.text(NORMAL);
        assert_code(&root.apply(&[]), &[0]);
        assert!(root.text(NEWER).contains("iommu=pt"));
        std::fs::remove_file(root.at(NEWER)).expect("ours");
        std::fs::remove_file(root.at("boot/vmlinuz-5.15.0")).expect("ours");
        let more: &[&str] = if force { &["--yes", "--force"] } else { &["--yes"] };
        let ran = root.image("revert", more);
        assert_eq!(ran.code, Some(0), "{}", ran.text);
        assert!(!root.has(NEWER), "{}", ran.text);
        assert!(ran.text.contains("was removed with its kernel"), "{}", ran.text);
        assert_eq!(root.text(NORMAL), before);
    }
}

#[test]
fn entry_file_with_its_kernel_is_restored_when_forced() {
    let root = rocky();
    let before = root.text(NEWER);
    assert_code(&root.apply(&[]), &[0]);
    std::fs::remove_file(root.at(NEWER)).expect("ours");
    assert_code(&root.image("revert", &["--yes"]), &[4]);
    assert!(!root.has(NEWER));
    assert_code(&root.image("revert", &["--yes", "--force"]), &[0]);
    assert_eq!(root.text(NEWER), before);
}

const PROFILE: &str = "etc/bedplate/profile.toml";

/// Installs a kernel with an entry that has this one's arguments, as packages do.
fn install_newer(root: &Root) -> String {
    let entry = root.text(NORMAL).replace("5.14.0", "5.15.0");
    root.put(NEWER, &entry);
    entry
}

/// bedplate cannot tell whether the argument is its own or was added by hand.
#[test]
fn later_entry_that_keeps_an_argument_is_listed() {
    let root = rocky();
    std::fs::remove_file(root.at(NEWER)).expect("ours");
    let before = root.text(NORMAL);
    assert_code(&root.apply(&[]), &[0]);
    let later = install_newer(&root);
    assert!(later.contains("iommu=pt"), "{later}");
    let ran = root.image("revert", &["--yes"]);
    assert_code(&ran, &[4]);
    let fix = "`grubby --update-kernel=/boot/vmlinuz-5.15.0 --remove-args=\"iommu=pt\"`";
    assert!(ran.text.contains(fix), "{}", ran.text);
    assert_eq!((root.text(NORMAL), root.text(NEWER)), (before, later), "{}", ran.text);
    let again = root.image("revert", &["--yes"]);
    assert_code(&again, &[0]);
    assert!(again.text.contains("nothing to revert"), "{}", again.text);
}

/// An operator runs the command of the fix, and an image may be hostile.
#[test]
fn later_entry_of_a_hostile_image_gives_no_command() {
    let root = rocky();
    std::fs::remove_file(root.at(NEWER)).expect("ours");
    assert_code(&root.apply(&[]), &[0]);
    let kernel = "5.15.0;x";
    root.put(&format!("boot/vmlinuz-{kernel}"), "image");
    root.put(NEWER, &root.text(NORMAL).replace("5.14.0", kernel));
    let ran = root.image("revert", &["--yes"]);
    assert_code(&ran, &[4]);
    assert!(ran.text.contains("remove `iommu=pt` from the `options` line of"), "{}", ran.text);
    assert!(!ran.text.contains("grubby"), "{}", ran.text);
}

/// A second change has recorded the entry with an argument of the first one.
#[test]
fn argument_of_an_earlier_change_is_noted() {
    let root = rocky();
    std::fs::remove_file(root.at(NEWER)).expect("ours");
    assert_code(&root.apply(&[]), &[0]);
    let later = install_newer(&root);
    let profile = root.text(PROFILE).replace("\"iommu=pt\"", "\"iommu=pt\", \"nosmt\"");
    root.put(PROFILE, &profile);
    assert_code(&root.apply(&[]), &[0]);
    assert!(root.text(NEWER).contains("iommu=pt nosmt"), "{}", root.text(NEWER));
    let ran = root.image("revert", &["--yes"]);
    assert_code(&ran, &[0]);
    assert_eq!(root.text(NEWER), later, "{}", ran.text);
    assert!(ran.text.contains("0123-5.15.0.conf keeps `iommu=pt`"), "{}", ran.text);
}

#[test]
fn entry_with_the_argument_before_apply_is_not_listed() {
    let root = rocky();
    let own = root.text(NEWER).replace("root=/dev/r ro", "root=/dev/r ro iommu=pt");
    root.put(NEWER, &own);
    root.set_modified(NEWER, 0);
    assert_code(&root.apply(&[]), &[0]);
    assert!(root.text(NORMAL).contains("iommu=pt"));
    let ran = root.image("revert", &["--yes"]);
    assert_code(&ran, &[0]);
    assert!(!ran.text.contains("keeps `iommu=pt`"), "{}", ran.text);
    assert_eq!(root.text(NEWER), own);
}
