//! Huge pages.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, size};

/// A finding about huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "HugePagesCode"))]
pub enum HugePagesFinding {
    /// There are fewer huge pages of a size than the command line asks for.
    HugePagesShort {
        /// Size of a page in bytes.
        bytes: u128,
        /// How many there are.
        found: u128,
        /// How many are asked for.
        wanted: u128,
    },
}

impl FindingText for HugePagesFinding {
    fn description(&self) -> Cow<'static, str> {
        "fewer huge pages than asked for: {}".into()
    }

    fn subject(&self) -> String {
        let HugePagesFinding::HugePagesShort { bytes, found, wanted } = self;
        format!("{found} of {wanted} pages of {}", page_size(*bytes))
    }

    /// Every size is named: a CPU has few.
    fn few(&self) -> usize {
        usize::MAX
    }

    fn remedy(&self) -> Cow<'static, str> {
        "`dmesg | grep -i hugetlb` says why (memory, or a size that the CPU does not have); ask for fewer, or by NUMA node \
         (`hugepages=0:8,1:8`), in [cmdline] of the profile"
            .into()
    }
}

/// The size of a page: `2 MiB`.
pub(crate) fn page_size(bytes: u128) -> String {
    u64::try_from(bytes).map_or_else(|_| format!("{bytes} bytes"), size)
}
