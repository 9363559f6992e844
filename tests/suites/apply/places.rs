//! Resolution of the writer's paths, the metadata that it retains of replaced files, and the files that it refuses.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bedplate_host::Writer;
use bedplate_host::write::DirWriter;
use bedplate_tests::fake::Machine;
use bedplate_tests::fake::tree::{everything, leftovers, times};
use bedplate_tests::fixtures;
use rustix::fs::XattrFlags;

pub fn image(machine: &Machine) -> DirWriter {
    DirWriter::image(machine.root(), false).unwrap()
}

fn refused(machine: &Machine, path: &str) -> String {
    let before = everything(machine.root());
    let mut writer = image(machine);
    let error = writer.replace_file(path, b"new\n", 0o644).unwrap_err();
    assert_eq!(error.path, path);
    assert_eq!(everything(machine.root()), before, "{error}");
    assert!(writer.file_meta(path).is_err(), "{path} is refused before anything is written down");
    error.to_string()
}

#[test]
fn link_is_retained_and_its_target_replaced() {
    let machine = Machine::new();
    machine.put_mode("/usr/share/grub/default", "old\n", 0o640);
    fs::create_dir_all(machine.at("/etc/default")).unwrap();
    symlink("../../usr/share/grub/default", machine.at("/etc/default/grub")).unwrap();
    symlink("/etc/default/grub", machine.at("/etc/absolute")).unwrap();
    fs::create_dir_all(machine.at("/srv")).unwrap();
    symlink("/etc/default", machine.at("/srv/directory")).unwrap();
    for (path, text) in [
        ("/etc/default/grub", "one\n"),
        ("/etc/absolute", "two\n"),
        ("/srv/directory/grub", "three\n"),
    ] {
        image(&machine).replace_file(path, text.as_bytes(), 0o600).unwrap();
        assert_eq!(machine.text("/usr/share/grub/default"), text, "{path}");
        assert!(fs::symlink_metadata(machine.at("/etc/default/grub")).unwrap().is_symlink());
    }
    assert_eq!(fs::metadata(machine.at("/usr/share/grub/default")).unwrap().mode() & 0o7777, 0o640);
    let error = image(&machine).remove_file("/etc/absolute").unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
}

#[test]
fn links_are_resolved_inside_the_image() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret\n").unwrap();
    let machine = Machine::new();
    fs::create_dir_all(machine.at("/etc")).unwrap();
    let up = "../".repeat(40);
    let climbing = format!("{up}{}", outside.path().display());
    symlink(&secret, machine.at("/etc/absolute")).unwrap();
    symlink(format!("{climbing}/secret"), machine.at("/etc/climbing")).unwrap();
    symlink(outside.path(), machine.at("/etc/directory")).unwrap();
    symlink(&climbing, machine.at("/etc/climbing-directory")).unwrap();
    symlink("/etc/loop", machine.at("/etc/loop")).unwrap();
    for path in ["absolute", "climbing", "directory/secret", "climbing-directory/secret"] {
        let error = refused(&machine, &format!("/etc/{path}"));
        assert!(
            error.contains("symbolic link to") && error.contains("does not exist on this host"),
            "{error}"
        );
    }
    let error = refused(&machine, "/etc/loop");
    assert!(error.contains("form a loop"), "{error}");
    for path in ["/etc/../../x", "etc/x", "/etc//x", "/etc/./x", "/"] {
        image(&machine).replace_file(path, b"x", 0o644).unwrap_err();
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
    // Inside the image the links resolve to these names, and the targets are written.
    machine.put(secret.to_str().unwrap(), "inside\n");
    image(&machine).replace_file("/etc/absolute", b"new\n", 0o644).unwrap();
    assert_eq!(machine.text(secret.to_str().unwrap()), "new\n");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
}

#[test]
fn irregular_files_are_not_replaced() {
    let machine = Machine::new();
    fs::create_dir_all(machine.at("/etc/directory")).unwrap();
    machine.put("/etc/file", "x");
    symlink("directory", machine.at("/etc/to-directory")).unwrap();
    symlink("directory/..", machine.at("/etc/to-parent")).unwrap();
    symlink("nowhere", machine.at("/etc/dangling")).unwrap();
    let made = Command::new("mkfifo").arg(machine.at("/etc/fifo")).status().unwrap();
    assert!(made.success());
    for (path, words) in [
        ("/etc/directory", "a directory is in place of the file"),
        ("/etc/to-directory", "a directory is in place of the file"),
        ("/etc/to-parent", "a directory is in place of the file"),
        ("/etc/dangling", "symbolic link to /etc/nowhere, which does not exist on this host"),
        ("/etc/fifo", "device, pipe or socket"),
        ("/etc/file/below", "/etc/file is not a directory"),
    ] {
        let error = refused(&machine, path);
        assert!(error.contains(words), "{path}: {error}");
    }
    let mut writer = image(&machine);
    assert!(writer.remove_file("/etc/directory").unwrap_err().to_string().contains("directory"));
    assert!(fs::symlink_metadata(machine.at("/etc/fifo")).unwrap().file_type().is_fifo());
    writer.remove_file("/etc/not-there").unwrap();
    writer.remove_file("/not/there/either").unwrap();
    assert!(!writer.remove_directory("/etc").unwrap());
    assert!(
        writer.remove_directory("/etc/directory").unwrap()
            && writer.remove_directory("/etc/directory").unwrap()
    );
}

