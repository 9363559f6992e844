//! Bandwidth of this host's links, and the bus bandwidth that a collective can reach on them.

use std::fmt;

use serde::Serialize;

use super::{Run, Test};
use bedplate_facts::topology::pcie_link::in_words;

/// Overhead of a write on a link up to 32 GT/s, in bytes: four-word header 16, framing with sequence number 4, LCRC 4
/// (PCIe Base Specification 5.0, §2.2 and §4.2.2).
const AROUND: f64 = 24.0;
/// Overhead at 64 GT/s with fixed frame sizes: the header only; 236 of a frame's 256 bytes are packets (6.0, §4.2.3).
const AROUND_IN_FLITS: f64 = 16.0;
/// Default for an unreadable Max_Payload_Size: the largest on GPU hosts, so that the limit is not too low.
const PAYLOAD: u16 = 512;

/// Link of a NIC or a GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Pcie {
    /// Function at the lower end.
    pub address: String,
    /// Speed in tenths of a GT/s.
    pub speed: u32,
    /// Number of lanes.
    pub lanes: u32,
    /// Max_Payload_Size in bytes; absent: unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u16>,
    /// Maximum speed in tenths of a GT/s and maximum lanes of both ends; absent: already at the maximum, or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<(u32, u32)>,
}

impl Pcie {
    /// Returns the payload bandwidth in one direction, in GB/s.
    pub fn bandwidth(&self) -> f64 {
        let raw = f64::from(self.speed) / 10.0 * f64::from(self.lanes) / 8.0;
        let payload = f64::from(self.payload.unwrap_or(PAYLOAD).max(1));
        let (encoding, around) = match self.speed {
            0..80 => (8.0 / 10.0, AROUND),
            80..640 => (128.0 / 130.0, AROUND),
            _ => (236.0 / 256.0, AROUND_IN_FLITS),
        };
        raw * encoding * payload / (payload + around)
    }
}

/// A NIC that NCCL would use: the ports behind one PCIe link.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Nic {
    /// ACTIVE ports.
    pub ports: Vec<Port>,
    /// PCIe link; absent: speed or width is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<Pcie>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Port {
    /// Device and port number: `mlx5_0/1`.
    pub name: String,
    /// Rate in Gb/s; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether it is a RoCE port.
    pub ethernet: bool,
}

/// Bottleneck of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// Port rates.
    Ports,
    /// PCIe link.
    Pcie,
}

impl Nic {
    /// Returns the total rate of the ports in GB/s, if all rates are known.
    pub fn wire(&self) -> Option<f64> {
        self.ports.iter().map(|port| Some(port.rate? * 0.125)).sum()
    }

    /// Returns the bandwidth in one direction in GB/s, and the bottleneck, if known.
    pub fn limit(&self) -> Option<(f64, Ceiling)> {
        let wire = self.wire()?;
        let pcie = self.pcie.as_ref().map(Pcie::bandwidth);
        Some(match pcie.filter(|pcie| *pcie < wire) {
            Some(pcie) => (pcie, Ceiling::Pcie),
            None => (wire, Ceiling::Ports),
        })
    }

    /// Returns the names of its ports.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        names.join(", ")
    }
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |number: Option<f64>| {
            number.map_or("unknown rate".to_owned(), |rate| format!("{rate} Gb/s"))
        };
        let ports: Vec<String> =
            self.ports.iter().map(|port| format!("{} {}", port.name, known(port.rate))).collect();
        write!(f, "{}", ports.join(", "))?;
        match &self.pcie {
            None => write!(f, "; unknown PCIe link"),
            Some(link) => write!(
                f,
                "; PCIe link of {} {} x{}, {:.1} GB/s after packet headers{}",
                link.address,
                in_words(link.speed),
                link.lanes,
                link.bandwidth(),
                if link.payload.is_none() { " (payload size unreadable)" } else { "" }
            ),
        }
    }
}

/// Maximum bandwidth of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Limit {
    /// Bandwidth of the host's NICs and participating GPUs in one direction, in GB/s.
    pub host: f64,
    /// Maximum that the run can show, in GB/s: bus bandwidth of a collective, both directions of a bidirectional test.
    pub most: f64,
    /// Maximum with reduction in switches (SHARP), in GB/s; absent: same as `most`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_switches: Option<f64>,
    /// Bound of the transfer pattern in GB/s, which a healthy run with rings approaches.
    pub expected: f64,
    /// Name of the slowest NIC, if it lowers the bound: rings send equal shares over all NICs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
    /// Transfer pattern.
    pub pattern: Pattern,
    /// Number of NICs considered.
    pub nics: usize,
    /// Human-readable NICs with a PCIe link slower than their ports.
    pub limited_by_pcie: Vec<String>,
    /// Human-readable NICs with a degraded PCIe link that limits them.
    pub degraded: Vec<String>,
    /// Number of participating GPUs of a host, if their PCIe links carry less than its NICs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by_gpus: Option<usize>,
}

