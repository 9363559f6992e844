//! The file that jobs' collective library reads.

use serde::Serialize;

use super::{FindingText, text};

/// A finding about the collective library's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "NcclCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
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

impl NcclFinding {
    pub(super) fn text(&self) -> FindingText {
        let Self::SwitchedOff { setting, at, what, others } = self;
        let lines = if others.is_empty() { "the line" } else { "the lines" };
        let all: Vec<&str> = [at].into_iter().chain(others).map(String::as_str).collect();
        text(
            "",
            format!("`{setting}` ({at}) leaves all jobs without {what}"),
            format!(
                "take {lines} out or correct what is wrong there ({}); where the profile has it, `set` in [nccl]; `bedplate nccl env` shows \
                 what this host needs",
                all.join(", ")
            ),
        )
    }
}
