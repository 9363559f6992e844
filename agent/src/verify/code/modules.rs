//! Drivers and kernel modules.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;
use crate::recovery::Recovery;

/// A finding about drivers and kernel modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ModulesCode {
    /// The NVIDIA driver's library for programs is of another version than its kernel module.
    DriverVersions {
        /// Version of the library.
        library: String,
        /// Version of the kernel module.
        module: String,
    },
    /// The NVIDIA driver is set to let no peer reach GPU memory.
    PeersRefused,
}

impl Words for ModulesCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            ModulesCode::DriverVersions { .. } => {
                "not one version, so that CUDA starts no program (error 803)"
            }
            ModulesCode::PeersRefused => "is set to refuse peers",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            ModulesCode::DriverVersions { library, module } => {
                format!("the NVIDIA driver's library {library} and its kernel module {module}")
            }
            ModulesCode::PeersRefused => "the NVIDIA driver".to_owned(),
        }
    }

    fn recovery(&self) -> Recovery {
        match self {
            ModulesCode::DriverVersions { .. } => Recovery::Reboot,
            ModulesCode::PeersRefused => Recovery::None,
        }
    }
}
