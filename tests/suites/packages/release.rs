//! `packaging/release`: two releases of one commit are the same bytes. apt and dnf of Debian 12 install bedplate from the
//! trees, but from no altered one and with no other key. dnf of other distributions was not tried.

use std::fs;
use std::path::Path;
use std::process::Command;

use bedplate_tests::image_root::{self, DebianRoot, NATIVE};
use bedplate_tests::{fixtures, program};

use super::output_of;
use super::publisher::{Publisher, Server, VERSION};

/// Output and success of a shell script in a root.
fn run(root: &Path, script: &str) -> (String, bool) {
    let script = format!("exec 2>&1\n{script}");
    let done = image_root::inside(root, &["sh", "-eu", "-c", &script]).output();
    let done = done.expect("it starts");
    (String::from_utf8_lossy(&done.stdout).into_owned(), done.status.success())
}

/// Checks that a script fails, and for this reason.
fn assert_fails(root: &Path, script: &str, reason: &str) {
    let (said, succeeded) = run(root, script);
    assert!(!succeeded && said.contains(reason), "{script}: {said}");
}

/// Checks that a script succeeds, and that the program under test is then installed.
fn assert_installs(root: &Path, script: &str) {
    let (said, succeeded) = run(root, script);
    assert!(succeeded, "{said}");
    assert_eq!(run(root, "bedplate --version"), (program::stdout(&["--version"]), true));
}

/// Replaces text in a file, and returns its previous content.
fn alter(file: &Path, from: &str, to: &str) -> String {
    let text = fs::read_to_string(file).expect("a file of the release");
    assert!(text.contains(from), "{from}: {text}");
    fs::write(file, text.replace(from, to)).expect("ours");
    text
}

/// Unpacks a root with apt and dnf, and without sources of packages. Debian's dnf does not depend on rpm, but needs its
/// rpmkeys to check packages.
fn unpack(root: &Path) {
    fs::create_dir(root).expect("ours");
    DebianRoot { suite: "bookworm", architecture: NATIVE, packages: &["apt", "dnf", "rpm"] }
        .unpack(root);
    fs::remove_file(root.join("etc/apt/sources.list")).expect("mmdebstrap's");
}

#[test]
#[cfg_attr(not(has = "release"), ignore = "needs the tools of packaging/release")]
fn releases_of_one_commit_are_the_same_bytes() {
    let publisher = Publisher::new();
    let mut check = publisher.command("packaging/check-reproducible");
    check.args(["--release", "--minisign"]).arg(publisher.path("minisign.key"));
    let sums = output_of(publisher.sign(&mut check, "https://publisher.test/bedplate"));
    let names: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    for name in ["amd64.deb", "arm64.deb"].map(|end| format!("bedplate_{VERSION}-1_{end}")) {
        assert!(names.contains(&format!("packages/{name}").as_str()), "{sums}");
        assert!(names.contains(&format!("apt/pool/main/b/bedplate/{name}").as_str()), "{sums}");
    }
    for architecture in ["x86_64", "aarch64"] {
        for name in [
            format!("packages/bedplate-{VERSION}-{architecture}.tar.gz"),
            format!("packages/bedplate-{VERSION}-1.{architecture}.rpm"),
            format!("rpm/{architecture}/bedplate-{VERSION}-1.{architecture}.rpm"),
            format!("rpm/{architecture}/repodata/repomd.xml.asc"),
        ] {
            assert!(names.contains(&name.as_str()), "{name}: {sums}");
        }
    }
    for name in ["SHA256SUMS", "SHA256SUMS.asc", "SHA256SUMS.minisig"] {
        assert!(names.contains(&format!("packages/{name}").as_str()), "{sums}");
    }
}

#[test]
#[cfg_attr(
    not(all(has = "release", has = "mmdebstrap", has = "python3", has = "root", has = "unshare")),
    ignore = "needs the tools of packaging/release and mmdebstrap, python3, root, unshare"
)]
fn apt_installs_only_a_release_signed_by_its_key() {
    let publisher = Publisher::new();
    let tree = publisher.path("tree");
    fs::create_dir(&tree).expect("ours");
    let server = Server::start(&tree);
    let mut release = publisher.command("packaging/release");
    release.arg("--minisign").arg(publisher.path("minisign.key")).arg("--out").arg(&tree);
    output_of(publisher.sign(&mut release, &server.url));
    let sums = tree.join("packages/SHA256SUMS");
    output_of(
        Command::new("sha256sum")
            .args(["--check", "--strict"])
            .arg(&sums)
            .current_dir(tree.join("packages")),
    );
    output_of(
        publisher
            .command("gpg")
            .arg("--verify")
            .arg(tree.join("packages/SHA256SUMS.asc"))
            .arg(&sums),
    );
    let mut verify = publisher.command("minisign");
    output_of(verify.arg("-Vm").arg(&sums).arg("-p").arg(tree.join("bedplate.minisign.pub")));

    let root = publisher.path("root");
    unpack(&root);
    let key = root.join("etc/apt/keyrings/bedplate.asc");
    fs::copy(tree.join("bedplate.sources"), root.join("etc/apt/sources.list.d/bedplate.sources"))
        .expect("ours");
    publisher.export_other(&key);
    assert_fails(&root, "apt-get update", "NO_PUBKEY");
    fs::copy(tree.join("bedplate.asc"), key).expect("ours");
    let index = tree.join("apt/dists/stable/InRelease");
    let text = alter(&index, "Label: bedplate", "Label: altered");
    assert_fails(&root, "apt-get update", "BADSIG");
    fs::write(index, text).expect("ours");
    assert_installs(&root, "apt-get update\napt-get install --yes bedplate");
    let (control, _) = run(
        &root,
        "dpkg-query --show --showformat '${Version} ${Maintainer} ${Homepage}' bedplate",
    );
    let publisher = "A Publisher <packages@publisher.test> https://publisher.test/bedplate";
    assert_eq!(control, format!("{VERSION}-1 {publisher}"));
}

