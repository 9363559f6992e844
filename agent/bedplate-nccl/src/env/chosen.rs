//! Ports that a library should use.

use crate::library::Library;
use crate::link_layer::{self, OneLayer, Undecided};
use crate::ports::{self, PlacedPort, named};
use bedplate_base::{Reading, counted};
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::topology::Distance;

/// Ports that may be listed: those within the GDR level of a GPU, or all if no port is.
pub(super) struct Candidates<'a> {
    /// ACTIVE ports.
    active: Vec<&'a PlacedPort>,
    /// Ports with an unknown state.
    in_doubt: Vec<&'a PlacedPort>,
    /// Ports that are not ACTIVE.
    down: Vec<&'a PlacedPort>,
    /// ACTIVE ports beyond the GDR level, unless all are.
    far: Vec<&'a PlacedPort>,
    /// Whether the candidates are within the GDR level.
    are_near: bool,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(ports: &'a [PlacedPort], reach: Distance) -> Self {
        let reach = ports::within(ports.iter().filter_map(|one| one.distance), reach);
        let is_near = |one: &&PlacedPort| one.distance.is_some_and(|distance| distance <= reach);
        let are_near = ports.iter().any(|one| is_near(&one) && may_be_active(one));
        let (near, far): (Vec<_>, Vec<_>) = ports.iter().partition(|one| !are_near || is_near(one));
        let (active, rest): (Vec<_>, Vec<_>) =
            near.into_iter().partition(|one| one.port.is_active());
        let (in_doubt, down) = rest.into_iter().partition(|one| may_be_active(one));
        let far = far.into_iter().filter(|one| one.port.is_active()).collect();
        Candidates { active, in_doubt, down, far, are_near }
    }

    /// Whether a port within the GDR level is ACTIVE.
    pub(super) fn reach_gpus(&self) -> bool {
        self.are_near && !self.active.is_empty()
    }

    pub(super) fn one_layer(&self) -> Result<OneLayer<'a>, Undecided> {
        link_layer::choose(&self.active, &self.in_doubt)
    }
}

/// Whether the port is ACTIVE, or its state is unknown.
fn may_be_active(one: &PlacedPort) -> bool {
    one.port.is_active() || matches!(one.port.state, Reading::Unknown(_))
}

/// Returns one sentence for each reason why ports are too far to be listed.
pub fn too_far<'a>(ports: impl Iterator<Item = &'a PlacedPort>) -> Vec<String> {
    let (unknown, far): (Vec<_>, Vec<_>) =
        ports.partition(|one| one.distance == Some(Distance::Unknown));
    let of = |ports: Vec<&'a PlacedPort>, why| left_out(ports.iter().map(|one| &one.port), why);
    let far = of(far, "farther from GPUs");
    far.into_iter().chain(of(unknown, "distance to GPUs unknown")).collect()
}

/// Returns the sentence about ports that are not ACTIVE, if any.
pub fn not_active<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> Option<String> {
    left_out(ports, "not ACTIVE")
}

fn left_out<'a>(ports: impl Iterator<Item = &'a RdmaPort>, why: &str) -> Option<String> {
    let names = named(ports);
    (!names.is_empty()).then(|| format!("{names} left out: {why}"))
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
        left_out.extend(not_active(candidates.down.iter().map(|one| &one.port)));
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
        ports::names(self.ports.iter().map(|one| &one.port))
    }
}
