//! Packages made of one program in two clones are the same bytes. `packaging/check-reproducible` without `--program` also
//! builds the program twice, which takes many minutes.

use std::process::Command;

use super::{REPOSITORY, builders, output_of, stripped};

#[test]
#[cfg_attr(
    not(all(has = "cargo-deb", has = "cargo-generate-rpm", has = "strip")),
    ignore = "needs cargo-deb, cargo-generate-rpm and strip"
)]
fn packages_of_one_program_are_the_same_bytes() {
    builders();
    let directory = tempfile::tempdir().expect("a directory");
    let sums = output_of(
        Command::new("packaging/check-reproducible")
            .args(["--fast", "--version", "9.8.7", "--target", "x86_64-unknown-linux-gnu"])
            .arg("--program")
            .arg(stripped(directory.path()))
            .current_dir(REPOSITORY),
    );
    for end in ["x86_64.rpm", "x86_64.tar.gz", "_amd64.deb"] {
        assert!(sums.lines().any(|line| line.ends_with(end)), "{end}: {sums}");
    }
}
