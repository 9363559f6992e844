//! `cargo package` packs the crate alone: what the program embeds has to be inside.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::REPOSITORY;

/// What cargo would pack, relative to the crate.
fn packed() -> BTreeSet<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args(["package", "--package", "bedplate", "--locked", "--offline"])
        .args(["--allow-dirty", "--list"])
        .current_dir(REPOSITORY)
        .output()
        .expect("cargo starts");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).lines().map(PathBuf::from).collect()
}

/// `a/b/../c` is `a/c`; what leads out of the crate keeps its `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

/// The files that a source file embeds; of a name that is put together, the directory that it begins with.
fn embedded(text: &str) -> Vec<&str> {
    let calls = ["include_str!(", "include_bytes!(", "include!("];
    let begins = calls.iter().flat_map(|call| text.match_indices(call).map(|(at, _)| at));
    begins
        .map(|at| {
            let quoted = text[at..].split('"').nth(1).expect("a file is named");
            assert!(!quoted.contains('\n'), "no literal in {}", &text[at..at + 60]);
            quoted
        })
        .collect()
}

#[test]
fn what_the_program_embeds_is_in_the_packed_crate() {
    let packed = packed();
    let mut seen = 0;
    for source in packed.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(Path::new(REPOSITORY).join("agent").join(source));
        for name in embedded(&text.expect("cargo listed it")) {
            let target = plain(&source.parent().expect("a file").join(name));
            let inside = if name.ends_with('/') {
                packed.iter().any(|path| path.starts_with(&target))
            } else {
                packed.contains(&target)
            };
            assert!(inside, "{} embeds {name}, which is not packed", source.display());
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen} embedded files were found");
    // By its name alone: `profile/shipped.rs` puts the paths together.
    for profile in std::fs::read_dir(format!("{REPOSITORY}/profiles")).expect("ours") {
        let path = Path::new("profiles").join(profile.expect("ours").file_name());
        assert!(packed.contains(&path), "{} is not packed", path.display());
    }
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "systemd/bedplate.service"] {
        assert!(packed.contains(Path::new(file)), "{file} is not packed");
    }
}
