//! Size of a huge page, as profiles and sysfs name it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use bedplate_base::memory_size;
use bedplate_base::value::NotAValue;

/// Size of a huge page in bytes: a power of two from 64 KiB to 16 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageSize(u64);

/// Sizes of the architectures (handbook §1.7).
const RANGE: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 30;

impl PageSize {
    /// Returns the size of a directory of sysfs: `hugepages-2048kB`.
    pub(super) fn of_directory(name: &str) -> Option<Self> {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        kib.checked_mul(1024).filter(|bytes| RANGE.contains(bytes)).map(PageSize)
    }

    /// Returns the name of its directory in sysfs.
    pub(super) fn directory(self) -> String {
        format!("hugepages-{}kB", self.0 >> 10)
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u128 {
        self.0.into()
    }

    /// Returns the size of `count` pages in bytes.
    pub(super) fn total(self, count: u64) -> u128 {
        u128::from(self.0) * u128::from(count)
    }
}

impl FromStr for PageSize {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let bytes = memory_size::parse(text).and_then(|bytes| u64::try_from(bytes).ok());
        let good = |bytes: &u64| bytes.is_power_of_two() && RANGE.contains(bytes);
        bytes.filter(good).map(PageSize).ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "a size of huge pages from `64K` to `16G`, such as `2M`",
        })
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&memory_size::format(self.0.into()))
    }
}

impl Serialize for PageSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
