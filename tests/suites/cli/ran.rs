//! Tools that an image build has run, detected by the boot menu and the contents of initramfs images, or reported by
//! `--ran`.

use std::fs::File;
use std::time::{Duration, SystemTime};

use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{Request, prepare};
use bedplate_core::plan::KindId;
use bedplate_tests::fake::Machine;

use crate::session::{Session, text};

pub const CMDLINE: &str = "[cmdline]\nargs = [\"iommu=pt\"]\n";
pub const MODULES: &str = "[modules]\nblacklist = [\"nouveau\"]\n";
const OLD: &str = "menuentry 'A' --id a {\n linux /vmlinuz-6.1.0 root=/dev/vda1 ro quiet\n}\n";
pub const MADE: &str =
    "menuentry 'A' --id a {\n linux /vmlinuz-6.1.0 root=/dev/vda1 ro quiet iommu=pt\n}\n";
pub const CFG: &str = "img/boot/grub/grub.cfg";
pub const UPDATE_INITRAMFS: &str = "update-initramfs -u -k all";

/// A Debian image with a kernel, and an initramfs older than any file that bedplate writes there.
pub fn image(sections: &str) -> Session {
    let session = Session::new();
    session
        .file("img/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
        .file("img/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
        .file("img/usr/sbin/update-grub", "")
        .file("img/usr/sbin/update-initramfs", "")
        .file(CFG, OLD)
        .file("img/etc/bedplate/profile.toml", format!("schema = 1\nname = \"t\"\n{sections}"));
    kernel(&session, "6.1.0");
    session
}

fn kernel(session: &Session, release: &str) {
    session
        .file(&format!("img/lib/modules/{release}/modules.dep"), "")
        .file(&format!("img/boot/vmlinuz-{release}"), "");
    initramfs(session, release, -3600);
}

/// Writes an initramfs with this modification time, in seconds from now, and with content that depends on the time.
pub fn initramfs(session: &Session, release: &str, seconds: i64) {
    let name = format!("img/boot/initrd.img-{release}");
    session.file(&name, format!("made at {seconds}"));
    dated(session, &name, seconds);
}

/// Sets the modification time, in seconds from now.
fn dated(session: &Session, name: &str, seconds: i64) {
    let by = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - by } else { now + by };
    let file = File::options().write(true).open(session.path(name)).expect("it is there");
    file.set_modified(time).expect("a time");
}

pub fn apply(session: &Session, more: &[&str]) -> (i32, String) {
    let args = ["apply", "--root", "img", "--cpu", "intel", "--yes"];
    let output = session.run(&[&args, more].concat());
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

/// Commands that the ledger records as pending.
pub fn owed(session: &Session) -> Vec<String> {
    let text = std::fs::read(session.path("img/var/lib/bedplate/ledger.json")).expect("a ledger");
    let ledger: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let is_cut_short = ledger.to_string().contains("\"unfinished\"");
    let tools = ledger["owed"].as_array().expect("a list").iter();
    let words = |tool: &serde_json::Value| {
        let words = tool["argv"].as_array().expect("a list").iter();
        words.map(|word| word.as_str().expect("a word")).collect::<Vec<_>>().join(" ")
    };
    let owed: Vec<String> = tools.map(words).collect();
    assert!(!owed.is_empty() || !is_cut_short, "{ledger}");
    owed
}

/// Changes of modules that the first boot of a machine with this image would make.
fn at_first_boot(session: &Session) -> Vec<String> {
    let machine = Machine::open(&session.path("img"));
    let request = Request { needs_ledger: true, ..Request::dry_run(Choice::HostOnly) };
    let planned = prepare(&machine.reader(), &request).expect("a plan");
    let changes =
        planned.plan.body.changes.into_iter().filter(|change| change.kind == KindId::Modules);
    changes.map(|change| change.id).collect()
}

#[test]
fn newer_initramfs_proves_the_rebuild() {
    let session = image(MODULES);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "the initramfs is older: {said}");
    assert_eq!(at_first_boot(&session).len(), 1);

    initramfs(&session, "6.1.0", 3600);
    assert!(at_first_boot(&session).is_empty(), "before the ledger says so");
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
    assert!(owed(&session).is_empty() && at_first_boot(&session).is_empty());
    assert_eq!(apply(&session, &[]).0, 0);
}

#[test]
fn initramfs_of_every_kernel_must_be_newer() {
    let session = image(MODULES);
    kernel(&session, "6.2.0");
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.2.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6, "6.1.0 has the old one");
    std::fs::remove_file(session.path("img/boot/initrd.img-6.1.0")).expect("it is there");
    assert_eq!(apply(&session, &[]).0, 6, "6.1.0 has none");
    // A kernel without its image needs no initramfs, although its modules stay.
    std::fs::remove_file(session.path("img/boot/vmlinuz-6.1.0")).expect("it is there");
    assert_eq!(apply(&session, &[]).0, 0);
}

