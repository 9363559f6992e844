//! What bedplate's tests share.

pub mod case;
pub mod damage;
pub mod expected;
pub mod fake;
pub mod fixtures;
#[path = "../vm/lab/mod.rs"]
pub mod lab;
pub mod parsers;
pub mod picture;
pub mod program;
pub mod whole_host;
