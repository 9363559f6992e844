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
pub enum ImportError {
    /// Larger than [`LARGEST`].
    #[error("it is larger than 1 MiB")]
    TooLarge,
    /// It starts as XML does and is none.
    #[error("it is not well-formed XML: {0}")]
    Xml(String),
    /// A graph file.
    #[error(
        "it is a graph file (<graphs>, for NCCL_GRAPH_FILE), which says how rings and trees run, not a topology (<system>, for \
         NCCL_TOPO_FILE)"
    )]
    Graph,
    /// Another document.
    #[error("its outermost element is <{0}>, not <system> as in a topology of NCCL")]
    OtherRoot(String),
    /// Neither XML nor a matrix.
    #[error(
        "it is neither XML nor the matrix of `nvidia-smi topo -m`: no line starts with columns GPU0, GPU1 …"
    )]
    Neither,
    /// A matrix without a row.
    #[error("it has the head of a matrix of `nvidia-smi topo -m`, and no row: it was cut off")]
    NoRows,
    /// More elements, rows or columns than a machine has.
    #[error("it has more than {0} {1}: that is no machine")]
    TooMany(usize, &'static str),
}

/// Reads either.
///
/// # Errors
/// It is neither.
pub fn parse(text: &str) -> Result<ImportedTopology, ImportError> {
    if text.len() > LARGEST {
        return Err(ImportError::TooLarge);
    }
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_start().starts_with('<') {
        true => nccl::parse(text).map(ImportedTopology::Nccl),
        false => smi::parse(text).map(ImportedTopology::Smi),
    }
}
