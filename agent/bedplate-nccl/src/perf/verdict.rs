//! Verdicts on results, and the facts that the user adds.

use serde::Serialize;

use super::Algorithm;

/// Minimum size in bytes at which a collective shows bandwidth rather than latency. bedplate's choice.
pub const LARGE: u64 = 32 << 20;
/// The same for perftest, which sends messages without a pause. bedplate's choice.
pub const LARGE_OF_PERFTEST: u64 = 64 << 10;
/// Verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As expected from this host's links.
    Good,
    /// Unknown.
    CannotTell,
    /// Below expectations or implausible.
    Bad,
}

/// A finding and its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Verdict.
    pub verdict: Verdict,
    /// Line number.
    pub line: usize,
    /// Finding text.
    pub text: String,
}

/// Facts about the runs that their table does not show.
#[derive(Debug, Default, Clone)]
pub struct Assumptions {
    /// Bandwidth that the user expects, in GB/s, instead of the table of thresholds.
    pub expect: Option<f64>,
    /// Algorithm of the large sizes, by NCCL's log or the user; `None`: unknown.
    pub algorithm: Option<Algorithm>,
}

pub(super) fn bad(line: usize, text: String) -> Finding {
    Finding { verdict: Verdict::Bad, line, text }
}

/// Returns the human-readable size: `64 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) if bytes.is_multiple_of(1 << shift) => {
            format!("{} {unit}", bytes >> shift)
        }
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
