//! RHEL family with entry files that GRUB reads. No real tools (Debian has neither grubby nor `blscfg`); grubby is a script
//! modelled on the upstream one.

use crate::root::Root;

const ROCKY: &str = "ID=rocky\nID_LIKE=\"rhel fedora\"\n";
const NORMAL: &str = "boot/loader/entries/0123-5.14.0.conf";
const RESCUE: &str = "boot/loader/entries/0123-0-rescue.conf";
const HEADER: &str = "load_env\nset default=\"${saved_entry}\"\n";
/// As written by RHEL 8's 10_linux.
const FALLBACK: &str =
    "if [ -z \"${kernelopts}\" ]; then\n  set kernelopts=\"root=/dev/mapper/r-root ro\"\nfi\n";

fn block(variables: &str) -> String {
    format!("{:#<1024}", format!("# GRUB Environment Block\n{variables}"))
}

fn entry(kernel: &str, options: &str) -> String {
    format!(
        "title Rocky ({kernel})\nversion {kernel}\nlinux /vmlinuz-{kernel}\ninitrd /initramfs-{kernel}.img\n{options}"
    )
}

/// Root with one normal entry, which has this `options` line. Its grub.cfg has these commands before `blscfg`.
fn rocky(options: &str, commands: &str) -> Root {
    let root = Root::new(ROCKY, &["iommu=pt"], &["quiet"]);
    root.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"rhgb\"\nGRUB_ENABLE_BLSCFG=true\n");
    root.put(NORMAL, &entry("5.14.0", options));
    root.put("boot/grub2/grubenv", &block("saved_entry=0123-5.14.0\n"));
    root.put("boot/grub2/grub.cfg", &format!("{HEADER}{commands}blscfg\n"));
    root
}

