//! End-to-end tests from text to profile.

use super::*;
use crate::section::ProfileErrors;

mod errors;
mod files;
mod matching;
mod merge;
mod shipped;
mod text;

const PATH: &str = "/etc/bedplate/profile.toml";

/// Loads one text as the profile itself.
fn load_text(text: &str) -> Result<LoadedProfile, ProfileErrors> {
    load(&[LayerText { path: PATH, text }], super::shipped())
}

/// Loads a text that must be valid.
fn good(text: &str) -> LoadedProfile {
    load_text(text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// Loads a profile and its drop-ins, given as `(path, text)`.
fn good_files(files: &[(&str, &str)]) -> LoadedProfile {
    let layers: Vec<LayerText<'_>> =
        files.iter().map(|(path, text)| LayerText { path, text }).collect();
    load(&layers, super::shipped()).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// Returns the errors of a text as displayed.
fn wrong(text: &str) -> String {
    load_text(text).expect_err("this text must not load").render(false)
}

/// Returns the ids of the errors of a text.
fn wrong_ids(text: &str) -> Vec<&'static str> {
    let errors = load_text(text).expect_err("this text must not load");
    errors.0.iter().map(|finding| finding.id).collect()
}

fn args(loaded: &LoadedProfile) -> Vec<&str> {
    loaded.profile.cmdline.args.iter().map(|arg| arg.token.as_str()).collect()
}

fn absent(loaded: &LoadedProfile) -> Vec<&str> {
    loaded.profile.cmdline.absent.iter().map(|arg| arg.token.as_str()).collect()
}