/// bedplate does not know which one boots.
#[test]
fn every_copy_of_an_initramfs_must_be_rebuilt() {
    let copy = "img/boot/token/6.1.0/initrd";
    let session = image(MODULES);
    session.file(copy, "old");
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6);
    dated(&session, copy, 3600);
    assert_eq!(apply(&session, &[]).0, 6, "it is the old one with a new time");
    session.file(copy, "new");
    assert_eq!(apply(&session, &[]).0, 0);
}

/// The content of the unified image is not inspected.
#[test]
fn unified_image_disproves_and_never_proves() {
    let image_file = "img/efi/EFI/Linux/token-6.1.0.efi";
    let session = image(MODULES);
    session.file(image_file, "old");
    dated(&session, image_file, -3600);
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6, "an old one");
    dated(&session, image_file, 3600);
    std::fs::remove_file(session.path("img/boot/initrd.img-6.1.0")).expect("it is there");
    assert_eq!(apply(&session, &[]).0, 6, "nothing else");
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 0);
}

/// A time alone is no proof for a file that existed before, and an empty file is never proof.
#[test]
fn old_initramfs_with_a_new_time_proves_nothing() {
    let name = "img/boot/initrd.img-6.1.0";
    let session = image(MODULES);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6);
    assert_eq!(apply(&session, &[]).0, 6, "the base image came with a time ahead");
    dated(&session, name, 7200);
    assert_eq!(apply(&session, &[]).0, 6, "touched");
    session.file(name, "");
    dated(&session, name, 7200);
    assert_eq!(apply(&session, &[]).0, 6, "empty");
    std::fs::remove_file(session.path(name)).expect("it is there");
    std::os::unix::fs::symlink("/usr/sbin", session.path(name)).expect("a link");
    assert_eq!(apply(&session, &[]).0, 6, "a link to a directory");
    std::fs::remove_file(session.path(name)).expect("it is there");
    std::os::unix::fs::symlink("/dev/null", session.path(name)).expect("a link");
    assert_eq!(apply(&session, &[]).0, 6, "a link to nothing in the image");
    std::fs::remove_file(session.path(name)).expect("it is there");
    assert_eq!(at_first_boot(&session).len(), 1);
    // An older time is valid, too: builds set times to a fixed date.
    initramfs(&session, "6.1.0", -7200);
    assert_eq!(apply(&session, &[]).0, 0);
}

/// The image build ran the tool, but bedplate wrote the file again before it noticed.
#[test]
fn rebuild_before_the_last_change_is_ignored() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    let more = MODULES.replace("nouveau\"", "nouveau\", \"nvidiafb\"");
    session.file("img/etc/bedplate/profile.toml", format!("schema = 1\nname = \"t\"\n{more}"));
    assert_eq!(apply(&session, &[]).0, 6);
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 7200);
    assert_eq!(apply(&session, &[]).0, 0);
}

