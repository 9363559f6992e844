//! RHEL family without entry files: choice of the configuration to regenerate. grub2-mkconfig is a script that writes one
//! entry.

use bedplate_tests::fixtures;

use crate::root::Root;

const CFG: &str = "boot/grub2/grub.cfg";
const ESP: &str = "boot/efi/EFI/centos/grub.cfg";
const MKCONFIG: &str = "#!/bin/sh\nset -e\n. /etc/default/grub\ncat > \"$2\" <<X\nset default=0\nmenuentry 'A' --id a {\n linux /vmlinuz root=/dev/vda1 ro $GRUB_CMDLINE_LINUX\n}\nX\n";
/// As on the ESP of RHEL 9.
const STUB: &str = "search --no-floppy --root-dev-only --fs-uuid --set=dev 1-2\nset prefix=($dev)/grub2\nexport $prefix\nconfigfile $prefix/grub.cfg\n";

fn menu(line: &str) -> String {
    format!(
        "set default=0\nmenuentry 'A' --id a {{\n linux /vmlinuz root=/dev/vda1 ro {line}\n}}\n"
    )
}

fn centos() -> Root {
    let root = Root::new("ID=centos\n", &["iommu=pt"], &["quiet"]);
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"rhgb\"\n");
    root.tool("usr/sbin/grub2-mkconfig", MKCONFIG);
    root.programs(&["/bin/sh", "/bin/cat"]);
    root
}

/// Applies with the image's tools, and checks that exactly these files have the argument.
fn assert_made(root: &Root, made: &[&str]) {
    fixtures::root();
    let before = root.files();
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    for path in [CFG, ESP].into_iter().filter(|path| root.has(path)) {
        let there = root.text(path).contains("ro rhgb iommu=pt");
        assert_eq!(there, made.contains(&path), "{path}: {}", done.text);
    }
    assert_eq!(root.plan().code, Some(0));
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(0), "{}", back.text);
    assert_eq!(root.files(), before);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn configuration_on_the_esp_is_regenerated() {
    let root = centos();
    root.put(ESP, &menu("rhgb"));
    assert_made(&root, &[ESP]);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn stub_and_links_lead_to_boot() {
    let root = centos();
    root.put(ESP, STUB);
    root.put(CFG, &menu("rhgb"));
    assert_made(&root, &[CFG]);
    let root = centos();
    root.put(CFG, &menu("rhgb"));
    std::fs::create_dir_all(root.at("boot/efi/EFI/centos")).expect("ours");
    std::os::unix::fs::symlink("../../../grub2/grub.cfg", root.at(ESP)).expect("ours");
    assert_made(&root, &[CFG, ESP]);
    let root = centos();
    root.put(ESP, &menu("rhgb"));
    std::fs::create_dir_all(root.at("boot/grub2")).expect("ours");
    std::os::unix::fs::symlink("../efi/EFI/centos/grub.cfg", root.at(CFG)).expect("ours");
    assert_made(&root, &[CFG, ESP]);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn image_for_both_firmwares_gets_both() {
    let root = centos();
    root.put(CFG, &menu("rhgb"));
    root.put(ESP, &menu("rhgb"));
    assert_made(&root, &[CFG, ESP]);
}

/// The record of /etc/kernel/cmdline is unfinished until the tool has run. It must not look like an interrupted tool.
#[test]
fn tool_that_the_build_ran_settles_with_kernel_cmdline() {
    let root = centos();
    root.put(CFG, &menu("rhgb"));
    root.put("usr/lib/kernel/install.d/20-grub.install", "#!/bin/bash\n");
    root.put("etc/kernel/cmdline", "root=/dev/vda1 ro rhgb\n");
    let owed = root.apply(&[]);
    assert_eq!(owed.code, Some(6), "{}", owed.text);
    // As grub2-mkconfig writes it.
    root.put(CFG, &menu("rhgb iommu=pt"));
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let plan = root.plan();
    assert_eq!(plan.code, Some(0), "{}", plan.text);
}

#[test]
fn configurations_of_several_vendors_are_refused() {
    let root = centos();
    root.put("boot/efi/EFI/one/grub.cfg", &menu("rhgb"));
    root.put("boot/efi/EFI/two/grub.cfg", &menu("rhgb"));
    let before = root.files();
    for ran in [root.plan(), root.apply(&[])] {
        assert_eq!(ran.code, Some(4), "{}", ran.text);
        assert!(ran.text.contains("/boot/efi/EFI/one/grub.cfg"), "{}", ran.text);
    }
    assert_eq!(root.files(), before);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn live_host_regenerates_its_firmwares_configuration() {
    let root = centos();
    root.put(ESP, &menu("rhgb"));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    assert!(root.text(ESP).contains("rhgb iommu=pt"), "{}", done.text);
    assert!(!root.has(CFG));
    for (firmware, made, other) in [(false, CFG, ESP), (true, ESP, CFG)] {
        let root = centos();
        root.put(CFG, &menu("rhgb"));
        root.put(ESP, &menu("rhgb"));
        if firmware {
            root.put("sys/firmware/efi/fw_platform_size", "64\n");
        }
        let done = root.live(&["apply", "--yes"]);
        assert_eq!(done.code, Some(3), "{}", done.text);
        assert!(root.text(made).contains("rhgb iommu=pt"), "{}", done.text);
        assert!(!root.text(other).contains("iommu=pt"), "{}", done.text);
    }
}
