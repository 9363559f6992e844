//! What is in a file, as a plan carries it.

use serde::{Deserialize, Serialize};

use super::json_form;

/// A text file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FileContent {
    /// Exact bytes. Boot configuration is text, but not always UTF-8: other people's bytes are kept.
    #[serde(serialize_with = "json_form::lossy", deserialize_with = "json_form::text")]
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub bytes: Vec<u8>,
    /// `true`: `bytes` is empty because what is in the file is not for everybody, as in the plan that the daemon shows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
}

impl FileContent {
    /// This content.
    pub fn new(bytes: Vec<u8>) -> Self {
        FileContent { bytes, withheld: false }
    }

    /// Some content that is not said.
    pub fn redacted() -> Self {
        FileContent { bytes: Vec::new(), withheld: true }
    }
}
