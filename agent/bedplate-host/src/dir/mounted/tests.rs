//! Paths of a mounted host, and directories that are not one. `cli host_root` tests real mounts and namespaces.

use std::os::unix::fs::symlink;

use super::*;
use crate::dir::{DirReader, Root};
use crate::{HostKind, Reader as _};

/// A mount on a directory, with these foreign mount points.
fn mounted(directory: &Path, own: &[Namespace], foreign: &[&str]) -> Mounted {
    Mounted {
        root: ImageRoot::open_kind(KIND, directory).unwrap(),
        directory: directory.to_owned(),
        foreign: foreign.iter().map(|point| (*point).to_owned()).collect(),
        namespaces: Namespaces::of_host(own),
    }
}

#[test]
fn process_1_takes_the_place_of_the_reader() {
    let directory = tempfile::tempdir().unwrap();
    let mounted = mounted(directory.path(), &[], &[]);
    for (path, located) in [
        ("/proc/self/mountinfo", "/proc/1/mountinfo"),
        ("/proc/thread-self/status", "/proc/1/status"),
        ("/proc/mounts", "/proc/1/mounts"),
        ("/proc/net/route", "/proc/1/net/route"),
        ("/proc/network", "/proc/network"),
        ("/proc/sys/vm/swappiness", "/proc/sys/vm/swappiness"),
        ("/etc/proc/self", "/etc/proc/self"),
    ] {
        assert_eq!(mounted.located(path).as_deref(), Ok(located));
    }
}

#[test]
fn values_of_other_namespaces_are_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let alone = mounted(directory.path(), &[], &[]);
    let network = mounted(directory.path(), &[Namespace::Net], &[]);
    for (path, alone_hides, network_hides) in [
        ("/proc/sys/net/core/rmem_max", true, false),
        ("/proc/sys/net", true, false),
        ("/proc/sys/kernel/pid_max", true, true),
        ("/proc/sys/kernel/hostname", true, true),
        ("/proc/sys/kernel/shmmax", true, true),
        ("/proc/sys/kernel/semantics", false, false),
        ("/proc/sys/kernel/osrelease", false, false),
        ("/sys/fs/cgroup/systemd/system.slice/x.service/cgroup.procs", true, true),
        ("/sys/fs/cgroup/system.slice/x.service/cgroup.procs", false, false),
    ] {
        let is_hidden =
            |mounted: &Mounted| matches!(mounted.located(path), Err(ReadError::Hidden { .. }));
        assert_eq!(
            (is_hidden(&alone), is_hidden(&network)),
            (alone_hides, network_hides),
            "{path}"
        );
    }
    assert!(alone.needs_network(String::new()).is_err());
    assert_eq!(network.needs_network(String::new()), Ok(()));
}

#[test]
fn path_below_a_foreign_mount_is_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(at("boot/grub")).unwrap();
    std::fs::create_dir_all(at("etc")).unwrap();
    symlink("../boot/grub/grub.cfg", at("etc/relative")).unwrap();
    symlink("/boot", at("etc/absolute")).unwrap();
    symlink("loop", at("etc/loop")).unwrap();
    let reader =
        DirReader::new(Root::Mounted(mounted(directory.path(), &[], &["/boot", "/sys/fs/x"])));
    assert_eq!(reader.kind(), HostKind::Live);
    for path in [
        "/boot",
        "/boot/grub/grub.cfg",
        "/boot/none",
        "/etc/relative",
        "/etc/absolute/none",
        "/etc/../boot/grub",
        "/sys/fs/x/y",
    ] {
        assert!(matches!(reader.exists(path), Err(ReadError::Hidden { .. })), "{path}");
    }
    for path in ["/etc/none", "/bootx", "/sys/fs/none", "/etc/x/boot"] {
        assert_eq!(reader.exists(path), Ok(false), "{path}");
    }
    assert!(matches!(reader.exists("/etc/loop"), Err(ReadError::Failed { .. })));
    assert_eq!(reader.exists("/etc"), Ok(true));
    assert_eq!(reader.display_path("/etc/x"), "/etc/x");
}

#[test]
fn last_mount_below_the_directory_counts() {
    let text = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:2 / /host rw - ext4 /dev/sda2 rw\n\
                3 2 8:1 / /host/boot rw - ext4 /dev/sda1 rw\n4 3 8:3 /a /host/boot rw - ext4 /dev/sda3 rw\n\
                5 1 8:4 / /hostile rw - ext4 /dev/sda4 rw\n";
    let found = by_point(text, Path::new("/host"));
    let found: Vec<_> =
        found.iter().map(|(point, (device, root))| (&**point, &**device, &**root)).collect();
    assert_eq!(found, [("/", "8:2", "/"), ("/boot", "8:3", "/a")]);
}

#[test]
fn path_in_the_container_becomes_one_of_the_host() {
    let directory = tempfile::tempdir().unwrap();
    let mounted = mounted(directory.path(), &[], &[]);
    assert_eq!(
        mounted.path_of_host(&directory.path().join("etc/bedplate")),
        Path::new("/etc/bedplate")
    );
    assert_eq!(mounted.path_of_host(Path::new("/elsewhere")), Path::new("/elsewhere"));
}

#[test]
fn directory_without_the_kernels_files_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    for (made, says) in [("", "/proc is not a procfs"), ("proc/sys", "/proc is not a procfs")] {
        std::fs::create_dir_all(directory.path().join(made)).unwrap();
        let error = DirReader::mounted(directory.path()).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("hostPath"), "{error}");
    }
    let error = DirReader::mounted(&directory.path().join("none")).err().unwrap().to_string();
    assert!(error.starts_with("cannot open host root"), "{error}");
}
