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

/// Profile that needs a rebuild of the initramfs.
const OPTIONS: &str =
    "schema = 1\nname = \"t\"\n[modules.options]\nnvidia = { NVreg_EnableMSI = \"1\" }\n";
const MODPROBE: &str = "etc/modprobe.d/zz-bedplate.conf";

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
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn initramfs_is_rebuilt_by_sdbootutil() {
    fixtures::root();
    let root = leap("grub2-bls");
    root.put("etc/bedplate/profile.toml", OPTIONS);
    root.tool("usr/bin/dracut", "#!/bin/sh\nexit 1\n");
    let tool = "#!/bin/sh\nset -e\n[ \"$*\" = mkinitrd ]\n\
                for kernel in /boot/efi/opensuse-leap/*; do\necho new > \"$kernel/initrd\"\ndone\n";
    root.tool("usr/bin/sdbootutil", tool);
    root.programs(&["/bin/sh"]);
    let plan = root.plan();
    assert_eq!(plan.code, Some(2), "{}", plan.text);
    assert!(plan.text.contains("run sdbootutil mkinitrd"), "{}", plan.text);
    assert!(!plan.text.contains("dracut"), "{}", plan.text);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text("boot/efi/opensuse-leap/6.12.0-1-default/initrd"), "new\n");
    assert_eq!(root.plan().code, Some(0));
}

#[test]
fn initramfs_rebuild_from_unclear_arguments_is_refused() {
    for (path, text, reason) in [
        (CMDLINE, "\n", "is empty"),
        (CMDLINE, "# mine\nquiet splash\n", "has a comment line"),
        (CMDLINE, "quiet splash systemd.unit=rescue.target\n", "the default boot entry lacks"),
        ("etc/kernel/cmdline.d/x.conf", "rd.luks.uuid=1\n", "adds arguments"),
        ("etc/kernel/tries", "3\n", "sets a boot counter"),
        // sdbootutil copies it.
        ("usr/lib/modules/6.11.0-1-default/initrd", "image", "instead of building an initramfs"),
    ] {
        let root = leap("grub2-bls");
        root.put("etc/bedplate/profile.toml", OPTIONS);
        root.put(path, text);
        assert_refused(&root, reason);
    }
}

/// Part of the tool that builds every initramfs.
const BUILDS: &str =
    "for kernel in /boot/efi/opensuse-leap/*; do\necho new > \"$kernel/initrd\"\ndone\n";
/// The same part of the real tool, which names an initramfs by its content and removes the one that no entry names.
const RENAMES: &str = "for kernel in /boot/efi/opensuse-leap/*; do\n\
                       echo new > \"$kernel/initrd-2\"\nrm \"$kernel/initrd\"\ndone\n\
                       sed -i 's|/initrd$|/initrd-2|' /boot/efi/loader/entries/*.conf\n";

/// Sets the tool: it makes the entries again, with this line, and every initramfs.
fn set_mkinitrd(root: &Root, line: &str, builds: &str) {
    let tool = TOOL.replace("update-all-entries", "mkinitrd").replace("$line", line);
    root.tool("usr/bin/sdbootutil", &(tool + builds));
}

/// Host that needs a rebuild of the initramfs. Its tool also makes the entries again, with this line.
fn with_options(line: &str) -> Root {
    let root = leap("grub2-bls");
    root.put("etc/bedplate/profile.toml", OPTIONS);
    set_mkinitrd(&root, line, BUILDS);
    root.programs(&["/bin/sh", "/bin/sed", "/bin/rm"]);
    root
}

fn entries(root: &Root) -> [String; 2] {
    ENTRIES.map(|path| root.text(path))
}

