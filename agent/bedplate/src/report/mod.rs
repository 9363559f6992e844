//! Formatting of plans and reports as text, JSON and unified diffs. Pure: no terminal, no host.

pub mod applied;
pub mod diff;
pub mod doctor;
mod grouping;
#[cfg(feature = "daemon")]
pub mod holders;
pub mod host_page;
pub mod inspect;
mod markup;
mod names;
pub mod nccl;
pub mod nccl_job;
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

/// Returns the generated text of each file in `schemas/` by name. A test compares the files with these.
///
/// # Errors
/// If a schema cannot be serialized.
#[cfg(feature = "schemars")]
pub fn generated_schemas() -> Result<[(&'static str, String); 5], serde_json::Error> {
    use bedplate_core::documents::document;
    use schemars::schema_for;
    Ok([
        ("nccl-env", document(&schema_for!(nccl::Document<'static>))?),
        ("nccl-job", document(&schema_for!(nccl_job::Document<'static>))?),
        ("nccl-log", document(&schema_for!(nccl_log::Document<'static>))?),
        ("nccl-perf", document(&schema_for!(nccl_perf::Document<'static>))?),
        ("topology", document(&schema_for!(topology::Document<'static>))?),
    ])
}
