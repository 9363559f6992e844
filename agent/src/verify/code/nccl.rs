//! The file that jobs' collective library reads.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;

/// A finding about the collective library's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum NcclCode {
    /// A variable for all jobs switches off what they need.
    SwitchedOff {
        /// `NCCL_IB_DISABLE=1`.
        setting: String,
        /// `/etc/nccl.conf:3`.
        at: String,
        /// The feature that is left out.
        what: String,
    },
}

impl Words for NcclCode {
    /// The subject says it all.
    fn says(&self) -> Cow<'static, str> {
        "".into()
    }

    fn subject(&self) -> String {
        let NcclCode::SwitchedOff { setting, at, what } = self;
        format!("`{setting}` ({at}) leaves all jobs without {what}")
    }
}