/// Adds an argument to the entries only, as an operator may do.
fn add_to_entries(root: &Root) {
    for path in ENTRIES {
        root.put(path, &root.text(path).replace("quiet splash", "quiet splash nosmt"));
    }
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn later_argument_of_entry_survives_revert() {
    fixtures::root();
    let root = with_options("$line");
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    add_to_entries(&root);
    let before = root.files();
    let refused = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("the default boot entry has `nosmt`"), "{}", refused.text);
    assert_eq!(root.files(), before);
    root.put(CMDLINE, "quiet splash nosmt\n");
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(0), "{}", back.text);
    assert!(!root.has(MODPROBE), "{}", back.text);
    for path in ENTRIES {
        assert!(root.text(path).contains("options quiet splash nosmt root=UUID=1"), "{path}");
    }
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn later_argument_of_entry_blocks_pending_rebuild() {
    fixtures::root();
    let root = with_options("$line");
    let owed = root.apply(&[]);
    assert_eq!(owed.code, Some(6), "{}", owed.text);
    add_to_entries(&root);
    let before = root.files();
    let refused = root.apply(&["--chroot-tools"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("the default boot entry has `nosmt`"), "{}", refused.text);
    assert_eq!(root.files(), before);
    let reverted = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(reverted.code, Some(4), "{}", reverted.text);
    assert_eq!(root.files(), before);
}

/// A power cut during the rebuild leaves files on FAT without content.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn interrupted_rebuild_replaces_empty_entries() {
    fixtures::root();
    for loader in ["grub2-bls", "systemd-boot"] {
        let root = with_options("$line");
        root.put("etc/sysconfig/bootloader", &format!("LOADER_TYPE=\"{loader}\"\n"));
        let owed = root.apply(&[]);
        assert_eq!(owed.code, Some(6), "{loader}: {}", owed.text);
        let before = entries(&root);
        let mut tool = "#!/bin/sh\nset -e\n[ \"$*\" = mkinitrd ]\n".to_owned();
        for (path, entry) in ENTRIES.iter().zip(&before) {
            tool += &format!("cat > /{path} <<'X'\n{entry}X\n");
            root.put(path, "");
        }
        root.tool("usr/bin/sdbootutil", &(tool + BUILDS));
        root.programs(&["/bin/cat"]);
        let done = root.apply(&["--chroot-tools"]);
        assert_eq!(done.code, Some(0), "{loader}: {}", done.text);
        assert_eq!(entries(&root), before, "{loader}: {}", done.text);
    }
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn rebuild_that_drops_an_argument_fails() {
    fixtures::root();
    let root = with_options("quiet");
    let before = entries(&root);
    let failed = root.apply(&["--chroot-tools"]);
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    assert!(failed.text.contains("the entry lost splash"), "{}", failed.text);
    assert!(!root.has(MODPROBE), "{}", failed.text);
    assert_eq!(entries(&root), before, "{}", failed.text);
}

/// The initramfs has the rejected options, which the file no longer has.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn rejected_rebuild_stays_pending() {
    fixtures::root();
    let root = with_options("quiet");
    let failed = root.apply(&["--chroot-tools"]);
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    root.put("etc/bedplate/profile.toml", "schema = 1\nname = \"t\"\n");
    set_mkinitrd(&root, "$line", &BUILDS.replace("new", "again"));
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_eq!(root.text("boot/efi/opensuse-leap/6.12.0-1-default/initrd"), "again\n");
    let plan = root.plan();
    assert_eq!(plan.code, Some(0), "{}", plan.text);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn restored_entry_names_the_new_initrd() {
    fixtures::root();
    let root = with_options("quiet");
    set_mkinitrd(&root, "quiet", RENAMES);
    let failed = root.apply(&["--chroot-tools"]);
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    assert!(failed.text.contains("the entry lost splash"), "{}", failed.text);
    for entry in entries(&root) {
        assert!(entry.contains("\noptions quiet splash root=UUID=1 rootflags="), "{entry}");
        assert!(entry.ends_with("/initrd-2\n"), "{entry}");
    }
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn lossy_revert_restores_entries() {
    fixtures::root();
    let root = with_options("$line");
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let before = entries(&root);
    set_mkinitrd(&root, "quiet", BUILDS);
    let failed = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    assert!(failed.text.contains("the entry lost splash"), "{}", failed.text);
    assert_eq!(entries(&root), before, "{}", failed.text);
    set_mkinitrd(&root, "$line", BUILDS);
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(0), "{}", back.text);
    assert!(!root.has(MODPROBE), "{}", back.text);
    assert_eq!(entries(&root), before, "{}", back.text);
}

/// The entry of another snapshot does not replace the entry that the tool has renamed.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn renamed_entry_survives_revert() {
    const RENAMED: &str = "boot/efi/loader/entries/system-opensuse-leap-6.12.0-1-default-4.conf";
    fixtures::root();
    let root = leap("grub2-bls");
    let tool = format!(
        "#!/bin/sh\nset -e\nread -r line < /etc/kernel/cmdline\n[ ! -e /{old} ] || mv /{old} /{RENAMED}\n\
         sed -i \"s|^options .*|options $line root=UUID=1 rootflags=subvol=@/.snapshots/3/snapshot|\" /{RENAMED}\n",
        old = ENTRIES[0]
    );
    root.tool("usr/bin/sdbootutil", &tool);
    root.programs(&["/bin/sh", "/bin/sed", "/bin/mv"]);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(root.text(RENAMED).contains("options splash iommu=pt root=UUID=1"), "{}", done.text);
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(0), "{}", back.text);
    assert!(root.has(RENAMED), "{}", back.text);
    assert!(root.text(RENAMED).contains("options quiet splash root=UUID=1"), "{}", back.text);
}

/// sed would read the restored line as a part of its script.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn line_with_a_special_character_of_sed_is_not_restored() {
    fixtures::root();
    let root = leap("systemd-boot");
    let profile = "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\"]\nabsent = [\"x\"]\n";
    root.put("etc/bedplate/profile.toml", profile);
    root.put(CMDLINE, "quiet splash x=a|e\n");
    root.programs(&["/bin/sh", "/bin/sed"]);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let back = root.image("revert", &["--yes", "--chroot-tools"]);
    assert_eq!(back.code, Some(4), "{}", back.text);
    assert!(back.text.contains("which sdbootutil passes to sed"), "{}", back.text);
    assert_eq!(root.text(CMDLINE), "quiet splash iommu=pt\n");
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