/// The initrds have their own names, or belong to kernels that are nowhere else.
#[test]
fn initrds_of_boot_entries_are_checked() {
    let menu = OLD.replace("\n}", "\n initrd /ucode.img /special.img\n}");
    let entry = "title A\nlinux /vmlinuz-6.1.0\ninitrd /special.img\n".to_owned();
    for (path, text) in [(CFG, menu), ("img/boot/loader/entries/a-6.1.0.conf", entry)] {
        let session = image(MODULES);
        session.file(path, text).file("img/boot/special.img", "old");
        session.file("img/boot/ucode.img", "old");
        assert_eq!(apply(&session, &[]).0, 6);
        initramfs(&session, "6.1.0", 3600);
        assert_eq!(apply(&session, &[]).0, 6, "{path}");
        session.file("img/boot/special.img", "new");
        assert_eq!(apply(&session, &[]).0, 0, "{path}");
    }
}

#[test]
fn kernel_of_any_layout_needs_an_initramfs() {
    for kernel in ["lib/modules/6.2.0/Image", "boot/Image-6.2.0", "boot/token/6.2.0/linux"] {
        let session = image(MODULES);
        session.file("img/lib/modules/6.2.0/modules.dep", "").file(&format!("img/{kernel}"), "k");
        assert_eq!(apply(&session, &[]).0, 6);
        initramfs(&session, "6.1.0", 3600);
        assert_eq!(apply(&session, &[]).0, 6, "{kernel}");
        initramfs(&session, "6.2.0", 3600);
        assert_eq!(apply(&session, &[]).0, 0, "{kernel}");
    }
}

/// The rebuild required by a removed file is also pending.
#[test]
fn removed_file_is_compared_by_its_directory() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 0);
    initramfs(&session, "6.1.0", -3600);
    session.file("img/etc/bedplate/profile.toml", "schema = 1\nname = \"t\"\n");
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert!(!session.path("img/etc/modprobe.d/zz-bedplate.conf").exists());
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 0);
}

#[test]
fn each_tool_is_tracked_on_its_own() {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub", UPDATE_INITRAMFS]);
    let (status, said) = apply(&session, &["--ran", "update-initramfs"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("done; the image build must still run: update-grub\n"), "{said}");
    assert_eq!(owed(&session), ["update-grub"]);
    assert!(at_first_boot(&session).is_empty());
    session.file(CFG, MADE);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
    assert!(owed(&session).is_empty());
}

#[test]
fn tools_are_named_as_printed_or_by_program() {
    for names in [&["--ran", UPDATE_INITRAMFS][..], &["--ran", "update-initramfs"]] {
        let session = image(MODULES);
        assert_eq!(apply(&session, &[]).0, 6);
        let (status, said) = apply(&session, names);
        assert_eq!(status, 0, "{said}");
        assert!(owed(&session).is_empty() && at_first_boot(&session).is_empty());
    }
}

/// Without a menu its generation is not visible: only `--ran` reports it.
#[test]
fn menu_outside_the_image_is_pending_until_ran() {
    let session = image(CMDLINE);
    std::fs::remove_file(session.path(CFG)).expect("the menu");
    for _ in 0..2 {
        let (status, said) = apply(&session, &[]);
        assert_eq!(status, 6, "{said}");
        assert!(said.contains("update-grub"), "{said}");
    }
    let (status, said) = apply(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 0, "{said}");
    assert!(owed(&session).is_empty());
    assert_eq!(apply(&session, &[]).0, 0);
}

#[test]
fn menu_without_the_arguments_overrides_ran() {
    let session = image(CMDLINE);
    assert_eq!(apply(&session, &[]).0, 6);
    let (status, said) = apply(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 6, "{said}");
    assert!(!said.contains("recorded as run"), "{said}");
    assert_eq!(owed(&session), ["update-grub"]);
    session.file(CFG, MADE);
    assert_eq!(apply(&session, &["--ran", "update-grub"]).0, 0);
}

#[test]
fn unknown_tool_is_a_usage_error() {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    let (status, said) = apply(&session, &["--ran", "mkinitcpio"]);
    assert_eq!(status, 64, "{said}");
    assert_eq!(
        said,
        "error: mkinitcpio is not a tool that bedplate runs\nhint: no tool is pending\n"
    );
    assert_eq!(apply(&session, &[]).0, 6);
    let (status, said) = apply(&session, &["--ran", "update-grub", "--ran", "mkinitcpio"]);
    assert_eq!(status, 64, "{said}");
    assert_eq!(
        said,
        format!(
            "error: mkinitcpio is not a tool that bedplate runs\nhint: pending: update-grub; {UPDATE_INITRAMFS}\n"
        )
    );
    assert_eq!(owed(&session).len(), 2);
    let output = session.run(&["apply", "--ran", "update-grub", "--yes"]);
    assert_eq!(output.status.code(), Some(64), "without an image: {}", text(&output.stderr));
}

/// A build script may pass it on every run, or name the tools of several distributions.
#[test]
fn tool_that_is_not_pending_is_reported() {
    let session = image(MODULES);
    let names = ["--ran", UPDATE_INITRAMFS, "--ran", "dracut"];
    let (status, said) = apply(&session, &names);
    assert_eq!(status, 6, "{said}");
    for name in [UPDATE_INITRAMFS, "dracut"] {
        assert!(said.contains(&format!("{name}: not pending")), "{said}");
    }
    let (status, said) = apply(&session, &names);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(&format!("{UPDATE_INITRAMFS}: recorded as run")), "{said}");
    assert!(said.contains("dracut: not pending"), "{said}");
    let (status, said) = apply(&session, &names);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(&format!("{UPDATE_INITRAMFS}: not pending")), "{said}");
    assert!(!said.contains("recorded as run"), "{said}");
}

