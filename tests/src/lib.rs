//! Shared code of bedplate's tests.

use std::path::{Path, PathBuf};

pub mod case;
pub mod damage;
pub mod expected;
pub mod fake;
pub mod fixtures;
pub mod image_root;
#[path = "../vm/lab/mod.rs"]
pub mod lab;
pub mod oci;
pub mod parsers;
pub mod picture;
pub mod program;
pub mod property;
pub mod whole_host;
pub mod wording;

/// Path of a file or directory of `tests/data`.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(path)
}
