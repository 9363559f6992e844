//! Debian packages of both architectures in real roots of Debian 12 and 13: dpkg installs and purges them, and the program
//! runs in between. No systemd runs there. Programs for arm64 run under qemu-user.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bedplate_tests::image_root::{self, DebianRoot, NATIVE};
use bedplate_tests::{fixtures, program};

use super::{build, builders, output_of, stripped};

const LIFE: &str = r"
list() {
  find / -xdev \( -path /tmp -o -path /var/lib/dpkg -o -path /var/log \) -prune -o -print | sort
}
exec 2>&1
list >/tmp/before
echo '== install'; dpkg --install /tmp/package.deb
echo '== version'; bedplate --version
echo '== plan'; bedplate plan --demo gb300
echo '== purge'; dpkg --purge bedplate
list >/tmp/after
echo '== left'; diff /tmp/before /tmp/after || true
";

/// Builds the package of an architecture in a directory.
fn package(architecture: &str, directory: &Path) -> PathBuf {
    let (target, program) = match architecture {
        "arm64" => {
            fixtures::arm64();
            fixtures::tool("qemu-aarch64-static");
            ("aarch64-unknown-linux-musl", fixtures::arm64_program())
        }
        _ => ("x86_64-unknown-linux-gnu", stripped(directory)),
    };
    build(directory, "9.8.7", target, &program);
    directory.join(format!("bedplate_9.8.7-1_{architecture}.deb"))
}

fn assert_installs_and_purges(suite: &str, architecture: &str) {
    builders();
    fixtures::tool("unshare");
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let package = package(architecture, directory.path());
    let root = directory.path().join("root");
    std::fs::create_dir(&root).expect("ours");
    // This machine's architecture: a root that other tests need, too.
    let packages: &[&str] = if architecture == NATIVE { &["grub2-common"] } else { &[] };
    DebianRoot { suite, architecture, packages }.unpack(&root);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&root, mode).expect("ours");
    std::fs::copy(package, root.join("tmp/package.deb")).expect("ours");
    let said = output_of(&mut image_root::inside(&root, &["sh", "-eu", "-c", LIFE]));
    let part = |name: &str| {
        let begin = said.split(&format!("== {name}\n")).nth(1).unwrap_or_else(|| panic!("{said}"));
        begin.split("== ").next().unwrap_or_default()
    };
    assert_eq!(part("version"), program::stdout(&["--version"]));
    assert_eq!(part("plan"), program::stdout(&["plan", "--demo", "gb300"]));
    assert_eq!(part("left"), "", "{said}");
}

#[test]
#[cfg_attr(
    not(all(
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "mmdebstrap",
        has = "root",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs cargo-deb, cargo-generate-rpm, mmdebstrap, root, strip and unshare"
)]
fn amd64_package_is_installed_and_purged_on_debian_12() {
    assert_installs_and_purges("bookworm", "amd64");
}

#[test]
#[cfg_attr(
    not(all(
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "mmdebstrap",
        has = "root",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs cargo-deb, cargo-generate-rpm, mmdebstrap, root, strip and unshare"
)]
fn amd64_package_is_installed_and_purged_on_debian_13() {
    assert_installs_and_purges("trixie", "amd64");
}

#[test]
#[cfg_attr(
    not(all(
        has = "BEDPLATE_ARM64_PROGRAM",
        has = "arm64",
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "mmdebstrap",
        has = "qemu-aarch64-static",
        has = "root",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs BEDPLATE_ARM64_PROGRAM, `tests/vm/setup arm64`, cargo-deb, cargo-generate-rpm, mmdebstrap, root, strip and unshare"
)]
fn arm64_package_is_installed_and_purged_on_debian_12() {
    assert_installs_and_purges("bookworm", "arm64");
}

#[test]
#[cfg_attr(
    not(all(
        has = "BEDPLATE_ARM64_PROGRAM",
        has = "arm64",
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "mmdebstrap",
        has = "qemu-aarch64-static",
        has = "root",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs BEDPLATE_ARM64_PROGRAM, `tests/vm/setup arm64`, cargo-deb, cargo-generate-rpm, mmdebstrap, root, strip and unshare"
)]
fn arm64_package_is_installed_and_purged_on_debian_13() {
    assert_installs_and_purges("trixie", "arm64");
}
