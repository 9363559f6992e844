//! `cargo package` packs each crate alone, so the files that it embeds must be inside.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::REPOSITORY;

/// Returns the files that cargo would pack of a crate, relative to it.
fn packed(name: &str) -> BTreeSet<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args(["package", "--package", name, "--locked", "--offline"])
        .args(["--allow-dirty", "--list"])
        .current_dir(REPOSITORY)
        .output()
        .expect("cargo starts");
    assert!(listed.status.success(), "{name}: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).lines().map(PathBuf::from).collect()
}

/// Turns `a/b/../c` into `a/c`. A path out of the crate keeps its `..`.
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

/// Returns the files that a source file embeds; for a composed name, the directory that it begins with.
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

/// Checks that the files embedded by a crate's sources are packed. Returns their number.
fn check_embedded(name: &str, packed: &BTreeSet<PathBuf>) -> usize {
    let mut seen = 0;
    // A build script composes paths.
    let is_source = |path: &Path| {
        path.extension().is_some_and(|end| end == "rs") && !path.ends_with("build.rs")
    };
    for source in packed.iter().filter(|path| is_source(path)) {
        let path = Path::new(REPOSITORY).join("agent").join(name).join(source);
        let text = std::fs::read_to_string(path);
        let text = text.expect("cargo listed it");
        // Files in OUT_DIR are made by the build script.
        for embedded in embedded(&text).into_iter().filter(|file| *file != "OUT_DIR") {
            let target = plain(&source.parent().expect("a file").join(embedded));
            let inside = if embedded.ends_with('/') {
                packed.iter().any(|path| path.starts_with(&target))
            } else {
                packed.contains(&target)
            };
            let source = source.display();
            assert!(inside, "{name}: {source} embeds {embedded}, which is not packed");
            seen += 1;
        }
    }
    seen
}

#[test]
fn embedded_files_are_packed() {
    let crates = std::fs::read_dir(format!("{REPOSITORY}/agent")).expect("ours");
    let names = crates.map(|entry| entry.expect("ours").file_name().into_string().expect("UTF-8"));
    let packed: BTreeMap<String, BTreeSet<PathBuf>> =
        names.map(|name| (name.clone(), packed(&name))).collect();
    assert_eq!(packed.len(), 10, "{:?}", packed.keys());
    let seen: usize = packed.iter().map(|(name, packed)| check_embedded(name, packed)).sum();
    assert!(seen > 8, "{seen} embedded files were found");
    let check = |name: &str, file: &Path| {
        assert!(packed[name].contains(file), "{name}: {} is not packed", file.display());
    };
    // By their names: build.rs composes the paths.
    for profile in std::fs::read_dir(format!("{REPOSITORY}/profiles")).expect("ours") {
        check("bedplate-core", &Path::new("profiles").join(profile.expect("ours").file_name()));
    }
    check("bedplate-daemon", Path::new("systemd/bedplate.service"));
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        check("bedplate", Path::new(file));
    }
}
