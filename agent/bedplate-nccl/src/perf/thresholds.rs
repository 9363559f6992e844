//! Bandwidth of known-good hosts by shape of a run: the table, and the expectation that follows for a run.

use std::fmt;

use serde::Serialize;

use super::algorithm::Algorithm;
use super::limit::Limit;
use super::machine::{Machine, Path};
use super::verdict::{Assumptions, Verdict};
use super::{Run, Test};
use crate::ports::PluginNic;
use bedplate_base::Reading;
use bedplate_facts::nvlink_sharp::NvlinkSharp;

/// Share of an expected value below which a result is bad, if nothing else is measured.
pub const NEAR: f64 = 0.9;
/// Bus bandwidth of all_reduce inside one host with NVLink SHARP, in GB/s: 476 to 480 on H100 (NVIDIA/nccl-tests issues
/// 290, 212), 835 to 847 with the NVLink of Blackwell (coreweave/nccl-tests pull request 43).
const NVLINK_SHARP: [(NvlinkSharp, f64); 2] =
    [(NvlinkSharp::Hopper, 480.0), (NvlinkSharp::Blackwell, 840.0)];
/// Ranks per host of the measurements with NVLink SHARP.
const FULL_HOST: usize = 8;

/// A row of the table: the first row that holds for a run decides.
#[derive(Debug)]
pub struct Row {
    /// Tests; empty: all collectives.
    pub tests: &'static [Test],
    /// Condition on hosts, machine and algorithm.
    pub condition: Condition,
    /// Minimum share of the bound that known-good machines reach.
    pub good: f64,
    /// Share of the bound below which a result is bad.
    pub bad: f64,
    /// Measurements behind the row, and choices of bedplate.
    pub source: &'static str,
}

/// Condition of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// perftest.
    Perftest,
    /// GB10.
    Gb10,
    /// Slingshot or EFA.
    Libfabric,
    /// NICs beyond the GDR level of all GPUs.
    HostMemory,
    /// SHARP of the network.
    Sharp,
    /// NVLSTree on two hosts.
    NvlsTree,
    /// Two hosts with NVLink SHARP, and an unknown algorithm.
    MayBeNvlsTree,
    /// gVNIC, up to three hosts.
    Tcpxo,
    /// AMD accelerators, up to three hosts.
    Amd,
    /// Two hosts.
    TwoHosts,
    /// Three to ten hosts.
    SomeHosts,
    /// Any run.
    Any,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Condition::Perftest => "between two ports",
            Condition::Gb10 => "on DGX Spark (GB10), which has no GPUDirect RDMA",
            Condition::Libfabric => "over libfabric (Slingshot, EFA)",
            Condition::HostMemory => "through host memory (no NIC within the GDR level of a GPU)",
            Condition::Sharp => "with SHARP of the network (NVLS, CollNet), 8 or more GPUs per host",
            Condition::NvlsTree => "on 2 hosts with NVLSTree, 8 or more GPUs per host",
            Condition::MayBeNvlsTree => {
                "on 2 hosts with NVSwitches (NVLink SHARP), 8 or more GPUs per host, algorithm unknown"
            }
            Condition::Tcpxo => "on 2 or 3 hosts over gVNIC (TCPXO)",
            Condition::Amd => "on 2 or 3 hosts with AMD Instinct (MI300X)",
            Condition::TwoHosts => "on 2 hosts with rings or trees",
            Condition::SomeHosts => "on 3 to 10 hosts",
            Condition::Any => "on any number of hosts",
        })
    }
}

const NVLS: &str = "NVIDIA/nccl issue 2409: about 470 GB/s expected on 2 hosts with 8 NICs of 400 Gb/s (117 %); issue 1221: 430 \
                    (107 %) with NVLink SHARP and RoCE, 330 without";

