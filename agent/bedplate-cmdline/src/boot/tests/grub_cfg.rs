//! Generated GRUB configurations.

use super::super::NotUnderstood;
use super::super::bls::BlsEntry;
use super::super::grub_cfg::{Entry, Wait, default_entry, entries};
use super::super::grub_files::GrubFiles;
use super::super::grubenv::Grubenv;

const DEBIAN: &str = include_str!("samples/debian.cfg");
const UBUNTU: &str = include_str!("samples/ubuntu.cfg");
const EL9: &str = include_str!("samples/el9.cfg");

fn env(variables: &str) -> Grubenv {
    let text = format!("# GRUB Environment Block\n{variables}");
    Grubenv::parse(&format!("{text}{}", "#".repeat(1024 - text.len()))).expect("a block")
}

pub(super) fn with(
    cfg: &str,
    variables: &str,
    files: &[&str],
    bls: &[BlsEntry],
) -> Result<Entry, NotUnderstood> {
    let grubenv = env(variables);
    default_entry(cfg, &GrubFiles { grubenv: Some(&grubenv), files, bls, ..GrubFiles::default() })
}

fn default(cfg: &str, variables: &str) -> Entry {
    with(cfg, variables, &["grubenv"], &[]).expect("followed")
}

fn id(cfg: &str, variables: &str) -> String {
    default(cfg, variables).id.join(">")
}

#[test]
fn default_entry_has_cmdline_and_line_number() {
    let entry = default(DEBIAN, "");
    assert_eq!(entry.title, ["Debian GNU/Linux"]);
    assert_eq!(entry.id, ["gnulinux-simple-0a1b2c3d"]);
    assert_eq!(entry.image, "/boot/vmlinuz-6.1.0-37-amd64");
    assert_eq!(
        entry.cmdline,
        "root=UUID=0a1b2c3d-aaaa-bbbb-cccc-0123456789ab ro quiet iommu=pt \
         pci=config_acs=xx000x0@0000:20:00.0;xx000x0@0000:22:00.0"
    );
    assert!(entry.unresolved.is_empty());
    assert!(
        DEBIAN
            .lines()
            .nth(entry.line - 1)
            .expect("a line")
            .contains("linux\t/boot/vmlinuz-6.1.0-37")
    );
}

#[test]
fn next_entry_overrides_default() {
    let advanced = "gnulinux-advanced-0a1b2c3d>gnulinux-6.1.0-35-amd64-advanced-0a1b2c3d";
    assert_eq!(id(DEBIAN, &format!("next_entry={advanced}\n")), advanced);
    assert_eq!(id(DEBIAN, "next_entry=1>2\n"), advanced);
    assert_eq!(id(DEBIAN, "next_entry=\n"), "gnulinux-simple-0a1b2c3d");
    let titles =
        "Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-35-amd64";
    assert_eq!(id(DEBIAN, &format!("next_entry={titles}\n")), advanced);
    assert_eq!(id(DEBIAN, "next_entry=rusty\n"), "rusty");
    // The configuration requires an environment block; a missing one is treated as empty.
    let none = default_entry(DEBIAN, &GrubFiles::default()).expect("followed");
    assert_eq!(none.id, ["gnulinux-simple-0a1b2c3d"]);
}

#[test]
fn submenu_path_selects_its_first_entry() {
    let first = "gnulinux-advanced-0a1b2c3d>gnulinux-6.1.0-37-amd64-advanced-0a1b2c3d";
    assert_eq!(id(DEBIAN, "next_entry=1\n"), first);
    assert_eq!(id(DEBIAN, "next_entry=gnulinux-advanced-0a1b2c3d\n"), first);
}

#[test]
fn name_resolved_differently_by_grub_builds_is_rejected() {
    let cfg = "load_env\nset default=${next_entry}\nmenuentry b --id a { linux /1 }\nmenuentry a --id b { linux /2 }\nmenuentry 0 { linux /3 }\n";
    for name in ["b", "0", "1x"] {
        // `1x` is not an entry, but upstream GRUB reads position 1.
        let refused =
            with(cfg, &format!("next_entry={name}\n"), &[], &[]).expect_err("two readings");
        assert!(refused.why.contains("differ"), "{name}: {refused}");
    }
    assert_eq!(with(cfg, "next_entry=a\n", &[], &[]).expect("an id").image, "/1");
    assert_eq!(with(cfg, "next_entry=1\n", &[], &[]).expect("a position").image, "/2");
}

#[test]
fn menu_without_entries_is_rejected() {
    for text in ["", "\n", "set default=0\n", "set default=7\nset timeout=5\n"] {
        let error = with(text, "", &[], &[]).expect_err("nothing to boot");
        assert!(error.to_string().contains("the menu has no entry"), "{text:?}: {error}");
    }
}

