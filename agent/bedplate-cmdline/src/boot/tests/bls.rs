//! Boot loader entries.

use std::collections::BTreeMap;

use super::super::bls::{BlsEntry, BlsError, grub_order, systemd_default, systemd_order};
use super::edit;
use crate::{CommandLine, Edit};

const EL9: &str = "title Rocky Linux (5.14.0-503.11.1.el9_5.x86_64) 9.5 (Blue Onyx)
version 5.14.0-503.11.1.el9_5.x86_64
linux /vmlinuz-5.14.0-503.11.1.el9_5.x86_64
initrd /initramfs-5.14.0-503.11.1.el9_5.x86_64.img $tuned_initrd
options root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M $tuned_params
grub_users $grub_users
grub_arg --unrestricted
grub_class rocky
";

const EL8: &str = "title Red Hat Enterprise Linux (4.18.0-553.el8_10.x86_64) 8.10 (Ootpa)
version 4.18.0-553.el8_10.x86_64
linux /vmlinuz-4.18.0-553.el8_10.x86_64
initrd /initramfs-4.18.0-553.el8_10.x86_64.img $tuned_initrd
options $kernelopts $tuned_params
id rhel-20240424203412-4.18.0-553.el8_10.x86_64
grub_users $grub_users
grub_arg --unrestricted
grub_class kernel
";

const ARCH: &str = "# made by kernel-install\ntitle      Arch Linux\nsort-key   arch\nmachine-id aaaa\nversion    6.12.1-arch1-1\nlinux      /arch/6.12.1/linux\ninitrd     /arch/6.12.1/initrd\noptions    root=UUID=1-2 rw\noptions    quiet a=\"b;c\"\n";

fn entry(text: &str) -> BlsEntry {
    BlsEntry::parse("m-1.conf", text)
}

/// Applies an edit with all variables unset.
fn edited(text: &str, wish: &Edit) -> Result<String, BlsError> {
    entry(text).edited(wish, &|_| Some(String::new()))
}

fn grub(text: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let lookup = |name: &str| Some(variables.get(name).copied().unwrap_or_default().to_owned());
    let (line, unresolved) = entry(text).grub_cmdline(&lookup).expect("readable");
    (
        CommandLine::parse(&line).tokens().map(|t| t.as_str()).collect::<Vec<_>>().join(" "),
        unresolved,
    )
}

#[test]
fn entry_with_a_program_has_no_certain_kernel() {
    assert_eq!(entry("linux /k\n").expect_kernel(), Ok("/k"));
    for text in ["efi /u.efi\n", "linux /k\nefi /u.efi\n", "title t\n"] {
        assert!(entry(text).expect_kernel().is_err(), "{text}");
    }
}

#[test]
fn fields() {
    let entry = BlsEntry::parse("0123-5.14.0.conf", EL9);
    assert_eq!(entry.id(), "0123-5.14.0");
    assert_eq!(entry.title(), Some("Rocky Linux (5.14.0-503.11.1.el9_5.x86_64) 9.5 (Blue Onyx)"));
    assert_eq!(entry.version(), Some("5.14.0-503.11.1.el9_5.x86_64"));
    assert_eq!(entry.linux(), Some("/vmlinuz-5.14.0-503.11.1.el9_5.x86_64"));
    assert_eq!(entry.grub_variables(), ["tuned_params"]);
    assert_eq!(BlsEntry::parse("arch+3-1.conf", ARCH).id(), "arch");
    assert_eq!(BlsEntry::parse("c++.conf", ARCH).id(), "c++");
    assert_eq!(entry.text(), EL9);
}

#[test]
fn grub_cmdline_expands_variables() {
    let kernelopts = ("kernelopts", "root=/dev/sda1 ro pci=config_acs=\"a;b\"");
    assert_eq!(grub(EL8, &[kernelopts]).0, "root=/dev/sda1 ro pci=config_acs=a;b");
    assert_eq!(
        grub(EL8, &[kernelopts, ("tuned_params", "isolcpus=1-3 x")]).0,
        "root=/dev/sda1 ro pci=config_acs=a;b isolcpus=1-3 x"
    );
    let unknown = entry(EL8).grub_cmdline(&|_| None).expect("readable");
    assert_eq!(unknown.1, ["kernelopts", "tuned_params"]);
    assert_eq!(grub("linux /x\n", &[("default_kernelopts", "ro y")]).0, "ro y");
}

#[test]
fn entry_read_differently_by_grub_builds_is_rejected() {
    let found =
        |text: &str| entry(text).grub_cmdline(&|_| Some(String::new())).expect_err("refused");
    assert_eq!(found("linux /x\noptions a\noptions b\n").line, 3);
    assert_eq!(found("linux /x\n\noptions a\n").line, 2);
    assert_eq!(found("linux /x\noptions a;b\n").line, 2);
}

#[test]
fn systemd_boot_passes_options_verbatim() {
    assert_eq!(entry(ARCH).systemd_cmdline(), "root=UUID=1-2 rw quiet a=\"b;c\"");
}

