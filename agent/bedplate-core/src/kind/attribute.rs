//! Values of kernel attributes.

use bedplate_base::ReadError;
use bedplate_host::Reader;

/// Reads a number.
///
/// # Errors
/// The attribute cannot be read, or is not a number.
pub(crate) fn number(reader: &dyn Reader, path: &str) -> Result<u64, ReadError> {
    let text = reader.attribute(path)?;
    text.parse().map_err(|_| not_understood(path, &text))
}

/// Returns the error for an attribute with other content than the kernel documents.
pub(crate) fn not_understood(path: &str, text: &str) -> ReadError {
    ReadError::Failed { path: path.to_owned(), reason: format!("unexpected content {text:?}") }
}
