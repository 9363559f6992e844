//! The .deb and the .rpm that `packaging/build` makes of the program under test.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures;
use bedplate_tests::program::install_sh;

use super::{REPOSITORY, output_of, packages, tools, tree};

/// Returns the files that install.sh installs, with pages compressed as in distributions.
fn installed(debian: bool) -> BTreeMap<String, String> {
    let root = tempfile::tempdir().expect("a directory");
    if debian {
        std::fs::create_dir(root.path().join("etc")).expect("ours");
        std::fs::write(root.path().join("etc/debian_version"), "").expect("ours");
    }
    assert!(install_sh(&["--destdir", &root.path().display().to_string()]).status.success());
    let compressed = |path: String| match path.contains("/man/man") {
        true => format!("{path}.gz"),
        false => path,
    };
    let files = tree(root.path()).into_iter().filter(|(path, _)| !path.starts_with("/etc/"));
    files.map(|(path, mode)| (compressed(path), mode)).collect()
}

/// Returns the files of a package that install.sh does not install. Panics if the package lacks a file of install.sh or has
/// it with another mode.
fn beside(package: &Path, debian: bool) -> Vec<String> {
    let mut packed = tree(package);
    for (path, mode) in installed(debian) {
        assert_eq!(packed.remove(&path), Some(mode), "{path}");
    }
    packed.into_keys().collect()
}

fn documents(others: &[&str]) -> Vec<String> {
    let docs = std::fs::read_dir(format!("{REPOSITORY}/docs")).expect("ours");
    let names = docs.map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name.ends_with(".md"));
    let all = names.chain(["README.md".into(), "CHANGELOG.md".into()]);
    let doc = |name: &str| format!("/usr/share/doc/bedplate/{name}");
    let mut all: Vec<String> = all.map(|name| doc(&name)).collect();
    all.extend(others.iter().map(|name| match name.starts_with('/') {
        true => (*name).to_owned(),
        false => doc(name),
    }));
    all.sort();
    all
}

fn deb(package: &Path, directory: &Path) {
    let root = directory.join("deb");
    output_of(Command::new("dpkg-deb").arg("--raw-extract").args([package, &root]));
    let control = std::fs::read_to_string(root.join("DEBIAN/control")).expect("a control file");
    assert!(control.contains("\nVersion: 9.8.7-1\n"), "{control}");
    assert!(!control.contains("\nDepends: libc"), "{control}");
    let owners = output_of(Command::new("dpkg-deb").arg("--contents").arg(package));
    assert!(owners.lines().all(|line| line.contains(" 0/0 ") || line.contains(" root/root ")));
    for name in ["postinst", "prerm", "postrm"] {
        script(&std::fs::read_to_string(root.join("DEBIAN").join(name)).expect("a script"));
    }
    let control = tree(&root.join("DEBIAN"));
    // Files below /etc belong to the operator, and survive every upgrade.
    assert!(!control.contains_key("/conffiles"), "{control:?}");
    std::fs::remove_dir_all(root.join("DEBIAN")).expect("ours");
    let others = ["changelog.Debian.gz", "copyright", "/usr/share/lintian/overrides/bedplate"];
    assert_eq!(beside(&root, true), documents(&others));
    let mut errors = Command::new("lintian");
    errors.args(["--allow-root", "--fail-on", "error"]).arg(package);
    // The tested program is linked dynamically; the released one is not.
    errors.args(["--suppress-tags", "undeclared-elf-prerequisites,unused-override"]);
    println!("{}", output_of(&mut errors));
}

fn rpm(package: &Path, directory: &Path) {
    let root = directory.join("rpm");
    std::fs::create_dir(&root).expect("ours");
    // Installed into an empty root: rpm reads nothing of the host and runs no script.
    let root = root.display().to_string();
    output_of(
        Command::new("rpm")
            .args(["--install", "--noscripts", "--nodeps", "--root", &root])
            .arg(package),
    );
    // rpm's own database: its location differs among builds of rpm.
    let database = ["root", "var", "usr/lib/sysimage"].map(|path| format!("{root}/{path}"));
    database.iter().for_each(|path| _ = std::fs::remove_dir_all(path));
    assert_eq!(beside(Path::new(&root), false), documents(&["LICENSE-APACHE", "LICENSE-MIT"]));
    let query = |what: &[&str]| output_of(Command::new("rpm").args(what).arg(package));
    let files = query(&["-qp", "--qf", "[%{FILENAMES} %{FILEUSERNAME} %{FILEGROUPNAME}\n]"]);
    assert!(files.lines().all(|line| line.ends_with(" root root")), "{files}");
    let needs = query(&["-qp", "--requires"]);
    for need in needs.lines() {
        assert!(need == "/bin/sh" || need.starts_with("rpmlib("), "{needs}");
    }
    for tag in ["POSTIN", "PREUN", "POSTUN"] {
        script(&query(&["-qp", "--qf", &format!("%{{{tag}}}")]));
    }
    let mut errors = Command::new("rpmlint");
    // As with lintian: the filter for a static program is unused here.
    errors.arg("--ignore-unused-rpmlintrc");
    errors.args(["-r", &format!("{REPOSITORY}/packaging/rpmlint.conf")]).arg(package);
    println!("{}", output_of(&mut errors));
}

/// Checks that a shell parses the script, and that it enables and starts nothing.
fn script(text: &str) {
    assert!(text.starts_with("#!/bin/sh\nset -e\n"), "{text}");
    output_of(Command::new("sh").args(["-n", "-c", text]));
    for line in text.lines().filter(|line| line.contains("systemctl ")) {
        let verb = line.split("systemctl ").nth(1).and_then(|rest| rest.split(' ').next());
        let verb = verb.unwrap_or_default();
        let harmless = ["daemon-reload", "try-restart", "disable", "stop", "status"];
        assert!(harmless.contains(&verb), "{line}");
    }
}

#[test]
#[cfg_attr(
    not(all(
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "dpkg-deb",
        has = "lintian",
        has = "rpm",
        has = "rpmlint",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs cargo-deb, cargo-generate-rpm, dpkg-deb, lintian, rpm, rpmlint, strip and unshare"
)]
fn packages_contain_the_files_of_install_sh() {
    tools();
    let directory = tempfile::tempdir().expect("a directory");
    let (deb_file, rpm_file) = packages(directory.path(), "9.8.7");
    deb(&deb_file, directory.path());
    rpm(&rpm_file, directory.path());
}

#[test]
#[cfg_attr(
    not(all(has = "cargo-deb", has = "cargo-generate-rpm")),
    ignore = "needs cargo-deb and cargo-generate-rpm"
)]
fn program_for_another_architecture_is_refused() {
    fixtures::cargo_tool("cargo-deb");
    fixtures::cargo_tool("cargo-generate-rpm");
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("bedplate");
    // The ELF header's e_machine is RISC-V.
    let header = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9], &[2, 0, 0xf3, 0]].concat();
    std::fs::write(&program, header).expect("ours");
    let done = Command::new("packaging/build")
        .args(["--fast", "--version", "1.0.0", "--target", "x86_64-unknown-linux-gnu", "--program"])
        .args([program.as_path(), Path::new("--out"), directory.path()])
        .current_dir(REPOSITORY)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && errors.contains("is not a program for x86_64"), "{errors}");
}
