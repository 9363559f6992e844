//! Configuration file of jobs' collective library.

use serde::Serialize;

use super::{FindingText, text};

/// A finding about the collective library's configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "NcclCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum NcclFinding {
    /// A variable for all jobs disables a feature that they need.
    SwitchedOff {
        /// `NCCL_IB_DISABLE=1`.
        setting: String,
        /// `/etc/nccl.conf:3`.
        at: String,
        /// Disabled feature.
        what: String,
        /// Lines with other settings of the same severity.
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
                "remove or correct {lines} ({}). From the profile? Change [nccl] `set` there; `bedplate nccl env` shows \
                 what this host needs",
                all.join(", ")
            ),
        )
    }
}
