//! Release artifacts of bedplate: the packed crate, and the packages that `packaging/build` makes of a built program.

mod built;
mod debian_roots;
mod image;
mod life;
mod packed_crate;
mod publisher;
mod release;
mod reproducible;
mod same_output;
mod tarball;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bedplate_tests::{fixtures, program};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns stdout of a program that must succeed.
fn output_of(command: &mut Command) -> String {
    let done = command.output().expect("it starts");
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{out}{errors}", done.status);
    out
}

/// Requires the tools that build and inspect packages.
fn tools() {
    for tool in ["dpkg-deb", "lintian", "rpm", "rpmlint", "unshare"] {
        fixtures::tool(tool);
    }
    builders();
}

/// Requires the tools that build packages.
fn builders() {
    fixtures::tool("strip");
    fixtures::cargo_tool("cargo-deb");
    fixtures::cargo_tool("cargo-generate-rpm");
}

/// Returns path and mode of every file below a directory.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let listed =
        output_of(Command::new("find").arg(root).args(["-type", "f", "-printf", "/%P %m\n"]));
    let row = |line: &str| line.rsplit_once(' ').map(|(path, mode)| (path.into(), mode.into()));
    listed.lines().filter_map(row).collect()
}

/// Copies the program under test into a directory, stripped like the released one: with debug information it is ten times
/// as large.
fn stripped(directory: &Path) -> PathBuf {
    let program = directory.join("bedplate");
    output_of(Command::new("strip").arg("-o").args([&program, &program::path()]));
    program
}

/// Builds packages and tarball of a program in a directory.
fn build(directory: &Path, version: &str, target: &str, program: &Path) {
    output_of(
        Command::new("packaging/build")
            .args(["--fast", "--version", version, "--target", target])
            .arg("--program")
            .arg(program)
            .arg("--out")
            .arg(directory)
            .current_dir(REPOSITORY),
    );
}

/// Builds both packages of the program under test in a directory.
fn packages(directory: &Path, version: &str) -> (PathBuf, PathBuf) {
    build(directory, version, "x86_64-unknown-linux-gnu", &stripped(directory));
    let deb = directory.join(format!("bedplate_{version}-1_amd64.deb"));
    (deb, directory.join(format!("bedplate-{version}-1.x86_64.rpm")))
}