/// Rewrites the only pending tool of the ledger.
fn rewrite(session: &Session, change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = "img/var/lib/bedplate/ledger.json";
    let record = std::fs::read_to_string(session.path(path)).expect("a ledger");
    let mut record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    change(record["owed"][0].as_object_mut().expect("a tool"));
    session.file(path, record.to_string());
}

/// An interrupted rebuild by bedplate may have left a truncated file, however new. Earlier versions did not record whether
/// it had started.
#[test]
fn interrupted_rebuild_is_not_proven_by_content() {
    for begun in [Some(true), None] {
        let session = image(MODULES);
        assert_eq!(apply(&session, &[]).0, 6);
        rewrite(&session, |tool| {
            tool.remove("begun");
            tool.extend(begun.map(|begun| ("begun".to_owned(), begun.into())));
        });
        initramfs(&session, "6.1.0", 3600);
        assert_eq!(apply(&session, &[]).0, 6, "{begun:?}");
        assert_eq!(apply(&session, &["--ran", "update-initramfs"]).0, 0);
    }
}

/// A ledger of a version that stored no digests.
#[test]
fn initramfs_without_a_digest_is_compared_by_time() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    rewrite(&session, |tool| assert!(tool.remove("outputs").is_some()));
    initramfs(&session, "6.1.0", -7200);
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 0);
}

#[test]
fn copy_of_an_old_initramfs_proves_nothing() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    let old = session.path("img/boot/initrd.img-6.1.0");
    std::fs::rename(old, session.path("img/boot/initrd-6.1.0")).expect("renamed");
    dated(&session, "img/boot/initrd-6.1.0", 3600);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
}

/// Files written into the image by `render`: no ledger records whether their tools have run.
#[test]
fn tools_of_rendered_files_are_pending_until_visible() {
    let session = image(MODULES);
    let render = ["render", "grub", "--profile", "img/etc/bedplate/profile.toml", "--cpu", "intel"];
    let output = session.run(&[&render[..], &["-o", "img", "--overwrite"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let verify = ["verify", "--root", "img", "--cpu", "intel", "--json"];
    let plan = ["plan", "--root", "img", "--cpu", "intel", "--exit-code"];
    assert_eq!(session.status(&plan), 6);
    let said = text(&session.run(&verify).stdout);
    assert!(said.contains("\"code\": \"tools-pending\""), "{said}");
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(session.status(&plan), 0);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
}