#[test]
fn missing_entry_falls_back_to_first() {
    let gone = "next_entry=gnulinux-advanced-0a1b2c3d>gone\n";
    assert_eq!(
        id(DEBIAN, gone),
        "gnulinux-advanced-0a1b2c3d>gnulinux-6.1.0-37-amd64-advanced-0a1b2c3d"
    );
    assert_eq!(id(UBUNTU, "saved_entry=gone\n"), "gnulinux-simple-77");
    assert_eq!(id(UBUNTU, ""), "gnulinux-simple-77");
}

#[test]
fn machine_dependent_choice_is_rejected() {
    let refused =
        |variables: &str| with(DEBIAN, variables, &[], &[]).expect_err("not to be known").why;
    assert!(refused("next_entry=uefi-firmware\n").contains("depends on the machine"));
    // Positions after the firmware entry are unknown, and so is whether 9 is beyond the end.
    assert!(refused("next_entry=3\n").contains("depends on the machine"));
    assert!(refused("next_entry=9\n").contains("depends on the machine"));
    assert!(refused("next_entry=6.1 kernel\n").contains("builds of GRUB differ"));
    assert!(refused("next_entry=010\n").contains("builds of GRUB differ"));
    // The text of custom.cfg is not known here.
    let custom = with(DEBIAN, "", &["custom.cfg"], &[]).expect_err("another file");
    assert!(custom.why.contains("another file"));
    let line = DEBIAN.lines().nth(custom.line - 1).unwrap();
    assert!(line.contains("source ${config_directory}/custom.cfg"));
}

#[test]
fn saved_entry_and_machine_variables_are_resolved() {
    let advanced = "gnulinux-advanced-77>gnulinux-6.8.0-40-generic-advanced-77";
    let saved = default(UBUNTU, &format!("saved_entry={advanced}\n"));
    assert_eq!(saved.id.join(">"), advanced);
    assert_eq!(saved.cmdline, "root=/dev/mapper/ubuntu--vg-lv ro");
    let first = default(UBUNTU, "");
    let line = "root=/dev/mapper/ubuntu--vg-lv ro quiet splash";
    assert_eq!(first.cmdline, format!("{line} vt.handoff=7"));
    assert!(first.others.is_empty() && first.unresolved.is_empty());
    let by_hardware = with(UBUNTU, "", &["gfxblacklist.txt"], &[]).expect("followed");
    assert_eq!((by_hardware.cmdline, by_hardware.others), (line.into(), vec![first.cmdline]));
    assert!(by_hardware.unresolved.is_empty());
    // A failed initrd makes the machine boot the previous entry.
    let back =
        "initrdfail=1\nprev_entry=gnulinux-advanced-77>gnulinux-6.8.0-40-generic-advanced-77\n";
    assert_eq!(id(UBUNTU, back), advanced);
}

#[test]
fn entries_lists_all_linux_entries() {
    let grubenv = env("");
    let around = GrubFiles { grubenv: Some(&grubenv), ..GrubFiles::default() };
    let all = entries(DEBIAN, &around).expect("followed");
    let last: Vec<&str> =
        all.iter().map(|entry| entry.id.last().expect("an id").as_str()).collect();
    assert_eq!(
        last,
        [
            "gnulinux-simple-0a1b2c3d",
            "gnulinux-6.1.0-37-amd64-advanced-0a1b2c3d",
            "gnulinux-6.1.0-37-amd64-recovery-0a1b2c3d",
            "gnulinux-6.1.0-35-amd64-advanced-0a1b2c3d",
            "rusty",
        ]
    );
    assert_eq!(all[4].cmdline, "root=/dev/sda1");
}

fn el9(options: &str) -> Vec<BlsEntry> {
    let file = |kernel: &str| {
        let text = format!(
            "title Rocky Linux ({kernel}) 9.5\nversion {kernel}\nlinux /vmlinuz-{kernel}\noptions {options}\n"
        );
        BlsEntry::parse(&format!("0123456789abcdef-{kernel}.conf"), &text)
    };
    vec![file("5.14.0-362.el9.x86_64"), file("5.14.0-503.el9.x86_64"), file("0-rescue")]
}