/// An ACL that gives user 1000 the right to read (include/uapi/linux/posix_acl_xattr.h: version 2, then tag, permissions, id).
fn acl() -> Vec<u8> {
    let none = u32::MAX;
    let entries = [
        (0x01_u16, 6_u16, none),
        (0x02, 4, 1000),
        (0x04, 4, none),
        (0x10, 4, none),
        (0x20, 0, none),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

pub fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 4096];
    let length = rustix::fs::getxattr(path, name, &mut buffer[..]).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

#[test]
fn owner_mode_and_attributes_are_retained_and_restored() {
    let machine = Machine::new();
    machine.put("/etc/file", "old\n");
    let path = machine.at("/etc/file");
    let root = nix::unistd::geteuid().is_root();
    if root {
        // A record restores an owner only if it also owns the directory.
        for path in [&machine.at("/etc"), &path] {
            std::os::unix::fs::chown(path, Some(1234), Some(2345)).unwrap();
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2750)).unwrap();
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(&path, name, value, XattrFlags::empty())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    set("user.origin", b"a\0b");
    set("system.posix_acl_access", &acl());
    let look = || {
        let meta = fs::metadata(&path).unwrap();
        let names = ["user.origin", "system.posix_acl_access"].map(|name| xattr(&path, name));
        (meta.mode(), meta.uid(), meta.gid(), names)
    };
    let mut before = look();
    // A replaced file loses its set-id bits; everything else is retained.
    before.0 &= !0o6000;
    let mut writer = image(&machine);
    let meta = writer.file_meta("/etc/file").unwrap().unwrap();
    writer.replace_file("/etc/file", b"new\n", 0o600).unwrap();
    assert_eq!(look(), before);
    // Removed and restored: only the record has the metadata.
    let text = serde_json::to_string(&meta).unwrap();
    writer.remove_file("/etc/file").unwrap();
    writer.restore_file("/etc/file", b"old\n", &serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(look(), before);
    assert_eq!(machine.text("/etc/file"), "old\n");
}

#[test]
fn inherited_acl_does_not_change_read_access() {
    let machine = Machine::new();
    machine.put_mode("/etc/file", "old\n", 0o640);
    let directory = machine.at("/etc");
    rustix::fs::setxattr(&directory, "system.posix_acl_default", &acl(), XattrFlags::empty())
        .unwrap();
    image(&machine).replace_file("/etc/file", b"new\n", 0o600).unwrap();
    assert_eq!(fs::metadata(machine.at("/etc/file")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(xattr(&machine.at("/etc/file"), "system.posix_acl_access"), None);
}

#[test]
fn new_files_have_their_modes_and_are_synced_in_order() {
    let machine = Machine::new();
    let trail = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&trail);
    let gate = move |step: &str, _: &str| {
        seen.lock().unwrap().push(step.to_owned());
        Ok(())
    };
    let mut writer = image(&machine).gated(Box::new(gate));
    writer.replace_file("/etc/a/b/file", b"new\n", 0o640).unwrap();
    let mode = |path: &str| fs::metadata(machine.at(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("/etc/a"), mode("/etc/a/b"), mode("/etc/a/b/file")), (0o755, 0o755, 0o640));
    let made = ["make a directory", "sync a directory"];
    let written = ["create", "write", "set the owner", "sync", "rename", "sync a directory"];
    assert_eq!(*trail.lock().unwrap(), [&made[..], &made, &made, &written].concat());
    writer.make_directory("/var/lib/x", 0o700).unwrap();
    assert_eq!((mode("/var"), mode("/var/lib/x")), (0o755, 0o700));
    let before = times(machine.root());
    writer.make_directory("/var/lib/x", 0o755).unwrap();
    assert_eq!(times(machine.root()), before);
}

/// The system calls seen by strace: no file is renamed into place before it is on the disk.
#[test]
#[cfg_attr(not(has = "strace"), ignore = "needs strace")]
fn the_kernel_is_asked_to_sync_before_and_after_the_rename() {
    if let Some(root) = std::env::var_os("BEDPLATE_TEST_ROOT") {
        return writes_one_file(Path::new(&root));
    }
    let strace = fixtures::tool("strace");
    let machine = Machine::new();
    machine.put("/etc/file", "old\n");
    let log = machine.at("/log");
    let output = Command::new(strace)
        .args([
            "-f",
            "-y",
            "-e",
            "trace=fsync,rename,renameat,renameat2,openat,openat2,write",
            "-o",
        ])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "places::the_kernel_is_asked_to_sync_before_and_after_the_rename"])
        .env("BEDPLATE_TEST_ROOT", machine.root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(log).unwrap();
    let mine: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(".bedplate-") || line.contains("/etc>)"))
        .filter_map(|line| line.split_whitespace().nth(1)?.split('(').next())
        .filter(|call| !call.starts_with("openat2"))
        .collect();
    assert_eq!(mine, ["openat", "write", "fsync", "renameat", "fsync"], "{text}");
}

fn writes_one_file(root: &Path) {
    DirWriter::image(root, false).unwrap().replace_file("/etc/file", b"new\n", 0o644).unwrap();
}

#[test]
#[cfg_attr(not(has = "immutable-files"), ignore = "needs immutable-files")]
fn immutable_file_is_reported_as_immutable() {
    fixtures::immutable_files();
    // Not on tmpfs, which has no immutable flag.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let machine = Machine::open(directory.path());
    machine.put("/etc/file", "old\n");
    machine.put("/srv/file", "old\n");
    let chattr = |flag: &str, path: &str| {
        Command::new("chattr")
            .arg(flag)
            .arg(machine.at(path))
            .output()
            .is_ok_and(|ran| ran.status.success())
    };
    assert!(chattr("+i", "/etc/file") && chattr("+i", "/srv"));
    let file = image(&machine).replace_file("/etc/file", b"new\n", 0o644);
    let removed = image(&machine).remove_file("/etc/file");
    let below = image(&machine).replace_file("/srv/file", b"new\n", 0o644);
    assert!(chattr("-i", "/etc/file") && chattr("-i", "/srv"));
    for (result, words) in [
        (file, "immutable or append-only file"),
        (removed, "immutable or append-only file"),
        (below, "immutable or append-only directory"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("chattr -i"), "{error}");
    }
    assert_eq!(
        (machine.text("/etc/file"), leftovers(machine.root())),
        ("old\n".to_owned(), vec![])
    );
}

#[test]
fn only_bedplates_temporary_files_are_removed() {
    let machine = Machine::new();
    let ours = [".bedplate-0123456789abcdef.tmp", ".bedplate-ffffffffffffffff.tmp"];
    let others = [
        ".bedplate-0123456789abcde.tmp",
        ".bedplate-0123456789abcdeg.tmp",
        ".bedplate-0123456789ABCDEF.tmp",
        ".bedplate-0123456789abcdef.tmp.bak",
        "bedplate-0123456789abcdef.tmp",
        "file",
    ];
    for name in ours.iter().chain(&others) {
        machine.put(&format!("/etc/{name}"), "x");
    }
    fs::create_dir(machine.at("/etc/.bedplate-1111111111111111.tmp")).unwrap();
    let mut writer = image(&machine);
    assert_eq!(writer.remove_stale_temporary_files("/etc/any").unwrap(), 2);
    assert_eq!(writer.remove_stale_temporary_files("/etc/any").unwrap(), 0);
    assert_eq!(writer.remove_stale_temporary_files("/not/there").unwrap(), 0);
    assert!(others.iter().all(|name| machine.at(&format!("/etc/{name}")).exists()));
}

#[test]
fn attributes_are_written_whole_with_limit_and_only_live() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("attribute");
    let path = file.to_str().unwrap();
    let mut live = DirWriter::live();
    let error = live.write_attribute(path, "8", 5).unwrap_err().to_string();
    assert!(error.contains("does not have this attribute"), "{error}");
    assert!(!file.exists(), "an attribute is never created");
    fs::write(&file, "").unwrap();
    live.write_attribute(path, "8", 5).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "8\n");

    // A pipe without a reader accepts no more than its buffer holds: the write hangs, like that of a stuck driver.
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let started = std::time::Instant::now();
    let error = live
        .write_attribute(pipe.to_str().unwrap(), &"x".repeat(1 << 20), 1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("did not finish in 1 s"), "{error}");
    assert!(started.elapsed().as_secs() < 10);

    let machine = Machine::new();
    machine.put("/sys/bus/pci/devices/0000:00:00.0/config", vec![0; 256]);
    let mut image = image(&machine);
    for error in [
        image.write_attribute("/proc/sys/kernel/random/boot_id", "x", 1).unwrap_err(),
        image.write_config("0000:00:00.0".parse().unwrap(), 6, 1).unwrap_err(),
    ] {
        assert!(error.to_string().contains("an image has no running kernel"), "{error}");
    }
    let ran = image.run_tool(&["true".into()], 1);
    assert!(!image.runs_tools() && matches!(ran.end, bedplate_host::ToolEnd::NotStarted(_)));
}
