//! Results of benchmarks: the measurements, and whether this host's links explain them. Pure.

mod algorithm;
mod copies;
mod gdrcopy;
mod gdsio;
mod gpu_address;
pub mod hosts;
#[cfg(test)]
mod hosts_tests;
mod input;
mod json;
pub mod judge;
pub mod limit;
pub mod machine;
mod nccl_tests;
mod nvbandwidth;
mod oneccl;
mod perftest;
pub mod ranks;
mod reader;
#[cfg(test)]
mod reader_tests;
mod repeated;
mod report;
mod result;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod threshold_tests;
pub mod thresholds;
mod verdict;

use serde::Serialize;

use ranks::{Layout, Ratio};

pub use algorithm::Algorithm;
pub use input::is_binary;
pub use reader::{TableReader, read};

/// Maximum size of a result file in bytes. A sweep has a hundred lines; with NCCL's log in between it has some
/// megabytes.
pub const LARGEST: usize = 64 << 20;

/// Content of a result file.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Results {
    /// Runs in file order.
    pub runs: Vec<Run>,
    /// Line numbers of unreadable results: truncated, or mixed with another line.
    pub unread: Vec<usize>,
    /// Line numbers of latency test titles; these tests do not measure bandwidth.
    pub latency: Vec<usize>,
    /// Reasons that the file, or a part of it, has no results.
    pub notes: Vec<Note>,
}

impl Results {
    /// Adds a reason that a part of the file has no results.
    fn note(&mut self, line: usize, text: impl Into<String>) {
        self.notes.push(Note { line, text: text.into() });
    }

    /// Whether nothing was recognized.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && self.unread.is_empty()
            && self.latency.is_empty()
            && self.notes.is_empty()
    }
}

/// A reason that a part of the file has no results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Note {
    /// Line number.
    pub line: usize,
    /// Reason.
    pub text: String,
}

/// One run of a benchmark.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Run {
    /// First line, from 1.
    pub line: usize,
    /// Benchmark; absent: neither named in the file nor evident from its columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// Part of the benchmark: test case of nvbandwidth, transfer of gdsio, direction of `gdrcopy_copybw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Version, as the program reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Host of each rank, in rank order; empty: not in the file.
    pub ranks: Vec<String>,
    /// Number of ranks and hosts if `ranks` is empty; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// GPUs that the file names by PCI address.
    #[serde(skip)]
    pub gpus: Vec<NamedGpu>,
    /// Bus bandwidth by algorithm bandwidth.
    #[serde(skip)]
    pub ratio: Ratio,
    /// Whether ranks were split into several groups, each with its own communicator.
    pub split: bool,
    /// Header of perftest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// Measured sizes, in file order.
    pub points: Vec<Point>,
    /// Copies between a GPU and host memory or storage, in file order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Copied>,
    /// Value of "Out of bounds values".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_bounds: Option<Claim>,
    /// Value of "Avg bus bandwidth", in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average: Option<Claim>,
}

/// A GPU in a result file.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedGpu {
    /// Line number.
    pub line: usize,
    /// Hostname.
    pub host: String,
    /// PCI address without the function (`0000:1b:00`), or the bus number (`0x1b`).
    pub address: String,
}

/// A measured copy between a GPU and host memory or storage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Copied {
    /// Line number.
    pub line: usize,
    /// Index of the GPU, in the program's order; absent: not in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<usize>,
    /// PCI address of the GPU without the function; absent: not in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Size of one copy in bytes; absent: not in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// GB/s (10⁹ bytes).
    pub bandwidth: f64,
}

/// A number in the summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Claim {
    /// Line number.
    pub line: usize,
    /// Value.
    pub value: f64,
    /// Whether FAILED follows.
    pub failed: bool,
}

/// Header of perftest.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Device {
    /// Device: `mlx5_0`; absent: not in the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Link type: `IB`, `Ethernet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// MTU in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Connection type: `RC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Whether both directions are measured and summed.
    pub bidirectional: bool,
    /// Whether both ports of the device are used.
    pub dual_port: bool,
}

/// Results for one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Point {
    /// Line number.
    pub line: usize,
    /// Message size in bytes.
    pub bytes: u64,
    /// Out of place result of a collective; the only result of perftest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<Measure>,
    /// In place result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Measure>,
}

impl Point {
    /// Returns both results, if present.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.out.iter().chain(&self.within)
    }

    /// Returns the faster result, in GB/s.
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
    /// Time of one operation, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Number of wrong elements; absent: not checked, or a version that prints the largest difference instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<f64>,
}

/// Benchmark.
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
    Nvbandwidth,
    GdrcopyCopybw,
    Gdsio,
}

/// Programs by name; a name precedes those that it contains.
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
    ("nvbandwidth", Test::Nvbandwidth),
    ("gdrcopy_copybw", Test::GdrcopyCopybw),
    ("gdsio", Test::Gdsio),
];

impl std::str::FromStr for Test {
    type Err = String;

    /// Parses `all_reduce` or `all_reduce_perf`.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |name: &str| {
            name.strip_suffix("_perf").is_some_and(|short| name == text || short == text)
        };
        let found = PROGRAMS.iter().find(|(name, _)| is_named(name));
        found.map(|(_, test)| *test).ok_or_else(|| {
            let names: Vec<&str> =
                PROGRAMS.iter().filter_map(|(name, _)| name.strip_suffix("_perf")).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

impl Test {
    /// Returns the name of the program.
    pub fn program(self) -> &'static str {
        PROGRAMS.iter().find(|(_, test)| *test == self).map_or("?", |(name, _)| name)
    }

    /// Returns the test of nccl-tests that a line names.
    fn named_in(line: &str) -> Option<Self> {
        line.contains("_perf").then_some(())?;
        let found =
            PROGRAMS.iter().find(|(name, _)| name.ends_with("_perf") && line.contains(name));
        found.map(|(_, test)| *test)
    }
}

impl Run {
    /// Returns the number of ranks by host; empty if unknown. Unnamed hosts are numbered.
    pub fn hosts(&self) -> std::collections::BTreeMap<String, usize> {
        let mut hosts = std::collections::BTreeMap::new();
        for host in &self.ranks {
            *hosts.entry(host.clone()).or_insert(0) += 1;
        }
        if let (true, Some((ranks, per_host))) =
            (hosts.is_empty(), self.layout.as_ref().and_then(Layout::counts))
        {
            hosts.extend((0..ranks / per_host).map(|nth| (format!("#{nth}"), per_host)));
        }
        hosts
    }

    /// Returns the number of ranks; 0: unknown.
    pub fn rank_count(&self) -> usize {
        match self.ranks.len() {
            0 => self.layout.as_ref().and_then(|layout| layout.ranks).unwrap_or(0),
            named => named,
        }
    }

    /// Whether this is a collective, rather than a test of one device or copies.
    pub fn is_collective(&self) -> bool {
        self.device.is_none() && self.copies.is_empty()
    }

    /// Returns the fastest size; `None`: no measurements.
    pub fn peak(&self) -> Option<&Point> {
        self.points.iter().max_by(|a, b| a.best().total_cmp(&b.best()).then(b.line.cmp(&a.line)))
    }
}
