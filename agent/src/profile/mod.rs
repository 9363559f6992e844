//! Profile text → typed, merged, validated [`model::Profile`]. Pure: file texts are handed in, nothing is read.
//!
//! ```text
//! text ─syntax, structure→ Fragment ─check→ Layer ─overlay→ Layer ─finish→ Profile ─lints→ findings
//! ```

pub mod model;

mod argument;
mod check;
mod diagnostic;
mod example;
mod explain;
mod finish;
mod fragment;
mod layer;
mod lints;
mod load;
mod matching;
mod schema;
mod shipped;
mod show;
mod source;
mod structure;
mod suggest;
mod syntax;
mod window;

pub use diagnostic::{Diagnostic, ProfileErrors, Severity, render_all};
pub use example::{EXAMPLE, Ports, for_host};
pub use explain::{Explained, about, explain, explained, explained_keys, similar_key};
pub use finish::Origin;
pub use load::{LayerText, Loaded, load};
pub use matching::{MatchError, Misfit, asks_for_match, misfits_of, pick};
pub use schema::schema;
pub use shipped::{Shipped, shipped};
pub use show::show;
pub use suggest::nearest;
pub use window::{NEVER, Window, WindowError};

#[cfg(test)]
mod tests;
