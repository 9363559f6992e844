//! The tarball of `packaging/build`: its content, and its install.sh with the program beside it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use bedplate_tests::program::install_sh;

use super::{REPOSITORY, builders, output_of, packages, tree};

const NAME: &str = "bedplate-9.8.7-x86_64";
/// Entries below the tarball's directory.
const ENTRIES: [&str; 10] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "bedplate",
    "docs",
    "install.sh",
    "packaging",
    "profiles",
    "systemd",
];

/// Checks that every file but the program is a file of the repository, and executable only if that is.
fn assert_content(unpacked: &Path) {
    let listed = std::fs::read_dir(unpacked).expect("it was unpacked");
    let names = listed.map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ENTRIES);
    let sources = Path::new(REPOSITORY);
    let mut modes = tree(unpacked);
    assert_eq!(modes.remove("/bedplate").as_deref(), Some("755"));
    assert!(modes.len() > 50, "{modes:?}");
    for (path, mode) in modes {
        let path = path.trim_start_matches('/');
        let bytes = std::fs::read(unpacked.join(path)).expect("listed");
        assert!(std::fs::read(sources.join(path)).is_ok_and(|text| text == bytes), "{path}");
        let source = std::fs::metadata(sources.join(path)).expect("it is there");
        let is_program = source.permissions().mode() & 0o100 != 0;
        assert_eq!(mode, if is_program { "755" } else { "644" }, "{path}");
    }
}

/// Runs install.sh of the tarball for another root, without cargo.
fn install(unpacked: &Path, root: &Path, more: &[&str]) -> String {
    output_of(
        Command::new(unpacked.join("install.sh"))
            .arg("--destdir")
            .arg(root)
            .args(more)
            .current_dir("/")
            .env_remove("BEDPLATE_PROGRAM")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
    )
}

#[test]
#[cfg_attr(
    not(all(has = "cargo-deb", has = "cargo-generate-rpm", has = "strip")),
    ignore = "needs cargo-deb, cargo-generate-rpm and strip"
)]
fn tarball_installs_and_uninstalls_its_program() {
    builders();
    let directory = tempfile::tempdir().expect("a directory");
    packages(directory.path(), "9.8.7");
    let archive = directory.path().join(format!("{NAME}.tar.gz"));
    let listed = output_of(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(&archive));
    for line in listed.lines() {
        assert!(line.contains(" 0/0 ") && line.contains(&format!(" {NAME}/")), "{line}");
    }
    let unpack = ["-xz", "--no-same-owner", "-C"];
    output_of(Command::new("tar").args(unpack).arg(directory.path()).arg("-f").arg(&archive));
    let unpacked = directory.path().join(NAME);
    assert_content(&unpacked);
    let [root, other] = ["root", "other"].map(|name| directory.path().join(name));
    install(&unpacked, &root, &[]);
    assert!(install_sh(&["--destdir", &other.display().to_string()]).status.success());
    let installed = tree(&root);
    assert_eq!(installed, tree(&other));
    let bytes = |at: &Path, path: &str| {
        std::fs::read(at.join(path.trim_start_matches('/'))).expect("it was installed")
    };
    for path in installed.keys().filter(|path| *path != "/usr/bin/bedplate") {
        assert!(bytes(&root, path) == bytes(&other, path), "{path}");
    }
    assert!(bytes(&root, "usr/bin/bedplate") == bytes(&unpacked, "bedplate"));
    let said = install(&unpacked, &root, &["--uninstall"]);
    assert!(said.contains("bedplate is uninstalled"), "{said}");
    assert_eq!(tree(&root), BTreeMap::new(), "{said}");
}
