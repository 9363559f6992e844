//! The merged profile as TOML: every value, including defaults, in a fixed order. Loading it gives the same profile.

use super::load::LoadedProfile;
use crate::section::Printer;

/// Returns the merged profile as TOML; with `with_origin`, each line names its file and line.
pub fn show(loaded: &LoadedProfile, with_origin: bool) -> String {
    let mut out = Printer::new(&loaded.origins, with_origin);
    loaded.profile.show(&mut out);
    out.into_text()
}
