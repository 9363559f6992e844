//! How what has no plain JSON form is written and read back: names of kinds, bytes of files.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize as _;

use super::KindName;

/// Kinds are few, and named where they are declared; a name that was written down is one of theirs again. Bounded all the
/// same: a name that is read is kept for as long as the program runs.
pub(crate) fn known_kind<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<KindName, D::Error> {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    const MOST: usize = 64;
    let name = String::deserialize(deserializer)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known.get(name.as_str()) {
        return Ok(name);
    }
    if known.len() >= MOST || name.len() > 32 {
        return Err(serde::de::Error::custom(format!("`{name}` is no kind of managed thing")));
    }
    let name: &'static str = name.leak();
    known.insert(name);
    Ok(name)
}

/// Bytes that are no UTF-8 are not what they were: a plan that was read back is to be shown, not to be applied.
pub(crate) fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

/// As text: boot configuration is text, but not always UTF-8.
pub(crate) fn lossy<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
