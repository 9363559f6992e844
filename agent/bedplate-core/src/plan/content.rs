//! File contents in a plan.

use serde::{Deserialize, Serialize};

use super::json_form;

/// Content of a text file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FileContent {
    /// Exact bytes. Boot configuration is text, but not always UTF-8; unmanaged bytes are preserved.
    #[serde(serialize_with = "json_form::lossy", deserialize_with = "json_form::text")]
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub bytes: Vec<u8>,
    /// `true`: the content is redacted and `bytes` is empty, as in the plan that the daemon publishes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl FileContent {
    /// Creates a content of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        FileContent { bytes, redacted: false }
    }

    /// Creates a redacted content.
    pub fn redacted() -> Self {
        FileContent { bytes: Vec::new(), redacted: true }
    }
}
