//! `verify --root`: the gate for an image in CI. A converged image gives exit status 0, a drifted one 4.

use crate::session::{Session, text};

const SYSCTL: &str =
    "schema = 1\nname = \"t\"\n[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
const ARGUMENT: &str = "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\"]\n";
const ACS: &str = "schema = 1\nname = \"t\"\n[acs]\npolicy = \"direct-p2p\"\n";

const MENU: &str = "menuentry 'Ubuntu' {\n linux /boot/vmlinuz-6.8.0 root=UUID=1 ro quiet\n initrd /boot/initrd.img-6.8.0\n}\n";

/// An image that boots.
fn image(profile: &str) -> Session {
    let session = Session::new();
    session.image("img");
    session
        .file("img/etc/bedplate/profile.toml", profile)
        .file("img/boot/grub/grub.cfg", MENU)
        .file("img/boot/vmlinuz-6.8.0", "a kernel")
        .file("img/boot/initrd.img-6.8.0", "an initramfs")
        .file("img/boot/config-6.8.0", "CONFIG_MODULES=y\n")
        .file("img/lib/modules/6.8.0/modules.dep", "");
    session
}

fn verify(session: &Session, more: &[&str]) -> (i32, String) {
    let output = session.run(&[&["verify", "--root", "img", "--cpu", "intel"], more].concat());
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

fn apply(session: &Session) -> i32 {
    session.status(&["apply", "--root", "img", "--cpu", "intel", "--yes"])
}

#[test]
fn applied_image_passes_and_an_unapplied_one_fails() {
    let session = image(SYSCTL);
    let (status, said) = verify(&session, &[]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("profile t is not in effect: 1 change"), "{said}");
    // Without the option, the command would change the machine that builds the image.
    let (_, said) = verify(&session, &["--json"]);
    let is_of_the_image = said.contains("`bedplate apply --root DIR`");
    assert!(is_of_the_image && !said.contains("`bedplate apply`"), "{said}");
    assert_eq!(apply(&session), 0);
    let (status, said) = verify(&session, &["-v"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("READY: the image matches its profile"), "{said}");
    let is_skipped = |line: &str| line.starts_with("N/A ") && line.contains("rdma.port-state");
    assert!(said.lines().any(is_skipped), "{said}");
}

#[test]
fn image_without_profile_is_an_error() {
    let session = Session::new();
    session.image("img");
    let (status, said) = verify(&session, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("hint: pass --profile"), "{said}");
}

#[test]
fn pending_tool_fails_an_image() {
    let session = image(ARGUMENT);
    assert_eq!(apply(&session), 6);
    let (status, said) = verify(&session, &["--json"]);
    assert_eq!(status, 4, "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(report["image"], true);
    assert_eq!(report["decided_by"], serde_json::json!(["profile.in-effect"]));
    let checks = report["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["id"] == "profile.in-effect").expect("the check");
    assert_eq!(check["codes"][0]["code"], "tools-pending");
    assert_eq!(check["codes"][0]["commands"], serde_json::json!(["update-grub"]));
}

#[test]
fn units_must_be_enabled_if_the_machine_has_work() {
    let session = image(ACS);
    let (status, said) = verify(&session, &["--json"]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("\"code\": \"units-disabled\""), "{said}");
    assert!(said.contains("no boot starts bedplate-boot.service, bedplate.service"), "{said}");
    for unit in ["bedplate-boot.service", "bedplate.service"] {
        session.file(&format!("img/usr/lib/systemd/system/{unit}"), "[Service]\n");
    }
    assert_eq!(verify(&session, &[]).0, 4, "installed, and not enabled");
    session.file(
        "img/etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        "[Unit]\nWants=bedplate-boot.service bedplate.service\n",
    );
    let (status, said) = verify(&session, &[]);
    assert_eq!(status, 0, "{said}");
}

/// A clone of the image would not boot, or the result is unknown.
#[test]
fn broken_boot_entry_fails_an_image() {
    type Break = fn(&Session);
    let broken: [(&str, Break, i32); 7] = [
        ("as it is", |_| {}, 0),
        ("no menu yet", |session| remove(session, "boot/grub/grub.cfg"), 0),
        // It may be on another file system, which the directory does not show.
        ("no kernel", |session| remove(session, "boot/vmlinuz-6.8.0"), 5),
        ("empty kernel", |session| write(session, "boot/vmlinuz-6.8.0"), 4),
        ("empty initramfs", |session| write(session, "boot/initrd.img-6.8.0"), 4),
        ("no modules", |session| remove(session, "lib/modules/6.8.0/modules.dep"), 4),
        ("empty menu", |session| write(session, "boot/grub/grub.cfg"), 5),
    ];
    for (what, break_it, expected) in broken {
        let session = image(SYSCTL);
        assert_eq!(apply(&session), 0);
        break_it(&session);
        let (status, said) = verify(&session, &["-v"]);
        assert_eq!(status, expected, "{what}: {said}");
    }
}

fn remove(session: &Session, path: &str) {
    std::fs::remove_file(session.path("img").join(path)).expect("removed");
}

fn write(session: &Session, path: &str) {
    std::fs::write(session.path("img").join(path), "").expect("written");
}

/// Installs bedplate's units and enables them at boot.
fn enabled(session: &Session) {
    for unit in ["bedplate-boot.service", "bedplate.service"] {
        session.file(&format!("img/usr/lib/systemd/system/{unit}"), "[Service]\n");
    }
    session.file(
        "img/etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        "[Unit]\nWants=bedplate-boot.service bedplate.service\n",
    );
}

#[test]
fn profile_must_be_in_the_image() {
    let session = image(ACS);
    enabled(&session);
    session.file("p.toml", ACS).file("other.toml", ACS.replace("\"t\"", "\"other\""));
    assert_eq!(verify(&session, &["--profile", "p.toml"]).0, 0);
    let (status, said) = verify(&session, &["--profile", "other.toml", "--json"]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("\"code\": \"profile-not-in-image\""), "{said}");
    remove(&session, "etc/bedplate/profile.toml");
    assert_eq!(verify(&session, &["--profile", "p.toml"]).0, 4);
}

#[test]
fn masked_units_start_nothing() {
    let masks: [fn(&std::path::Path); 3] = [
        |path| std::os::unix::fs::symlink("/dev/null", path).expect("a link"),
        |path| std::os::unix::fs::symlink("../../../dev/null", path).expect("a link"),
        |path| std::fs::write(path, "").expect("an empty file"),
    ];
    for mask in masks {
        let session = image(ACS);
        enabled(&session);
        assert_eq!(verify(&session, &[]).0, 0);
        mask(&session.path("img/etc/systemd/system/bedplate.service"));
        assert_eq!(verify(&session, &[]).0, 4);
    }
}

/// udev rules create VFs but set none of their attributes.
#[test]
fn attributes_of_vfs_need_bedplate() {
    let rule = "schema = 1\nname = \"t\"\n[[sriov.devices]]\nname = \"a\"\nselect = { vendor = \"15b3\" }\nvfs = 4\n";
    for (more, expected) in [("", 0), ("vf = { trust = true }\n", 4)] {
        let session = image(&format!("{rule}{more}"));
        session.file("p.toml", format!("{rule}{more}"));
        let args = ["render", "udev", "-p", "p.toml", "--cpu", "intel", "-o", "img", "--overwrite"];
        assert!(session.run(&args).status.success());
        let (status, said) = verify(&session, &[]);
        assert_eq!(status, expected, "{said}");
    }
}

/// The ledger after a change that was interrupted just after its last write.
#[test]
fn interrupted_change_fails_an_image() {
    let session = image(SYSCTL);
    assert_eq!(apply(&session), 0);
    let path = session.path("img/var/lib/bedplate/ledger.json");
    let ledger = std::fs::read_to_string(&path).expect("the ledger");
    let mut ledger: serde_json::Value = serde_json::from_str(&ledger).expect("JSON");
    let files = ledger["files"].as_object_mut().expect("a table");
    for record in files.values_mut() {
        record["unfinished"] =
            serde_json::json!({ "change": "sysctl/set", "before": { "state": "absent" } });
    }
    std::fs::write(&path, ledger.to_string()).expect("written");
    let (status, said) = verify(&session, &["--json"]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("\"code\": \"change-interrupted\""), "{said}");
}

/// Rules of the udev target create all VFs. Rules of another profile, and unmanaged rule files, do not.
#[test]
fn only_rules_of_this_profile_create_its_vfs() {
    let rule = "schema = 1\nname = \"t\"\n[[sriov.devices]]\nname = \"a\"\nselect = { vendor = \"15b3\" }\nvfs = 4\n";
    let session = image(rule);
    session.file("p.toml", rule);
    let render = |profile: &str| {
        let args = ["render", "udev", "-p", profile, "--cpu", "intel", "-o", "img"];
        assert!(session.run(&args).status.success());
    };
    assert_eq!(verify(&session, &[]).0, 4);
    let file = "img/etc/udev/rules.d/70-bedplate-sriov.rules";
    session.file(file, "# another\n");
    assert_eq!(verify(&session, &[]).0, 4);
    std::fs::remove_file(session.path(file)).expect("removed");
    render("p.toml");
    let (status, said) = verify(&session, &[]);
    assert_eq!(status, 0, "{said}");
    session.file("img/etc/bedplate/profile.toml", rule.replace("vfs = 4", "vfs = 8"));
    assert_eq!(verify(&session, &[]).0, 4);
}

#[test]
fn observe_mode_fails_an_image_with_settings() {
    let session = image(&format!("{ACS}[agent]\nmode = \"observe\"\n"));
    enabled(&session);
    let (status, said) = verify(&session, &["--json"]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("\"code\": \"agent-observes\""), "{said}");
}

#[test]
fn omitted_kinds_need_no_units() {
    let session = image(ACS);
    assert_eq!(verify(&session, &[]).0, 4);
    let (status, said) = verify(&session, &["--without", "acs"]);
    assert_eq!(status, 0, "{said}");
}

#[test]
fn root_on_a_loop_device_fails_an_image() {
    let session = image(SYSCTL);
    assert_eq!(apply(&session), 0);
    for root in ["/dev/loop0p1", "/dev/mapper/loop0p1"] {
        session.file("img/boot/grub/grub.cfg", MENU.replace("UUID=1", root));
        let (status, said) = verify(&session, &[]);
        assert_eq!(status, 4, "{said}");
    }
}

/// bedplate's files are correct, but later files of other tools set different values.
#[test]
fn overridden_settings_fail_an_image() {
    let options = "[modules.options.nvidia]\nNVreg_EnableStreamMemOPs = \"1\"\n";
    let session = image(&format!("{SYSCTL}{options}"));
    assert_eq!(session.status(&["apply", "--root", "img", "--cpu", "intel", "--yes"]), 0);
    assert_eq!(verify(&session, &[]).0, 0);
    for (path, text) in [
        ("img/etc/sysctl.d/zzz.conf", "kernel.numa_balancing = 1\n"),
        ("img/etc/modprobe.d/zzz.conf", "options nvidia NVreg_EnableStreamMemOPs=0\n"),
    ] {
        session.file(path, text);
        let (status, said) = verify(&session, &["--json"]);
        assert_eq!(status, 4, "{said}");
        assert!(said.contains("\"code\": \"overridden\""), "{said}");
        std::fs::remove_file(session.path(path)).expect("removed");
    }
}
