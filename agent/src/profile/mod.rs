//! Profile text → typed, merged, validated [`model::Profile`].

pub mod model;
