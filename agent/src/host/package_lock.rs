//! Package managers that run now. They make boot entries in several steps, and an entry that is read or made again in
//! between may lack its initrd.

use super::{HostKind, Reader};

/// Files that package managers lock while they change the system: apt and dpkg, rpm in its old and its new place.
const LOCKS: [&str; 4] = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
];
/// libzypp writes the number of its process here, and leaves the file behind when it is killed.
const ZYPP: &str = "/run/zypp.pid";
/// Beginnings of the names of programs that use libzypp. YaST is a Ruby program, of which there are others; libzypp calls its
/// process Zypp-main, like all.
const ZYPP_PROGRAMS: [&str; 3] = ["zypp", "packagekitd", "y2base"];

/// The lock that a package manager holds now, by its path; one that cannot be looked at holds nobody up.
pub fn held(reader: &dyn Reader) -> Option<&'static str> {
    if reader.kind() != HostKind::Live {
        return None;
    }
    let locked = LOCKS.into_iter().find(|path| reader.is_locked(path) == Ok(true));
    locked.or_else(|| zypp_runs(reader).then_some(ZYPP))
}

/// For people.
pub fn reason(lock: &str) -> String {
    format!("a package manager is running (it holds {lock}): boot entries change until it is done")
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
    use crate::host::dir::DirReader;
    use crate::host::{ConfigSpace, ReadError};
    use crate::value::PciAddress;

    /// A directory that is taken for the running machine.
    struct Live(DirReader);

    impl Reader for Live {
        fn kind(&self) -> HostKind {
            HostKind::Live
        }

        fn is_locked(&self, path: &str) -> Result<bool, ReadError> {
            self.0.is_locked(path)
        }

        fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
            self.0.read(path)
        }

        fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
            self.0.read_start(path, limit)
        }

        fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
            self.0.list(path)
        }

        fn link(&self, path: &str) -> Result<String, ReadError> {
            self.0.link(path)
        }

        fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
            self.0.links(path)
        }

        fn exists(&self, path: &str) -> Result<bool, ReadError> {
            self.0.exists(path)
        }

        fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
            self.0.config(address)
        }
    }

    /// A lock belongs to a process, and only another one sees it: flock(1) of util-linux takes none of this sort.
    #[test]
    fn running_package_manager_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let live = Live(DirReader::image(root).unwrap());
        assert!(held(&live).is_none(), "no package manager at all");
        let lock = root.join("var/lib/dpkg/lock-frontend");
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(&lock, "").unwrap();
        assert!(held(&live).is_none(), "not locked");
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
        let found = held(&live);
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert_eq!(found, Some("/var/lib/dpkg/lock-frontend"));
        assert!(held(&live).is_none(), "released");
        std::fs::create_dir_all(root.join("run")).unwrap();
        std::fs::create_dir_all(root.join("proc/41")).unwrap();
        std::fs::write(root.join("run/zypp.pid"), "41\n").unwrap();
        for other in ["sshd\n", "ruby3.2\n", "ruby-mine\n"] {
            std::fs::write(root.join("proc/41/comm"), other).unwrap();
            assert!(held(&live).is_none(), "another program has the number now: {other}");
        }
        std::fs::write(root.join("proc/41/comm"), "Zypp-main\n").unwrap();
        assert!(held(&live).is_some());
    }
}
