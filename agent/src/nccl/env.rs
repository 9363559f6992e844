//! Ports of a host → what NCCL is to be told. Very little is: what is left alone adapts itself to a version and a machine that
//! bedplate does not know.

use schemars::JsonSchema;
use serde::Serialize;

use super::variables::VARIABLES;
use super::version::Version;
use crate::facts::rdma::RdmaPort;
use crate::host::Reading;
use crate::topology::Distance;

/// NCCL takes no more of a value from its files (NCCL src/misc/param.cc; handbook §8.6).
const LONGEST_VALUE: usize = 1023;

/// The variable, and the first version that finds the entry of RoCE v2 itself (handbook §8.5).
const GID_INDEX: &str = "NCCL_IB_GID_INDEX";
const AUTOMATIC_GID: Version = Version(2, 21);

/// A port, and how near its NIC is to a GPU.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The port.
    pub port: &'a RdmaPort,
    /// To the nearest GPU, by a Data Direct function if it has one; `None`: there is no GPU.
    pub distance: Option<Distance>,
}

/// What NCCL is to be told, what not, and what could not be said.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Advice {
    /// The version that it is for.
    pub nccl_version: String,
    /// Variables to set, in the order of their names.
    pub set: Vec<Setting>,
    /// What people set and this host does not need.
    pub left_out: Vec<LeftOut>,
    /// What to know beside, each a sentence.
    pub notes: Vec<String>,
    /// Whether every port could be read: without, the list may lack one.
    pub complete: bool,
}

/// One variable to set.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Setting {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
    /// Why.
    pub why: String,
}

/// One that is left alone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Name.
    pub name: &'static str,
    /// The value that is passed around.
    pub advice: &'static str,
    /// What it is without; absent: this version has no such variable, or its default is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<&'static str>,
    /// Why it is left alone.
    pub why: String,
}

/// What to tell NCCL of a version, by the ports of a host. `reach`: how far GPUDirect RDMA goes on it by NCCL's default.
pub fn advise(ports: &[Candidate], reach: Distance, version: Version) -> Advice {
    let mut advice = Advice {
        nccl_version: version.to_string(),
        set: Vec::new(),
        left_out: Vec::new(),
        notes: Vec::new(),
        complete: true,
    };
    for candidate in ports {
        if let Reading::Unknown(why) = &candidate.port.state {
            advice.complete = false;
            advice
                .notes
                .push(format!("the state of port {} is not known: {why}", candidate.port.name));
        }
    }
    let active: Vec<&Candidate> = ports.iter().filter(|one| one.port.is_active()).collect();
    let near = near(&active, reach);
    let chosen = if near.is_empty() { &active } else { &near };
    if let Some(hca) = hca(chosen, &near, &active, &mut advice.notes) {
        advice.set.push(hca);
    }
    if version < AUTOMATIC_GID {
        advice.set.extend(gid_index(chosen, version, &mut advice.notes));
    }
    advice.set.sort_by_key(|setting| setting.name);
    advice.left_out = left_out(&advice.set, version);
    advice
}

/// The ports that NCCL should use: those that are ACTIVE and near a GPU, or where none is near all that are ACTIVE.
pub fn chosen<'c, 'p>(ports: &'c [Candidate<'p>], reach: Distance) -> Vec<&'c Candidate<'p>> {
    let active: Vec<&Candidate> = ports.iter().filter(|one| one.port.is_active()).collect();
    let near = near(&active, reach);
    if near.is_empty() { active } else { near }
}

fn near<'c, 'p>(active: &[&'c Candidate<'p>], reach: Distance) -> Vec<&'c Candidate<'p>> {
    let is_near = |one: &&&Candidate| one.distance.is_some_and(|distance| distance <= reach);
    active.iter().filter(is_near).copied().collect()
}

