//! Derives recommended variables of a collective library from the ports of a host. As few as possible: a variable that
//! is not set adapts to versions and machines that bedplate does not know.

use serde::Serialize;

use super::library::Library;
use super::link_layer::Undecided;
use super::ports::{PlacedPort, natural};
use super::version::Version;
use bedplate_base::Reading;
use bedplate_facts::topology::Distance;
use chosen::{Candidates, ChosenPorts};

pub use chosen::{not_active, too_far};

/// Maximum length of a value that NCCL reads from a file, in bytes (NCCL src/misc/param.cc; handbook §8.6).
pub const LONGEST_VALUE: usize = 1023;

/// Variable for the GID index, and the first version that finds the RoCE v2 entry itself (handbook §8.5).
const GID_INDEX: &str = "NCCL_IB_GID_INDEX";
const AUTOMATIC_GID_SINCE: Version = Version(2, 21);

/// First version of NCCL that accepts `=` for exact names. In earlier ones it is part of the name, no device matches,
/// and NCCL uses sockets (NCCL src/transport/net_ib.cc).
const EXACT_NAMES_SINCE: Version = Version(2, 5);

/// Recommended variables, omitted variables, and notes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Advice {
    /// Library that the advice is for.
    pub library: Library,
    /// Version of the library.
    pub nccl_version: String,
    /// Variables to set, by name.
    pub set: Vec<Setting>,
    /// Commonly recommended variables that this host does not need.
    pub omitted: Vec<Omitted>,
    /// Notes, one sentence each.
    pub notes: Vec<String>,
    /// Whether every port was readable; if not, ports may be missing from the list, or the list itself.
    pub complete: bool,
    /// Newest version for which the defaults and reasons of `omitted` are known; absent: they apply to this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_to: Option<String>,
}

/// A variable to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
    /// Reason.
    pub why: String,
}

/// A variable to leave unset.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Omitted {
    /// Name.
    pub name: &'static str,
    /// Commonly recommended value.
    pub advice: &'static str,
    /// Default; absent: this version lacks the variable, or its default is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<&'static str>,
    /// Reason to leave it unset.
    pub why: String,
}

/// Derives the variables for a library version from the ports of a host. `reach` is the library's default GDR level.
pub fn advise(ports: &[PlacedPort], reach: Distance, library: Library, version: Version) -> Advice {
    let mut advice = Advice {
        library,
        nccl_version: version.to_string(),
        set: Vec::new(),
        omitted: Vec::new(),
        notes: Vec::new(),
        complete: true,
        known_to: None,
    };
    for one in ports {
        if let Reading::Unknown(why) = &one.port.state {
            advice.complete = false;
            advice
                .notes
                .push(format!("unknown state of port {}, not listed: {why}", one.port.name));
        }
    }
    let candidates = Candidates::new(ports, reach);
    match ChosenPorts::choose(&candidates, library, &mut advice.notes) {
        Err(why) => {
            advice.complete = false;
            advice.notes.push(why);
        }
        Ok(None) => {}
        Ok(Some(chosen)) if library == Library::OneCcl => {
            advice.set.push(oneccl::nics(&chosen, ports, &mut advice.notes));
        }
        Ok(Some(chosen)) => {
            advice.set.push(ib_hca_setting(&chosen, ports, version, &mut advice.notes));
            if version < AUTOMATIC_GID_SINCE {
                advice.set.extend(gid_index_setting(&chosen, version, &mut advice.notes));
            }
        }
    }
    advice.set.sort_by_key(|setting| setting.name);
    advice.omitted = omitted(&advice.set, library, version);
    advice.known_to = (library.known_to() < version).then(|| library.known_to().to_string());
    advice
}

/// Whether an ACTIVE port is within the GDR level of a GPU; otherwise the library stages in host memory by default.
pub fn reaches_gpus(ports: &[PlacedPort], reach: Distance) -> bool {
    Candidates::new(ports, reach).reach_gpus()
}

/// Returns the ports that NCCL should use: ACTIVE ones within the GDR level of a GPU, or all ACTIVE ones if there is no
/// such port; of one link layer.
///
/// # Errors
/// The reason why they are unknown.
pub fn chosen(ports: &[PlacedPort], reach: Distance) -> Result<Vec<&PlacedPort>, String> {
    match Candidates::new(ports, reach).one_layer() {
        Ok(one) => Ok(one.ports),
        Err(Undecided::Unknown(why) | Undecided::Tie(why)) => Err(why),
    }
}

