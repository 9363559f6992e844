//! A value of one configuration line: of a module parameter, or of a kernel parameter.

use std::fmt;

use serde::Deserialize;

use super::{Entry, Reason, Spanned};

/// Text, a number, or `true` and `false`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Scalar {
    /// Text, as written in the file.
    Text(String),
    /// A number.
    Number(i64),
    /// Written as 1 or 0.
    Truth(bool),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Text(text) => f.write_str(text),
            Scalar::Number(number) => write!(f, "{number}"),
            Scalar::Truth(truth) => write!(f, "{}", u8::from(*truth)),
        }
    }
}

/// A value with its reason.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ScalarTable {
    /// Value; `true` and `false` are written as 1 and 0.
    pub value: Scalar,
    /// Reason, shown in plans.
    pub why: Option<Spanned<String>>,
    /// Source of the fact.
    pub source: Option<Spanned<String>>,
}

/// A value, with or without a reason.
pub(crate) type ScalarEntry = Spanned<Entry<Scalar, ScalarTable>>;

impl ScalarEntry {
    /// Returns the value and its reason.
    pub(crate) fn into_parts(self) -> (Scalar, Reason) {
        match self.value {
            Entry::Short(value) => (value, Reason::NONE),
            Entry::Long(table) => (table.value, Reason { why: table.why, source: table.source }),
        }
    }
}
