//! Steps of a revert, as data.

use serde::Serialize;

use crate::ledger::FileState;
use crate::plan::FileContent;
use crate::setting::{SetConfigBits, SetEswitch, SetVf, SettingChange as _, WriteAttribute};

/// One step of a revert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Writes a sysfs attribute.
    Attribute(WriteAttribute),
    /// Sets bits of a config-space register.
    Register(SetConfigBits),
    /// Sets attributes of a VF.
    Vf(SetVf),
    /// Changes the mode of an eswitch.
    Eswitch(SetEswitch),
    /// Restores a file: content, owner, mode, attributes.
    File {
        /// Absolute path inside the host.
        path: String,
        /// Current content; `None`: absent.
        before: Option<FileContent>,
        /// Content before bedplate, if the file existed.
        after: Option<FileContent>,
        /// Complete state, for the executor.
        #[serde(skip)]
        to: FileState,
    },
    /// Runs a tool: one that generates files from the restored ones, or one that undoes another.
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// Purpose.
        purpose: String,
        /// Output files.
        makes: Vec<String>,
        /// Time limit in seconds.
        limit_s: u32,
    },
    /// Removes a directory that bedplate created, if it is empty then.
    Directory {
        /// Absolute path inside the host.
        path: String,
    },
}

impl Step {
    /// Returns the subject.
    pub fn subject(&self) -> String {
        match self {
            Step::File { path, .. } | Step::Directory { path } => path.clone(),
            Step::Attribute(action) => action.name(),
            Step::Register(action) => action.name(),
            Step::Vf(action) => action.name(),
            Step::Eswitch(action) => action.name(),
            Step::Tool { argv, .. } => argv.join(" "),
        }
    }
}

/// A subject that is not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Path or register.
    pub subject: String,
    /// Reason.
    pub reason: String,
    /// Fix.
    pub fix: String,
}
