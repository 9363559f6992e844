//! Distributions whose os-release names no family, and those that bedplate cannot manage. GRUB's tools are short scripts.

use bedplate_tests::fixtures;

use crate::root::Root;

const DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"rhgb\"\nGRUB_CMDLINE_LINUX=\"\"\n";
const MADE: &str = "### BEGIN /etc/grub.d/10_linux ###\nset default=0\nmenuentry 'A' --id a {\n linux /vmlinuz root=/dev/vda1 ro rhgb\n}\n### END /etc/grub.d/10_linux ###\n";

fn script(target: &str) -> String {
    format!(
        "#!/bin/sh\nset -e\n. /etc/default/grub\nfor f in /etc/default/grub.d/*.cfg; do [ ! -e \"$f\" ] || . \"$f\"; done\n\
         cat > {target} <<X\n### BEGIN /etc/grub.d/10_linux ###\nset default=0\nmenuentry 'A' --id a {{\n \
         linux /vmlinuz root=/dev/vda1 ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\n}}\nX\n"
    )
}

fn root(id: &str) -> Root {
    let root = Root::new(&format!("ID={id}\n"), &["iommu=pt"], &["quiet"]);
    root.put("etc/default/grub", DEFAULT);
    root
}

fn assert_refused(root: &Root, fix: &str) {
    let before = root.files();
    for ran in [root.plan(), root.apply(&[])] {
        assert_eq!(ran.code, Some(4), "{}", ran.text);
        assert!(ran.text.contains(fix), "{}", ran.text);
    }
    assert_eq!(root.files(), before);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tools_with_red_hats_names_tell_the_family() {
    fixtures::root();
    for (id, cfg) in [
        ("openEuler", "boot/efi/EFI/openEuler/grub.cfg"),
        ("kylin", "boot/efi/EFI/kylin/grub.cfg"),
        ("azurelinux", "boot/grub2/grub.cfg"),
    ] {
        let root = root(id);
        root.put(cfg, MADE);
        root.tool("usr/sbin/grub2-mkconfig", &script("\"$2\""));
        root.programs(&["/bin/sh", "/bin/cat"]);
        let done = root.apply(&["--chroot-tools"]);
        assert_eq!(done.code, Some(0), "{id}: {}", done.text);
        assert!(root.text(cfg).contains("iommu=pt"), "{id}: {}", done.text);
    }
}

/// Root with the layout of Azure Linux: its grub-mkconfig reads no drop-ins.
fn azure(main: &str) -> Root {
    let root = root("azurelinux");
    root.put("etc/default/grub", main);
    let kdump = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX crashkernel=256M\"\n";
    root.put("etc/default/grub.d/70-kdump.cfg", kdump);
    let made = MADE.replace("ro rhgb", "ro rd.auto=1 crashkernel=256M rhgb");
    root.put("boot/grub2/grub.cfg", &made);
    let tool = script("\"$2\"");
    let tool: Vec<&str> = tool.lines().filter(|line| !line.starts_with("for ")).collect();
    root.tool("usr/sbin/grub2-mkconfig", &(tool.join("\n") + "\n"));
    root
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn drop_ins_that_the_main_file_sources_are_read() {
    fixtures::root();
    let main = "GRUB_CMDLINE_LINUX=\"rd.auto=1\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"rhgb $kernelopts\"\n\
                for x in /etc/default/grub.d/*.cfg ; do\n  if [ -e \"${x}\" ]; then\n    . \"${x}\"\n  fi\ndone\n";
    let root = azure(main);
    root.programs(&["/bin/sh", "/bin/cat"]);
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let edited = main.replace("rd.auto=1", "rd.auto=1 iommu=pt");
    assert_eq!(root.text("etc/default/grub"), edited, "{}", done.text);
    let menu = root.text("boot/grub2/grub.cfg");
    assert!(menu.contains("rd.auto=1 iommu=pt crashkernel=256M rhgb"), "{menu}");
    assert_eq!(root.plan().code, Some(0));
    assert_refused(&azure(&format!("{main}GRUB_DEFAULT=0\n")), "as one plain assignment");
}

#[test]
fn debians_package_of_grub_tells_the_family() {
    let root = root("pve");
    root.put("etc/debian_version", "12.5\n");
    root.put("boot/grub/grub.cfg", MADE);
    root.tool("usr/sbin/update-grub", &script("/boot/grub/grub.cfg"));
    let plan = root.plan();
    assert_eq!(plan.code, Some(2), "{}", plan.text);
    assert!(plan.text.contains("update-grub"), "{}", plan.text);
}

#[test]
fn unknown_family_gets_a_fix() {
    assert_refused(&root("gentoo"), "grub-mkconfig -o /boot/grub/grub.cfg");
    let by_hand = root("azurelinux");
    by_hand.put(
        "boot/grub2/grub.cfg",
        "set default=0\nmenuentry A {\n linux /vmlinuz root=/dev/r\n}\n",
    );
    by_hand.tool("usr/sbin/grub2-mkconfig", "#!/bin/sh\n");
    assert_refused(&by_hand, "the `linux` lines themselves");
    let nothing = Root::new("ID=azurelinux\n", &["iommu=pt"], &["quiet"]);
    assert_refused(&nothing, "by hand");
}

#[test]
fn proxmox_boot_tool_is_named() {
    let root = root("debian");
    root.put("etc/kernel/proxmox-boot-uuids", "1234-5678\n");
    root.put("boot/grub/grub.cfg", MADE);
    assert_refused(&root, "proxmox-boot-tool refresh");
}

#[test]
fn image_without_the_tool_is_refused_with_a_fix() {
    let root = root("debian");
    root.put("boot/grub/grub.cfg", MADE);
    let before = root.files();
    let done = root.apply(&["--chroot-tools"]);
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert!(done.text.contains("update-grub is missing in the image"), "{}", done.text);
    assert!(done.text.contains("without --chroot-tools"), "{}", done.text);
    assert_eq!(root.files(), before);
}

#[test]
fn menu_that_only_the_esp_has_is_refused() {
    for (id, esp, tool) in [
        ("debian", "boot/efi/EFI/debian/grub.cfg", "usr/sbin/update-grub"),
        (
            "opensuse-leap\nID_LIKE=suse",
            "boot/efi/EFI/opensuse/grub.cfg",
            "usr/sbin/grub2-mkconfig",
        ),
    ] {
        let root = root(id);
        root.put(esp, MADE);
        root.tool(tool, "#!/bin/sh\n");
        assert_refused(&root, esp);
        for command in ["configfile", "source"] {
            root.put(
                esp,
                &format!(
                    "search --set=root\nset prefix=($root)/g\n{command} \"${{prefix}}/grub.cfg\"\n"
                ),
            );
            assert_eq!(root.plan().code, Some(2), "a stub");
        }
    }
}

#[test]
fn configured_line_of_an_image_without_a_menu_must_fit() {
    let root = root("debian");
    let long = "x".repeat(2100);
    root.put("etc/default/grub", &format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{long} iommu=pt\"\n"));
    let plan = root.plan();
    assert_eq!(plan.code, Some(4), "{}", plan.text);
    assert!(plan.text.contains("the kernel drops"), "{}", plan.text);
}

/// An initramfs does not show whether it was rebuilt.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn owed_rebuild_of_an_image_names_the_command() {
    fixtures::root();
    let root = Root::new("ID=debian\n", &[], &[]);
    root.put(
        "etc/bedplate/profile.toml",
        "schema = 1\nname = \"t\"\n[modules.options]\nnvidia = { NVreg_EnableMSI = \"1\" }\n",
    );
    root.tool("usr/sbin/update-initramfs", "#!/bin/sh\n");
    root.programs(&["/bin/sh"]);
    assert_eq!(root.apply(&[]).code, Some(6));
    let again = root.apply(&[]);
    assert_eq!(again.code, Some(6), "{}", again.text);
    assert!(again.text.contains("bedplate apply --chroot-tools"), "{}", again.text);
    let settled = root.apply(&["--chroot-tools"]);
    assert_eq!(settled.code, Some(0), "{}", settled.text);
    assert_eq!(root.plan().code, Some(0));
}
