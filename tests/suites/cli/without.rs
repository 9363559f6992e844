//! `--without`: resource types that the image build sets up itself.

use crate::session::{Session, text};

const PROFILE: &str =
    "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\"]\n[modules]\nload = [\"vfio\"]\n";

fn session() -> Session {
    let session = Session::new();
    session
        .file("img/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
        .file("img/etc/bedplate/profile.toml", PROFILE);
    session
}

fn apply(session: &Session, more: &[&str]) -> (i32, String) {
    let output = session.run(&[&["apply", "--root", "img", "--yes"], more].concat());
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

/// mkosi's build root has no boot loader, or has the layout of unified kernel images without a command line.
#[test]
fn image_without_boot_loader_is_applied_without_cmdline() {
    let uki: &[(&str, &str)] = &[
        ("img/etc/kernel/install.conf", "layout=uki\n"),
        ("img/usr/bin/kernel-install", ""),
        ("img/usr/lib/systemd/boot/efi/systemd-bootx64.efi", ""),
    ];
    for files in [&[], uki] {
        let session = session();
        for (path, content) in files {
            session.file(path, content);
        }
        let (status, said) = apply(&session, &["--cpu", "intel"]);
        assert_eq!(status, 4, "{said}");
        let (status, said) = apply(&session, &["--without", "cmdline"]);
        assert_eq!(status, 0, "{said}");
        let (status, said) = apply(&session, &["--without", "cmdline"]);
        assert_eq!(status, 0, "{said}");
        assert!(said.contains("`--without cmdline`: the image build handles it"), "{said}");
        let list = std::fs::read_to_string(session.path("img/etc/modules-load.d/bedplate.conf"));
        assert!(list.expect("the file").ends_with("vfio\n"));
    }
}

#[test]
fn omitted_kinds_are_not_changed() {
    let session = session();
    session
        .file("img/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
        .file("img/usr/sbin/update-grub", "");
    let (status, said) = apply(&session, &["--without", "cmdline", "--without", "modules"]);
    assert_eq!(status, 0, "{said}");
    assert!(!session.path("img/etc/default/grub.d").exists());
    assert!(!session.path("img/etc/modules-load.d").exists());
    assert_eq!(apply(&session, &[]).0, 6);
    let drop_in = session.path("img/etc/default/grub.d/zz-bedplate.cfg");
    let before = std::fs::read_to_string(&drop_in).expect("the drop-in");
    session.file("img/etc/bedplate/profile.toml", PROFILE.replace("iommu=pt", "nosmt"));
    assert_eq!(apply(&session, &["--without", "cmdline"]).0, 6);
    assert_eq!(std::fs::read_to_string(&drop_in).expect("the drop-in"), before);
}

/// A tool that an earlier apply left pending for them stays pending.
#[test]
fn tools_of_omitted_kinds_stay_pending() {
    let session = session();
    session
        .file("img/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
        .file("img/usr/sbin/update-grub", "");
    assert_eq!(apply(&session, &["--cpu", "intel"]).0, 6);
    let (status, said) = apply(&session, &["--without", "cmdline"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("update-grub: must still run in the image"), "{said}");
    // Another kind has changes.
    session.file("img/etc/bedplate/profile.toml", PROFILE.replace("vfio", "vfio_pci"));
    let (status, said) = apply(&session, &["--without", "cmdline"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("done; the image build must still run: update-grub\n"), "{said}");
    for _ in 0..2 {
        let (status, said) = apply(&session, &["--without", "modules"]);
        assert_eq!(status, 6, "{said}");
    }
    let (status, said) = apply(&session, &["--without", "cmdline", "--ran", "update-grub"]);
    assert_eq!(status, 0, "{said}");
    let (status, said) = apply(&session, &["--without", "cmdline"]);
    assert_eq!(status, 0, "{said}");
    assert!(!said.contains("update-grub"), "{said}");
}

#[test]
fn without_is_for_images_and_known_kinds() {
    let session = session();
    let output = session.run(&["apply", "--without", "cmdline", "--yes"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    let (status, said) = apply(&session, &["--without", "grub"]);
    assert_eq!(status, 64, "{said}");
    assert!(said.contains("valid kinds: cmdline, modules, sysctl,"), "{said}");
}

/// The gates of a build that generates the kernel command line itself, as mkosi's build does.
#[test]
fn gates_ignore_omitted_kinds() {
    let session = session();
    assert_eq!(apply(&session, &["--without", "cmdline"]).0, 0);
    for gate in [&["plan", "--exit-code"][..], &["verify"]] {
        let status = |more: &[&str]| {
            session.status(&[gate, &["--root", "img", "--cpu", "intel"], more].concat())
        };
        assert_eq!(status(&[]), 4, "{gate:?}");
        assert_eq!(status(&["--without", "cmdline"]), 0, "{gate:?}");
    }
}
