//! Parser for lines of perftest's bandwidth tests (perftest src/perftest_parameters.{h,c}). Its MB/sec means 2²⁰ bytes
//! per second; newer versions print MiB/sec.

use super::input::number;
use super::{Device, Measure, Point, Run, Test};

/// 1 MiB/s in GB/s.
pub(super) const MIB: f64 = 1_048_576.0 / 1e9;
/// 1 Gb/sec (10⁹ bits per second) in GB/s.
pub(super) const GIGABIT: f64 = 0.125;

/// Operation names in titles.
const TITLES: &[(&str, Test)] = &[
    ("RDMA_Write_imm", Test::IbWriteBw),
    ("RDMA_Write", Test::IbWriteBw),
    ("RDMA_Read", Test::IbReadBw),
    ("Send_imm", Test::IbSendBw),
    ("Send", Test::IbSendBw),
    ("Atomic", Test::IbAtomicBw),
];

/// Column layout of results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Columns {
    /// Column of the average.
    average: usize,
    /// Unit of the average in GB/s.
    unit: f64,
}

impl Columns {
    /// Parses the heading of a bandwidth test, if the line is one.
    pub(super) fn heading(line: &str) -> Option<Self> {
        let line = &line[line.find("#bytes")?..];
        let at = line.find("BW average[")?;
        let unit = match line[at..].split(['[', ']']).nth(1)? {
            "Gb/sec" => GIGABIT,
            "MB/sec" | "MiB/sec" => MIB,
            _ => return None,
        };
        Some(Columns { average: if line[..at].contains("#sl") { 4 } else { 3 }, unit })
    }
}

/// Whether the line is the heading of a latency test.
pub(super) fn is_latency(line: &str) -> bool {
    line.find("#bytes").is_some_and(|at| {
        let names = &line[at..];
        names.contains("#iterations") && names.contains("t_typical[usec]")
    })
}

/// Title of a test.
pub(super) enum Title {
    /// Title of a bandwidth test.
    Bandwidth(Box<Run>),
    /// Title of a latency test.
    Latency,
}

/// Parses `RDMA_Write Bidirectional BW Test`, if the line is a title.
pub(super) fn title(line: &str, number: usize) -> Option<Title> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.last() != Some(&"Test") {
        return None;
    }
    let (_, test) = TITLES.iter().find(|(name, _)| words.contains(name))?;
    if words.contains(&"Latency") {
        return Some(Title::Latency);
    }
    words.contains(&"BW").then_some(())?;
    let bidirectional = words.contains(&"Bidirectional");
    let device = Device { bidirectional, ..Device::default() };
    let run = Run { line: number, test: Some(*test), device: Some(device), ..Run::default() };
    Some(Title::Bandwidth(Box::new(run)))
}

/// Reads a header line: ` Dual-port       : OFF    Device         : mlx5_0`.
pub(super) fn header(line: &str, device: &mut Device) {
    let after = |key: &str| {
        let rest = line[line.find(key)? + key.len()..].trim_start().strip_prefix(':')?;
        rest.split_whitespace().next()
    };
    if let Some(name) = after("Device ") {
        device.name = Some(name.to_owned());
    }
    if let Some(dual) = after("Dual-port") {
        device.dual_port = dual == "ON";
    }
    if let Some(connection) = after("Connection type") {
        device.connection = Some(connection.to_owned());
    }
    if let Some(link) = after("Link type") {
        device.link = Some(link.to_owned());
    }
    if let Some(mtu) = after("Mtu") {
        device.mtu = mtu.split('[').next().and_then(|bytes| bytes.parse().ok());
    }
}

/// Parses a result: ` 65536      5000             366.01             365.94             0.697976`.
pub(super) fn row(line: &str, line_number: usize, columns: Columns) -> Option<Point> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // A launcher's prefix is not a number, and neither is a rank (`0:`).
    let start = words.iter().rposition(|word| number(word).is_none()).map_or(0, |at| at + 1);
    let words = &words[start..];
    if words.len() < columns.average + 2 {
        return None;
    }
    let bytes: u64 = words[0].parse().ok()?;
    let _iterations: u64 = words[1].parse().ok()?;
    let bandwidth = number(words[columns.average])? * columns.unit;
    Some(Point {
        line: line_number,
        bytes,
        out: Some(Measure { bandwidth, time: None, wrong: None }),
        within: None,
    })
}
