//! The merged profile as TOML again: every value, defaults too, in one order. Reading it back gives the same profile.

use super::load::LoadedProfile;
use crate::section::Printer;

/// The merged profile as TOML; with `with_origin`, each line says which file and line it comes from.
pub fn show(loaded: &LoadedProfile, with_origin: bool) -> String {
    let mut out = Printer::new(&loaded.origins, with_origin);
    loaded.profile.show(&mut out);
    out.into_text()
}
