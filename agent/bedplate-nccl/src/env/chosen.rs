//! Ports that a library should use.

use super::named;
use crate::library::Library;
use crate::link_layer::{self, OneLayer, Undecided};
use crate::ports::{self, PlacedPort};
use bedplate_base::{Reading, counted};
use bedplate_facts::topology::Distance;

/// Ports that may be listed: those within the GDR level of a GPU, or all if no port is.
pub(super) struct Candidates<'a> {
    /// ACTIVE ports.
    active: Vec<&'a PlacedPort>,
    /// Ports with an unknown state.
    in_doubt: Vec<&'a PlacedPort>,
    /// ACTIVE ports beyond the GDR level, if others are within.
    far: Vec<&'a PlacedPort>,
    /// Whether the candidates are within the GDR level.
    are_near: bool,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(ports: &'a [PlacedPort], reach: Distance) -> Self {
        let reach = ports::within(ports.iter().filter_map(|one| one.distance), reach);
        let is_near = |one: &&PlacedPort| one.distance.is_some_and(|distance| distance <= reach);
        let is_unknown = |one: &&PlacedPort| matches!(one.port.state, Reading::Unknown(_));
        let active: Vec<_> = ports.iter().filter(|one| one.port.is_active()).collect();
        let in_doubt: Vec<_> = ports.iter().filter(is_unknown).collect();
        let are_near = active.iter().chain(&in_doubt).any(is_near);
        if !are_near {
            return Candidates { active, in_doubt, far: Vec::new(), are_near };
        }
        let (active, far) = active.into_iter().partition(is_near);
        let in_doubt = in_doubt.into_iter().filter(is_near).collect();
        Candidates { active, in_doubt, far, are_near }
    }

    pub(super) fn one_layer(&self) -> Result<OneLayer<'a>, Undecided> {
        link_layer::choose(&self.active, &self.in_doubt)
    }
}

/// Returns one sentence for each reason why ports are too far to be listed.
pub fn too_far<'a>(ports: impl Iterator<Item = &'a PlacedPort>) -> Vec<String> {
    let (unknown, far): (Vec<_>, Vec<_>) =
        ports.partition(|one| one.distance == Some(Distance::Unknown));
    let sentence = |ports: Vec<&PlacedPort>, why: &str| {
        let names = named(ports.iter().map(|one| &one.port));
        (!ports.is_empty()).then(|| format!("{names} left out: {why}"))
    };
    let far = sentence(far, "farther from GPUs");
    far.into_iter().chain(sentence(unknown, "distance to GPUs unknown")).collect()
}

/// Ports that a library should use, and the reason.
pub(super) struct ChosenPorts<'a> {
    pub(super) library: Library,
    pub(super) ports: Vec<&'a PlacedPort>,
    pub(super) why: String,
}

impl<'a> ChosenPorts<'a> {
    /// Chooses the ports. `None`: no port can be listed, with the reason in `notes`. `Err`: the reason why that is
    /// unknown.
    pub(super) fn choose(
        candidates: &Candidates<'a>,
        library: Library,
        notes: &mut Vec<String>,
    ) -> Result<Option<ChosenPorts<'a>>, String> {
        if candidates.active.is_empty() {
            if !candidates.in_doubt.is_empty() {
                return Err("no RDMA port is known to be ACTIVE".to_owned());
            }
            notes.push(format!(
                "no RDMA port is ACTIVE, so {library} would use sockets; run `bedplate verify --check rdma`"
            ));
            return Ok(None);
        }
        let one = match candidates.one_layer() {
            Ok(one) => one,
            Err(Undecided::Unknown(why)) => {
                return Err(format!("cannot choose a link layer: {why}"));
            }
            Err(Undecided::Tie(why)) => {
                let list = match library {
                    Library::OneCcl => "CCL_MNIC_NAME",
                    Library::Nccl | Library::Rccl => "NCCL_IB_HCA",
                };
                notes.push(format!("{why}; name the ports of one layer in {list}"));
                return Ok(None);
            }
        };
        let Some(layer) = one.layer else {
            notes.extend(one.left_out);
            return Ok(None);
        };
        if !candidates.are_near {
            notes.push(format!(
                "no ACTIVE port is within the GDR level of a GPU: {library} stages in host memory by default \
                 (`bedplate topology`)"
            ));
        }
        let layer = if one.left_out.is_empty() { "RDMA".to_owned() } else { layer.to_string() };
        let ports = counted(one.ports.len(), &format!("ACTIVE {layer} port"));
        let mut left_out = too_far(candidates.far.iter().copied());
        left_out.extend(one.left_out);
        let first = match (candidates.are_near, left_out.is_empty()) {
            (true, true) => format!(
                "the {ports}, all within the GDR level of a GPU; ports that become ACTIVE later are not used"
            ),
            (true, false) => format!("the {ports} within the GDR level of a GPU"),
            (false, _) => format!("the {ports}; none is within the GDR level of a GPU"),
        };
        left_out.insert(0, first);
        Ok(Some(ChosenPorts { library, ports: one.ports, why: left_out.join("; ") }))
    }

    /// Returns the names in NCCL's format, `mlx5_2:1`, in numerical order.
    pub(super) fn names(&self) -> Vec<String> {
        super::names(self.ports.iter().map(|one| &one.port))
    }
}
