//! The way from texts to a [`LoadedProfile`]: read each file, follow `extends`, check and merge, lint.

use std::collections::BTreeMap;

use super::lints;
use super::root::{Profile, ProfileFile};
use super::shipped::Shipped;
use super::suggest::nearest;
use super::syntax;
use crate::section::{Checker, Diagnostic, Origin, ProfileErrors, SourceFile, Spanned};
use crate::verify::CHECKS;

/// A text of a profile and what to call it in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerText<'a> {
    /// The file's path, or another name for it.
    pub path: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// A profile, merged and valid.
#[derive(Debug, Clone)]
pub struct LoadedProfile {
    /// The profile.
    pub profile: Profile,
    /// Where each value was said, by dotted key; what is not here is a default.
    pub origins: BTreeMap<String, Origin>,
    /// What is valid but seldom or never right.
    pub lints: Vec<Diagnostic>,
}

/// Loads a profile: `layers` is the profile itself followed by its drop-ins, which are taken in order of their file
/// names; `shipped` is what `extends` may name.
///
/// # Errors
/// [`ProfileErrors`] with everything that is wrong, in all files.
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

/// The files of a profile in the order in which they are merged, as far as they can be read.
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
            let help = "write `extends` in the profile itself";
            checker.error(extends.place, "drop-in-extends", message, "not here", Some(help));
        }
        files.push(file);
    }
    files
}

/// What `extends` names, with what that extends in turn, the farthest first.
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
            let message = "profiles extend each other in a circle";
            let label = format!("{} -> {name}", chain.join(" -> "));
            let help = "one of them must stop extending";
            checker.error(place, "extends-cycle", message, label, Some(help));
            break;
        }
        let Some(text) = shipped.iter().find(|shipped| shipped.name == name) else {
            let names: Vec<&str> = shipped.iter().map(|shipped| shipped.name).collect();
            let help = match nearest(&name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("shipped are: {}", names.join(", ")),
            };
            let message = format!("no shipped profile is called `{name}`");
            checker.error(place, "unknown-profile", message, "not known", Some(&help));
            break;
        };
        chain.push(name);
        let source = SourceFile::new(&text.path(), text.text);
        let Some(file) = syntax::read(checker, source) else { break };
        next = file.extends.clone();
        // Name and description say what a profile is, and `match` which machines it is for: none of that is inherited.
        found.push(ProfileFile { name: None, description: None, matching: None, ..file });
    }
    found.reverse();
    found
}

/// A file's name without directories and `.toml`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".toml").unwrap_or(name)
}
