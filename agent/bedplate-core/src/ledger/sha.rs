//! Digests of contents.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::BLOBS;

/// SHA-256 of a file's content: 64 lowercase hex digits. It names a backup copy, so no other text may parse as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha(String);

impl Sha {
    /// Computes the digest of these bytes.
    pub fn digest(bytes: &[u8]) -> Self {
        Sha::from(<[u8; 32]>::from(Sha256::digest(bytes)))
    }

    /// Returns the path of the backup copy inside the host.
    pub fn blob(&self) -> String {
        format!("{BLOBS}/{}", self.0)
    }

    /// Returns the hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error for a text that is no SHA-256.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a SHA-256")]
pub struct NotASha(String);

impl FromStr for Sha {
    type Err = NotASha;

    fn from_str(text: &str) -> Result<Self, NotASha> {
        let good = text.len() == 64
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        good.then(|| Sha(text.to_owned())).ok_or_else(|| NotASha(text.to_owned()))
    }
}

impl TryFrom<String> for Sha {
    type Error = NotASha;

    fn try_from(text: String) -> Result<Self, NotASha> {
        text.parse()
    }
}

impl From<[u8; 32]> for Sha {
    fn from(digest: [u8; 32]) -> Self {
        Sha(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl From<Sha> for String {
    fn from(sha: Sha) -> String {
        sha.0
    }
}