/// Limit of a copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CopyLimit {
    /// GB/s; absent: unknown, with a finding that says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Human-readable bottleneck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
}

/// Transfer pattern: share of the NICs that transfers can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Everything that the limit allows.
    Everything,
    /// Rings: each byte passes each host once.
    Ring,
    /// Each rank sends unshared data through its own NIC.
    Pairs,
}

/// Determines the limit of a run. `nics` are the NICs of this host that NCCL would use; for perftest all. `gpus` are
/// the links of its GPUs; empty if data reaches them another way (NVLink-C2C), or if that is unknown.
///
/// # Errors
///
/// A sentence that names the missing data.
pub fn limit(run: &Run, nics: &[Nic], gpus: &[Pcie]) -> Result<Limit, String> {
    match &run.device {
        Some(_) => of_device(run, nics),
        None => of_collective(run, nics, gpus),
    }
}

/// Returns the maximum bandwidth of `ranks` GPUs of this host in one direction, in GB/s. A file does not say which GPUs
/// take part.
fn of_gpus(gpus: &[Pcie], ranks: usize) -> Option<f64> {
    let mut all: Vec<f64> = gpus.iter().map(Pcie::bandwidth).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    (ranks <= all.len()).then(|| all.iter().take(ranks).sum())
}

fn of_device(run: &Run, nics: &[Nic]) -> Result<Limit, String> {
    let device = run.device.as_ref().and_then(|device| Some((device, device.name.as_deref()?)));
    let (device, name) = device.ok_or(
        "the header that names the device is missing: rerun, and save the whole output of the test",
    )?;
    let of_device = |port: &Port| port.name.split('/').next() == Some(name);
    let nic = nics.iter().find(|nic| nic.ports.iter().any(of_device));
    let nic = nic.ok_or_else(|| format!("this host has no ACTIVE port of {name}"))?;
    let mut ports: Vec<Port> = nic.ports.iter().filter(|port| of_device(port)).cloned().collect();
    if !device.dual_port {
        ports.truncate(1);
    }
    let used = Nic { ports, pcie: nic.pcie.clone() };
    let (host, _) = used.limit().ok_or_else(|| format!("unknown rate of {name}"))?;
    let most = if device.bidirectional { 2.0 * host } else { host };
    Ok(Limit {
        host,
        most,
        with_switches: None,
        expected: most,
        slowest: None,
        pattern: Pattern::Everything,
        nics: 1,
        degraded: degraded(std::slice::from_ref(&used)),
        limited_by_pcie: limited_by_pcie(&[used]),
        limited_by_gpus: None,
    })
}

/// Reason for the unknown limit of a run on one host.
pub(crate) const ONE_HOST: &str = "all ranks are on one host: the data crosses NVLink or a similar link, whose rate is not in sysfs";

/// Returns the collective of a run between hosts.
///
/// # Errors
/// The run is not between hosts, or the file lacks the data.
fn between_hosts(run: &Run, nics: &[Nic]) -> Result<Test, String> {
    let hosts = run.hosts();
    if hosts.is_empty() {
        return Err(run.unknown_hosts());
    }
    if hosts.len() == 1 {
        return Err(ONE_HOST.to_owned());
    }
    if run.split {
        return Err("the ranks were split into groups, which may or may not cross hosts".to_owned());
    }
    if nics.is_empty() {
        return Err("no RDMA port of this host is ACTIVE; pass --snapshot of a node".to_owned());
    }
    let unnamed = "the file does not name the collective: set it with --test";
    run.test.ok_or_else(|| unnamed.to_owned())
}