/// The table.
pub const TABLE: &[Row] = &[
    Row {
        tests: &[Test::IbWriteBw, Test::IbReadBw, Test::IbSendBw, Test::IbAtomicBw],
        condition: Condition::Perftest,
        good: 0.98,
        bad: 0.90,
        source: "NVIDIA/nccl issue 2409: 392 of 400 Gb/s. 90 %: bedplate's choice",
    },
    Row {
        tests: &[],
        condition: Condition::Gb10,
        good: 0.73,
        bad: 0.65,
        source: "NVIDIA developer forum 352051: 22 GB/s (one cable) and 25.7 (two) of the 30.1 that two PCIe links of four lanes \
                 carry; DGX Spark Porting Guide: no GPUDirect RDMA. 65 %: bedplate's choice",
    },
    Row {
        tests: &[],
        condition: Condition::Libfabric,
        good: 0.72,
        bad: 0.65,
        source: "bedplate's choice: no public table of nccl-tests was found for a whole host",
    },
    Row {
        tests: &[],
        condition: Condition::HostMemory,
        good: 0.64,
        bad: 0.50,
        source: "NVIDIA/nccl issue 412: 16 GB/s of a NIC of 200 Gb/s is normal at the CPU. 50 %: bedplate's choice",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::Sharp,
        good: 1.17,
        bad: 1.17 * NEAR,
        source: "bedplate's choice, as with NVLSTree on 2 hosts: reduction in switches halves the data on the wire at any size",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::NvlsTree,
        good: 1.17,
        bad: 1.17 * NEAR,
        source: NVLS,
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::MayBeNvlsTree,
        good: 1.17,
        bad: 0.75,
        source: "As with NVLSTree. Below 75 %, rings are slow, too: bedplate's choice",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::Tcpxo,
        good: 0.85,
        bad: 0.80,
        source: "bedplate's choice, for rings. lessizzmore/create-a3mega-ztan-fork ztan-NCCL-test-result: 338.8 GB/s on 2 A3 \
                 Mega hosts (169 % of 8 NICs of 200 Gb/s), more than rings can",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::Amd,
        good: 0.85,
        bad: 0.80,
        source: "ROCm/cvs cvs/input/config_file/rccl/rccl_config.json: 330 to 350 of 400 GB/s on 2 hosts. 80 %: bedplate's \
                 choice",
    },
    Row {
        tests: &[Test::Alltoall, Test::Alltoallv],
        condition: Condition::Amd,
        good: 0.48,
        bad: 0.48 * NEAR,
        source: "ROCm/cvs, the same file: 45 to 50 of 93.75 GB/s on 2 hosts",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::TwoHosts,
        good: 0.88,
        bad: 0.75,
        source: "NVIDIA/nccl-tests issue 290: 46 to 48 GB/s per NIC of 400 Gb/s with rings; issue 119: 24 per NIC of 200. 88 %: \
                 7 of 8 NICs carry less. 75 %: bedplate's choice",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::SomeHosts,
        good: 0.80,
        bad: 0.78,
        source: "NVIDIA/nccl issue 1221: 320 of 400 GB/s on 4 hosts; issue 1649: 370 to 380 of 400. 78 %: bedplate's choice",
    },
    Row {
        tests: &[Test::AllReduce],
        condition: Condition::Any,
        good: 0.80,
        bad: 0.75,
        source: "NVIDIA/nccl issue 1649: rings degrade with the number of hosts. 75 %: bedplate's choice",
    },
    Row {
        tests: &[Test::AllGather, Test::ReduceScatter],
        condition: Condition::Any,
        good: 0.81,
        bad: 0.75,
        source: "ROCm/cvs, the same file: 330 to 360 of 400 GB/s on 2 hosts. No public table was found for 10 hosts: 81 % and \
                 75 % are bedplate's choice",
    },
    Row {
        tests: &[Test::Alltoall, Test::Alltoallv],
        condition: Condition::Any,
        good: 0.92,
        bad: 0.80,
        source: "NVIDIA/nccl-tests issues 130, 267: the rate of a GPU's NIC times hosts by hosts − 1; 48 to 49 of 50 GB/s per \
                 NIC. 80 %: bedplate's choice",
    },
    Row {
        tests: &[Test::Broadcast, Test::Reduce],
        condition: Condition::Any,
        good: 0.78,
        bad: 0.75,
        source: "ROCm/cvs, the same file: 300 to 312 of 400 GB/s on 2 hosts. 75 %: bedplate's choice",
    },
    Row {
        tests: &[],
        condition: Condition::Any,
        good: 0.75,
        bad: 0.75,
        source: "bedplate's choice",
    },
];

/// Bandwidth that decides about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Expectation {
    /// Minimum of a good result, in GB/s.
    pub good: f64,
    /// Results below this are bad, in GB/s. Results between both are unknown.
    pub bad: f64,
    /// Condition of the measurements behind these values; `--expect` if the user set them.
    pub by: String,
    /// Algorithm, as assumed; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Reason that the algorithm would matter but NVLink SHARP of this host is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Whether a better algorithm than rings is expected, without proof that the run used one.
    pub algorithm_matters: bool,
    /// Value of 100 %, if shares are compared; sources state them as whole percent.
    #[serde(skip)]
    bound: Option<f64>,
}

