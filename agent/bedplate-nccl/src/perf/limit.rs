//! What this host's links can carry, and what of it a collective can show as bus bandwidth.

use std::fmt;

use serde::Serialize;

use super::{Run, Test};
use bedplate_facts::topology::pcie_link::in_words;

/// Bytes of a write on a link up to 32 GT/s besides its payload: header of four words 16, framing with sequence number 4, LCRC 4
/// (PCIe Base Specification 5.0, §2.2 and §4.2.2).
const AROUND: f64 = 24.0;
/// The same at 64 GT/s, where frames have fixed sizes: the header alone; of 256 bytes of a frame 236 are packets (6.0, §4.2.3).
const AROUND_IN_FLITS: f64 = 16.0;
/// Where Max_Payload_Size cannot be read: the largest that GPU hosts use, so that the limit is not too low.
const PAYLOAD: u16 = 512;

/// The link of a NIC or a GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Pcie {
    /// The function at its lower end.
    pub address: String,
    /// Tenths of a GT/s.
    pub speed: u32,
    /// Lanes.
    pub lanes: u32,
    /// Max_Payload_Size in bytes; absent: it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u16>,
    /// Tenths of a GT/s and lanes that both ends can; absent: it is at its best, or that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<(u32, u32)>,
}

impl Pcie {
    /// GB/s of payload in one direction.
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
    /// Its ports that are ACTIVE.
    pub ports: Vec<Port>,
    /// Its link; absent: speed or width is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<Pcie>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Port {
    /// `mlx5_0/1`.
    pub name: String,
    /// Gb/s; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether it is RoCE's.
    pub ethernet: bool,
}

/// What holds a NIC back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// The rates of its ports.
    Ports,
    /// Its PCIe link.
    Pcie,
}

impl Nic {
    /// GB/s of its ports; `None`: the rate of one is not known.
    pub fn wire(&self) -> Option<f64> {
        self.ports.iter().map(|port| Some(port.rate? * 0.125)).sum()
    }

    /// GB/s in one direction, and which link is the ceiling; `None`: not known.
    pub fn limit(&self) -> Option<(f64, Ceiling)> {
        let wire = self.wire()?;
        let pcie = self.pcie.as_ref().map(Pcie::bandwidth);
        Some(match pcie.filter(|pcie| *pcie < wire) {
            Some(pcie) => (pcie, Ceiling::Pcie),
            None => (wire, Ceiling::Ports),
        })
    }

    /// Its ports by name.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        names.join(", ")
    }
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |number: Option<f64>| {
            number.map_or("rate not known".to_owned(), |rate| format!("{rate} Gb/s"))
        };
        let ports: Vec<String> =
            self.ports.iter().map(|port| format!("{} {}", port.name, known(port.rate))).collect();
        write!(f, "{}", ports.join(", "))?;
        match &self.pcie {
            None => write!(f, "; PCIe link not known"),
            Some(link) => write!(
                f,
                "; PCIe link of {} {} x{}, {:.1} GB/s after packet headers{}",
                link.address,
                in_words(link.speed),
                link.lanes,
                link.bandwidth(),
                if link.payload.is_none() { " (payload size not readable)" } else { "" }
            ),
        }
    }
}

/// What a run can reach at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Limit {
    /// GB/s that a host's NICs carry in one direction, and its GPUs that take part.
    pub host: f64,
    /// GB/s that the run can show at most: bus bandwidth of a collective, both directions of a bidirectional test.
    pub most: f64,
    /// The same where switches reduce (SHARP); absent: they would not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_switches: Option<f64>,
    /// GB/s that a run as it should be comes near to: what its pattern of transfers can use.
    pub expected: f64,
    /// That pattern.
    pub pattern: Pattern,
    /// How many NICs count.
    pub nics: usize,
    /// Those of them whose PCIe link is slower than their ports, in words.
    pub held_back: Vec<String>,
    /// NICs that are slower than they could be, by their PCIe link, in words.
    pub degraded: Vec<String>,
    /// How many GPUs of a host take part, where their PCIe links carry less than its NICs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_gpus: Option<usize>,
}

/// What transfers can use of the NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// All that the limit allows.
    Everything,
    /// Rings: each byte passes each host once.
    Ring,
    /// Each rank sends by its own NIC what nobody shares.
    Pairs,
}

/// The limit of a run, or why there is none. `nics`: those of this host that NCCL would use; of perftest all. `gpus`: the links of
/// its GPUs; none where data reaches them another way (NVLink-C2C), or that is not known.
///
/// # Errors
///
/// A sentence that says what is missing.
pub fn limit(run: &Run, nics: &[Nic], gpus: &[Pcie]) -> Result<Limit, String> {
    match &run.device {
        Some(_) => of_device(run, nics),
        None => of_collective(run, nics, gpus),
    }
}

/// GB/s in one direction that so many GPUs of this host can take at most: which of them run, a file does not say.
fn of_gpus(gpus: &[Pcie], ranks: usize) -> Option<f64> {
    let mut all: Vec<f64> = gpus.iter().map(Pcie::bandwidth).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    (ranks <= all.len()).then(|| all.iter().take(ranks).sum())
}

