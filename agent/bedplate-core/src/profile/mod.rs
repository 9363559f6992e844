//! Converts profile text to a typed, merged, validated [`model::Profile`]. Pure: callers pass texts, no file is read.
//!
//! ```text
//! texts ─syntax, structure→ ProfileFile, one for each ─check, merge→ Profile ─lints→ findings
//! ```

pub mod model;

mod example;
mod explain;
#[cfg(feature = "schemars")]
mod generated_schema;
mod lints;
mod load;
mod matching;
mod reboot_window;
mod root;
mod schema;
mod sections;
mod shipped;
mod show;
mod structure;
mod suggest;
mod syntax;

pub use crate::section::{Diagnostic, Severity, render_all};
pub use example::{EXAMPLE, Ports, SuggestedSetting, for_host};
pub use explain::{KeyDescription, about, explain, explained, explained_keys, similar_key};
#[cfg(feature = "schemars")]
pub(crate) use generated_schema::generated_schema;
pub use lints::{is_reminder, lint_ids};
pub use load::{LayerText, LoadedProfile, load};
pub(crate) use matching::{MatchError, MatchResult, asks_for_match, match_profile, pick};
pub use reboot_window::{NEVER, RebootWindow};
pub use schema::{SCHEMA, is_schema_word, schema};
pub(crate) use shipped::Shipped;
pub use shipped::shipped;
pub use show::show;
pub use suggest::nearest;
pub(crate) use syntax::not_toml_at;

#[cfg(test)]
mod tests;

/// Loads a profile from this text, with the name `test`.
#[cfg(test)]
pub(crate) fn of_text(text: &str) -> model::Profile {
    load(&[LayerText { path: "test.toml", text }], &[]).unwrap().profile
}