#[test]
fn bls_entries_replace_blscfg_command() {
    let bls = el9("root=/dev/mapper/rl-root ro pci=config_acs=\"a;b\" $tuned_params");
    let get = |variables: &str| with(EL9, variables, &[], &bls).expect("followed");
    let newest = get("");
    assert_eq!(newest.id, ["0123456789abcdef-5.14.0-503.el9.x86_64"]);
    assert_eq!(newest.title, ["Rocky Linux (5.14.0-503.el9.x86_64) 9.5"]);
    assert_eq!(newest.image, "/vmlinuz-5.14.0-503.el9.x86_64");
    assert_eq!(
        newest.cmdline,
        "root=/dev/mapper/rl-root ro pci=config_acs=a;b skew_tick=1 isolcpus=managed_irq,domain,2-31"
    );
    let older = get("saved_entry=0123456789abcdef-5.14.0-362.el9.x86_64\n");
    assert_eq!(older.image, "/vmlinuz-5.14.0-362.el9.x86_64");
    assert_eq!(get("saved_entry=2\n").image, "/vmlinuz-0-rescue");
    assert_eq!(get("saved_entry=2\nnext_entry=1\n").image, "/vmlinuz-5.14.0-362.el9.x86_64");
    // The fallback counter is used up.
    assert_eq!(get("boot_counter=0\nboot_success=0\n").image, "/vmlinuz-5.14.0-362.el9.x86_64");
    assert_eq!(get("boot_counter=1\nboot_success=0\n").image, "/vmlinuz-5.14.0-503.el9.x86_64");
    assert!(with(EL9, "", &[], &[]).expect_err("no files").why.contains("there are none"));
}

#[test]
fn kernelopts_is_read_from_environment_or_script() {
    let bls = el9("$kernelopts $tuned_params");
    let get = |variables: &str| with(EL9, variables, &[], &bls).expect("followed").cmdline;
    let tuned = "skew_tick=1 isolcpus=managed_irq,domain,2-31";
    assert_eq!(get(""), format!("root=/dev/mapper/rl-root ro fallback {tuned}"));
    assert_eq!(
        get("kernelopts=root=/dev/x pci=config_acs=\"a;b\"\n"),
        format!("root=/dev/x pci=config_acs=a;b {tuned}")
    );
}

#[test]
fn saved_entry_of_a_removed_kernel_starts_the_first_one() {
    let bls = ["0123-6.12.0-2", "0123-6.12.0-1"]
        .map(|id| BlsEntry::parse(&format!("{id}.conf"), &format!("linux /{id}\noptions q\n")));
    let cfg = "load_env\nset default=\"${saved_entry}\"\nblscfg\n";
    let image = |saved: &str| with(cfg, &format!("saved_entry={saved}\n"), &[], &bls);
    assert_eq!(image("0123-6.12.0-1").expect("followed").image, "/0123-6.12.0-1");
    for removed in ["0123-6.12.0-0", "a123-6.12.0-0", ""] {
        assert_eq!(image(removed).expect(removed).image, "/0123-6.12.0-2");
    }
    for unclear in ["01", "0x1", "1 2", "1>0"] {
        assert!(image(unclear).is_err(), "{unclear}");
    }
}

/// Only newer builds of Red Hat's GRUB show such entries.
#[test]
fn entry_without_a_kernel_may_be_in_the_menu() {
    let entry = |id: &str, key: &str| {
        BlsEntry::parse(&format!("{id}.conf"), &format!("title t\n{key} /{id}\noptions q\n"))
    };
    let bls = [entry("m-3", "linux"), entry("m-2", "efi"), entry("m-1", "linux")];
    let cfg = "load_env\nset default=\"${saved_entry}\"\nblscfg\n";
    let image = |saved: &str| with(cfg, &format!("saved_entry={saved}\n"), &[], &bls);
    for (saved, expected) in [("", "/m-3"), ("m-3", "/m-3"), ("m-1", "/m-1"), ("0", "/m-3")] {
        assert_eq!(image(saved).expect(saved).image, expected);
    }
    for unclear in ["m-2", "1", "2"] {
        let error = image(unclear).expect_err(unclear);
        assert!(error.why.contains("depends on the machine"), "{error}");
    }
    let both = BlsEntry::parse("m-4.conf", "title t\nlinux /m-4\nefi /m-4.efi\noptions q\n");
    assert!(
        with(cfg, "saved_entry=m-4\n", &[], &[both]).is_err(),
        "newer builds start the program"
    );
}

fn with_custom(cfg: &str, custom: &str, variables: &str) -> Result<Entry, NotUnderstood> {
    let (grubenv, texts) = (env(variables), [("custom.cfg".to_owned(), custom.to_owned())]);
    let files = &["grubenv", "custom.cfg"];
    default_entry(
        cfg,
        &GrubFiles { grubenv: Some(&grubenv), files, texts: &texts, ..GrubFiles::default() },
    )
}

