//! The way from texts to a [`LoadedProfile`] profile: read and check each file, follow `extends`, merge, finish, lint.

use std::collections::BTreeMap;

use super::lints;
use super::root::{Checked, Layer, Profile, check, finish};
use super::sections::matching::MatchLayer;
use super::shipped::Shipped;
use super::suggest::nearest;
use super::syntax;
use crate::section::{Diagnostic, Origin, Overlay, Place, ProfileErrors, SourceFile, Sources};

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
    pub(super) layer: Layer,
}

/// Loads a profile: `layers` is the profile itself followed by its drop-ins, which are taken in order of their file
/// names; `shipped` is what `extends` may name.
///
/// # Errors
/// [`ProfileErrors`] with everything that is wrong, in all files.
pub fn load(layers: &[LayerText<'_>], shipped: &[Shipped]) -> Result<LoadedProfile, ProfileErrors> {
    let mut sources = Sources::default();
    let mut errors = Vec::new();
    let merged = merge_all(&mut sources, layers, shipped, &mut errors);
    if errors.is_empty() {
        errors = merged.contradictions(&sources);
    }
    if !errors.is_empty() {
        errors.sort_by_key(Diagnostic::order);
        return Err(ProfileErrors(errors));
    }
    let stem = layers.first().map_or("profile", |layer| stem(layer.path));
    let (profile, origins) = finish(&merged, &sources, stem);
    let lints = lints::lint(&sources, &merged, &profile);
    Ok(LoadedProfile { profile, origins, lints, layer: merged })
}

fn merge_all(
    sources: &mut Sources,
    layers: &[LayerText<'_>],
    shipped: &[Shipped],
    errors: &mut Vec<Diagnostic>,
) -> Layer {
    let (own, drop_ins) = layers.split_at(layers.len().min(1));
    let mut drop_ins: Vec<SourceFile> =
        drop_ins.iter().map(|l| SourceFile::new(l.path, l.text)).collect();
    drop_ins.sort_by(|a, b| a.file_name().cmp(b.file_name()).then_with(|| a.path().cmp(b.path())));

    let mut merged = Layer::default();
    for layer in own {
        let index = sources.add(SourceFile::new(layer.path, layer.text));
        let Some(checked) = read(sources, index, errors) else { continue };
        let base = ancestors(sources, checked.extends, shipped, errors);
        merged = base.overlay(checked.layer);
    }
    for file in drop_ins {
        let index = sources.add(file);
        let Some(checked) = read(sources, index, errors) else { continue };
        if let Some((_, place)) = checked.extends {
            let message = "a drop-in cannot extend a profile";
            let finding = Diagnostic::error(sources, place, "drop-in-extends", message)
                .label("not here")
                .help("write `extends` in the profile itself");
            errors.push(finding);
        }
        merged = merged.overlay(checked.layer);
    }
    merged
}

fn read(sources: &Sources, index: usize, errors: &mut Vec<Diagnostic>) -> Option<Checked> {
    let fragment = syntax::read(sources, index, errors)?;
    Some(check(sources, index, fragment, errors))
}

/// What `extends` names, with what that extends in turn, merged from the farthest on.
fn ancestors(
    sources: &mut Sources,
    extends: Option<(String, Place)>,
    shipped: &[Shipped],
    errors: &mut Vec<Diagnostic>,
) -> Layer {
    let mut chain: Vec<String> = Vec::new();
    let mut found: Vec<Layer> = Vec::new();
    let mut next = extends;
    while let Some((name, place)) = next.take() {
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
        let index = sources.add(SourceFile::new(&text.path(), text.text));
        chain.push(name);
        let Some(checked) = read(sources, index, errors) else { break };
        // Name and description say what a profile is, and `match` which machines it is for: none of that is inherited.
        let layer = Layer {
            name: None,
            description: None,
            matching: MatchLayer::default(),
            ..checked.layer
        };
        found.push(layer);
        next = checked.extends;
    }
    found.into_iter().rev().fold(Layer::default(), Overlay::overlay)
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
