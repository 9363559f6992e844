//! The way from texts to a [`LoadedProfile`]: read each file, follow `extends`, check and merge, lint.

use std::collections::BTreeMap;

use super::lints;
use super::root::{Profile, ProfileFile};
use super::shipped::Shipped;
use super::suggest::nearest;
use super::syntax;
use crate::section::{
    Checker, Diagnostic, Origin, Place, ProfileErrors, SourceFile, Sources, Spanned,
};
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
    let mut sources = Sources::default();
    let mut errors = Vec::new();
    let files = read_all(&mut sources, layers, shipped, &mut errors);
    let stem = layers.first().map_or("profile", |layer| stem(layer.path));
    let checks: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    let mut checker = Checker::new(&sources, &checks);
    let profile = Profile::read(files, stem, &mut checker);
    if errors.is_empty() && checker.errors() == 0 {
        profile.check_merged(&mut checker);
    }
    let (found, origins) = checker.finish();
    errors.extend(found);
    if !errors.is_empty() {
        errors.sort_by_key(Diagnostic::order);
        return Err(ProfileErrors(errors));
    }
    let lints = lints::lint(&sources, &profile, &origins);
    Ok(LoadedProfile { profile, origins, lints })
}

/// The files of a profile in the order in which they are merged, as far as they can be read.
fn read_all(
    sources: &mut Sources,
    layers: &[LayerText<'_>],
    shipped: &[Shipped],
    errors: &mut Vec<Diagnostic>,
) -> Vec<ProfileFile> {
    let (own, drop_ins) = layers.split_at(layers.len().min(1));
    let mut drop_ins: Vec<SourceFile> =
        drop_ins.iter().map(|l| SourceFile::new(l.path, l.text)).collect();
    drop_ins.sort_by(|a, b| a.file_name().cmp(b.file_name()).then_with(|| a.path().cmp(b.path())));

    let mut files = Vec::new();
    for layer in own {
        let source = SourceFile::new(layer.path, layer.text);
        let Some(mut file) = syntax::read(sources, source, errors) else { continue };
        files = ancestors(sources, file.extends.take(), shipped, errors);
        files.push(file);
    }
    for source in drop_ins {
        let Some(file) = syntax::read(sources, source, errors) else { continue };
        if let Some(extends) = &file.extends {
            let message = "a drop-in cannot extend a profile";
            let finding = Diagnostic::error(sources, extends.place, "drop-in-extends", message)
                .label("not here")
                .help("write `extends` in the profile itself");
            errors.push(finding);
        }
        files.push(file);
    }
    files
}

/// What `extends` names, with what that extends in turn, the farthest first.
fn ancestors(
    sources: &mut Sources,
    extends: Option<Spanned<String>>,
    shipped: &[Shipped],
    errors: &mut Vec<Diagnostic>,
) -> Vec<ProfileFile> {
    let mut chain: Vec<String> = Vec::new();
    let mut found: Vec<ProfileFile> = Vec::new();
    let mut next = extends;
    while let Some(Spanned { value: name, place }) = next.take() {
        if chain.contains(&name) {
            let round = format!("{} -> {name}", chain.join(" -> "));
            let finding = Diagnostic::error(
                sources,
                place,
                "extends-cycle",
                "profiles extend each other in a circle",
            )
            .label(round)
            .help("one of them must stop extending");
            errors.push(finding);
            break;
        }
        let Some(text) = shipped.iter().find(|shipped| shipped.name == name) else {
            errors.push(unknown_shipped(sources, &name, place, shipped));
            break;
        };
        chain.push(name);
        let source = SourceFile::new(&text.path(), text.text);
        let Some(file) = syntax::read(sources, source, errors) else { break };
        next = file.extends.clone();
        // Name and description say what a profile is, and `match` which machines it is for: none of that is inherited.
        found.push(ProfileFile { name: None, description: None, matching: None, ..file });
    }
    found.reverse();
    found
}

fn unknown_shipped(sources: &Sources, name: &str, place: Place, shipped: &[Shipped]) -> Diagnostic {
    let names: Vec<&str> = shipped.iter().map(|shipped| shipped.name).collect();
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("shipped are: {}", names.join(", ")),
    };
    Diagnostic::error(
        sources,
        place,
        "unknown-profile",
        format!("no shipped profile is called `{name}`"),
    )
    .label("not known")
    .help(help)
}

/// A file's name without directories and `.toml`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".toml").unwrap_or(name)
}
