//! Tests with generated `/proc` trees and the real one.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::*;

/// A temporary `/proc`, removed with the test.
struct Proc(PathBuf, #[expect(dead_code)] tempfile::TempDir);

impl Proc {
    /// With process 1, which holds no device.
    fn new() -> Proc {
        let directory = tempfile::tempdir().unwrap();
        let proc = Proc(directory.path().to_owned(), directory);
        proc.process(1, "systemd", &["/dev/null", "socket:[1]"]);
        fs::create_dir_all(proc.0.join("sys/kernel")).unwrap();
        fs::write(proc.0.join("uptime"), "1 1\n").unwrap();
        proc
    }

    fn process(&self, pid: u32, comm: &str, files: &[&str]) {
        let fds = self.0.join(pid.to_string()).join("fd");
        fs::create_dir_all(&fds).unwrap();
        fs::write(fds.with_file_name("comm"), format!("{comm}\n")).unwrap();
        for (number, file) in files.iter().enumerate() {
            symlink(file, fds.join(number.to_string())).unwrap();
        }
    }

    fn observe(&self) -> DeviceUse {
        holders(&self.0, &[]).unwrap()
    }

    /// Returns the holders as (pid, comm, device).
    fn found(&self) -> Vec<(u32, String, String)> {
        let in_use = self.observe();
        assert_eq!(in_use.unreadable, 0);
        in_use.holders.into_iter().map(|holder| (holder.pid, holder.comm, holder.device)).collect()
    }
}

fn row(pid: u32, comm: &str, device: &str) -> (u32, String, String) {
    (pid, comm.into(), device.into())
}

#[test]
fn device_holders_are_sorted_and_unique() {
    let proc = Proc::new();
    proc.process(
        200,
        "python3",
        &["/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia0", "/tmp/x"],
    );
    proc.process(30, "all_reduce_perf", &["/dev/infiniband/uverbs3", "/dev/nvidia-uvm (deleted)"]);
    proc.process(1000, "rocm", &["/dev/kfd"]);
    assert_eq!(
        proc.found(),
        [
            row(30, "all_reduce_perf", "/dev/infiniband/uverbs3"),
            row(30, "all_reduce_perf", "/dev/nvidia-uvm"),
            row(200, "python3", "/dev/nvidia0"),
            row(200, "python3", "/dev/nvidia1"),
            row(200, "python3", "/dev/nvidiactl"),
            row(1000, "rocm", "/dev/kfd"),
        ]
    );
    let reason = proc.observe().reason(|_| None).unwrap();
    assert_eq!(
        reason,
        "all_reduce_perf (pid 30) uses /dev/infiniband/uverbs3; other processes with open devices: 2"
    );
    let started = "2026-03-03T03:00:00Z".parse().ok();
    let who = |pid| (pid == 30).then(|| ProcessOwner { user: "ada\x1b".to_owned(), started });
    let reason = proc.observe().reason(who).unwrap();
    let expected = "all_reduce_perf (pid 30, user ada\\u{1b}, since 2026-03-03 03:00:00 UTC) uses \
                    /dev/infiniband/uverbs3;";
    assert!(reason.starts_with(expected), "{reason}");
}

#[test]
fn other_open_files_are_ignored() {
    let proc = Proc::new();
    let files = [
        "/dev/infiniband/umad0",
        "/dev/infiniband/rdma_cm",
        "/dev/kfd2",
        "/srv/dev/nvidia0",
        "/proc/driver/nvidia/version",
        "anon_inode:[eventfd]",
        "/dev/nvme0",
    ];
    proc.process(7, "opensm", &files);
    assert_eq!(proc.observe(), DeviceUse { holders: vec![], unreadable: 0 });
    assert_eq!(proc.observe().reason(|_| None), None);
}

#[test]
fn known_daemons_are_skipped_by_full_comm() {
    for full in [
        "nvidia-persistenced",
        "nv-fabricmanager",
        "nv-hostengine",
        "dcgm-exporter",
        "nvidia-device-plugin",
        "nvidia-imex",
        "kubelet",
        "nvidia-mig-manager",
        "gpu-feature-discovery",
        "k8s-device-plugin",
        "k8s-rdma-shared-dp",
        "sriovdp",
        "ibacm",
    ] {
        let kept = &full[..full.len().min(15)];
        let proc = Proc::new();
        proc.process(50, kept, &["/dev/nvidia0", "/dev/infiniband/uverbs0"]);
        assert_eq!(proc.found(), [], "{full}");
        // A shorter name with the same start is another process.
        proc.process(51, &kept[..kept.len() - 1], &["/dev/nvidia0"]);
        assert_eq!(proc.found().len(), 1, "{full}");
    }
    assert!(DAEMONS.iter().all(|name| name.len() <= 15), "the kernel keeps no longer name");
}

#[test]
fn families_and_idle_holders_are_skipped() {
    let proc = Proc::new();
    proc.process(52, "nvsm_core", &["/dev/nvidia0"]);
    proc.process(53, "mmfsd", &["/dev/infiniband/uverbs0"]);
    proc.process(54, "a-storage-clien", &["/dev/infiniband/uverbs0"]);
    let names = |idle: &[&str]| {
        let idle: Vec<String> = idle.iter().map(|&name| name.to_owned()).collect();
        let held = holders(&proc.0, &idle).unwrap().holders;
        held.into_iter().map(|holder| holder.comm).collect::<Vec<_>>()
    };
    // The operator decides about a storage client's work, either way.
    assert_eq!(names(&[]), ["mmfsd", "a-storage-clien"]);
    assert_eq!(names(&["mmfsd", "mm"]), ["a-storage-clien"]);
    assert_eq!(names(&["mmfsd", "a-storage-client-daemon"]), [""; 0]);
}

#[test]
fn own_process_is_skipped() {
    let proc = Proc::new();
    proc.process(std::process::id(), "bedplate", &["/dev/nvidia0"]);
    assert_eq!(proc.found(), []);
}

#[test]
fn vanished_processes_are_skipped() {
    let proc = Proc::new();
    // One disappeared before its name was read, one before its files.
    fs::create_dir_all(proc.0.join("60/fd")).unwrap();
    fs::create_dir_all(proc.0.join("61")).unwrap();
    fs::write(proc.0.join("61/comm"), "gone\n").unwrap();
    assert_eq!(proc.observe(), DeviceUse { holders: vec![], unreadable: 0 });
    assert!(is_gone(&io::Error::from(Errno::ESRCH)) && is_gone(&io::Error::from(Errno::ENOENT)));
    assert!(!is_gone(&io::Error::from(Errno::EACCES)) && !is_gone(&io::Error::from(Errno::EPERM)));
}

#[test]
fn unreadable_processes_are_counted_as_unknown() {
    let proc = Proc::new();
    // Fails even for root, which ignores permissions: not a directory, not links.
    fs::create_dir_all(proc.0.join("70")).unwrap();
    fs::write(proc.0.join("70/comm"), "python3\n").unwrap();
    fs::write(proc.0.join("70/fd"), "").unwrap();
    proc.process(71, "partly", &["/dev/nvidia3"]);
    fs::write(proc.0.join("71/fd/8"), "").unwrap();
    fs::write(proc.0.join("71/fd/9"), "").unwrap();
    let in_use = proc.observe();
    assert_eq!((in_use.unreadable, in_use.holders.len()), (2, 1));
    let blind = DeviceUse { holders: vec![], unreadable: 1 };
    assert!(blind.reason(|_| None).unwrap().contains("could not be checked for open devices"));
}

#[test]
fn permission_denied_counts_as_unreadable() {
    if nix::unistd::geteuid().is_root() {
        return; // Root ignores permissions; the test above covers it.
    }
    let proc = Proc::new();
    proc.process(80, "python3", &["/dev/nvidia0"]);
    fs::set_permissions(proc.0.join("80/fd"), fs::Permissions::from_mode(0o000)).unwrap();
    let in_use = proc.observe();
    fs::set_permissions(proc.0.join("80/fd"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(in_use, DeviceUse { holders: vec![], unreadable: 1 });
}

#[test]
fn unreadable_name_does_not_hide_a_process() {
    let proc = Proc::new();
    proc.process(90, "x", &["/dev/nvidia0"]);
    fs::remove_file(proc.0.join("90/comm")).unwrap();
    fs::create_dir(proc.0.join("90/comm")).unwrap();
    proc.process(91, "a\x1b[2J", &["/dev/kfd"]);
    assert_eq!(proc.found(), [row(90, "?", "/dev/nvidia0"), row(91, "a\\u{1b}[2J", "/dev/kfd")]);
}

#[test]
fn proc_without_process_1_is_an_error() {
    let proc = Proc::new();
    fs::remove_dir_all(proc.0.join("1")).unwrap();
    assert!(holders(&proc.0, &[]).unwrap_err().ends_with("process 1 is missing"));
    for name in ["uptime", "none"] {
        assert!(holders(&proc.0.join(name), &[]).unwrap_err().starts_with("cannot list"));
    }
}

#[test]
fn real_proc_is_parsed() {
    let in_use = holders(Path::new("/proc"), &[]).unwrap();
    assert!(in_use.holders.iter().all(|holder| holder.device.starts_with("/dev/")), "{in_use:?}");
    assert!(in_use.holders.is_sorted());
}
