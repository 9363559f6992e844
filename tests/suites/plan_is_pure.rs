//! `plan` writes nothing and starts no process. Checked by its system calls on this machine's `/`, as root and as an
//! ordinary user, and on a read-only system.

use std::path::Path;
use std::process::Command;

use bedplate_tests::{fixtures, program};

/// Calls that change a file system, whatever their arguments.
const CHANGES: [&str; 22] = [
    "rename(",
    "renameat(",
    "renameat2(",
    "unlink(",
    "unlinkat(",
    "mkdir(",
    "mkdirat(",
    "rmdir(",
    "link(",
    "linkat(",
    "symlink(",
    "symlinkat(",
    "chmod(",
    "fchmodat(",
    "chown(",
    "fchownat(",
    "truncate(",
    "mknod(",
    "mknodat(",
    "utimensat(",
    "setxattr(",
    "creat(",
];

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Copies the program to a place where an ordinary user can run it.
fn public_copy(directory: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let copy = directory.join("bedplate");
    std::fs::copy(program::path(), &copy).unwrap();
    for path in [directory, copy.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

fn trace(prefix: &[&str], args: &[&str]) -> String {
    let strace = fixtures::tool("strace");
    let directory = tempfile::tempdir().unwrap();
    let copy = public_copy(directory.path());
    let log = directory.path().join("trace");
    let output = Command::new(strace)
        .args(["-f", "-qq", "-e", "trace=%file,write,pwrite64,writev,execve,fork,vfork", "-o"])
        .arg(&log)
        .args(prefix)
        .arg(&copy)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(log).unwrap()
}

/// Checks the part of a trace after bedplate was started.
fn assert_pure(trace: &str) {
    let start = trace.rfind("execve(").unwrap();
    let own = &trace[start..];
    assert!(own.lines().count() > 20, "nothing was traced:\n{own}");
    for line in own.lines().skip(1) {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        let opens_to_write = call.starts_with("open")
            && ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.contains(flag));
        assert!(!opens_to_write || call.contains("\"/dev/null\""), "opened for writing: {line}");
        assert!(
            !CHANGES.iter().any(|change| call.starts_with(change)),
            "changed something: {line}"
        );
        let starts = ["execve(", "fork(", "vfork("].iter().any(|start| call.starts_with(start));
        assert!(!starts, "started a process: {line}");
        let writes = ["write(", "writev("].iter().any(|write| call.starts_with(write))
            || call.starts_with("pwrite");
        let to_output = call.starts_with("write(1,")
            || call.starts_with("write(2,")
            || call.starts_with("writev(1,")
            || call.starts_with("writev(2,");
        assert!(!writes || to_output, "wrote: {line}");
    }
}

#[test]
#[cfg_attr(not(has = "strace"), ignore = "needs strace")]
fn plan_on_this_machine_only_reads() {
    assert_pure(&trace(&[], &["plan"]));
}

#[test]
#[cfg_attr(not(all(has = "root", has = "strace")), ignore = "needs root and strace")]
fn plan_as_an_ordinary_user_only_reads() {
    // Without root the other test already runs as an ordinary user.
    fixtures::root();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    assert_pure(&trace(&nobody, &["plan"]));
}

#[test]
#[cfg_attr(
    not(all(has = "mount-namespaces", has = "unshare")),
    ignore = "needs mount-namespaces and unshare"
)]
fn plan_works_on_a_read_only_system() {
    fixtures::mount_namespaces();
    let unshare = fixtures::tool("unshare");
    let directory = tempfile::tempdir().unwrap();
    let copy = public_copy(directory.path());
    // Every mount of the machine, read-only, in a private mount namespace.
    let script = format!(
        "mount --rbind / /mnt && mount -o remount,ro,bind /mnt && ! touch /mnt/etc/bedplate-was-here 2>/dev/null && exec chroot /mnt {} plan",
        copy.display()
    );
    let output = Command::new(unshare)
        .args(if is_root() { &["--mount"][..] } else { &["--mount", "--map-root-user"][..] })
        .args(["sh", "-c", &script])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Profile "), "{stderr}");
}