fn of_collective(run: &Run, nics: &[Nic], gpus: &[Pcie]) -> Result<Limit, String> {
    let test = between_hosts(run, nics)?;
    let hosts = run.hosts();
    let rate = |nic: &Nic| match nic.limit() {
        Some((rate, _)) => Ok(rate),
        None => Err(format!("unknown rate of {}", nic.name())),
    };
    let rates: Vec<f64> = nics.iter().map(rate).collect::<Result<_, _>>()?;
    let of_nics = rates.iter().sum::<f64>();
    let (nth, slowest) = (0..).zip(rates).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    // NCCL gives each channel an equal share, so that a ring ends with its slowest rail.
    let of_rails = slowest * nics.len() as f64;
    // The slowest host limits the run. Every host is assumed to have this host's links.
    let all = run.rank_count() as f64;
    let carries = |ranks: usize| of_gpus(gpus, ranks).map_or(of_nics, |gpus| gpus.min(of_nics));
    let least = |of: &dyn Fn(f64) -> f64| {
        let hosts = hosts.values().map(|ranks| carries(*ranks) * of(*ranks as f64));
        hosts.fold(f64::MAX, f64::min)
    };
    let host = least(&|_| 1.0);
    let fewest = hosts.values().copied().min();
    let limited_by_gpus = fewest.filter(|ranks| carries(*ranks) < of_nics);
    let most = least(&|ranks| share(test, all, ranks));
    let may_reduce = nics.iter().flat_map(|nic| &nic.ports).any(|port| !port.ethernet);
    let with_switches = (test == Test::AllReduce && may_reduce)
        .then(|| host * 2.0 * (all - 1.0) / all)
        .filter(|with| *with > most);
    let (pattern, expected) = match test {
        // The only GPU of a host sends through the NIC next to it (NVIDIA/nccl-tests issue 130).
        Test::Alltoall | Test::Alltoallv if fewest == Some(1) => (Pattern::Pairs, slowest),
        Test::Alltoall | Test::Alltoallv => (Pattern::Everything, most),
        Test::Hypercube => (Pattern::Pairs, least(&|ranks| share(Test::Alltoall, all, ranks))),
        Test::Sendrecv | Test::Gather | Test::Scatter => {
            (Pattern::Pairs, slowest.min(least(&|ranks| 1.0 / ranks)))
        }
        _ if host < most => (Pattern::Ring, host.min(of_rails)),
        _ => (Pattern::Everything, most.min(of_rails)),
    };
    let is_ring = matches!(pattern, Pattern::Ring | Pattern::Everything);
    let is_lower = is_ring && of_rails < host.min(most) && expected == of_rails;
    let expected = expected.min(most);
    let limited_by_pcie = limited_by_pcie(nics);
    Ok(Limit {
        host,
        most,
        with_switches,
        expected,
        slowest: is_lower.then(|| nics[nth].name()),
        pattern,
        nics: nics.len(),
        degraded: degraded(nics),
        limited_by_pcie,
        limited_by_gpus,
    })
}

/// Describes NICs limited by a PCIe link that could be faster.
fn degraded(nics: &[Nic]) -> Vec<String> {
    let of = |nic: &Nic| {
        let (_, ceiling) = nic.limit()?;
        let link = nic.pcie.as_ref().filter(|_| ceiling == Ceiling::Pcie)?;
        let (speed, lanes) = link.best?;
        Some(format!(
            "{} is limited by its PCIe link {}: {} x{}, but both ends support {} x{lanes}",
            nic.name(),
            link.address,
            in_words(link.speed),
            link.lanes,
            in_words(speed)
        ))
    };
    nics.iter().filter_map(of).collect()
}

/// Describes NICs limited by their PCIe link.
fn limited_by_pcie(nics: &[Nic]) -> Vec<String> {
    let is_held = |nic: &&Nic| nic.limit().is_some_and(|(_, ceiling)| ceiling == Ceiling::Pcie);
    nics.iter().filter(is_held).map(Nic::to_string).collect()
}

/// Returns the factor from the bandwidth that a host with `ranks` of `all` ranks sends and receives at once to the bus
/// bandwidth it can show.
///
/// Bus bandwidth counts the data that each rank would send in one ring (nccl-tests doc/PERFORMANCE.md). Ranks of one
/// host can share incoming data and sum outgoing data, so that only the rest crosses its NICs: (n−r)/n of the data,
/// compared with (n−1)/n in a ring. Data that each rank sends to each other rank cannot be shared.
fn share(test: Test, all: f64, ranks: f64) -> f64 {
    let outside = (all - ranks).max(1.0);
    match test {
        Test::AllReduce
        | Test::AllGather
        | Test::ReduceScatter
        | Test::Gather
        | Test::Scatter
        | Test::Hypercube => (all - 1.0) / outside,
        Test::Alltoall | Test::Alltoallv => (all - 1.0) / (ranks * outside),
        _ => 1.0,
    }
}
