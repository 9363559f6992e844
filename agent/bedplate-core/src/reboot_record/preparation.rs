//! The preparation of a reboot method, as it is kept: the request to logind and the steps that undo it.

use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod as Method;

/// What to do once a method is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Ask logind for `reboot`.
    LogindReboot,
    /// Ask logind for `poweroff`.
    LogindPoweroff,
    /// Ask logind for an announcement only: the operator's command has the machine cycled from outside.
    RunCommand,
}

/// A method that is ready. It can be stored, so that a daemon that starts again after a crash can still undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// The method.
    pub method: Method,
    /// What to do now.
    pub next: Next,
    /// The way back, last change first.
    pub undo: Vec<Undo>,
}

/// One step back. Paths are those of the machine, without the root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Write this to a sysfs attribute.
    Write {
        /// The attribute.
        path: String,
        /// The value.
        value: String,
    },
    /// Remove a file. Not being there is success.
    Remove {
        /// The file.
        path: String,
    },
}
