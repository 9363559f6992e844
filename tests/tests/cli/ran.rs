//! Tools that an image build has run: a boot menu and the times of initramfs images show it, and `--ran` says it.

use std::fs::File;
use std::time::{Duration, SystemTime};

use bedplate::engine::profile_source::Choice;
use bedplate::engine::{Request, prepare};
use bedplate_tests::fake::Machine;

use crate::session::{Session, text};

const CMDLINE: &str = "[cmdline]\nargs = [\"iommu=pt\"]\n";
const MODULES: &str = "[modules]\nblacklist = [\"nouveau\"]\n";
const OLD: &str = "menuentry 'A' --id a {\n linux /vmlinuz-6.1.0 root=/dev/vda1 ro quiet\n}\n";
const MADE: &str =
    "menuentry 'A' --id a {\n linux /vmlinuz-6.1.0 root=/dev/vda1 ro quiet iommu=pt\n}\n";
const CFG: &str = "img/boot/grub/grub.cfg";
const UPDATE_INITRAMFS: &str = "update-initramfs -u -k all";

/// A Debian image with a kernel, and an initramfs that is older than anything that bedplate writes there.
fn image(sections: &str) -> Session {
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

/// Made that many seconds from now.
fn initramfs(session: &Session, release: &str, seconds: i64) {
    let name = format!("img/boot/initrd.img-{release}");
    session.file(&name, "");
    let by = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - by } else { now + by };
    let file = File::options().write(true).open(session.path(&name)).expect("it is there");
    file.set_modified(time).expect("a time");
}

fn apply(session: &Session, more: &[&str]) -> (i32, String) {
    let args = ["apply", "--root", "img", "--cpu", "intel", "--yes"];
    let output = session.run(&[&args, more].concat());
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

/// Commands that the ledger has as owed.
fn owed(session: &Session) -> Vec<String> {
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
    let request = Request { needs_ledger: true, ..Request::of(Choice::HostOnly) };
    let planned = prepare(&machine.reader(), &request).expect("a plan");
    let changes = planned.plan.body.changes.into_iter().filter(|change| change.kind == "modules");
    changes.map(|change| change.id).collect()
}

#[test]
fn newer_initramfs_pays_the_rebuild() {
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
fn initramfs_of_every_kernel_has_to_be_newer() {
    let session = image(MODULES);
    kernel(&session, "6.2.0");
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.2.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6, "6.1.0 has the old one");
    std::fs::remove_file(session.path("img/boot/initrd.img-6.1.0")).expect("it is there");
    assert_eq!(apply(&session, &[]).0, 6, "6.1.0 has none");
    // Modules of others are left, the kernel is not.
    std::fs::remove_file(session.path("img/boot/vmlinuz-6.1.0")).expect("it is there");
    assert_eq!(apply(&session, &[]).0, 0);
}

/// Which of them boots is not known.
#[test]
fn every_copy_of_an_initramfs_has_to_be_newer() {
    for copy in ["boot/token/6.1.0/initrd", "efi/EFI/Linux/token-6.1.0.efi"] {
        let session = image(MODULES);
        session.file(&format!("img/{copy}"), "");
        assert_eq!(apply(&session, &[]).0, 6);
        initramfs(&session, "6.1.0", 3600);
        assert_eq!(apply(&session, &[]).0, 6, "{copy}");
        let file = File::options().write(true).open(session.path(&format!("img/{copy}")));
        let later = SystemTime::now() + Duration::from_secs(3600);
        file.expect("it is there").set_modified(later).expect("a time");
        assert_eq!(apply(&session, &[]).0, 0, "{copy}");
    }
}

/// The rebuild that follows from a file that went is owed as much.
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
fn each_tool_is_paid_on_its_own() {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub", UPDATE_INITRAMFS]);
    let (status, said) = apply(&session, &["--ran", "update-initramfs"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("done, and the image build still has to run: update-grub\n"), "{said}");
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

/// Without a menu nothing shows that it was made: only `--ran` tells.
#[test]
fn menu_that_is_not_in_the_image_stays_owed_until_said() {
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
fn menu_without_the_arguments_counts_for_more_than_what_is_said() {
    let session = image(CMDLINE);
    assert_eq!(apply(&session, &[]).0, 6);
    let (status, said) = apply(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub"]);
    session.file(CFG, MADE);
    assert_eq!(apply(&session, &["--ran", "update-grub"]).0, 0);
}

#[test]
fn tool_that_is_not_owed_is_a_usage_error() {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    let (status, said) = apply(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 64, "{said}");
    assert_eq!(said, "error: update-grub is not owed in this image\n  hint: no tool is\n");
    assert_eq!(apply(&session, &[]).0, 6);
    let (status, said) = apply(&session, &["--ran", "dracut"]);
    assert_eq!(status, 64, "{said}");
    assert_eq!(
        said,
        format!(
            "error: dracut is not owed in this image\n  hint: owed: update-grub; {UPDATE_INITRAMFS}\n"
        )
    );
    assert_eq!(owed(&session).len(), 2);
    let output = session.run(&["apply", "--ran", "update-grub", "--yes"]);
    assert_eq!(output.status.code(), Some(64), "without an image: {}", text(&output.stderr));
}

/// A rebuild by bedplate that was cut short may have left half a file, however new.
#[test]
fn rebuild_that_was_cut_short_is_not_paid_by_time() {
    let session = image(MODULES);
    assert_eq!(apply(&session, &[]).0, 6);
    let path = session.path("img/var/lib/bedplate/ledger.json");
    let record = std::fs::read_to_string(&path).expect("a ledger");
    let mut record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    record["owed"][0]["begun"] = true.into();
    session.file("img/var/lib/bedplate/ledger.json", record.to_string());
    initramfs(&session, "6.1.0", 3600);
    assert_eq!(apply(&session, &[]).0, 6);
    assert_eq!(apply(&session, &["--ran", "update-initramfs"]).0, 0);
}
