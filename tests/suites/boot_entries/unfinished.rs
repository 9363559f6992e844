//! Images that have no boot loader yet: nothing is done silently, and nothing is left out silently.

use crate::root::Root;

const DROP_IN: &str = "etc/default/grub.d/zz-bedplate.cfg";

/// Debian with grub2-common unpacked: it has the directory of drop-ins, but neither the package's own file nor the menu.
fn debian() -> Root {
    let root = Root::new("ID=debian\nVERSION_ID=\"13\"\n", &["iommu=pt"], &[]);
    std::fs::create_dir_all(root.at("etc/default/grub.d")).expect("ours");
    root.tool("usr/sbin/update-grub", "#!/bin/sh\nexit 1\n");
    root
}

#[test]
fn debian_without_a_configuration_gets_the_drop_in() {
    let root = debian();
    assert_eq!(root.plan().code, Some(2));
    let done = root.apply(&[]);
    assert!(root.text(DROP_IN).contains("iommu=pt"), "{}", done.text);
    assert!(done.text.contains("update-grub"), "{}", done.text);
    let files = root.files();
    let again = root.apply(&[]);
    assert_eq!(root.files(), files, "{}", again.text);
    assert!(again.text.contains("update-grub"), "still owed: {}", again.text);
    // The package's file, installed later, is read before the drop-in.
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    let plan = root.plan_json();
    assert!(plan["changes"].as_array().expect("changes").iter().all(|change| {
        change["items"].as_array().expect("items").iter().all(|item| item["subject"] != "iommu=pt")
    }));
    let back = root.image("revert", &["--yes"]);
    assert!(!root.has(DROP_IN), "{}", back.text);
}

#[test]
fn missing_base_line_is_requested() {
    for layout in ["uki", "bls"] {
        let root = Root::new("ID=debian\nVERSION_ID=\"13\"\n", &["iommu=pt"], &[]);
        root.put("etc/kernel/install.conf", &format!("layout={layout}\n"));
        root.tool("usr/bin/kernel-install", "#!/bin/sh\nexit 1\n");
        let before = root.files();
        for ran in [root.plan(), root.apply(&[])] {
            assert_eq!(ran.code, Some(4), "{layout}: {}", ran.text);
            assert!(
                ran.text.contains("write the current line (with root=) to /etc/kernel/cmdline"),
                "{}",
                ran.text
            );
        }
        assert_eq!(root.files(), before);
        // With a line, `apply` has something to do.
        root.put("etc/kernel/cmdline", "root=UUID=1 ro quiet\n");
        let done = root.apply(&[]);
        assert!(root.text("etc/kernel/cmdline").contains("iommu=pt"), "{}", done.text);
    }
}
