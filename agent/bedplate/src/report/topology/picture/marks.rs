//! What is wrong with a link, or not known of it: slower or narrower than both ends can, or redirected by ACS. The rules are
//! those of the checks `pcie.link-*` and `acs.path`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::TopologyView;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_core::kind::acs;
use bedplate_facts::pci::Function;
use bedplate_facts::topology::pcie_link::{self, Property};

/// How a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// As good as both ends can.
    Best,
    /// Slower, at a GPU: GPUs do that when idle.
    Idle,
    /// Slower or narrower than both ends can.
    Degraded,
    /// Not to be read.
    Unknown,
}

/// What ACS does to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Redirect {
    /// These bits send to the root complex what is to pass directly.
    On(AcsBits),
    /// The same, for a guest has a function below.
    ForGuests(AcsBits),
    /// The register could not be read.
    Unknown,
}

/// The link between a box and the one above it.
pub(super) struct Mark<'a> {
    /// The port above; `None`: there is no link that could be looked at.
    pub above: Option<&'a Function>,
    /// How it is.
    pub state: State,
    /// Its speed.
    pub speed: Property,
    /// Its width.
    pub width: Property,
    /// What ACS does.
    pub redirect: Option<Redirect>,
}

/// What ACS does at each port that GPU traffic may turn round at.
pub(super) struct Ports(BTreeMap<PciAddress, Redirect>);

impl Ports {
    /// Looks at every port between a GPU and what it meets in a switch.
    pub(super) fn new(shown: &TopologyView) -> Self {
        let tree = shown.topology.tree();
        let wanted = acs::resolve(&acs::for_direct_traffic(), shown.facts).acs.ports;
        let wanted: BTreeMap<PciAddress, _> =
            wanted.iter().map(|wanted| (wanted.port, wanted)).collect();
        let pairs = shown.topology.pairs();
        let way = pairs.iter().flat_map(|pair| pair.legs.iter().chain([&pair.switch]));
        let way: BTreeSet<PciAddress> = way.copied().collect();
        let redirect = |port: &PciAddress| match (&tree.get(*port)?.acs, wanted.get(port)) {
            (Reading::Unknown(_), _) => Some(Redirect::Unknown),
            (Reading::Known(acs), Some(wanted)) => match wanted.redirects(acs.control) {
                bits if bits.is_empty() => None,
                bits if wanted.vfio_below.is_empty() => Some(Redirect::On(bits)),
                bits => Some(Redirect::ForGuests(bits)),
            },
            _ => None,
        };
        Ports(way.iter().filter_map(|port| Some((*port, redirect(port)?))).collect())
    }

    /// The link above a function.
    pub(super) fn mark<'a>(&self, shown: &TopologyView<'a>, function: &'a Function) -> Mark<'a> {
        let above = function.parent.and_then(|port| shown.topology.tree().get(port));
        let unknown = Property { now: None, best: None };
        let (speed, width) = above.map_or((unknown, unknown), |above| {
            (pcie_link::speed(function, above), pcie_link::width(function, above))
        });
        let state = match (above.is_some(), width.is_degraded(), speed.is_degraded()) {
            (false, ..) => State::Best,
            (_, true, _) => State::Degraded,
            (_, _, true) if function.is_gpu() => State::Idle,
            (_, _, true) => State::Degraded,
            _ if speed.is_known() && width.is_known() => State::Best,
            _ => State::Unknown,
        };
        let ports = [above.map(|above| above.address), Some(function.address)];
        let redirect = ports.into_iter().flatten().find_map(|port| self.0.get(&port).copied());
        Mark { above, state, speed, width, redirect }
    }
}
