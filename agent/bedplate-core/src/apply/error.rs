//! Why a step of an apply or a revert has failed.

use std::error::Error;

use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_host::{ToolEnd, WriteError};

/// Why something was not done, or is not as it was to be.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// What is there cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A saved content cannot be used.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A tool did not succeed.
    #[error("{}: {end}", argv.join(" "))]
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// How it ended.
        end: ToolEnd,
        /// The end of its output.
        output: String,
    },
    /// A tool did not succeed, and a file that it makes could not be put back either.
    #[error("{tool}; and {path} could not be put back")]
    NotPutBack {
        /// Why the tool did not succeed.
        tool: Box<StepError>,
        /// The file.
        path: String,
        /// Why it could not be put back.
        source: Box<StepError>,
    },
    /// Anything else.
    #[error("{what}")]
    Other {
        /// The sentence.
        what: String,
        /// What it comes from.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl StepError {
    /// An error that has no other behind it.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        StepError::Other { what: what.into(), source: None }
    }

    /// An error that comes from another.
    pub(crate) fn because(
        what: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        StepError::Other { what: what.into(), source: Some(source.into()) }
    }

    /// A VF has got another driver meanwhile: what has bound it uses it.
    pub(crate) fn vf_taken(vf: &str, driver: &str) -> Self {
        StepError::new(format!("VF {vf} is bound to {driver}: plan again"))
    }

    /// A PF has fewer VFs than it was given; `number` counts from 0.
    pub(crate) fn no_vf(number: u16, pf: PciAddress, source: ReadError) -> Self {
        StepError::because(format!("VF {number} of {pf} is missing"), source)
    }

    /// The end of the tool's output, if it was a tool that failed.
    pub fn output(&self) -> Option<&str> {
        match self {
            StepError::Tool { output, .. } => Some(output),
            StepError::NotPutBack { tool, .. } => tool.output(),
            _ => None,
        }
    }
}

/// Why a saved content is not used.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Others could have written it.
    #[error("the saved content is not used")]
    Untrusted(#[source] ReadError),
    /// It cannot be read.
    #[error("the saved content is lost")]
    Lost(#[source] ReadError),
    /// It is not what its name says.
    #[error("the saved content {path} is damaged")]
    Damaged {
        /// The file that holds it.
        path: String,
    },
}

impl ContentError {
    /// Remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            ContentError::Untrusted(_) => {
                "look at what was saved; if it is right, run that command and revert again"
            }
            ContentError::Lost(_) | ContentError::Damaged { .. } => {
                "restore the file from a backup or its package, then revert again"
            }
        }
    }
}