/// Stands for the package of the shell that .rpm files require.
const SHELL: &str = "Name: shell
Version: 1
Release: 1
Summary: Shell of the root
License: MIT
BuildArch: noarch
Provides: /bin/sh
%description
Shell of the root.
%files
";

#[test]
#[cfg_attr(
    not(all(
        has = "release",
        has = "mmdebstrap",
        has = "python3",
        has = "root",
        has = "rpm",
        has = "unshare"
    )),
    ignore = "needs the tools of packaging/release and mmdebstrap, python3, root, rpm, unshare"
)]
fn dnf_installs_only_a_release_signed_by_its_key() {
    let publisher = Publisher::new();
    let tree = publisher.path("tree");
    fs::create_dir(&tree).expect("ours");
    let server = Server::start(&tree);
    let mut release = publisher.command("packaging/release");
    release.arg("--snapshot").arg("--out").arg(&tree);
    output_of(publisher.sign(&mut release, &server.url));
    publisher.export_other(&tree.join("other.asc"));

    let root = publisher.path("root");
    unpack(&root);
    fixtures::tool("rpm");
    fs::write(publisher.path("shell.spec"), SHELL).expect("ours");
    let place = format!("_rpmdir {}", root.join("tmp").display());
    output_of(
        Command::new("rpmbuild")
            .args(["--quiet", "-bb", "--define", &place])
            .arg(publisher.path("shell.spec")),
    );
    fs::create_dir_all(root.join("etc/yum.repos.d")).expect("ours");
    fs::copy(tree.join("bedplate.repo"), root.join("etc/yum.repos.d/bedplate.repo")).expect("ours");
    let install =
        "rm -rf /var/cache/dnf\ndnf --assumeyes install /tmp/noarch/shell-1-1.noarch.rpm bedplate";
    let other = format!("{install} --setopt=bedplate.gpgkey={}/other.asc", server.url);
    assert_fails(&root, &other, "repomd.xml GPG signature verification error");
    assert_fails(
        &root,
        &format!("{other} --setopt=bedplate.repo_gpgcheck=0"),
        "Import of key(s) didn't help",
    );
    let index = tree.join("rpm/x86_64/repodata/repomd.xml");
    let text = alter(&index, "<revision>", "<revision>1");
    assert_fails(&root, install, "repomd.xml GPG signature verification error");
    fs::write(index, text).expect("ours");
    assert_installs(&root, install);
    let query = "rpm --query --queryformat '%{VERSION} %{VENDOR} %{URL}' bedplate";
    let (installed, _) = run(&root, query);
    assert!(installed.starts_with(&format!("{VERSION}~")), "{installed}");
    let publisher = " Publisher & Sons https://publisher.test/bedplate";
    assert!(installed.ends_with(publisher), "{installed}");
}

#[test]
#[cfg_attr(not(has = "release"), ignore = "needs the tools of packaging/release")]
fn commit_that_is_no_release_is_refused() {
    let publisher = Publisher::new();
    let tree = publisher.path("tree");
    let assert_refused = |command: &mut Command, reason: &str| {
        let done = command.arg("--out").arg(&tree).output().expect("it starts");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && errors.contains(reason), "{errors}");
        assert!(!tree.exists());
    };
    let release = || publisher.command("packaging/release");
    assert_refused(&mut release(), "no key to sign with");
    let url = "https://publisher.test";
    for (name, reason) in [
        ("BEDPLATE_MAINTAINER", "BEDPLATE_MAINTAINER is not set"),
        ("BEDPLATE_HOMEPAGE", "BEDPLATE_HOMEPAGE is not set"),
        ("BEDPLATE_VENDOR", "BEDPLATE_VENDOR is not set"),
    ] {
        assert_refused(publisher.sign(&mut release(), url).env_remove(name), reason);
    }
    assert_refused(release().args(["--key", "nobody", "--url", url]), "no secret key nobody");
    fs::write(publisher.clone_path().join("draft"), "").expect("ours");
    assert_refused(publisher.sign(&mut release(), url), "the working tree has changes");
    fs::remove_file(publisher.clone_path().join("draft")).expect("ours");
    publisher.git(&["commit", "--quiet", "--allow-empty", "--message", "Next"]);
    let reason = format!("HEAD is not the commit of the tag v{VERSION}");
    assert_refused(publisher.sign(&mut release(), url), &reason);
    let log = publisher.clone_path().join("CHANGELOG.md");
    alter(&log, &format!("## [{VERSION}] - "), "## [Unreleased]: ");
    publisher.git(&["commit", "--quiet", "--all", "--message", "Undated"]);
    assert_refused(publisher.sign(&mut release(), url), "CHANGELOG.md has no line");
}