fn assert_refused(root: &Root, reason: &str) {
    let before = root.files();
    let plan = root.plan();
    assert_eq!(plan.code, Some(4), "{}", plan.text);
    let json = root.plan_json();
    let reasons: Vec<&str> = json["blockers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|blocker| blocker["reason"].as_str())
        .collect();
    assert!(reasons.iter().any(|text| text.contains(reason)), "{reasons:?}");
    let applied = root.apply(&[]);
    assert_eq!(applied.code, Some(4), "{}", applied.text);
    assert_eq!(root.files(), before, "{}", applied.text);
}

#[test]
fn stored_kernelopts_start_from_the_fallback() {
    let root = rocky("options $kernelopts $tuned_params\n", FALLBACK);
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let environment = root.text("boot/grub2/grubenv");
    assert!(
        environment.contains("\nkernelopts=root=/dev/mapper/r-root ro iommu=pt\n"),
        "{environment}"
    );
    assert_eq!(environment.len(), 1024);
    assert_eq!(root.plan().code, Some(0));
    let before = block("saved_entry=0123-5.14.0\n");
    assert_eq!(root.image("revert", &["--yes"]).code, Some(0));
    assert_eq!(root.text("boot/grub2/grubenv"), before);
}

#[test]
fn kernelopts_without_a_known_value_are_refused() {
    let root = rocky(
        "options $kernelopts\n",
        "if [ $grub_platform = efi ]; then set kernelopts=\"root=a\"; fi\n",
    );
    assert_refused(&root, "only GRUB knows");
    let root = rocky("options $kernelopts $tuned_params\n", "");
    assert_refused(&root, "not even root=");
    let root = rocky("options $kernelopts $tuned_params\n", "");
    std::fs::remove_file(root.at("boot/grub2/grub.cfg")).expect("ours");
    assert_refused(&root, "is absent");
}

#[test]
fn kernelopts_that_the_configuration_overrides_are_refused() {
    let root = rocky("options $kernelopts\n", "set kernelopts=\"root=/dev/r ro\"\n");
    assert_refused(&root, "does not use the arguments of");
}

#[test]
fn entry_without_options_starts_from_the_default() {
    let root = rocky("", "set default_kernelopts=\"root=UUID=1 ro quiet\"\n");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(
        root.text(NORMAL).ends_with("options root=UUID=1 ro iommu=pt\n"),
        "{}",
        root.text(NORMAL)
    );
    let root = rocky("", "");
    assert_refused(&root, "not even root=");
}

/// As for a unified kernel image, which has its arguments in itself.
#[test]
fn entry_without_a_kernel_stays_unchanged() {
    const IMAGE: &str = "boot/loader/entries/0123-4.18.0-uki.conf";
    let text = "title UKI\nversion 4.18.0\nefi /EFI/Linux/0123-4.18.0.efi\n";
    let root = rocky("options root=/dev/r ro quiet\n", "");
    root.put(IMAGE, text);
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(root.text(NORMAL).ends_with("options root=/dev/r ro iommu=pt\n"), "{}", done.text);
    assert_eq!(root.text(IMAGE), text);
    // Newer builds of GRUB start it, older ones the normal entry.
    root.put("boot/grub2/grubenv", &block("saved_entry=0123-4.18.0-uki\n"));
    root.put(
        "etc/bedplate/profile.toml",
        "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\", \"a=1\"]\n",
    );
    assert_refused(&root, "depends on the machine");
}

#[test]
fn blank_kernel_cmdline_is_refused() {
    let root = rocky("options root=/dev/r ro\n", "");
    root.put("etc/kernel/cmdline", "\n");
    assert_refused(&root, "/etc/kernel/cmdline is empty");
}

/// Root with the plugin of kernel-install that reads /etc/kernel/cmdline, and compares its age with /etc/default/grub.
fn with_plugin(options: &str) -> Root {
    let root = rocky(options, "");
    root.put("usr/lib/kernel/install.d/20-grub.install", "#!/bin/bash\n");
    root
}

#[test]
fn kernel_cmdline_stays_newer_than_default_grub() {
    let line = "root=/dev/r ro rd.lvm.lv=r/root iommu=pt\n";
    let root = with_plugin(&format!("options quiet {line}"));
    // Already without the argument that the profile removes.
    root.put("etc/kernel/cmdline", line);
    root.put(
        "etc/default/grub",
        "GRUB_CMDLINE_LINUX=\"rhgb quiet iommu=pt\"\nGRUB_ENABLE_BLSCFG=true\n",
    );
    root.set_modified("etc/default/grub", 1);
    root.set_modified("etc/kernel/cmdline", 2);
    let (main, line) = (root.at("etc/default/grub"), root.at("etc/kernel/cmdline"));
    let age = |path| std::fs::metadata(path).expect("a file").modified().expect("a time");
    let before = root.text("etc/kernel/cmdline");
    for command in ["apply", "revert"] {
        let ran = match command {
            "apply" => root.apply(&[]),
            _ => root.image(command, &["--yes"]),
        };
        assert_eq!(ran.code, Some(0), "{}", ran.text);
        let is_applied = !root.text("etc/default/grub").contains("quiet");
        assert_eq!(is_applied, command == "apply", "{}", ran.text);
        assert!(age(&line) >= age(&main), "{}", ran.text);
        assert_eq!(root.text("etc/kernel/cmdline"), before);
    }
    // An operator's edit of /etc/default/grub must reach the older file.
    root.set_modified("etc/kernel/cmdline", 0);
    assert_eq!(root.apply(&[]).code, Some(0));
    assert_eq!(age(&line), std::time::UNIX_EPOCH);
}

#[test]
fn edit_that_changes_the_order_of_ages_is_noted() {
    let root = with_plugin("options root=/dev/r ro\n");
    root.put("etc/kernel/cmdline", "root=/dev/r ro\n");
    for (age, is_noted) in [(1, true), (3, false)] {
        root.set_modified("etc/default/grub", 2);
        root.set_modified("etc/kernel/cmdline", age);
        let plan = root.plan();
        let note = "this change makes it newer than /etc/default/grub";
        assert_eq!(plan.text.contains(note), is_noted, "{}", plan.text);
    }
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn missing_kernel_cmdline_is_created_from_the_entry() {
    let root = with_plugin("options root=/dev/r ro quiet $tuned_params\n");
    let before = root.files();
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let line = root.text("etc/kernel/cmdline");
    assert!(line.starts_with("root=/dev/r ro ") && !line.contains("quiet"), "{line}");
    assert!(line.contains(" $tuned_params") && line.contains(" iommu=pt"), "{line}");
    let back = root.live(&["revert", "--yes"]);
    assert!(matches!(back.code, Some(0 | 3)), "{}", back.text);
    assert!(!root.has("etc/kernel/cmdline"), "{}", back.text);
    let after = root.files();
    for (path, bytes) in &before {
        assert_eq!(after.get(path), Some(bytes), "{}", path.display());
    }
    // Nothing reads the file if entries use `kernelopts` (RHEL 8), or without the plugin.
    let root = with_plugin("options $kernelopts\n");
    root.put("boot/grub2/grub.cfg", &format!("{HEADER}{FALLBACK}blscfg\n"));
    let other = rocky("options root=/dev/r ro\n", "");
    for root in [root, other] {
        let done = root.live(&["apply", "--yes"]);
        assert_eq!(done.code, Some(3), "{}", done.text);
        assert!(!root.has("etc/kernel/cmdline"), "{}", done.text);
    }
}

/// The builder may put the image on other file systems.
#[test]
fn image_gets_no_kernel_cmdline_with_the_root_of_its_entry() {
    let root = with_plugin("options root=/dev/r ro quiet\n");
    assert_eq!(root.apply(&[]).code, Some(0));
    assert!(root.text(NORMAL).contains("iommu=pt") && !root.has("etc/kernel/cmdline"));
    // New kernels would get the vendor's line, even after the first boot.
    let root = with_plugin("options root=/dev/r ro quiet\n");
    root.put("usr/lib/kernel/cmdline", "root=/dev/v ro\n");
    assert_eq!(root.apply(&[]).code, Some(0));
    assert_eq!(root.text("etc/kernel/cmdline"), "root=/dev/v ro iommu=pt\n");
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn rescue_entry_is_not_changed() {
    let root = rocky("options root=/dev/r ro\n", "");
    root.put(RESCUE, &entry("0-rescue", "options root=/dev/r ro\n"));
    let grubby = "#!/bin/sh\nfor one in \"$@\"; do case $one in --args=*) args=${one#--args=};; esac; done\n\
                  for entry in /boot/loader/entries/*.conf; do sed -i \"s/^options.*/& $args/\" \"$entry\"; done\n";
    root.tool("usr/sbin/grubby", grubby);
    let before = root.files();
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    assert!(root.text(NORMAL).contains("options root=/dev/r ro iommu=pt\n"), "{}", done.text);
    assert!(root.text(RESCUE).contains("options root=/dev/r ro\n"), "{}", done.text);
    let back = root.live(&["revert", "--yes"]);
    assert!(matches!(back.code, Some(0 | 3)), "{}", back.text);
    let after = root.files();
    for (path, bytes) in &before {
        assert_eq!(after.get(path), Some(bytes), "{}", path.display());
    }
}

#[test]
fn configuration_on_the_esp_is_read() {
    let root = rocky("options $kernelopts\n", "");
    root.put("etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"8.10\"\n");
    std::fs::remove_file(root.at("boot/grub2/grub.cfg")).expect("ours");
    std::fs::remove_file(root.at("boot/grub2/grubenv")).expect("ours");
    let esp = "boot/efi/EFI/redhat";
    root.put(&format!("{esp}/grub.cfg"), &format!("{HEADER}{FALLBACK}blscfg\n"));
    root.put(&format!("{esp}/grubenv"), &block("saved_entry=0123-5.14.0\n"));
    std::os::unix::fs::symlink("../efi/EFI/redhat/grubenv", root.at("boot/grub2/grubenv"))
        .expect("ours");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    let environment = root.text(&format!("{esp}/grubenv"));
    assert!(
        environment.contains("\nkernelopts=root=/dev/mapper/r-root ro iommu=pt\n"),
        "{environment}"
    );
    assert!(root.at("boot/grub2/grubenv").is_symlink());
}

#[test]
fn undecided_line_is_refused_in_the_plan() {
    let of_grub = "if [ \"$grub_platform\" = efi ]; then\n  set foo=quiet\nfi\n";
    assert_refused(&rocky("options root=/dev/r ro $foo\n", of_grub), "[\"foo\"]");
    for (options, variable) in
        [("options root=/dev/r ro $foo\n", "foo"), ("", "default_kernelopts")]
    {
        let root = rocky(options, "");
        std::fs::remove_file(root.at("boot/grub2/grub.cfg")).expect("ours");
        assert_refused(&root, variable);
    }
    let root = rocky("options root=/dev/r ro\n", "");
    root.put("boot/efi/EFI/rocky/grub.cfg", "");
    assert_refused(&root, "/boot/efi/EFI/rocky/grub.cfg, which GRUB reads first on UEFI, is empty");
}

#[test]
fn image_without_configuration_takes_the_newest_entry() {
    let root = rocky("options root=/dev/r ro quiet\n", "");
    std::fs::remove_file(root.at("boot/grub2/grub.cfg")).expect("ours");
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(root.text(NORMAL).ends_with("options root=/dev/r ro iommu=pt\n"));
    assert_eq!(root.plan().code, Some(0));
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn live_host_without_menu_is_not_rebooted() {
    let root = rocky("options root=/dev/r ro\n", "");
    root.put("etc/grub.d/10_linux", "if [ \"x${GRUB_GRUBENV_UPDATE}\" = \"xyes\" ]; then\n");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let cfg = root.at("boot/grub2/grub.cfg");
    std::fs::remove_file(&cfg).expect("ours");
    let refused = root.live(&["plan", "--exit-code"]);
    assert_eq!(refused.code, Some(4), "{}", refused.text);
    assert!(refused.text.contains("its tool is not installed"), "{}", refused.text);
    root.tool("usr/sbin/grub2-mkconfig", "#!/bin/sh\n");
    let planned = root.live(&["plan", "--exit-code"]);
    assert_eq!(planned.code, Some(2), "{}", planned.text);
    std::os::unix::fs::symlink("../efi/EFI/rocky/grub.cfg", &cfg).expect("ours");
    let link = root.live(&["plan", "--exit-code"]);
    assert_eq!(link.code, Some(4), "{}", link.text);
    std::fs::remove_dir_all(root.at("boot/grub2")).expect("ours");
    let gone = root.live(&["plan", "--exit-code"]);
    assert_eq!(gone.code, Some(5), "{}", gone.text);
    for ran in [refused, planned, link, gone] {
        assert!(ran.text.contains("Do not reboot"), "{}", ran.text);
        assert!(!ran.text.contains("Reboot required"), "{}", ran.text);
    }
}
