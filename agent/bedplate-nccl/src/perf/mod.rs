//! Results of nccl-tests, RCCL-tests and perftest: what was measured, and whether this host's links explain it. Pure.

mod json;
pub mod judge;
pub mod limit;
mod nccl_tests;
mod perftest;
mod reader;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use reader::read;

/// Larger results are not read: a sweep has a hundred lines, and with NCCL's log between them some megabytes.
pub const LARGEST: usize = 64 << 20;

/// What a file holds.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Results {
    /// In the order of the file.
    pub runs: Vec<Run>,
    /// Numbers of lines that look like a result and cannot be read: cut off, or mixed with another line.
    pub unread: Vec<usize>,
    /// Numbers of lines with the title of a latency test, which says nothing about bandwidth.
    pub latency: Vec<usize>,
}

/// One run of one benchmark.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Run {
    /// Number of its first line, from 1.
    pub line: usize,
    /// What was run; absent: the file does not say, and its columns do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// As the program says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Host of each rank, in the order of the ranks; empty: the file does not say.
    pub ranks: Vec<String>,
    /// Whether ranks were split into several groups, each a communicator of its own.
    pub split: bool,
    /// Of perftest: what its header says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// What was measured, in the order of the file.
    pub points: Vec<Point>,
    /// "Out of bounds values".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_bounds: Option<Claim>,
    /// "Avg bus bandwidth", GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average: Option<Claim>,
}

/// A number of the summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Claim {
    /// Where it stands.
    pub line: usize,
    /// The number.
    pub value: f64,
    /// Whether FAILED stands behind it.
    pub failed: bool,
}

/// The header of perftest.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Device {
    /// `mlx5_0`; absent: the header does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `IB`, `Ethernet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bytes of a packet on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// `RC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Whether both directions are measured and summed.
    pub bidirectional: bool,
    /// Whether both ports of the device are used.
    pub dual_port: bool,
}

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Point {
    /// Where it stands.
    pub line: usize,
    /// Size of the message.
    pub bytes: u64,
    /// Of a collective out of place; of perftest what it measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<Measure>,
    /// In place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Measure>,
}

impl Point {
    /// Both, as far as there are both.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.out.iter().chain(&self.within)
    }

    /// The faster one, in GB/s.
    pub fn best(&self) -> f64 {
        self.measures().map(|one| one.bandwidth).fold(0.0, f64::max)
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Measure {
    /// GB/s (10⁹ bytes): bus bandwidth of a collective, average of perftest.
    pub bandwidth: f64,
    /// Microseconds of one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Wrong elements; absent: not checked, or a version that says the largest difference instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<f64>,
}

/// What was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are those of the programs")]
pub enum Test {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    Alltoall,
    Alltoallv,
    Sendrecv,
    Gather,
    Scatter,
    Hypercube,
    IbWriteBw,
    IbReadBw,
    IbSendBw,
    IbAtomicBw,
}

/// Programs by name, the longer ones before those that they contain.
const PROGRAMS: &[(&str, Test)] = &[
    ("all_reduce_perf", Test::AllReduce),
    ("all_gather_perf", Test::AllGather),
    ("reduce_scatter_perf", Test::ReduceScatter),
    ("broadcast_perf", Test::Broadcast),
    ("alltoallv_perf", Test::Alltoallv),
    ("alltoall_perf", Test::Alltoall),
    ("sendrecv_perf", Test::Sendrecv),
    ("gather_perf", Test::Gather),
    ("scatter_perf", Test::Scatter),
    ("hypercube_perf", Test::Hypercube),
    ("reduce_perf", Test::Reduce),
    ("ib_write_bw", Test::IbWriteBw),
    ("ib_read_bw", Test::IbReadBw),
    ("ib_send_bw", Test::IbSendBw),
    ("ib_atomic_bw", Test::IbAtomicBw),
];

impl std::str::FromStr for Test {
    type Err = String;

    /// `all_reduce`, `all_reduce_perf`.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |name: &str| name == text || name.strip_suffix("_perf") == Some(text);
        let found = PROGRAMS.iter().find(|(name, _)| is_named(name));
        found.map(|(_, test)| *test).ok_or_else(|| {
            let names: Vec<&str> =
                PROGRAMS.iter().filter_map(|(name, _)| name.strip_suffix("_perf")).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

impl Test {
    /// The program's name.
    pub fn program(self) -> &'static str {
        PROGRAMS.iter().find(|(_, test)| *test == self).map_or("?", |(name, _)| name)
    }

    /// The one of nccl-tests that a line names.
    fn named_in(line: &str) -> Option<Self> {
        line.contains("_perf").then_some(())?;
        let found = PROGRAMS.iter().find(|(name, _)| line.contains(name));
        found.map(|(_, test)| *test)
    }
}

impl Run {
    /// The hosts with the number of ranks on each, by name.
    pub fn hosts(&self) -> std::collections::BTreeMap<&str, usize> {
        let mut hosts = std::collections::BTreeMap::new();
        for host in &self.ranks {
            *hosts.entry(host.as_str()).or_insert(0) += 1;
        }
        hosts
    }

    /// The fastest size; `None`: nothing was measured.
    pub fn peak(&self) -> Option<&Point> {
        self.points.iter().max_by(|a, b| a.best().total_cmp(&b.best()).then(b.line.cmp(&a.line)))
    }
}
