//! Huge pages.

use serde::Serialize;

use super::{FindingText, size, text};

/// A finding about huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "HugePagesCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum HugePagesFinding {
    /// The host has fewer huge pages of a size than the command line requests.
    HugePagesShort {
        /// Size of a page in bytes.
        bytes: u128,
        /// Number of pages.
        found: u128,
        /// Requested number of pages.
        requested: u128,
    },
}

impl HugePagesFinding {
    pub(super) fn text(&self) -> FindingText {
        let Self::HugePagesShort { bytes, found, requested } = self;
        let text = text(
            "fewer huge pages than requested: {}",
            format!("{found} of {requested} pages of {}", page_size(*bytes)),
            "check `dmesg | grep -i hugetlb` for the cause (memory, or a size that the CPU lacks), then request fewer pages, \
             or pages by NUMA node (`hugepages=0:8,1:8`), under [cmdline] in the profile",
        );
        // Lists every size: a CPU has few.
        text.listed(usize::MAX, "of them")
    }
}

/// Formats the size of a page: `2 MiB`.
pub(crate) fn page_size(bytes: u128) -> String {
    u64::try_from(bytes).map_or_else(|_| format!("{bytes} bytes"), size)
}
