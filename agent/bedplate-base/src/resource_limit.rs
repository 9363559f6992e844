//! Amount of a resource that a process may use (getrlimit(2)).

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::memory_size;
use crate::value::NotAValue;

/// A limit, ordered by the amount that it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceLimit {
    /// At most this amount: bytes, or tasks.
    AtMost(u64),
    /// No limit.
    Unlimited,
}

/// Word for no limit in profiles, /proc/PID/limits and limits.conf(5).
const UNLIMITED: &str = "unlimited";

impl ResourceLimit {
    /// Formats a limit of memory in bytes: `64G`, or `unlimited`.
    pub fn format_bytes(self) -> String {
        self.format(|bytes| memory_size::format(bytes.into()))
    }

    /// Formats the limit as systemd's settings do: `infinity`, or an amount.
    pub fn format_systemd(self) -> String {
        match self {
            ResourceLimit::AtMost(amount) => amount.to_string(),
            ResourceLimit::Unlimited => "infinity".to_owned(),
        }
    }

    /// Formats a limit of memory in KiB, the unit of limits.conf(5).
    pub fn format_kib(self) -> String {
        self.format(|bytes| (bytes >> 10).to_string())
    }

    fn format(self, amount: impl Fn(u64) -> String) -> String {
        match self {
            ResourceLimit::AtMost(number) => amount(number),
            ResourceLimit::Unlimited => UNLIMITED.to_owned(),
        }
    }

    /// Parses a limit of memory in systemd's settings: `infinity`, or bytes with a unit of powers of 1024
    /// (systemd.exec(5)). Of `SOFT:HARD` the soft limit counts: processes start with it.
    pub fn parse_systemd_bytes(text: &str) -> Option<Self> {
        match text.split(':').next().unwrap_or_default().trim() {
            "infinity" => Some(ResourceLimit::Unlimited),
            soft => amount(soft),
        }
    }

    /// Parses a limit of limits.conf(5): KiB, or a word for no limit.
    pub fn parse_kib(text: &str) -> Option<Self> {
        match text {
            "unlimited" | "infinity" | "-1" => Some(ResourceLimit::Unlimited),
            kib => Some(ResourceLimit::AtMost(kib.parse::<u64>().ok()?.checked_mul(1024)?)),
        }
    }

    /// Parses a number, or the word `unlimited` of /proc/PID/limits.
    pub fn parse_number(text: &str) -> Option<Self> {
        match text {
            UNLIMITED => Some(ResourceLimit::Unlimited),
            number => number.parse().ok().map(ResourceLimit::AtMost),
        }
    }
}

fn amount(text: &str) -> Option<ResourceLimit> {
    let bytes = memory_size::parse(text).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.map(ResourceLimit::AtMost).or_else(|| ResourceLimit::parse_number(text))
}

/// Parses a limit of memory in a profile: `unlimited`, or a size with which programs still start.
impl FromStr for ResourceLimit {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        const LEAST: u64 = 1 << 20;
        let is_large = |limit: &Self| *limit >= ResourceLimit::AtMost(LEAST);
        amount(text).filter(is_large).ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "`unlimited`, or a size in K, M, G or T such as `64G`, at least `1M`",
        })
    }
}

impl fmt::Display for ResourceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format_bytes())
    }
}

impl Serialize for ResourceLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written_in_the_unit_of_each_file() {
        let limit: ResourceLimit = "64G".parse().unwrap();
        assert_eq!(limit, ResourceLimit::AtMost(64 << 30));
        assert_eq!(ResourceLimit::parse_systemd_bytes(&limit.format_systemd()), Some(limit));
        assert_eq!(ResourceLimit::parse_kib(&limit.format_kib()), Some(limit));
        assert_eq!(limit.to_string(), "64G");
        assert_eq!(ResourceLimit::parse_systemd_bytes("8M:infinity"), "8M".parse().ok());
        let none: ResourceLimit = "unlimited".parse().unwrap();
        assert!(none > limit);
        assert_eq!(ResourceLimit::parse_systemd_bytes(&none.format_systemd()), Some(none));
        assert_eq!(ResourceLimit::parse_kib(&none.format_kib()), Some(none));
        for text in ["", "0", "64K", "-1", "infinity", "64GB", "1.5G", "-64G"] {
            assert!(text.parse::<ResourceLimit>().is_err(), "{text}");
        }
    }
}
