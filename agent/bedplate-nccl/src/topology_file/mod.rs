//! Imported topologies of a machine: NCCL's XML, and the matrix of `nvidia-smi topo -m`. Pure.

pub mod compare;
mod compare_nccl;
pub mod comparison_result;
pub mod nccl;
pub mod smi;

/// Maximum size of a text in bytes. NCCL's own parser accepts 2048 elements.
pub const LARGEST: usize = 1 << 20;

/// An imported topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedTopology {
    /// NCCL topology (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
    Nccl(nccl::File),
    /// Matrix of `nvidia-smi topo -m`.
    Smi(smi::Matrix),
}

/// Error of an import.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(String);

impl ImportError {
    /// Creates the error for more elements, rows or columns than a machine has.
    fn too_many(most: usize, what: &str) -> Self {
        Self(format!("more than {most} {what}: not a plausible host"))
    }
}

/// Parses either format.
///
/// # Errors
/// The text has neither format, or exceeds a limit.
pub fn parse(text: &str) -> Result<ImportedTopology, ImportError> {
    if text.len() > LARGEST {
        return Err(ImportError("larger than 1 MiB".to_owned()));
    }
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_start().starts_with('<') {
        true => nccl::parse(text).map(ImportedTopology::Nccl),
        false => smi::parse(text).map(ImportedTopology::Smi),
    }
}
