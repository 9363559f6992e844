//! Conversion of texts to a [`LoadedProfile`]: reads each file, follows `extends`, checks, merges, lints.

use std::collections::BTreeMap;

use super::lints;
use super::root::{Profile, ProfileFile};
use super::shipped::Shipped;
use super::suggest::nearest;
use super::syntax;
use crate::section::{Checker, Diagnostic, Origin, ProfileErrors, SourceFile, Spanned};
use crate::verify::CHECKS;

/// A profile text and its name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerText<'a> {
    /// Path of the file, or another name.
    pub path: &'a str,
    /// Content of the file.
    pub text: &'a str,
}

/// A valid, merged profile.
#[derive(Debug, Clone)]
pub struct LoadedProfile {
    /// The profile.
    pub profile: Profile,
    /// Place of each value, by dotted key; keys without an entry have their default.
    pub origins: BTreeMap<String, Origin>,
    /// Lint findings: values that are valid, but never or seldom intended.
    pub lints: Vec<Diagnostic>,
}

/// Loads a profile. `layers` is the profile itself followed by its drop-ins, which apply in order of their file names;
/// `shipped` lists the profiles that `extends` may name.
///
/// # Errors
/// [`ProfileErrors`] with every fault in all files.
pub fn load(layers: &[LayerText<'_>], shipped: &[Shipped]) -> Result<LoadedProfile, ProfileErrors> {
    let checks: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    let mut checker = Checker::new(&checks);
    let files = read_all(&mut checker, layers, shipped);
    let stem = layers.first().map_or("profile", |layer| stem(layer.path));
    let profile = Profile::read(files, stem, &mut checker);
    let (sources, origins) = checker.finish()?;
    let lints = lints::lint(&sources, &profile, &origins);
    Ok(LoadedProfile { profile, origins, lints })
}

/// Returns the readable files of a profile in merge order.
fn read_all(
    checker: &mut Checker<'_>,
    layers: &[LayerText<'_>],
    shipped: &[Shipped],
) -> Vec<ProfileFile> {
    let (own, drop_ins) = layers.split_at(layers.len().min(1));
    let mut drop_ins: Vec<SourceFile> =
        drop_ins.iter().map(|l| SourceFile::new(l.path, l.text)).collect();
    drop_ins.sort_by(|a, b| a.file_name().cmp(b.file_name()).then_with(|| a.path().cmp(b.path())));

    let mut files = Vec::new();
    for layer in own {
        let source = SourceFile::new(layer.path, layer.text);
        let Some(mut file) = syntax::read(checker, source) else { continue };
        files = ancestors(checker, file.extends.take(), shipped);
        files.push(file);
    }
    for source in drop_ins {
        let Some(file) = syntax::read(checker, source) else { continue };
        if let Some(extends) = &file.extends {
            let message = "a drop-in cannot extend a profile";
            let help = "set `extends` in the profile itself";
            checker.error(extends.place, "drop-in-extends", message, "invalid here", Some(help));
        }
        files.push(file);
    }
    files
}

/// Returns the profile that `extends` names and, recursively, those that it extends, the farthest first.
fn ancestors(
    checker: &mut Checker<'_>,
    extends: Option<Spanned<String>>,
    shipped: &[Shipped],
) -> Vec<ProfileFile> {
    let mut chain: Vec<String> = Vec::new();
    let mut found: Vec<ProfileFile> = Vec::new();
    let mut next = extends;
    while let Some(Spanned { value: name, place }) = next.take() {
        if chain.contains(&name) {
            let message = "circular `extends`";
            let label = format!("{} -> {name}", chain.join(" -> "));
            let help = "remove `extends` from one of them";
            checker.error(place, "extends-cycle", message, label, Some(help));
            break;
        }
        let Some(text) = shipped.iter().find(|shipped| shipped.name == name) else {
            let names: Vec<&str> = shipped.iter().map(|shipped| shipped.name).collect();
            let help = match nearest(&name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("shipped profiles: {}", names.join(", ")),
            };
            let message = format!("unknown shipped profile `{name}`");
            checker.error(place, "unknown-profile", message, "unknown", Some(&help));
            break;
        };
        chain.push(name);
        let source = SourceFile::new(&text.path(), text.text);
        let Some(file) = syntax::read(checker, source) else { break };
        next = file.extends.clone();
        // Name, description, and `match` describe the file that contains them, so they are not inherited.
        found.push(ProfileFile { name: None, description: None, matching: None, ..file });
    }
    found.reverse();
    found
}

/// Returns a file's name without directories and `.toml`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".toml").unwrap_or(name)
}
