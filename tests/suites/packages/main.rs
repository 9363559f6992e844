//! Release artifacts of bedplate: the packed crate, and the packages that `packaging/build` makes of a built program.

mod built;
mod life;
mod packed_crate;

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
    for tool in ["dpkg-deb", "lintian", "rpm", "rpmlint", "strip", "unshare"] {
        fixtures::tool(tool);
    }
    fixtures::cargo_tool("cargo-deb");
    fixtures::cargo_tool("cargo-generate-rpm");
}

/// Builds both packages in a directory. The program is stripped like the released one: with debug information it is ten
/// times as large.
fn packages(directory: &Path, version: &str) -> (PathBuf, PathBuf) {
    let program = directory.join("bedplate");
    output_of(Command::new("strip").arg("-o").args([&program, &program::path()]));
    output_of(
        Command::new("packaging/build")
            .args(["--fast", "--version", version, "--target", "x86_64-unknown-linux-gnu"])
            .arg("--program")
            .arg(&program)
            .arg("--out")
            .arg(directory)
            .current_dir(REPOSITORY),
    );
    let deb = directory.join(format!("bedplate_{version}-1_amd64.deb"));
    (deb, directory.join(format!("bedplate-{version}-1.x86_64.rpm")))
}
