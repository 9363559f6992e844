//! Table of copies between a GPU and host memory or storage.

use std::fmt::Write as _;

use bedplate_base::terminal::one_line;
use bedplate_nccl::perf::judge::{Judged, size};

/// Formats a line per copy: GPU, size, rate, and the limit.
pub(super) fn table(judged: &Judged) -> String {
    let mut out = String::new();
    for (copy, limit) in judged.run.copies.iter().zip(&judged.copies) {
        let gpu = copy.gpu.map(|gpu| format!("GPU {gpu}")).unwrap_or_default();
        let address = copy.address.as_deref().map(one_line).unwrap_or_default();
        let size = copy.bytes.map(size).unwrap_or_default();
        let limit = match (limit.limit, &limit.bottleneck) {
            (Some(rate), Some(bottleneck)) => {
                let share = 100.0 * copy.bandwidth / rate;
                format!("{share:.0} % of {rate:.2} on {}", one_line(bottleneck))
            }
            _ => "unknown limit".to_owned(),
        };
        let words = [gpu, address, size];
        let words: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        let _ = writeln!(out, "  {:<28} {:>8.2} GB/s  {limit}", words.join(" "), copy.bandwidth);
    }
    out
}