/// [`Expectation::by`] of a value that the user set.
const SET: &str = "--expect";

impl Expectation {
    /// Whether the user set the value.
    pub fn is_set(&self) -> bool {
        self.by == SET
    }

    /// Evaluates a result in GB/s.
    pub fn verdict(&self, value: f64) -> Verdict {
        let comparable =
            |value: f64| self.bound.map_or(value, |bound| (100.0 * value / bound).round());
        match comparable(value) {
            share if share >= comparable(self.good) => Verdict::Good,
            share if share < comparable(self.bad) => Verdict::Bad,
            _ => Verdict::CannotTell,
        }
    }
}

/// Returns the expectation of a run; `None`: its limit is unknown, and `--expect` is not set.
pub fn expectation(
    run: &Run,
    limit: Option<&Limit>,
    machine: &Machine,
    assumptions: &Assumptions,
) -> Option<Expectation> {
    let algorithm = assumptions.algorithm.filter(|_| run.device.is_none());
    if let Some(value) = assumptions.expect {
        return Some(Expectation {
            good: value,
            bad: value * NEAR,
            by: SET.to_owned(),
            algorithm,
            unknown: None,
            algorithm_matters: false,
            bound: None,
        });
    }
    let limit = limit?;
    let shape = Shape { run, limit, machine, algorithm };
    let row = TABLE.iter().find(|row| shape.is_of(row))?;
    let is_guess = row.condition == Condition::MayBeNvlsTree;
    let unknown = match &machine.nvlink_sharp {
        Reading::Unknown(why) if is_guess => Some(why.to_string()),
        _ => None,
    };
    let test = run.test.map_or("?", Test::program);
    Some(Expectation {
        good: row.good * limit.expected,
        bad: row.bad * limit.expected,
        by: format!("{test} {}", row.condition),
        algorithm,
        unknown,
        algorithm_matters: is_guess,
        bound: Some(limit.expected),
    })
}

/// Shape of a run.
struct Shape<'a> {
    run: &'a Run,
    limit: &'a Limit,
    machine: &'a Machine,
    algorithm: Option<Algorithm>,
}

impl Shape<'_> {
    fn is_of(&self, row: &Row) -> bool {
        let is_of_test = self.run.test.is_some_and(|test| row.tests.contains(&test));
        (is_of_test || row.tests.is_empty() && self.run.device.is_none())
            && self.meets(row.condition)
    }

    fn meets(&self, condition: Condition) -> bool {
        let Machine { plugin, path, is_amd, .. } = self.machine;
        let hosts = self.run.hosts().len();
        match condition {
            Condition::Perftest | Condition::Any => true,
            Condition::Gb10 => *path == Path::Gb10,
            Condition::Libfabric => matches!(plugin, Some(PluginNic::Slingshot | PluginNic::Efa)),
            Condition::HostMemory => *path == Path::HostMemory,
            Condition::Sharp => {
                self.is_full() && self.algorithm.is_some_and(Algorithm::reduces_in_network)
            }
            Condition::NvlsTree => {
                hosts == 2 && self.is_full() && self.algorithm == Some(Algorithm::NvlsTree)
            }
            Condition::MayBeNvlsTree => {
                hosts == 2
                    && self.is_full()
                    && self.algorithm.is_none()
                    && *plugin != Some(PluginNic::Gvnic)
                    && self.may_have_nvlink_sharp()
            }
            Condition::Tcpxo => hosts <= 3 && *plugin == Some(PluginNic::Gvnic),
            Condition::Amd => hosts <= 3 && *is_amd,
            Condition::TwoHosts => hosts == 2,
            Condition::SomeHosts => (3..=10).contains(&hosts),
        }
    }

    /// Whether each host has as many ranks as in the measurements, and NVLink SHARP can carry 117 % of the NICs.
    fn is_full(&self) -> bool {
        let fewest = self.run.hosts().values().copied().min().unwrap_or_default();
        let most = match &self.machine.nvlink_sharp {
            Reading::Known(sharp) => NVLINK_SHARP.iter().find(|(one, _)| one == sharp),
            _ => NVLINK_SHARP.last(),
        };
        fewest >= FULL_HOST && most.is_none_or(|(_, most)| self.limit.expected * 1.17 <= *most)
    }

    fn may_have_nvlink_sharp(&self) -> bool {
        match &self.machine.nvlink_sharp {
            Reading::Known(sharp) => *sharp != NvlinkSharp::Without,
            Reading::Absent => false,
            Reading::Unknown(_) => true,
        }
    }
}
