//! What others say of a machine's topology: NCCL's XML, and the matrix of `nvidia-smi topo -m`. Pure.

pub mod compare;
mod compare_nccl;
pub mod comparison_result;
pub mod nccl;
pub mod smi;

/// Longest text that is taken. NCCL's own parser takes 2048 elements.
pub const LARGEST: usize = 1 << 20;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedTopology {
    /// A topology of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
    Nccl(nccl::File),
    /// The matrix of `nvidia-smi topo -m`.
    Smi(smi::Matrix),
}

/// Why a text is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(String);

impl ImportError {
    /// More elements, rows or columns than a machine has.
    fn too_many(most: usize, what: &str) -> Self {
        Self(format!("it has more than {most} {what}: that is no machine"))
    }
}

/// Reads either.
///
/// # Errors
/// It is neither.
pub fn parse(text: &str) -> Result<ImportedTopology, ImportError> {
    if text.len() > LARGEST {
        return Err(ImportError("it is larger than 1 MiB".to_owned()));
    }
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_start().starts_with('<') {
        true => nccl::parse(text).map(ImportedTopology::Nccl),
        false => smi::parse(text).map(ImportedTopology::Smi),
    }
}
