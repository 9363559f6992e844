//! Plans and reports → text, JSON, unified diff. Pure: no terminal, no host.

pub mod applied;
pub mod diff;
pub mod doctor;
#[cfg(feature = "daemon")]
pub mod holders;
pub mod host_page;
pub mod inspect;
mod markup;
mod names;
pub mod nccl;
pub mod nccl_log;
pub mod nccl_perf;
pub mod outline;
mod page;
pub mod seal;
#[cfg(feature = "daemon")]
pub mod status;
pub mod style;
pub mod text;
pub mod topology;
pub mod verify;
pub mod wrap;

/// The text of each file in `schemas/`, by its name, as the types give it. A test compares the files with these.
///
/// # Errors
/// A schema cannot be serialized.
#[cfg(feature = "schemars")]
pub fn generated_schemas() -> Result<[(&'static str, String); 4], serde_json::Error> {
    use bedplate_core::documents::document;
    Ok([
        ("nccl-env", document(&nccl::generated_schema())?),
        ("nccl-log", document(&nccl_log::generated_schema())?),
        ("nccl-perf", document(&nccl_perf::generated_schema())?),
        ("topology", document(&topology::generated_schema())?),
    ])
}