#[test]
fn edit_changes_only_options() {
    let wish = edit(&["iommu=pt", "pci=config_acs=a;b"], &["crashkernel"]);
    let new = edited(EL9, &wish).expect("editable");
    let expected = EL9.replace(
        "ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M $tuned_params",
        "ro $tuned_params iommu=pt pci=config_acs=\"a;b\"",
    );
    assert_eq!(new, expected);
    assert_eq!(edited(&new, &wish).as_deref(), Ok(new.as_str()));
}

#[test]
fn options_of_another_entry_replace_own_lines() {
    let text = entry(EL9).with_options_of(&entry(ARCH));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[4..6], ["options root=UUID=1-2 rw", "options quiet a=\"b;c\""]);
    assert_eq!(lines.len(), EL9.lines().count() + 1);
    let added = entry("linux /x").with_options_of(&entry("options quiet\n"));
    assert_eq!(added, "linux /x\noptions quiet\n");
}

#[test]
fn entry_without_options_starts_from_the_default() {
    let wish = edit(&["iommu=pt"], &["quiet"]);
    let lookup = |name: &str| match name {
        "default_kernelopts" => Some("root=UUID=1 ro quiet".to_owned()),
        _ => Some(String::new()),
    };
    for options in ["", "options \n", "options $kernelopts\n"] {
        let text = format!("linux /x\n{options}initrd /i\n");
        let new = entry(&text).edited(&wish, &lookup).expect("editable");
        assert_eq!(entry(&new).options(), ["root=UUID=1 ro iommu=pt"], "{options}");
        let before = entry(&text).grub_cmdline(&lookup).expect("readable").0;
        assert_eq!(before, "root=UUID=1 ro quiet", "{options}");
    }
    // Expanding two unset variables gives a blank, which is not an empty text (`expand_val`).
    let blank = entry("linux /x\noptions $kernelopts $tuned_params\n");
    assert_eq!(blank.grub_cmdline(&lookup).expect("readable").0, "");
    let none = entry("linux /x\n").edited(&wish, &|_| Some(String::new()));
    for refused in [blank.edited(&wish, &lookup), none] {
        let why = refused.expect_err("there is nothing to add to").to_string();
        assert!(why.contains("has no kernel arguments"), "{why}");
    }
    let (_, unknown) = entry("linux /x\n").grub_cmdline(&|_| None).expect("readable");
    assert_eq!(unknown, ["default_kernelopts"]);
}

#[test]
fn edit_that_grub_cannot_carry_is_rejected() {
    let refused = |text, wish: &str| edited(text, &edit(&[wish], &[])).expect_err(wish);
    assert!(refused(EL9, "a=$b").to_string().contains("has a `$`"));
    assert!(refused(ARCH, "a").to_string().contains("several `options` lines"));
    assert!(
        refused("linux /x\noptions a;b\n", "a").to_string().contains("cannot edit the options")
    );
}

fn ids(order: &[&BlsEntry]) -> Vec<String> {
    order.iter().map(|entry| entry.id().to_owned()).collect()
}

#[test]
fn grub_order_is_newest_file_name_first() {
    let file = |name: &str| BlsEntry::parse(name, "linux /x\n");
    let all = [
        file("m-0-rescue.conf"),
        file("m-5.14.0-70.el9.x86_64.conf"),
        file("m-5.14.0-503.el9.x86_64.conf"),
        BlsEntry::parse("m-9-9.conf", "title no kernel\n"),
    ];
    assert_eq!(
        ids(&grub_order(&all)),
        ["m-5.14.0-503.el9.x86_64", "m-5.14.0-70.el9.x86_64", "m-0-rescue"]
    );
}

#[test]
fn systemd_boot_order_uses_key_and_version() {
    let file = |name: &str, fields: &str| BlsEntry::parse(name, fields);
    let all = [
        file("no-key-2.conf", "linux /x\n"),
        file("b1.conf", "sort-key b\nversion 1\nlinux /x\n"),
        file("a1.conf", "sort-key a\nversion 6.9\nlinux /x\n"),
        file("a2.conf", "sort-key a\nversion 6.10\nlinux /x\n"),
        file("a3+0-3.conf", "sort-key a\nversion 9\nlinux /x\n"),
    ];
    assert_eq!(ids(&systemd_order(&all)), ["a2", "a1", "b1", "no-key-2", "a3"]);
    let default =
        |patterns: &[&str]| systemd_default(&all, patterns).map(|entry| entry.id().to_owned());
    assert_eq!(default(&[]).as_deref(), Some("a2"));
    assert_eq!(default(&["no-such", "B*"]).as_deref(), Some("b1"));
    assert_eq!(default(&["a1.conf", "b*"]).as_deref(), Some("a1"));
    assert_eq!(default(&["nothing*"]).as_deref(), Some("a2"));
}

/// An entry may use a variable any number of times.
#[test]
fn oversized_expansion_is_rejected() {
    let text = format!("linux /vmlinuz\noptions {}\n", "$kernelopts".repeat(100_000));
    let lookup = |_: &str| Some("x".repeat(1000));
    let refused = entry(&text).grub_cmdline(&lookup).expect_err("too long");
    assert!(refused.why.contains("too long"), "{refused:?}");
}
