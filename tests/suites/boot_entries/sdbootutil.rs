//! SUSE with sdbootutil, here a script with the tool's effect on entries: it builds the options of every entry from
//! /etc/kernel/cmdline, with the root and the subvolume that it knows.

use bedplate_tests::fixtures;

use crate::root::Root;

const CMDLINE: &str = "etc/kernel/cmdline";
const ENTRIES: [&str; 2] = [
    "boot/efi/loader/entries/system-opensuse-leap-6.12.0-1-default-3.conf",
    "boot/efi/loader/entries/system-opensuse-leap-6.11.0-1-default-2.conf",
];
const TOOL: &str = "#!/bin/sh\nset -e\n[ \"$*\" = update-all-entries ]\nread -r line < /etc/kernel/cmdline\n\
                    for entry in /boot/efi/loader/entries/*.conf; do\n\
                    sed -i \"s|^options .*|options $line root=UUID=1 rootflags=subvol=@/.snapshots/3/snapshot|\" \"$entry\"\ndone\n";

fn entry(kernel: &str) -> String {
    format!(
        "title openSUSE\nversion {kernel}\noptions quiet splash root=UUID=1 rootflags=subvol=@/.snapshots/3/snapshot\n\
         linux /opensuse-leap/{kernel}/linux\ninitrd /opensuse-leap/{kernel}/initrd\n"
    )
}

/// Leap 16 with two kernels, and the GRUB file that the tool does not read.
fn leap(loader: &str) -> Root {
    let os = "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"16.0\"\n";
    let root = Root::new(os, &["iommu=pt"], &["quiet"]);
    root.put("etc/sysconfig/bootloader", &format!("LOADER_TYPE=\"{loader}\"\n"));
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    root.put(CMDLINE, "quiet splash\n");
    for (path, kernel) in ENTRIES.iter().zip(["6.12.0-1-default", "6.11.0-1-default"]) {
        root.put(path, &entry(kernel));
        root.put(&format!("usr/lib/modules/{kernel}/modules.dep"), "");
        root.put(&format!("boot/efi/opensuse-leap/{kernel}/linux"), &"image".repeat(200));
        root.put(&format!("boot/efi/opensuse-leap/{kernel}/initrd"), &"image".repeat(200));
    }
    std::os::unix::fs::symlink("usr/lib", root.at("lib")).expect("ours");
    root.tool("usr/sbin/grub2-mkconfig", "#!/bin/sh\nexit 1\n");
    root.tool("usr/bin/sdbootutil", TOOL);
    root
}

fn assert_refused(root: &Root, text: &str) {
    let before = root.files();
    for ran in [root.plan(), root.apply(&[])] {
        assert_eq!(ran.code, Some(4), "{}", ran.text);
        assert!(ran.text.contains(text), "{}", ran.text);
    }
    assert_eq!(root.files(), before);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn every_entry_is_generated_from_the_file() {
    fixtures::root();
    for loader in ["grub2-bls", "systemd-boot"] {
        let root = leap(loader);
        if loader == "systemd-boot" {
            std::fs::remove_file(root.at("etc/default/grub")).expect("ours");
            for measured in ["var/lib/systemd/pcrlock.json", "etc/systemd/tpm2-pcr-public-key.pem"]
            {
                root.put(measured, "{}");
                assert_refused(&root, "recovery key");
                std::fs::remove_file(root.at(measured)).expect("ours");
            }
        }
        let plan = root.plan();
        assert_eq!(plan.code, Some(2), "{loader}: {}", plan.text);
        assert!(plan.text.contains("run sdbootutil update-all-entries"), "{}", plan.text);
        assert!(!plan.text.contains("mkconfig"), "{}", plan.text);
        root.programs(&["/bin/sh", "/bin/sed"]);
        let done = root.apply(&["--chroot-tools"]);
        assert_eq!(done.code, Some(0), "{loader}: {}", done.text);
        assert_eq!(root.text(CMDLINE), "splash iommu=pt\n");
        for path in ENTRIES {
            let text = root.text(path);
            assert!(text.contains("options splash iommu=pt root=UUID=1"), "{loader}: {text}");
        }
        let again = root.plan();
        assert_eq!(again.code, Some(0), "{loader}: {}", again.text);
        let back = root.image("revert", &["--yes", "--chroot-tools"]);
        assert_eq!(back.code, Some(0), "{loader}: {}", back.text);
        assert_eq!(root.text(CMDLINE), "quiet splash\n");
        for path in ENTRIES {
            let text = root.text(path);
            assert!(text.contains("options quiet splash root=UUID=1"), "{loader}: {text}");
        }
    }
}

#[test]
fn lossy_or_garbled_sources_are_refused() {
    for loader in ["grub2-bls", "systemd-boot"] {
        let without_tool = leap(loader);
        std::fs::remove_file(without_tool.at("usr/bin/sdbootutil")).expect("ours");
        assert_refused(&without_tool, "install sdbootutil");
        let without_file = leap(loader);
        std::fs::remove_file(without_file.at(CMDLINE)).expect("ours");
        assert_refused(&without_file, "from /proc/cmdline");
        let only_in_entry = leap(loader);
        only_in_entry.put(CMDLINE, "quiet\n");
        assert_refused(&only_in_entry, "the default boot entry has `splash`");
        let drop_in = leap(loader);
        drop_in.put("etc/kernel/cmdline.d/site.conf", "nosmt\n");
        assert_refused(&drop_in, "etc/kernel/cmdline.d/site.conf");
        let comment = leap(loader);
        comment.put(CMDLINE, "# ours\nquiet splash\n");
        assert_refused(&comment, "comment line");
    }
    // GRUB ends the arguments there in any case.
    let garbled = leap("systemd-boot");
    garbled.put(CMDLINE, "quiet splash x=a|b\n");
    for path in ENTRIES {
        garbled.put(path, &entry("6.12.0-1-default").replace("splash", "splash x=a|b"));
    }
    assert_refused(&garbled, "garbles");
}
