//! Parser for lines of gdsio (GPUDirect Storage benchmarking guide, CUDA 12): `IoType: READ XferType: GPUD Threads: 8
//! DataSetSize: 8363008/8388608(KiB) IOSize: 1024(KiB) Throughput: 6.816723 GiB/sec, Avg_Latency: …`.

use super::input::number;
use super::{Copied, Results, Run, Test};

/// 1 GiB/s in GB/s.
const GIB: f64 = 1_073_741_824.0 / 1e9;

/// Reads a line. Returns whether it is a result of gdsio.
pub(super) fn line(line: &str, number_of_line: usize, results: &mut Results) -> bool {
    let after = |key: &str| line[line.find(key)? + key.len()..].split_whitespace().next();
    let (Some(operation), Some(transfer)) = (after("IoType:"), after("XferType:")) else {
        return false;
    };
    let rate = after("Throughput:").filter(|_| line.contains("GiB/sec")).and_then(number);
    let Some(rate) = rate else {
        results.unread.push(number_of_line);
        return true;
    };
    let size = after("IOSize:").and_then(|size| size.strip_suffix("(KiB)")?.parse::<u64>().ok());
    let copy = Copied {
        line: number_of_line,
        gpu: None,
        address: None,
        bytes: size.and_then(|kib| kib.checked_mul(1024)),
        bandwidth: rate * GIB,
    };
    results.runs.push(Run {
        line: number_of_line,
        test: Some(Test::Gdsio),
        case: Some(format!("{operation} {transfer}")),
        copies: vec![copy],
        ..Run::default()
    });
    true
}
