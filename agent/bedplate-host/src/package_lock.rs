//! Detects running package managers. They create boot entries in several steps, and an entry read or regenerated in
//! between may lack its initrd.

use super::{HostKind, Reader};

/// Files that package managers lock while they change the system: apt and dpkg, rpm at its old and new location.
const LOCKS: [&str; 4] = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
];
/// libzypp writes its process ID here, and leaves the file behind when it is killed.
const ZYPP: &str = "/run/zypp.pid";
/// Name prefixes of programs that use libzypp. YaST is one of many Ruby programs; libzypp names its process Zypp-main,
/// as in all programs.
const ZYPP_PROGRAMS: [&str; 3] = ["zypp", "packagekitd", "y2base"];

/// Returns the path of the lock that a package manager holds now. Ignores locks that cannot be read.
pub fn held(reader: &dyn Reader) -> Option<&'static str> {
    if reader.kind() == HostKind::Live { found(reader) } else { None }
}

fn found(reader: &dyn Reader) -> Option<&'static str> {
    let locked = LOCKS.into_iter().find(|path| reader.is_locked(path) == Ok(true));
    locked.or_else(|| zypp_runs(reader).then_some(ZYPP))
}

/// Returns the message for operators.
pub fn reason(lock: &str) -> String {
    format!(
        "a package manager is running (holds {lock}); boot entries may change until it finishes"
    )
}

fn zypp_runs(reader: &dyn Reader) -> bool {
    let pid = reader.attribute(ZYPP).ok().and_then(|text| text.parse::<u32>().ok());
    let name = pid.and_then(|pid| reader.attribute(&format!("/proc/{pid}/comm")).ok());
    name.is_some_and(|name| {
        ZYPP_PROGRAMS.iter().any(|program| name.to_lowercase().starts_with(program))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::DirReader;

    /// A process sees only locks of other processes; flock(1) of util-linux does not take this kind of lock.
    #[test]
    fn running_package_manager_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let root_reader = DirReader::image(root).unwrap();
        assert!(found(&root_reader).is_none(), "no package manager at all");
        let lock = root.join("var/lib/dpkg/lock-frontend");
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(&lock, "").unwrap();
        assert!(found(&root_reader).is_none(), "not locked");
        let script = "import fcntl, sys\nf = open(sys.argv[1], 'r+')\nfcntl.lockf(f, fcntl.LOCK_EX)\n\
                      print('locked', flush=True)\nsys.stdin.read()";
        let mut holder = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&lock)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = holder.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let locked = found(&root_reader);
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert_eq!(locked, Some("/var/lib/dpkg/lock-frontend"));
        assert!(found(&root_reader).is_none(), "released");
        std::fs::create_dir_all(root.join("run")).unwrap();
        std::fs::create_dir_all(root.join("proc/41")).unwrap();
        std::fs::write(root.join("run/zypp.pid"), "41\n").unwrap();
        for other in ["sshd\n", "ruby3.2\n", "ruby-mine\n"] {
            std::fs::write(root.join("proc/41/comm"), other).unwrap();
            assert!(found(&root_reader).is_none(), "another program has the number now: {other}");
        }
        std::fs::write(root.join("proc/41/comm"), "Zypp-main\n").unwrap();
        assert!(found(&root_reader).is_some());
    }
}