fn of_device(run: &Run, nics: &[Nic]) -> Result<Limit, String> {
    let device = run.device.as_ref().and_then(|device| Some((device, device.name.as_deref()?)));
    let (device, name) = device.ok_or("the header does not say which device was used")?;
    let of_device = |port: &Port| port.name.split('/').next() == Some(name);
    let nic = nics.iter().find(|nic| nic.ports.iter().any(of_device));
    let nic = nic.ok_or_else(|| format!("this host has no ACTIVE port of {name}"))?;
    let mut ports: Vec<Port> = nic.ports.iter().filter(|port| of_device(port)).cloned().collect();
    if !device.dual_port {
        ports.truncate(1);
    }
    let used = Nic { ports, pcie: nic.pcie.clone() };
    let (host, _) = used.limit().ok_or_else(|| format!("the rate of {name} is not known"))?;
    let most = if device.bidirectional { 2.0 * host } else { host };
    Ok(Limit {
        host,
        most,
        with_switches: None,
        expected: most,
        pattern: Pattern::Everything,
        nics: 1,
        degraded: degraded(std::slice::from_ref(&used)),
        held_back: limited_by_pcie(&[used]),
        held_by_gpus: None,
    })
}

/// The collective of a run between hosts.
fn between_hosts(run: &Run, nics: &[Nic]) -> Result<Test, String> {
    let hosts = run.hosts();
    if hosts.is_empty() {
        return Err(
            "the file does not name the ranks and their hosts (\"# Using devices\")".to_owned()
        );
    }
    if hosts.len() == 1 {
        return Err("all ranks are on one host: NVLink, or what joins its GPUs, carries the data, and sysfs does not know its rate"
            .to_owned());
    }
    if run.split {
        return Err("the ranks were split into groups, which may or may not cross hosts".to_owned());
    }
    if nics.is_empty() {
        return Err("no RDMA port of this host is ACTIVE".to_owned());
    }
    let unnamed = "the file does not say which collective was run: say it with --test";
    run.test.ok_or_else(|| unnamed.to_owned())
}

fn of_collective(run: &Run, nics: &[Nic], gpus: &[Pcie]) -> Result<Limit, String> {
    let test = between_hosts(run, nics)?;
    let hosts = run.hosts();
    let rate = |nic: &Nic| match nic.limit() {
        Some((rate, _)) => Ok(rate),
        None => Err(format!("the rate of {} is not known", nic.name())),
    };
    let rates: Vec<f64> = nics.iter().map(rate).collect::<Result<_, _>>()?;
    let (of_nics, slowest) =
        (rates.iter().sum::<f64>(), rates.iter().copied().fold(f64::MAX, f64::min));
    // The host that can do least: every host is taken to have this host's links.
    let all = run.ranks.len() as f64;
    let carries = |ranks: usize| of_gpus(gpus, ranks).map_or(of_nics, |gpus| gpus.min(of_nics));
    let least = |of: &dyn Fn(f64) -> f64| {
        let hosts = hosts.values().map(|ranks| carries(*ranks) * of(*ranks as f64));
        hosts.fold(f64::MAX, f64::min)
    };
    let host = least(&|_| 1.0);
    let fewest = hosts.values().copied().min();
    let held_by_gpus = fewest.filter(|ranks| carries(*ranks) < of_nics);
    let most = least(&|ranks| share(test, all, ranks));
    let may_reduce = nics.iter().flat_map(|nic| &nic.ports).any(|port| !port.ethernet);
    let with_switches = (test == Test::AllReduce && may_reduce)
        .then(|| host * 2.0 * (all - 1.0) / all)
        .filter(|with| *with > most);
    let (pattern, expected) = match test {
        Test::Alltoall | Test::Alltoallv => (Pattern::Everything, most),
        Test::Hypercube => (Pattern::Pairs, least(&|ranks| share(Test::Alltoall, all, ranks))),
        Test::Sendrecv | Test::Gather | Test::Scatter => {
            (Pattern::Pairs, slowest.min(least(&|ranks| 1.0 / ranks)))
        }
        _ if host < most => (Pattern::Ring, host),
        _ => (Pattern::Everything, most),
    };
    let expected = expected.min(most);
    let held_back = limited_by_pcie(nics);
    Ok(Limit {
        host,
        most,
        with_switches,
        expected,
        pattern,
        nics: nics.len(),
        degraded: degraded(nics),
        held_back,
        held_by_gpus,
    })
}

/// The NICs that their PCIe link holds back, though it could be faster.
fn degraded(nics: &[Nic]) -> Vec<String> {
    let of = |nic: &Nic| {
        let (_, ceiling) = nic.limit()?;
        let link = nic.pcie.as_ref().filter(|_| ceiling == Ceiling::Pcie)?;
        let (speed, lanes) = link.best?;
        Some(format!(
            "{} is held back by its PCIe link {}: {} x{}, and both ends can do {} x{lanes}",
            nic.name(),
            link.address,
            in_words(link.speed),
            link.lanes,
            in_words(speed)
        ))
    };
    nics.iter().filter_map(of).collect()
}

/// The NICs whose PCIe link is the ceiling.
fn limited_by_pcie(nics: &[Nic]) -> Vec<String> {
    let is_held = |nic: &&Nic| nic.limit().is_some_and(|(_, ceiling)| ceiling == Ceiling::Pcie);
    nics.iter().filter(is_held).map(Nic::to_string).collect()
}

/// Bus bandwidth that a host of `ranks` of `all` ranks can show, for each byte per second that it sends and receives at once.
///
/// Bus bandwidth counts what each rank would send in one ring (nccl-tests doc/PERFORMANCE.md). Ranks of one host may share
/// what comes in and add up what goes out, so that only the rest has to pass its NICs: (n−r)/n of the data where a ring passes
/// (n−1)/n. What each rank sends to each other one cannot be shared.
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
