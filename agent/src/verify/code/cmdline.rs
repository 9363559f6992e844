//! The kernel command line.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;

/// A finding about the kernel command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum CommandLineCode {
    /// The kernel did not take an argument.
    ArgumentRefused {
        /// The argument.
        argument: String,
    },
}

impl Words for CommandLineCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            CommandLineCode::ArgumentRefused { .. } => "not taken by the kernel".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            CommandLineCode::ArgumentRefused { argument } => format!("`{argument}`"),
        }
    }
}