/// Returns the ports that carry a job's data: [`chosen()`], or all ACTIVE ones if a plugin drives them (EFA is neither
/// InfiniBand nor Ethernet).
///
/// # Errors
/// The reason why they are unknown.
pub fn carrying(ports: &[PlacedPort], reach: Distance) -> Result<Vec<&PlacedPort>, String> {
    let chosen = chosen(ports, reach)?;
    match chosen.is_empty() {
        true => Ok(ports.iter().filter(|one| one.port.is_active()).collect()),
        false => Ok(chosen),
    }
}

/// Returns the devices that a list of prefixes matches unintentionally: `mlx5_10` for `mlx5_1`.
fn prefix_matches(chosen: &ChosenPorts, ports: &[PlacedPort]) -> Vec<String> {
    let device = |one: &PlacedPort| one.port.name.split('/').next().unwrap_or_default().to_owned();
    let meant: Vec<String> = chosen.ports.iter().map(|one| device(one)).collect();
    let mut more: Vec<String> = ports
        .iter()
        .filter(|one| one.port.is_active())
        .map(device)
        .filter(|name| {
            !meant.contains(name) && meant.iter().any(|meant| name.starts_with(meant.as_str()))
        })
        .collect();
    more.sort_by_key(|name| natural(name));
    more.dedup();
    more
}

fn ib_hca_setting(
    chosen: &ChosenPorts,
    ports: &[PlacedPort],
    version: Version,
    notes: &mut Vec<String>,
) -> Setting {
    let names = chosen.names().join(",");
    let value = match version < EXACT_NAMES_SINCE {
        true => names,
        false => format!("={names}"),
    };
    if version < EXACT_NAMES_SINCE {
        let more = prefix_matches(chosen, ports);
        if !more.is_empty() {
            notes.push(format!(
                "NCCL {version} only supports prefixes and also matches {}; 2.5 and later support exact names",
                more.join(", ")
            ));
        }
    }
    if value.len() > LONGEST_VALUE {
        notes.push(format!(
            "NCCL_IB_HCA has {} bytes, but {} reads at most {LONGEST_VALUE} from a file",
            value.len(),
            chosen.library
        ));
    }
    Setting { name: "NCCL_IB_HCA", value, why: chosen.why.clone() }
}

/// Returns the GID index setting. Before 2.21 the library uses entry 0 of every RoCE port's GID table, which is RoCE v1
/// or link-local on most hosts.
fn gid_index_setting(
    chosen: &ChosenPorts,
    version: Version,
    notes: &mut Vec<String>,
) -> Option<Setting> {
    let library = chosen.library;
    let roce: Vec<&&PlacedPort> =
        chosen.ports.iter().filter(|one| one.port.is_ethernet()).collect();
    let (first, rest) = roce.split_first()?;
    let index = |one: &PlacedPort| one.port.gid.known().map(|gid| gid.index);
    let Some(found) =
        index(first).filter(|found| rest.iter().all(|one| index(one) == Some(*found)))
    else {
        notes.push(format!(
            "{library} {version} uses one GID index for all RoCE ports, but theirs differ or are unknown; 2.21 and \
             later select it automatically (`bedplate verify --check rdma`)"
        ));
        return None;
    };
    let why = format!(
        "{library} {version} defaults to entry 0; RoCE v2 is entry {found} on each of these ports"
    );
    (found != 0).then(|| Setting { name: GID_INDEX, value: found.to_string(), why })
}

fn omitted(set: &[Setting], library: Library, version: Version) -> Vec<Omitted> {
    let rows = library
        .variables()
        .into_iter()
        .filter(|row| set.iter().all(|setting| setting.name != row.name));
    rows.filter_map(|row| {
        let advice = row.advice?;
        let why = match row.since.filter(|since| version < *since) {
            Some(since) => format!("not in {library} {version}, only in {since} and later"),
            // Automatic selection started with 2.21, so the table's reason does not apply here. If the ports agree, the
            // index is set.
            None if row.name == GID_INDEX && version < AUTOMATIC_GID_SINCE => {
                "one index applies to all ports; this host's ports do not need it or differ"
                    .to_owned()
            }
            None => advice.why_not.to_owned(),
        };
        Some(Omitted {
            name: row.name,
            advice: advice.value,
            default: library.default_of(&row, version),
            why,
        })
    })
    .collect()
}

mod chosen;
mod oneccl;

#[cfg(test)]
mod tests;
