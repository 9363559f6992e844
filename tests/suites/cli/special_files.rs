//! Pipes, sockets, devices and endless files at paths that bedplate reads: an image or a state directory may contain
//! anything. They are inspected but not opened, and no command hangs on them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bedplate_tests::fixtures;

use crate::session::{Session, text};

const PROFILE: &str = "schema = 1\nname = \"p\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n\
     [cmdline]\nargs = [\"iommu=pt\"]\n[sysctl]\nset = { \"kernel.panic\" = 10 }\n";
/// Paths that are read or written in any image.
const PLACES: [&str; 16] = [
    "etc/os-release",
    "etc/default/grub",
    "etc/default/grub.d/10-a.cfg",
    "etc/default/grub.d/zz-bedplate.cfg",
    "boot/grub/grub.cfg",
    "etc/modules",
    "etc/modprobe.d/a.conf",
    "etc/modprobe.d/zz-bedplate.conf",
    "etc/modules-load.d/bedplate.conf",
    "etc/sysctl.d/zz-bedplate.conf",
    "etc/bedplate/profile.toml",
    "etc/bedplate/profile.d/10-a.toml",
    "var/lib/bedplate/ledger.json",
    "var/lib/bedplate/lock",
    "sys/bus/pci/devices/0000:00:00.0/class",
    "sys/bus/pci/devices/0000:00:00.0/config",
];
const COMMANDS: [&[&str]; 4] = [
    &["plan", "--root", "image"],
    &["inspect", "--root", "image"],
    &["apply", "--root", "image", "--yes"],
    &["revert", "--root", "image", "--yes"],
];

/// An image in which `place` can be created.
fn image(place: &str) -> Session {
    let session = Session::new();
    session.image("image");
    session.file("image/etc/bedplate/profile.toml", PROFILE);
    session.file(&format!("image/{place}"), "");
    fs::remove_file(session.path(&format!("image/{place}"))).expect("ours");
    let state = session.path("image/var/lib/bedplate");
    if state.exists() {
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("ours");
    }
    session
}

/// Asserts that every command ends by itself, not by a signal.
fn run_all(session: &Session, place: &str) {
    for args in COMMANDS {
        let output = session.run(args);
        assert!(output.status.code().is_some(), "{place}: {args:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("panicked"), "{place}: {}", text(&output.stderr));
    }
}

fn make(place: &Path, kind: &str) -> bool {
    let numbers: &[&str] = match kind {
        "p" => &[],
        // /dev/zero: endless.
        _ => &["1", "5"],
    };
    let made =
        Command::new("mknod").arg(place).arg(kind).args(numbers).output().expect("it starts");
    made.status.success()
}

/// A writer waits at the pipe, and wakes as soon as it is opened for reading.
#[test]
fn pipe_is_never_opened() {
    for place in PLACES {
        let session = image(place);
        let pipe = session.path(&format!("image/{place}"));
        assert!(make(&pipe, "p"));
        let woken = Arc::new(AtomicBool::new(false));
        let (wakes, at) = (Arc::clone(&woken), pipe.clone());
        let (began, begins) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            let thread = fs::read_link("/proc/thread-self").expect("a link");
            began.send(thread).expect("it is waited for");
            let opened = OpenOptions::new().write(true).open(at);
            wakes.store(true, Ordering::SeqCst);
            drop(opened);
        });
        // Waits until the writer blocks in open(2): otherwise opening the pipe could not wake it.
        let stat = Path::new("/proc").join(begins.recv().expect("it begins")).join("stat");
        while !fs::read_to_string(&stat).expect("a thread").contains(") S ") {
            std::thread::yield_now();
        }
        run_all(&session, place);
        let opened = woken.load(Ordering::SeqCst);
        // Lets the thread end. Must not block: the writer may not have opened the pipe yet.
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).expect("ours");
        writer.join().expect("it ends");
        drop(reader);
        assert!(!opened, "{place} was opened");
    }
}

#[test]
fn no_command_hangs_on_a_socket_or_an_endless_file() {
    for place in PLACES {
        let session = image(place);
        let at = session.path(&format!("image/{place}"));
        // Its length is a terabyte, without a block on the disk.
        fs::File::create(&at).and_then(|file| file.set_len(1 << 40)).expect("ours");
        run_all(&session, place);
        fs::remove_file(&at).expect("ours");
        let _socket = std::os::unix::net::UnixListener::bind(&at).expect("ours");
        run_all(&session, place);
        fs::remove_file(&at).expect("ours");
        fs::create_dir(&at).expect("ours");
        run_all(&session, place);
        fs::remove_dir(&at).expect("ours");
    }
}

#[test]
#[cfg_attr(not(has = "devices"), ignore = "needs devices")]
fn no_command_hangs_on_a_device() {
    fixtures::devices();
    for place in PLACES {
        let session = image(place);
        let at = session.path(&format!("image/{place}"));
        assert!(make(&at, "c"));
        run_all(&session, place);
    }
}

/// A directory of profiles with a pipe, and an endless snapshot.
#[test]
fn no_command_hangs_on_files_of_the_command_line() {
    let session = Session::new();
    session.file("profiles/a.toml", PROFILE);
    assert!(make(&session.path("profiles/b.toml"), "p"));
    let named = session.run(&["plan", "--demo", "hgx", "--profile", "profiles"]);
    assert_eq!(named.status.code(), Some(1));
    assert!(text(&named.stderr).contains("not a regular file"), "{}", text(&named.stderr));
    let endless = session.run(&["plan", "--snapshot", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(1));
    assert!(
        text(&endless.stderr).contains("exceeds the 64 MiB snapshot limit"),
        "{}",
        text(&endless.stderr)
    );
}