#[test]
fn custom_cfg_is_followed_at_its_source_command() {
    let own = "menuentry 'Own' --id own { linux /own x }\n";
    assert_eq!(with_custom(DEBIAN, own, "").expect("followed").id, ["gnulinux-simple-0a1b2c3d"]);
    let chosen = with_custom(DEBIAN, own, "next_entry=own\n").expect("followed");
    assert_eq!((chosen.image.as_str(), chosen.cmdline.as_str()), ("/own", "x"));
    let line = DEBIAN.lines().nth(chosen.line - 1).expect("a line");
    assert!(line.contains("custom.cfg"), "{line}");
    let changed = with_custom(
        DEBIAN,
        "set default=own\n\n\n\n\nmenuentry Own --id own {\nlinux /own\n}\n",
        "",
    );
    assert_eq!(changed.expect("followed").image, "/own");
    let broken = with_custom(DEBIAN, "\n}\n", "").expect_err("closes nothing");
    assert!(broken.why.contains("custom.cfg") && broken.why.contains("line 2"), "{broken}");
    let itself = with_custom(DEBIAN, "source $prefix/custom.cfg\n", "").expect_err("for ever");
    assert!(itself.why.contains("too much"), "{itself}");
    let other =
        with_custom(DEBIAN, "configfile $prefix/custom.cfg\n", "").expect_err("a menu of its own");
    assert!(other.why.contains("another file"), "{other}");
}

#[test]
fn menu_that_waits_for_input_is_reported() {
    let waits = |script: &str, options: &str| {
        let entry = format!("{script}\nmenuentry a {options} {{ linux /a }}\n");
        with(&entry, "", &[], &[]).expect("followed").waits
    };
    for timeout in ["-1", "''", "never"] {
        assert_eq!(waits(&format!("set timeout={timeout}"), ""), [Wait::Key], "{timeout}");
    }
    for timeout in ["0", "5", "30"] {
        assert_eq!(waits(&format!("set timeout={timeout}"), ""), []);
    }
    assert_eq!(waits("", ""), [], "left to the operator");
    let set = "set superusers=root";
    assert_eq!(waits(set, ""), [Wait::Password]);
    assert_eq!(waits(set, "--unrestricted --users a"), [Wait::Password]);
    assert_eq!(waits(set, "--class x --unrestricted"), []);
    assert_eq!(waits("set superusers=", ""), []);
    assert_eq!(waits("", "--users a"), [], "without superusers nobody is kept out");
    let header =
        "source $prefix/user.cfg\nif [ -n \"$GRUB2_PASSWORD\" ]; then set superusers=root; fi";
    let stored = |options: &str| {
        let menu = format!("{header}\nmenuentry a {options} {{ linux /a }}\n");
        with(&menu, "", &["user.cfg"], &[]).expect("followed").waits
    };
    assert_eq!(stored("--unrestricted"), []);
    assert_eq!(stored(""), [Wait::PasswordUnknown]);
    let submenu = "export superusers\nset superusers=root\nsubmenu s { menuentry a --unrestricted { linux /a } }\n";
    assert_eq!(with(submenu, "", &[], &[]).expect("followed").waits, [Wait::Password]);
    let el9 = |users: &str| {
        let text = format!("linux /vmlinuz\noptions ro\ngrub_users {users}\n");
        let bls = [BlsEntry::parse("a.conf", &text)];
        with("set superusers=root\nblscfg\n", "", &[], &bls).expect("followed").waits
    };
    assert_eq!(el9("$grub_users"), []);
    assert_eq!(el9("root"), [Wait::Password]);
}

#[test]
fn entry_that_leaves_linux_is_rejected() {
    let entry = |body: &str| with(&format!("menuentry a {{\n{body}\n}}\n"), "", &[], &[]);
    for command in ["exit", "halt", "reboot", "chainloader +1", "rmmod linux", "fwsetup"] {
        for body in [format!("{command}\nlinux /a"), format!("linux /a\n{command}")] {
            let error = entry(&body).expect_err(command);
            assert!(error.why.contains(command.split(' ').next().unwrap()), "{error}");
        }
    }
    assert!(entry("if cpuid -l; then exit; fi\nlinux /a").is_err(), "perhaps");
    assert_eq!(entry("insmod gzio\nrmmod tpm\nlinux /a").expect("followed").image, "/a");
    let others = "if fwsetup --is-supported; then true; fi\nmenuentry a { linux /a }\nmenuentry b { chainloader +1 }\n\
                  menuentry c { halt }\n";
    assert_eq!(with(others, "", &[], &[]).expect("followed").image, "/a");
    assert!(with(&format!("exit\n{others}"), "", &[], &[]).is_err(), "before the menu");
}
