//! How what has no plain JSON form is written and read back: bytes of files.

use serde::Deserialize as _;

/// Bytes that are no UTF-8 are not what they were: a plan that was read back is to be shown, not to be applied.
pub(crate) fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

/// As text: boot configuration is text, but not always UTF-8.
pub(crate) fn lossy<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
