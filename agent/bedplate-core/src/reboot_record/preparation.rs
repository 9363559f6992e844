//! Stored preparation of a reboot method: the request to logind, and the steps that undo it.

use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod as Method;

/// Action after a method is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Request `reboot` from logind.
    LogindReboot,
    /// Request `poweroff` from logind.
    LogindPoweroff,
    /// Request only an announcement from logind: the operator's command power-cycles the machine from outside.
    RunCommand,
}

/// An armed method. Stored, so that a daemon can undo it after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// Method of the reboot.
    pub method: Method,
    /// Next action.
    pub next: Next,
    /// Undo steps, last change first.
    pub undo: Vec<Undo>,
}

/// An undo step. Paths are those of the machine, without the root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Writes a sysfs attribute.
    Write {
        /// Path of the attribute.
        path: String,
        /// Value to write.
        value: String,
    },
    /// Removes a file. An absent file is a success.
    Remove {
        /// Path of the file.
        path: String,
    },
}