fn hca(
    chosen: &[&Candidate],
    near: &[&Candidate],
    active: &[&Candidate],
    notes: &mut Vec<String>,
) -> Option<Setting> {
    if chosen.is_empty() {
        notes.push(
            "no RDMA port is ACTIVE: NCCL would use sockets; `bedplate verify --check rdma` says more".to_owned(),
        );
        return None;
    }
    let why = match (near.len(), active.len() - near.len()) {
        (0, all) => {
            notes.push(
                "no ACTIVE port is near a GPU: NCCL stages in host memory by default (`bedplate topology`)".to_owned(),
            );
            format!("all {all} ACTIVE RDMA ports, none of them near a GPU")
        }
        (near, 0) => format!(
            "the {near} ACTIVE RDMA ports, all near GPUs; a port that comes up later is not taken"
        ),
        (near, far) => {
            format!("the {near} ACTIVE RDMA ports near GPUs; {far} further away left out")
        }
    };
    let mut names: Vec<String> =
        chosen.iter().map(|one| one.port.name.replacen('/', ":", 1)).collect();
    names.sort_by_key(|name| natural(name));
    let layers = |ethernet: bool| chosen.iter().any(|one| one.port.is_ethernet() == ethernet);
    if layers(true) && layers(false) {
        notes.push(
            "the list mixes InfiniBand and Ethernet ports: leave those of the fabric that jobs use"
                .to_owned(),
        );
    }
    let value = format!("={}", names.join(","));
    if value.len() > LONGEST_VALUE {
        notes.push(format!(
            "NCCL_IB_HCA has {} bytes; NCCL reads {LONGEST_VALUE} from a file",
            value.len()
        ));
    }
    Some(Setting { name: "NCCL_IB_HCA", value, why })
}

/// `mlx5_10:1` behind `mlx5_2:1`.
fn natural(name: &str) -> (String, u32, u32) {
    let (device, port) = name.split_once(':').unwrap_or((name, "0"));
    let stem = device.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = device[stem.len()..].parse().unwrap_or(0);
    (stem.to_owned(), number, port.parse().unwrap_or(0))
}

/// Before 2.21 NCCL takes entry 0 of every RoCE port's GID table, which is RoCE v1 or link-local on most.
fn gid_index(chosen: &[&Candidate], version: Version, notes: &mut Vec<String>) -> Option<Setting> {
    let roce: Vec<&&Candidate> = chosen.iter().filter(|one| one.port.is_ethernet()).collect();
    let (first, rest) = roce.split_first()?;
    let index = |one: &Candidate| one.port.gid.known().map(|gid| gid.index);
    let Some(found) =
        index(first).filter(|found| rest.iter().all(|one| index(one) == Some(*found)))
    else {
        notes.push(format!(
            "NCCL {version} uses one GID index for all RoCE ports, and theirs differ or are not known: 2.21 and later find them \
             themselves (`bedplate verify --check rdma`)"
        ));
        return None;
    };
    let why = format!(
        "NCCL {version} takes entry 0 otherwise; RoCE v2 is entry {found} on each of these ports"
    );
    (found != 0).then(|| Setting { name: GID_INDEX, value: found.to_string(), why })
}

fn left_out(set: &[Setting], version: Version) -> Vec<LeftOut> {
    let rows = VARIABLES.iter().filter(|row| set.iter().all(|setting| setting.name != row.name));
    rows.filter_map(|row| {
        let advice = row.advice.as_ref()?;
        let why = match row.since.filter(|since| version < *since) {
            Some(since) => format!("NCCL {version} does not know it; {since} and later do"),
            // NCCL looks for it since 2.21 only, so that is no reason here; where the ports agree, it is set.
            None if row.name == GID_INDEX && version < AUTOMATIC_GID => {
                "one index is for all ports, and this host's do not need it or do not agree"
                    .to_owned()
            }
            None => advice.why_not.to_owned(),
        };
        Some(LeftOut {
            name: row.name,
            advice: advice.value,
            default: row.default_in(version),
            why,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests;
