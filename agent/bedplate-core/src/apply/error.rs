//! Errors of single steps of an apply or a revert.

use std::error::Error;

use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_host::{ToolEnd, WriteError};

/// Reason why a step failed or had another result than intended.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The current state cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new state cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Saved content cannot be used.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A tool failed.
    #[error("{}: {end}", argv.join(" "))]
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// How the tool ended.
        end: ToolEnd,
        /// End of the tool's output.
        output: String,
    },
    /// A tool failed, and a file that it generates could not be restored either.
    #[error("{tool}; cannot restore {path}")]
    NotPutBack {
        /// Failure of the tool.
        tool: Box<StepError>,
        /// File that could not be restored.
        path: String,
        /// Failure of the restoration.
        source: Box<StepError>,
    },
    /// Any other error.
    #[error("{what}")]
    Other {
        /// Error message.
        what: String,
        /// Cause.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl StepError {
    /// Builds an error without a cause.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        StepError::Other { what: what.into(), source: None }
    }

    /// Builds an error with a cause.
    pub(crate) fn because(
        what: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        StepError::Other { what: what.into(), source: Some(source.into()) }
    }

    /// Builds the error for a VF that another program has bound to `driver` and may be using.
    pub(crate) fn vf_taken(vf: &str, driver: &str) -> Self {
        StepError::new(format!("VF {vf} is bound to {driver}: plan again"))
    }

    /// Builds the error for a PF with fewer VFs than requested; `number` counts from 0.
    pub(crate) fn no_vf(number: u16, pf: PciAddress, source: ReadError) -> Self {
        StepError::because(format!("VF {number} of {pf} is missing"), source)
    }

    /// Returns the end of the tool's output if a tool failed.
    pub fn output(&self) -> Option<&str> {
        match self {
            StepError::Tool { output, .. } => Some(output),
            StepError::NotPutBack { tool, .. } => tool.output(),
            _ => None,
        }
    }
}

/// Reason why saved content is not used.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Other users could have written the file.
    #[error("saved content rejected")]
    Untrusted(#[source] ReadError),
    /// The file cannot be read.
    #[error("cannot read the saved content")]
    Lost(#[source] ReadError),
    /// The content does not match the digest in the file's name.
    #[error("saved content {path} is damaged")]
    Damaged {
        /// File that holds the content.
        path: String,
    },
}

impl ContentError {
    /// Returns the fix.
    pub fn fix(&self) -> &'static str {
        match self {
            ContentError::Untrusted(_) => {
                "inspect the saved content; if it is correct, run that command and revert again"
            }
            ContentError::Lost(_) | ContentError::Damaged { .. } => {
                "restore the file from a backup or its package, then revert again"
            }
        }
    }
}
