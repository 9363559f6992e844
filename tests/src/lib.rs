//! What bedplate's tests share.

pub mod fake;
pub mod fixtures;
pub mod program;
