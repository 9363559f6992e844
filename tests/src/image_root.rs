//! Roots of Debian, made by mmdebstrap and cached as archives below `target/image-roots`. Programs of another
//! architecture run in them under qemu-user.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures;

/// Debian's name of this machine's architecture.
pub const NATIVE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// Shell command that enters the root `$0` and runs the other arguments there.
const ENTER: &str =
    "mount --bind /dev \"$0/dev\" && mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";

/// A root with the essential packages of a Debian release, and more.
#[derive(Debug, Clone, Copy)]
pub struct DebianRoot<'a> {
    /// Name of the release.
    pub suite: &'a str,
    /// Debian's name of the architecture.
    pub architecture: &'a str,
    /// Packages in addition to the essential ones.
    pub packages: &'a [&'a str],
}

impl DebianRoot<'_> {
    /// Unpacks the root into a directory. Makes its archive if there is none: half a minute, or some minutes for another
    /// architecture.
    ///
    /// # Panics
    /// If mmdebstrap or root privileges are missing, or if it fails.
    pub fn unpack(&self, directory: &Path) {
        fixtures::root();
        let archive = self.archive();
        let unpacked =
            Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(directory).status();
        assert!(unpacked.expect("tar runs").success());
    }

    fn archive(&self) -> PathBuf {
        let mmdebstrap = fixtures::tool("mmdebstrap");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cache = tests.join("../target/image-roots");
        fs::create_dir_all(&cache).expect("ours");
        let names = [[self.suite, self.architecture].as_slice(), self.packages].concat();
        let name = names.join("-");
        let archive = cache.join(format!("{name}.tar"));
        // Tests that need the same root wait for the one that makes it.
        let lock = File::create(cache.join(format!("{name}.lock"))).expect("ours");
        lock.lock().expect("the file system has locks");
        if archive.exists() {
            return archive;
        }
        let mirror = Command::new(tests.join("vm/mirror")).output().expect("it runs");
        assert!(mirror.status.success(), "{}", String::from_utf8_lossy(&mirror.stderr));
        let mirror = String::from_utf8_lossy(&mirror.stdout).trim().to_owned();
        let unfinished = cache.join(format!("{name}.unfinished.tar"));
        let mut command = Command::new(mmdebstrap);
        command
            .args(["--quiet", "--variant=essential"])
            .arg(format!("--architectures={}", self.architecture))
            .arg("--aptopt=APT::Install-Recommends \"false\"");
        if !self.packages.is_empty() {
            command.arg(format!("--include={}", self.packages.join(",")));
        }
        let made = command.arg(self.suite).arg(&unfinished).arg(mirror).output();
        let made = made.expect("mmdebstrap runs");
        if !made.status.success() {
            _ = fs::remove_file(&unfinished);
            panic!("no root {name}: {}", String::from_utf8_lossy(&made.stderr));
        }
        fs::rename(unfinished, &archive).expect("ours");
        archive
    }
}

/// Returns a command that runs a program of the root in it, as root, with this machine's /dev and with /proc.
pub fn inside(root: &Path, argv: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-c", ENTER]).arg(root).args(argv);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
    command.env("COLUMNS", "1000").env("TERM", "dumb");
    command
}
