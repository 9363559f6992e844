//! Steps of a revert, as data.

use serde::Serialize;

use crate::ledger::FileState;
use crate::plan::FileContent;
use crate::setting::{SetConfigBits, SetEswitch, SetVf, SettingChange as _, WriteAttribute};

/// One step back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Write a sysfs attribute.
    Attribute(WriteAttribute),
    /// Set bits of a config-space register.
    Register(SetConfigBits),
    /// Set attributes of a VF.
    Vf(SetVf),
    /// Change the mode of an eswitch.
    Eswitch(SetEswitch),
    /// Put a file back: content, owner, mode, attributes.
    File {
        /// Absolute path inside the host.
        path: String,
        /// Content now; `None` = absent.
        before: Option<FileContent>,
        /// Content before bedplate came; `None` = absent.
        after: Option<FileContent>,
        /// The whole of it, for the executor.
        #[serde(skip)]
        to: FileState,
    },
    /// Run a tool: again, to make files from those that were put back, or the one that undoes another.
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// Purpose.
        purpose: String,
        /// Files it makes.
        makes: Vec<String>,
        /// Seconds it may take.
        limit_s: u32,
    },
    /// Remove a directory that bedplate made, if it is empty by then.
    Directory {
        /// Absolute path inside the host.
        path: String,
    },
}

impl Step {
    /// Subject.
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

/// Something that is not put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Path or register.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
}
