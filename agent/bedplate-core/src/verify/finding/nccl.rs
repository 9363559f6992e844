//! The file that jobs' collective library reads.

use std::borrow::Cow;

use serde::Serialize;

use super::FindingText;

/// A finding about the collective library's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "NcclCode"))]
pub enum NcclFinding {
    /// A variable for all jobs switches off what they need.
    SwitchedOff {
        /// `NCCL_IB_DISABLE=1`.
        setting: String,
        /// `/etc/nccl.conf:3`.
        at: String,
        /// The feature that is left out.
        what: String,
        /// Lines with other settings that count as much.
        others: Vec<String>,
    },
}

impl FindingText for NcclFinding {
    fn description(&self) -> Cow<'static, str> {
        "".into()
    }

    fn subject(&self) -> String {
        let NcclFinding::SwitchedOff { setting, at, what, .. } = self;
        format!("`{setting}` ({at}) leaves all jobs without {what}")
    }

    fn remedy(&self) -> Cow<'static, str> {
        let NcclFinding::SwitchedOff { at, others, .. } = self;
        let lines = if others.is_empty() { "the line" } else { "the lines" };
        let all: Vec<&str> = [at].into_iter().chain(others).map(String::as_str).collect();
        format!(
            "take {lines} out or correct what is wrong there ({}); where the profile has it, `set` in [nccl]; `bedplate nccl env` shows \
             what this host needs",
            all.join(", ")
        )
        .into()
    }
}
