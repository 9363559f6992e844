//! JSON form of file contents.

use serde::Deserialize as _;

/// Reads text. Bytes that were not UTF-8 have been replaced: a plan read back is for display, not for apply.
pub(crate) fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

/// Writes bytes as text: boot configuration is text, but not always UTF-8.
pub(crate) fn lossy<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
